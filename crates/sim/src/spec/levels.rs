//! Links, and levels of groups: nodes of SIPs, pods of nodes.
//!
//! Level 0 is the group of SIPs that `system.sips` describes; level `n` connects the groups of level `n - 1`.

use super::{MachineSpec, Topology, WireSpec};
use crate::time::{Bandwidth, Rate, Time};

/// A part of what hardware could do, in millionths: `0.85` is 850 000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Efficiency(u32);

impl crate::portable::Portable for Efficiency {
    fn put(&self, to: &mut Vec<u8>) {
        self.0.put(to);
    }

    fn take(from: &mut crate::portable::Reader<'_>) -> Result<Self, crate::portable::Malformed> {
        let wrong = crate::portable::Malformed("no efficiency");
        Self::millionths(u32::take(from)?).ok_or(wrong)
    }
}

impl Efficiency {
    /// Everything.
    pub const FULL: Self = Self(Self::UNITS);
    /// Units of everything.
    pub const UNITS: u32 = 1_000_000;

    /// Returns the efficiency of some millionths; `None` for zero or more than everything.
    pub const fn millionths(millionths: u32) -> Option<Self> {
        if millionths == 0 || millionths > Self::UNITS { None } else { Some(Self(millionths)) }
    }

    /// Returns the millionths.
    pub const fn as_millionths(self) -> u32 {
        self.0
    }

    /// Returns the bytes that a wire moves for so many bytes of data, rounded up.
    pub fn stretched(self, bytes: u64) -> u64 {
        if self == Self::FULL {
            return bytes;
        }
        let moved = (u128::from(bytes) * u128::from(Self::UNITS)).div_ceil(self.0.into());
        u64::try_from(moved).unwrap_or(u64::MAX)
    }

    /// Returns what is left of a rate.
    #[must_use]
    pub fn of(self, rate: Rate) -> Rate {
        if self == Self::FULL { rate } else { rate.scaled(self.0.into(), Self::UNITS.into()) }
    }
}

/// A link between SIPs or groups, in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// Bytes a second of one lane.
    pub bandwidth: Bandwidth,
    /// From the last byte's departure to its arrival.
    pub latency: Time,
    /// The part of the bandwidth that data can have.
    pub efficiency: Efficiency,
    /// Number of links in parallel; a message is spread over all of them.
    pub lanes: u32,
}

impl LinkSpec {
    /// A link that costs nothing.
    pub const FREE: Self = Self {
        bandwidth: Rate::UNLIMITED,
        latency: Time::ZERO,
        efficiency: Efficiency::FULL,
        lanes: 1,
    };

    /// Returns the wire that data sees: all lanes, with the efficiency taken off.
    pub fn wire(&self) -> WireSpec {
        let lanes = if self.lanes == 1 {
            self.bandwidth
        } else {
            self.bandwidth.scaled(self.lanes.into(), 1)
        };
        WireSpec { bandwidth: self.efficiency.of(lanes), latency: self.latency }
    }
}

impl From<WireSpec> for LinkSpec {
    fn from(wire: WireSpec) -> Self {
        Self { bandwidth: wire.bandwidth, latency: wire.latency, ..Self::FREE }
    }
}

/// The cost of a multicast or a reduction inside a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InSwitchSpec {
    /// The part of a port's bandwidth that such messages have.
    pub efficiency: Efficiency,
    /// Time inside the switch before the first byte goes on.
    pub start: Time,
}

impl Default for InSwitchSpec {
    fn default() -> Self {
        Self { efficiency: Efficiency::FULL, start: Time::ZERO }
    }
}

/// A level of groups: several groups of the level below, and the network between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelSpec {
    /// Name of the groups that this level connects: `node`.
    pub name: String,
    /// Number of groups of the level below in one group of this level.
    pub count: u32,
    /// Topology of the links between these groups.
    pub topology: Topology,
    /// Each link of a NIC, in each direction.
    pub link: LinkSpec,
    /// Number of NICs of one group of the level below; neighbours share one if there are fewer than devices.
    pub nics: u32,
    /// The way between a device and its NIC; `None` if it costs nothing of its own.
    pub pcie: Option<WireSpec>,
    /// Bandwidth of a group's NICs over the bandwidth of its way up to the switch.
    pub oversubscription: u32,
    /// As [`SipsSpec::multicast`](super::SipsSpec::multicast).
    pub multicast: Option<InSwitchSpec>,
    /// As [`SipsSpec::reduction`](super::SipsSpec::reduction).
    pub reduction: Option<InSwitchSpec>,
}

impl LevelSpec {
    /// True if `part` devices have fewer NICs.
    pub(crate) fn shares_nics(&self, part: u32) -> bool {
        self.nics < part
    }
}

/// The questions that programs ask about levels. Level 0 is the innermost.
impl MachineSpec {
    /// Returns the number of SIPs in all groups. Ranks are devices.
    pub fn devices(&self) -> u32 {
        self.group_size(self.levels.len())
    }

    /// Returns the number of levels, which is at least 1.
    pub fn level_count(&self) -> usize {
        self.levels.len() + 1
    }

    /// Returns the number of devices in one group of a level: `group_size(0)` is `sips.count`.
    pub fn group_size(&self, level: usize) -> u32 {
        let counts = self.levels.iter().take(level).map(|level| level.count);
        counts.fold(self.sips.count, u32::saturating_mul)
    }

    /// Returns the number of the group of a level that a device is in, counted over the whole machine.
    pub fn group_of(&self, device: u32, level: usize) -> u32 {
        device / self.group_size(level)
    }

    /// Returns the number of devices in one of the parts that a level connects: 1 at level 0.
    pub fn part_size(&self, level: usize) -> u32 {
        level.checked_sub(1).map_or(1, |below| self.group_size(below))
    }

    /// Returns the topology of a level, and the number of parts that it connects.
    pub fn topology_of(&self, level: usize) -> (Topology, u32) {
        match level.checked_sub(1) {
            None => (self.sips.topology, self.sips.count),
            Some(above) => (self.levels[above].topology, self.levels[above].count),
        }
    }

    /// Returns the link of a level as data sees it: of a SIP, or of a NIC.
    pub fn link_of(&self, level: usize) -> WireSpec {
        match level.checked_sub(1) {
            None => self.sips.link.wire(),
            Some(above) => self.levels[above].link.wire(),
        }
    }

    /// Returns the devices with the same position below `level` that a device reaches in one hop of this level, each once:
    /// up and down in x, then y, then z on rings and grids, all others elsewhere.
    ///
    /// ```
    /// use phalanx_sim::MachineSpec;
    /// assert_eq!(MachineSpec::preset("torus-16")?.neighbours(0, 0), [1, 3, 4, 12]);
    /// # Ok::<(), phalanx_sim::config::MachineError>(())
    /// ```
    pub fn neighbours(&self, device: u32, level: usize) -> Vec<u32> {
        let (topology, count) = self.topology_of(level);
        let part = self.part_size(level);
        let here = device / part % count;
        let parts: Vec<u32> = match topology.sides(count) {
            None => (0..count).filter(|other| *other != here).collect(),
            Some(sides) => beside(here, sides, topology.wraps()),
        };
        parts.into_iter().map(|other| device - here * part + other * part).collect()
    }
}

/// Returns the neighbours of a part of a grid, each once.
fn beside(here: u32, sides: [u32; 3], wraps: bool) -> Vec<u32> {
    let mut found = Vec::new();
    let mut stride = 1;
    for side in sides {
        let at = here / stride % side;
        let up = if at + 1 < side { Some(at + 1) } else { (wraps && side > 1).then_some(0) };
        let down = at.checked_sub(1).or((wraps && side > 1).then_some(side - 1));
        for next in [up, down].into_iter().flatten() {
            let part = here - at * stride + next * stride;
            if !found.contains(&part) {
                found.push(part);
            }
        }
        stride *= side;
    }
    found
}
