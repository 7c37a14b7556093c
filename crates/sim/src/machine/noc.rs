//! Routes inside a SIP: the mesh of PEs in a cube, the mesh of cubes, and the memories.
//!
//! Every PE has its own port to the HBM of its cube. All other traffic goes over the meshes, x (columns) before y
//! (rows). A cube's gateway is its first PE; a SIP's gateway (links, host) is its first cube.
//!
//! - **NOC-1 (cut-through).** A route takes the latency of each wire once, and the transfer time of the slowest wire
//!   once; each wire is busy for its own transfer time.

use super::cache::BlockNumber;
use crate::spec::{GridSpec, MachineSpec};
use crate::time::Time;
use crate::topology::PeId;
use crate::wire::is_free;

/// PE number of a cube's gateway.
const GATE: u16 = 0;

/// The stages that a flight has yet to pass inside its SIP.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Route {
    legs: [Leg; Self::LEGS],
    len: u8,
    next: u8,
}

/// A part of a route: one stage, or the way over a mesh.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Leg {
    /// The end of the route.
    #[default]
    None,
    /// Over the PEs of a cube.
    Pes { cube: u16, at: u16, to: u16 },
    /// Over the cubes.
    Cubes { at: u16, to: u16 },
    /// [`Stage::Hbm`].
    Hbm(u16),
    /// [`Stage::Cached`].
    Cached { cube: u16, block: BlockNumber },
    /// [`Stage::Port`].
    Port,
    /// [`Stage::Host`].
    Host,
    /// [`Stage::Upload`].
    Upload,
}

/// One stage of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The wire out of a PE toward a neighbour (0 east, 1 west, 2 south, 3 north).
    PeLink { cube: u16, pe: u16, side: u8 },
    /// The wire out of a cube toward a neighbour.
    CubeLink { cube: u16, side: u8 },
    /// The memory of a cube.
    Hbm(u16),
    /// The SIP's cache, and the memory of a cube for a block that is not in the cache.
    Cached { cube: u16, block: BlockNumber },
    /// The SIP's port to the next SIP.
    Port,
    /// The wire from the host.
    Host,
    /// The wire to the host.
    Upload,
}

impl Stage {
    /// Returns the stage of a load or a store at the memory of a cube.
    fn memory(cube: u16, block: Option<BlockNumber>) -> Self {
        block.map_or(Self::Hbm(cube), |block| Self::Cached { cube, block })
    }
}

impl Route {
    /// Most parts of a route: the meshes of the first cube, of the SIP and of the last cube, and a memory or a port.
    const LEGS: usize = 4;

    /// Adds one stage, which is not one of a mesh.
    pub(crate) fn then(mut self, stage: Stage) -> Self {
        self.push(match stage {
            Stage::Hbm(cube) => Leg::Hbm(cube),
            Stage::Cached { cube, block } => Leg::Cached { cube, block },
            Stage::Port => Leg::Port,
            Stage::Host => Leg::Host,
            Stage::Upload => Leg::Upload,
            Stage::PeLink { .. } | Stage::CubeLink { .. } => {
                unreachable!("`over_meshes` adds the stages of meshes")
            }
        });
        self
    }

    /// Adds the way from one PE to another of the same SIP.
    pub(crate) fn over_meshes(mut self, spec: &MachineSpec, from: PeId, to: PeId) -> Self {
        if from.cube == to.cube {
            self.push_pes(spec, from.cube, from.pe, to.pe);
            return self;
        }
        self.push_pes(spec, from.cube, from.pe, GATE);
        self.push_cubes(spec, from.cube, to.cube);
        self.push_pes(spec, to.cube, GATE, to.pe);
        self
    }

    /// Returns the route of a store: from a PE to the memory of a cube.
    pub(crate) fn of_store(
        spec: &MachineSpec,
        pe: PeId,
        (cube, block): (u16, Option<BlockNumber>),
    ) -> Self {
        let mut route = Self::default();
        if pe.cube != cube {
            route.push_pes(spec, pe.cube, pe.pe, GATE);
            route.push_cubes(spec, pe.cube, cube);
        }
        route.then(Stage::memory(cube, block))
    }

    /// Returns the route of a load: the reverse of [`Route::of_store`].
    pub(crate) fn of_load(
        spec: &MachineSpec,
        (cube, block): (u16, Option<BlockNumber>),
        pe: PeId,
    ) -> Self {
        let mut route = Self::default().then(Stage::memory(cube, block));
        if pe.cube != cube {
            route.push_cubes(spec, cube, pe.cube);
            route.push_pes(spec, pe.cube, GATE, pe.pe);
        }
        route
    }

    fn push_pes(&mut self, spec: &MachineSpec, cube: u16, at: u16, to: u16) {
        if at != to && !is_free(&spec.pes.link) {
            self.push(Leg::Pes { cube, at, to });
        }
    }

    fn push_cubes(&mut self, spec: &MachineSpec, at: u16, to: u16) {
        if at != to && !is_free(&spec.cubes.link) {
            self.push(Leg::Cubes { at, to });
        }
    }

    fn push(&mut self, leg: Leg) {
        self.legs[self.len as usize] = leg;
        self.len += 1;
    }

    /// True if the SIP's port is the only stage.
    #[inline]
    pub(super) fn is_port(&self) -> bool {
        self.len == 1 && matches!(self.legs[0], Leg::Port)
    }

    /// True if no stage is left.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.next == self.len
    }

    /// Returns the part of the route that comes next.
    #[inline]
    pub(crate) fn leg(&self) -> Leg {
        if self.is_over() { Leg::None } else { self.legs[usize::from(self.next) % Self::LEGS] }
    }

    /// Ends a part of one stage.
    #[inline]
    pub(crate) fn end_leg(&mut self) {
        self.next += 1;
    }

    /// Takes the next stage.
    pub(crate) fn next(&mut self, spec: &MachineSpec) -> Option<Stage> {
        let leg = self.legs[..self.len as usize].get_mut(self.next as usize)?;
        let (stage, is_last) = match leg {
            Leg::None => return None,
            Leg::Hbm(cube) => (Stage::Hbm(*cube), true),
            Leg::Cached { cube, block } => (Stage::Cached { cube: *cube, block: *block }, true),
            Leg::Port => (Stage::Port, true),
            Leg::Host => (Stage::Host, true),
            Leg::Upload => (Stage::Upload, true),
            Leg::Pes { cube, at, to } => {
                let (pe, hop) = (*at, toward(&spec.pes, *at, *to));
                *at = hop.to;
                (Stage::PeLink { cube: *cube, pe, side: hop.side }, hop.to == *to)
            }
            Leg::Cubes { at, to } => {
                let (cube, hop) = (*at, toward(&spec.cubes, *at, *to));
                *at = hop.to;
                (Stage::CubeLink { cube, side: hop.side }, hop.to == *to)
            }
        };
        self.next += u8::from(is_last);
        Some(stage)
    }
}

/// Returns the latency of the route from one PE to another of the same SIP.
pub(crate) fn latency(spec: &MachineSpec, from: PeId, to: PeId) -> Time {
    let pes = |a, b| times(hops(&spec.pes, a, b), spec.pes.link.latency);
    if from.cube == to.cube {
        return pes(from.pe, to.pe);
    }
    let cubes = times(hops(&spec.cubes, from.cube, to.cube), spec.cubes.link.latency);
    pes(from.pe, GATE) + cubes + pes(GATE, to.pe)
}

/// A hop to a neighbour on a grid.
struct GridHop {
    side: u8,
    to: u16,
}

/// Returns the first hop of the way from `at` to another part of a grid.
#[inline]
fn toward(grid: &GridSpec, at: u16, to: u16) -> GridHop {
    let columns = u16::try_from(grid.columns).expect("cubes and PEs are numbered in 16 bits");
    let (side, to) = match ((at % columns).cmp(&(to % columns)), at < to) {
        (std::cmp::Ordering::Less, _) => (0, at + 1),
        (std::cmp::Ordering::Greater, _) => (1, at - 1),
        (std::cmp::Ordering::Equal, true) => (2, at + columns),
        (std::cmp::Ordering::Equal, false) => (3, at - columns),
    };
    GridHop { side, to }
}

fn hops(grid: &GridSpec, from: u16, to: u16) -> u32 {
    let (from, to, columns) = (u32::from(from), u32::from(to), grid.columns);
    (from % columns).abs_diff(to % columns) + (from / columns).abs_diff(to / columns)
}

fn times(count: u32, span: Time) -> Time {
    Time::ps(span.as_ps() * u64::from(count))
}
