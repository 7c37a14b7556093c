//! The choice of NCCL: the algorithm and protocol with the least time by NCCL's own estimate.
//!
//! The estimate has constants of its own, which NCCL publishes (`src/graph/tuning.cc`): it is not the time that a
//! collective takes, and the choice is not always the fastest.

use super::super::algorithm::Operation;
use super::{Pair, Situation};
use phalanx_sim::spec::Protocol;
use phalanx_sim::{MachineSpec, Time};

/// The constants of a protocol in the estimate.
struct Constants {
    /// Nanoseconds of a collective.
    base: u64,
    /// Nanoseconds of a step inside a node, and between nodes.
    inside: u64,
    between: u64,
    /// Millionths of the links' bandwidth.
    efficiency: u64,
}

/// The bandwidth that NCCL expects of links, in millionths of what they have.
const EXPECTED: u64 = 750_000;

/// Pairs of algorithms and protocols for an operation.
pub(super) fn pairs(situation: &Situation<'_>) -> Vec<Pair> {
    let by = |module, protocols: &[Protocol]| -> Vec<Pair> {
        protocols.iter().map(|protocol| Pair { module, protocol: *protocol }).collect()
    };
    let words = [Protocol::Ll, Protocol::Ll128, Protocol::Simple];
    let mut pairs = by("ring", &words);
    if situation.nodes() > 1 {
        pairs.extend(by("two_level", &words));
    }
    if matches!(situation.operation, Operation::AllToAll | Operation::Gather | Operation::Scatter) {
        pairs = by("direct", &[Protocol::Simple]);
    }
    if situation.ranks() > 2 {
        pairs.push(Pair { module: "nvls", protocol: Protocol::Nvls });
    }
    pairs
}

/// The pair with the least estimate, the first of equals.
pub(super) fn choose(situation: &Situation<'_>, pairs: &[Pair]) -> Option<Pair> {
    pairs.iter().copied().min_by_key(|pair| estimate(situation, *pair))
}

fn constants(protocol: Protocol) -> Constants {
    match protocol {
        // The most that NCCL lets LL have: 88, 141 and 282 GB/s of 300, 450 and 900 by generation of devices, less what its flags take.
        Protocol::Ll => Constants { base: 6_600, inside: 600, between: 2_700, efficiency: 280_000 },
        Protocol::Ll128 => Constants {
            base: 14_000,
            inside: 1_900,
            between: 4_000,
            efficiency: EXPECTED * 92 / 100,
        },
        Protocol::Simple => {
            Constants { base: 8_400, inside: 3_400, between: 14_000, efficiency: EXPECTED }
        }
        Protocol::Nvls => {
            Constants { base: 55_000, inside: 0, between: 14_000, efficiency: 440_000 }
        }
    }
}

/// NCCL's estimate of a time.
fn estimate(situation: &Situation<'_>, pair: Pair) -> Time {
    let constants = constants(pair.protocol);
    let (ranks, nodes) = (situation.ranks() as u64, situation.nodes() as u64);
    let ways = if situation.operation == Operation::AllReduce { 2 } else { 1 };
    let bytes = situation.bytes as u64;
    let others = |of: u64| ways * bytes * (of - 1) / of;
    let (steps, crossings, inside, across) = match pair.module {
        "nvls" => (0, ways * (nodes - 1), if ways == 2 { bytes } else { others(ranks) }, 0),
        "two_level" => {
            (ways * (ranks / nodes - 1), ways * (nodes - 1), others(ranks / nodes), others(nodes))
        }
        _ => (ways * (ranks - nodes), ways * (nodes - 1), others(ranks), others(ranks)),
    };
    let latency = constants.base + steps * constants.inside + crossings * constants.between;
    let inside = situation.machine.link_of(0).bandwidth.time_for(inside);
    let across = if nodes > 1 { between_nodes(situation.machine, across) } else { Time::ZERO };
    let wire = inside.max(across).as_ps();
    let stretched = u128::from(wire) * 1_000_000 / u128::from(constants.efficiency.max(1));
    Time::ns(latency) + Time::ps(u64::try_from(stretched).unwrap_or(u64::MAX))
}

/// The time of bytes that leave a node over all of its NICs.
fn between_nodes(machine: &MachineSpec, bytes: u64) -> Time {
    let nics = machine.levels.first().map_or(1, |level| u64::from(level.nics.max(1)));
    machine.link_of(1).bandwidth.time_for(bytes.div_ceil(nics))
}
