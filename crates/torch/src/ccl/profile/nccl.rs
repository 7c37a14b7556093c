//! The choice of NCCL: the algorithm and protocol with the least time by NCCL's own estimate.
//!
//! The estimate has constants of its own, which NCCL publishes (`src/graph/tuning.cc`): it is not the time that a
//! collective takes, and the choice is not always the fastest.

use super::super::algorithm::Operation;
use super::{Pair, Profile, Situation};
use phalanx_sim::Time;
use phalanx_sim::spec::{Efficiency, Protocol};

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
        pairs.extend(by("double_tree", &words));
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
pub(super) fn choose(profile: &Profile, situation: &Situation<'_>, pairs: &[Pair]) -> Option<Pair> {
    pairs.iter().copied().min_by_key(|pair| estimate(profile, situation, *pair))
}

fn constants(profile: &Profile, protocol: Protocol) -> Constants {
    let own = profile.costs(protocol).map_or(Efficiency::FULL, |costs| costs.efficiency);
    match protocol {
        // The most that NCCL lets LL have is a constant of each generation of devices: a figure of the machine.
        Protocol::Ll => Constants {
            base: 6_600,
            inside: 600,
            between: 2_700,
            efficiency: own.as_millionths().into(),
        },
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
fn estimate(profile: &Profile, situation: &Situation<'_>, pair: Pair) -> Time {
    let constants = constants(profile, pair.protocol);
    let (ranks, nodes) = (situation.ranks() as u64, situation.nodes() as u64);
    let both_ways = if situation.operation == Operation::AllReduce { 2 } else { 1 };
    let bytes = situation.bytes as u64;
    let (steps, crossings, moved) = match pair.module {
        "nvls" => (
            0,
            both_ways * (nodes - 1),
            if both_ways == 2 { bytes } else { bytes * (ranks - 1) / ranks },
        ),
        "ring" | "direct" => (
            both_ways * (ranks - nodes),
            both_ways * (nodes - 1),
            both_ways * bytes * (ranks - 1) / ranks,
        ),
        // Inside a node and then across, or up and down a tree.
        _ => (
            both_ways * (ranks / nodes - 1),
            both_ways * u64::from(nodes.ilog2()),
            both_ways * bytes / 2,
        ),
    };
    let latency = constants.base + steps * constants.inside + crossings * constants.between;
    let level = usize::from(nodes > 1);
    let wire = situation.machine.link_of(level).bandwidth.time_for(moved);
    let stretched = u128::from(wire.as_ps()) * 1_000_000 / u128::from(constants.efficiency.max(1));
    Time::ns(latency) + Time::ps(u64::try_from(stretched).unwrap_or(u64::MAX))
}
