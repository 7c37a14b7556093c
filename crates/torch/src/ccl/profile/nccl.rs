//! The choice of NCCL: the algorithm and protocol with the least time by NCCL's own estimate.
//!
//! The estimate has constants of its own, which NCCL publishes (`src/graph/tuning.cc`, 2.27 to 2.29): it is not the time that a
//! collective takes, and the choice is not always the fastest. A step of LL, LL128 and Simple costs so much between devices and so
//! much between nodes; a protocol has a part of the bandwidth that NCCL expects of the links. In-switch messages start
//! at 25 us, and each of their heads, one a device, has a most.

use super::super::algorithm::Operation;
use super::{Pair, Situation};
use phalanx_sim::spec::{Generation, Protocol};
use phalanx_sim::{Bandwidth, Time};

/// The constants of a protocol in the estimate, in nanoseconds.
struct Constants {
    /// Of a collective.
    base: u64,
    /// Of a step inside a node.
    inside: u64,
    /// Of a step between nodes.
    between: u64,
}

/// Millionths of the links' bandwidth that NCCL's graphs have: 240, 360 and 720 GB/s of 300, 450 and 900.
const EXPECTED: u64 = 800_000;

/// Bytes of a chunk of in-switch messages, each with the number of chunks a head and channel from which NCCL takes it.
const CHUNKS: [(u64, u64); 3] = [(128 << 10, 64), (64 << 10, 8), (32 << 10, 2)];
/// The smallest chunk of in-switch messages.
const SMALLEST: u64 = 16 << 10;

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

/// The channels of in-switch messages.
pub(super) const fn in_switch_channels(generation: Generation) -> u64 {
    match generation {
        Generation::Ampere | Generation::Hopper => 16,
        Generation::Blackwell => 32,
    }
}

/// The bytes of a chunk of in-switch messages, with so many heads and channels together (`enqueue.cc`).
pub(super) fn in_switch_chunk(bytes: u64, lanes: u64) -> u64 {
    let fits = |chunk: u64, least: u64| bytes >= chunk.saturating_mul(lanes).saturating_mul(least);
    let row = CHUNKS.iter().find(|(chunk, least)| fits(*chunk, *least));
    row.map_or(SMALLEST, |(chunk, _)| *chunk)
}

fn constants(protocol: Protocol, between_nodes: bool) -> Constants {
    let (base, inside, between) = match (protocol, between_nodes) {
        (Protocol::Ll, false) => (6_600, 600, 0),
        (Protocol::Ll128, false) => (14_000, 1_900, 0),
        (Protocol::Simple, false) => (8_400, 3_400, 0),
        // Between nodes, the constants are those of NCCL's trees, which pass a node in as many steps.
        (Protocol::Ll, true) => (6_800, 600, 5_000),
        (Protocol::Ll128, true) => (14_000, 1_250, 8_500),
        (Protocol::Simple, true) => (8_400, 4_000, 14_000),
        (Protocol::Nvls, _) => (25_000, 0, 18_000),
    };
    Constants { base, inside, between }
}

/// Millionths of a device's links that a protocol has inside a node.
fn inside_part(protocol: Protocol, generation: Generation) -> u64 {
    match (protocol, generation) {
        // At most 87.7, 141 and 282 GB/s.
        (Protocol::Ll, Generation::Ampere) => 292_333,
        (Protocol::Ll, _) => 313_333,
        // At most 40 GB/s for each of 16 channels.
        (Protocol::Ll128, Generation::Blackwell) => 711_111,
        (Protocol::Ll128, _) => EXPECTED * 92 / 100,
        // At most 235 GB/s.
        (_, Generation::Ampere) => 783_333,
        _ => EXPECTED,
    }
}

/// Millionths of a device's links that in-switch messages have: 60 or 90 GB/s a head at most, times NCCL's efficiency.
fn in_switch_part(ranks: u64, generation: Generation) -> u64 {
    let (head, efficiency) = match generation {
        Generation::Blackwell => (100_000, 74),
        _ => (133_333, 85),
    };
    (head * ranks).min(EXPECTED) * efficiency / 100
}

/// Millionths of a node's NICs that a protocol has.
fn between_part(protocol: Protocol) -> u64 {
    match protocol {
        Protocol::Ll => 920_000 * 10 / 38,
        Protocol::Ll128 => 920_000 * 120 / 128,
        _ => 920_000,
    }
}

/// NCCL's estimate of a time.
fn estimate(situation: &Situation<'_>, pair: Pair) -> Time {
    let (ranks, nodes) = (situation.ranks() as u64, situation.nodes() as u64);
    let generation = situation.generation;
    let ways = if situation.operation == Operation::AllReduce { 2 } else { 1 };
    let bytes = situation.bytes as u64;
    let others = |of: u64| ways * bytes * (of - 1) / of;
    let constants = constants(pair.protocol, nodes > 1);
    let links = situation.machine.link_of(0).bandwidth;
    let part = inside_part(pair.protocol, generation);
    let (steps, wire) = match pair.module {
        "nvls" => {
            let part = in_switch_part(ranks, generation);
            let part = if ways == 2 { part } else { part * (ranks - 1).pow(2) / ranks.pow(2) };
            (0, stretched(links, bytes, part))
        }
        "two_level" => {
            let inside = stretched(links, others(ranks / nodes), part);
            let across = stretched(situation.nics(), others(nodes), between_part(pair.protocol));
            (ways * (ranks / nodes - 1), inside.max(across))
        }
        _ => (ways * (ranks - nodes), stretched(links, others(ranks), part)),
    };
    let latency =
        constants.base + steps * constants.inside + ways * (nodes - 1) * constants.between;
    Time::ns(latency) + wire
}

/// The time of bytes over millionths of a bandwidth.
fn stretched(bandwidth: Bandwidth, bytes: u64, part: u64) -> Time {
    let wire = u128::from(bandwidth.time_for(bytes).as_ps());
    let time = wire * 1_000_000 / u128::from(part.max(1));
    Time::ps(u64::try_from(time).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_in_switch_messages_grow_with_the_vector() {
        let chunk = |bytes: u64| in_switch_chunk(bytes, 16 * 8) >> 10;
        assert_eq!([4, 8, 64, 1024].map(|mib: u64| chunk(mib << 20)), [16, 32, 64, 128]);
    }
}
