//! Routes inside a SIP: the mesh of PEs in a cube and the mesh of cubes.
//!
//! Every PE has its own port to the HBM of its cube. All other traffic goes over the meshes, x (columns) before y
//! (rows). A cube's gateway is its first PE; a SIP's gateway (links, host) is its first cube.
//!
//! - **NOC-1 (cut-through).** A route takes the latency of each wire once, and the transfer time of the slowest wire
//!   once; each wire is busy for its own transfer time.

use super::sip::Sip;
use crate::record::Resource;
use crate::spec::{GridSpec, MachineSpec};
use crate::stall::Kind;
use crate::time::Time;
use crate::topology::PeId;
use crate::wire::{Flight, is_free};

/// PE number of a cube's gateway.
const GATE: u16 = 0;

/// Moves `flight` from one PE to another of the same SIP.
pub(crate) fn pass(sip: &mut Sip, spec: &MachineSpec, flight: &mut Flight, from: PeId, to: PeId) {
    if from.cube == to.cube {
        return pass_pes(sip, spec, flight, from, to.pe);
    }
    pass_pes(sip, spec, flight, from, GATE);
    pass_cubes(sip, spec, flight, from.cube, to.cube);
    pass_pes(sip, spec, flight, PeId { pe: GATE, ..to }, to.pe);
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

/// Moves `flight` from a PE to the memory of a cube.
pub(crate) fn pass_to_memory(
    sip: &mut Sip,
    spec: &MachineSpec,
    flight: &mut Flight,
    pe: PeId,
    cube: u16,
) {
    if pe.cube != cube {
        pass_pes(sip, spec, flight, pe, GATE);
        pass_cubes(sip, spec, flight, pe.cube, cube);
    }
}

/// Moves `flight` from the memory of a cube to a PE: the reverse of [`pass_to_memory`].
pub(crate) fn pass_from_memory(
    sip: &mut Sip,
    spec: &MachineSpec,
    flight: &mut Flight,
    cube: u16,
    pe: PeId,
) {
    if pe.cube != cube {
        pass_cubes(sip, spec, flight, cube, pe.cube);
        pass_pes(sip, spec, flight, PeId { pe: GATE, ..pe }, pe.pe);
    }
}

fn pass_pes(sip: &mut Sip, spec: &MachineSpec, flight: &mut Flight, from: PeId, to: u16) {
    let first = sip.index(PeId { pe: 0, ..from });
    let link = spec.pes.link;
    walk(&spec.pes, from.pe, to, |at, side| {
        let wire = &mut sip.pes[first + at as usize].links[side as usize];
        let turn = flight.pass(wire, link.bandwidth, link.latency, Kind::Link);
        sip.log(turn, Resource::PeLink(PeId { pe: at, ..from }, side), "mesh", flight.bytes);
    });
}

fn pass_cubes(sip: &mut Sip, spec: &MachineSpec, flight: &mut Flight, from: u16, to: u16) {
    let link = spec.cubes.link;
    walk(&spec.cubes, from, to, |at, side| {
        let wire = &mut sip.cubes[at as usize].links[side as usize];
        let turn = flight.pass(wire, link.bandwidth, link.latency, Kind::Link);
        let here = PeId { sip: sip.number, cube: at, pe: GATE };
        sip.log(turn, Resource::CubeLink(here, side), "mesh", flight.bytes);
    });
}

/// Crosses every wire of the route from `from` to `to` on a grid.
fn walk(grid: &GridSpec, from: u16, to: u16, mut cross: impl FnMut(u16, u8)) {
    if is_free(&grid.link) {
        return;
    }
    let columns = u16::try_from(grid.columns).expect("cubes and PEs are numbered in 16 bits");
    let mut at = from;
    while at != to {
        let (side, next) = match ((at % columns).cmp(&(to % columns)), at < to) {
            (std::cmp::Ordering::Less, _) => (0, at + 1),
            (std::cmp::Ordering::Greater, _) => (1, at - 1),
            (std::cmp::Ordering::Equal, true) => (2, at + columns),
            (std::cmp::Ordering::Equal, false) => (3, at - columns),
        };
        cross(at, side);
        at = next;
    }
}

fn hops(grid: &GridSpec, from: u16, to: u16) -> u32 {
    let (from, to, columns) = (u32::from(from), u32::from(to), grid.columns);
    (from % columns).abs_diff(to % columns) + (from / columns).abs_diff(to / columns)
}

fn times(count: u32, span: Time) -> Time {
    Time::ps(span.as_ps() * u64::from(count))
}
