//! `hierarchical`: the vector is spread over all PEs of the SIP, and each PE runs a ring with its counterparts in the other
//! SIPs.
//!
//! Each part is combined in the order of `ring`.

use super::super::algorithm::{Algorithm, Operation, Running, anywhere};
use super::super::channels::Channels;
use super::ring;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "hierarchical",
    summary: "a ring for each PE of a SIP, with a part of the vector; all PEs combine",
    operations: &Operation::ALL,
    channels: Channels::All,
    wide: &[],
    fits: anywhere,
    symmetry: ring::alike,
    work: ring::work,
    run: |part, tl| -> Running<'static> { Box::pin(ring::run(part, tl)) },
};
