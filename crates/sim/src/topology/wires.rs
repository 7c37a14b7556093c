//! The wires of a level of the network, with their share of its latency.

use crate::spec::{InSwitchSpec, LevelSpec, Topology, WireSpec};
use crate::time::{Rate, Time};

/// The wires of a level.
pub(super) struct LevelWires {
    pub(super) link: WireSpec,
    nic: [WireSpec; 2],
    leaf: [WireSpec; 2],
    ingress: WireSpec,
}

/// Returns the link of messages that a switch copies or combines.
pub(super) fn in_switch(link: WireSpec, spec: Option<InSwitchSpec>) -> WireSpec {
    let InSwitchSpec { efficiency, start } = spec.unwrap_or_default();
    WireSpec { bandwidth: efficiency.of(link.bandwidth), latency: link.latency + start }
}

impl LevelWires {
    /// Returns the wires of a level (NET-4).
    pub(super) fn new(spec: &LevelSpec, part: u32) -> Self {
        let WireSpec { bandwidth, latency } = spec.link.wire();
        let pcie = spec.pcie.unwrap_or(WireSpec::FREE);
        let shares = spec.shares_nics(part);
        // A way to a shared NIC without a cost of its own takes a quarter of the latency at each end.
        let side = match spec.pcie {
            Some(pcie) => pcie.latency,
            None if shares => Time::ps(latency.as_ps() / 4),
            None => Time::ZERO,
        };
        let middle = if spec.pcie.is_none() && shares { latency - side - side } else { latency };
        let third = Time::ps(middle.as_ps() / 3);
        let up = bandwidth.scaled(spec.nics.into(), spec.oversubscription.into());
        let own = if shares { bandwidth } else { bandwidth.least(pcie.bandwidth) };
        let end = if shares { Time::ZERO } else { side };
        let is_leafy = spec.oversubscription > 1;
        let link = WireSpec {
            bandwidth: own,
            latency: if is_leafy { third + end } else { middle + end + end },
        };
        let into = if spec.topology == Topology::Switch { bandwidth } else { Rate::UNLIMITED };
        Self {
            link,
            nic: [
                WireSpec { bandwidth: pcie.bandwidth, latency: side },
                WireSpec { bandwidth: into, latency: side },
            ],
            leaf: [
                WireSpec { bandwidth: up, latency: middle - third - third },
                WireSpec { bandwidth: up, latency: third + end },
            ],
            ingress: WireSpec {
                bandwidth: if shares { pcie.bandwidth } else { own },
                latency: Time::ZERO,
            },
        }
    }

    pub(super) fn in_order(self) -> [WireSpec; 6] {
        let Self { link, nic: [to_nic, from_nic], leaf: [up, down], ingress } = self;
        [link, to_nic, from_nic, up, down, ingress]
    }
}
