//! What a collective spent most of its time on.

use phalanx_sim::MachineSpec;
use phalanx_sim::record::Resource;
use phalanx_sim::report::{CriticalPath, Report};
use phalanx_sim::stall::Kind;
use std::fmt;

/// What has to become faster for the whole to become faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The time that links take before the first byte arrives, and hosts to give a command.
    Latency,
    /// The bandwidth of links.
    Link,
    /// Slots: the wire waits for a credit.
    Credit,
    /// The vector engine.
    Vector,
    /// Memory, and the DMA in front of it.
    Hbm,
}

impl Bound {
    /// Its name in tables and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Link => "link",
            Self::Credit => "credit",
            Self::Vector => "vector",
            Self::Hbm => "HBM",
        }
    }

    /// What the critical path of a run went through for longest.
    pub fn of(report: &Report, machine: &MachineSpec) -> Self {
        let path = &report.critical_path;
        let spent = |kind| path.spent.get(kind).as_ps();
        let (on_wires, on_the_way) = wire_and_latency(path, machine);
        let links = u128::from(spent(Kind::Link));
        // The kept steps tell how the time of links divides; without any, all of it is latency.
        let wires = (links * on_wires).checked_div(on_wires + on_the_way).unwrap_or(0);
        let candidates = [
            (links - wires, Self::Latency),
            (wires, Self::Link),
            (spent(Kind::Credit).into(), Self::Credit),
            (spent(Kind::Compute).into(), Self::Vector),
            (spent(Kind::Dma).into(), Self::Hbm),
        ];
        let longest =
            candidates.into_iter().max_by_key(|(time, bound)| (*time, Self::rank(*bound)));
        longest.map_or(Self::Latency, |(_, bound)| bound)
    }

    /// Latency first among equals.
    fn rank(self) -> u8 {
        u8::from(self == Self::Latency)
    }
}

/// The time that the path's steps have taken wires, and the latency behind them.
fn wire_and_latency(path: &CriticalPath, machine: &MachineSpec) -> (u128, u128) {
    let (mut wires, mut latency) = (0, 0);
    for part in &path.parts {
        let behind = match part.resource {
            Resource::Link { .. } => machine.sips.link.latency,
            Resource::Host(_) | Resource::Upload(_) => machine.host.latency,
            _ => continue,
        };
        wires += u128::from(part.time.as_ps());
        latency += u128::from(behind.as_ps()) * u128::from(part.count);
    }
    (wires, latency)
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
