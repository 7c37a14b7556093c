//! The choice of RCCL: a table of sizes.
//!
//! RCCL's tuning differs by product and release. The rows are those of MI300X as published times show them: the steps of each piece
//! of the curve, and the sizes at which one piece follows another. The times themselves are the machine's figures.

use super::super::algorithm::Operation;
use super::{Pair, Situation};
use phalanx_sim::spec::Protocol;

/// One row of the table: up to `bytes`, the pair.
struct Row {
    bytes: usize,
    pair: Pair,
}

const fn row(bytes: usize, module: &'static str, protocol: Protocol) -> Row {
    Row { bytes, pair: Pair { module, protocol } }
}

/// All-reduce on fully connected devices: a tree for a few words, a ring for less than 1 KiB, then everybody to everybody.
const ALL_REDUCE: &[Row] = &[
    row(64, "tree", Protocol::Ll),
    row(1 << 9, "ring", Protocol::Ll),
    row(256 << 10, "direct", Protocol::Ll),
    row(16 << 20, "direct", Protocol::Ll128),
    row(usize::MAX, "direct", Protocol::Simple),
];

/// All other operations.
const OTHERS: &[Row] = &[
    row(256 << 10, "direct", Protocol::Ll),
    row(16 << 20, "direct", Protocol::Ll128),
    row(usize::MAX, "direct", Protocol::Simple),
];

/// Pairs of algorithms and protocols.
pub(super) fn pairs() -> Vec<Pair> {
    let mut pairs: Vec<Pair> = ALL_REDUCE.iter().map(|row| row.pair).collect();
    pairs.push(Pair { module: "ring", protocol: Protocol::Simple });
    pairs
}

/// The pair of the table; if it does not fit, the first that fits.
pub(super) fn choose(situation: &Situation<'_>, pairs: &[Pair]) -> Option<Pair> {
    let rows = if situation.operation == Operation::AllReduce { ALL_REDUCE } else { OTHERS };
    let row = rows.iter().find(|row| situation.bytes <= row.bytes)?;
    pairs.iter().copied().find(|pair| *pair == row.pair).or(pairs.first().copied())
}
