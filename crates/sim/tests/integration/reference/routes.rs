//! The wires of a machine, and the wires that a transfer takes one after the other.

use super::channels::Access;
use super::networks::Beyond;
use phalanx_sim::spec::{GridSpec, WireSpec};
use phalanx_sim::topology::PeId;
use phalanx_sim::{Bandwidth, MachineSpec};
use std::cmp::Ordering;

/// A resource that serves one flight at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wire {
    /// A wire between neighbours in the mesh of a cube.
    Pe {
        sip: u32,
        cube: u16,
        from: u32,
        to: u32,
    },
    /// A wire between neighbours in the mesh of a SIP.
    Cube {
        sip: u32,
        from: u32,
        to: u32,
    },
    Hbm {
        sip: u32,
        cube: u16,
    },
    /// The cache of a SIP, on the way of a block of a cube with some bytes.
    Cache {
        sip: u32,
        cube: u16,
        touched: u64,
    },
    /// The port of a SIP, a NIC or a leaf switch.
    Port {
        node: u32,
        beyond: Beyond,
    },
    /// The wire of a level into a SIP, from a switch or a NIC.
    Ingress {
        sip: u32,
        level: usize,
    },
    Host {
        sip: u32,
    },
    Upload {
        sip: u32,
    },
}

/// A wire on the way of a flight, and its cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stage {
    pub(crate) wire: Wire,
    pub(crate) cost: WireSpec,
}

/// Returns the picoseconds of `bytes`, rounded up.
pub(crate) fn span(bandwidth: Bandwidth, bytes: u64) -> u64 {
    bandwidth.as_per_second().map_or(0, |rate| {
        let exact = (u128::from(bytes) * 1_000_000_000_000).div_ceil(u128::from(rate));
        u64::try_from(exact).unwrap()
    })
}

/// Returns the hops from part `from` of a grid to part `to`, x before y.
fn hops(grid: &GridSpec, from: u32, to: u32) -> Vec<(u32, u32)> {
    let mut hops = Vec::new();
    let mut at = from;
    while at != to {
        let next = step_on_grid(at, to, grid.rows, grid.columns, false);
        hops.push((at, next));
        at = next;
    }
    hops
}

/// Returns the next number from `at` to `to` on a grid, x before y.
pub(crate) fn step_on_grid(at: u32, to: u32, rows: u32, columns: u32, wraps: bool) -> u32 {
    let (row, column) = (at / columns, at % columns);
    if column == to % columns {
        step_on_line(row, to / columns, rows, wraps) * columns + column
    } else {
        row * columns + step_on_line(column, to % columns, columns, wraps)
    }
}

/// Returns the next number on a line or ring: the shorter direction; if both are equal, up from an even
/// number and down from an odd one.
fn step_on_line(at: u32, to: u32, length: u32, wraps: bool) -> u32 {
    if !wraps {
        return if at < to { at + 1 } else { at - 1 };
    }
    let (above, below) = ((at + 1) % length, (at + length - 1) % length);
    let (upward, downward) = ((to + length - at) % length, (at + length - to) % length);
    match upward.cmp(&downward) {
        Ordering::Less => above,
        Ordering::Equal if at.is_multiple_of(2) => above,
        Ordering::Equal | Ordering::Greater => below,
    }
}

/// Returns the wires between two PEs of a cube.
fn over_pes(spec: &MachineSpec, sip: u32, cube: u16, from: u32, to: u32) -> Vec<Stage> {
    let stage = |(from, to)| Stage { wire: Wire::Pe { sip, cube, from, to }, cost: spec.pes.link };
    hops(&spec.pes, from, to).into_iter().map(stage).collect()
}

/// Returns the wires between two cubes of a SIP.
fn over_cubes(spec: &MachineSpec, sip: u32, from: u16, to: u16) -> Vec<Stage> {
    let stage = |(from, to)| Stage { wire: Wire::Cube { sip, from, to }, cost: spec.cubes.link };
    hops(&spec.cubes, from.into(), to.into()).into_iter().map(stage).collect()
}

/// Returns the wires between two PEs of a SIP.
pub(crate) fn inside(spec: &MachineSpec, from: PeId, to: PeId) -> Vec<Stage> {
    let sip = from.sip;
    if from.cube == to.cube {
        return over_pes(spec, sip, from.cube, from.pe.into(), to.pe.into());
    }
    let mut way = over_pes(spec, sip, from.cube, from.pe.into(), 0);
    way.extend(over_cubes(spec, sip, from.cube, to.cube));
    way.extend(over_pes(spec, sip, to.cube, 0, to.pe.into()));
    way
}

/// Returns the HBM of a cube as a wire.
pub(crate) fn memory(spec: &MachineSpec, sip: u32, cube: u16) -> Stage {
    Stage { wire: Wire::Hbm { sip, cube }, cost: spec.hbm.wire() }
}

/// Returns the cache of a SIP as a wire, or the HBM of a cube if the SIP has no cache or the access does not use it.
fn cache_or_memory(spec: &MachineSpec, sip: u32, access: Access) -> Stage {
    let cube = access.cube;
    match spec.cache {
        Some(cache) if access.is_cached => {
            let touched = access.touched;
            Stage { wire: Wire::Cache { sip, cube, touched }, cost: cache.wire() }
        }
        _ => memory(spec, sip, cube),
    }
}

/// Returns the way of a load: from the HBM of a cube to `pe`.
pub(crate) fn from_memory(spec: &MachineSpec, pe: PeId, access: Access) -> Vec<Stage> {
    let cube = access.cube;
    let mut way = vec![cache_or_memory(spec, pe.sip, access)];
    if cube != pe.cube {
        way.extend(over_cubes(spec, pe.sip, cube, pe.cube));
        way.extend(over_pes(spec, pe.sip, pe.cube, 0, pe.pe.into()));
    }
    way
}

/// Returns the way of a store: from `pe` to the HBM of a cube.
pub(crate) fn to_memory(spec: &MachineSpec, pe: PeId, access: Access) -> Vec<Stage> {
    let (cube, mut way) = (access.cube, Vec::new());
    if cube != pe.cube {
        way.extend(over_pes(spec, pe.sip, pe.cube, pe.pe.into(), 0));
        way.extend(over_cubes(spec, pe.sip, pe.cube, cube));
    }
    way.push(cache_or_memory(spec, pe.sip, access));
    way
}

/// Returns the sum of the latencies of the wires between two PEs of a SIP.
pub(crate) fn latency_inside(spec: &MachineSpec, from: PeId, to: PeId) -> u64 {
    inside(spec, from, to).iter().map(|stage| stage.cost.latency.as_ps()).sum()
}
