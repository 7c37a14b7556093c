//! Lanes: the PEs of a SIP that carry a collective, each with its part of the tensors.
//!
//! A tensor in one piece has one lane. A tensor cut into shards has a lane for each shard, on the shard's PE. If the
//! algorithm uses all PEs, each lane is cut once more.

use super::algorithm::{Algorithm, Operation};
use super::part::Buffer;
use crate::error::Error;
use crate::placement::{Shard, share};
use crate::tensor::Tensor;
use phalanx_sim::memory::Region;
use phalanx_sim::topology::PeId;

/// One PE's part of the tensors.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    pub(crate) pe: PeId,
    pub(crate) input: Buffer,
    pub(crate) output: Buffer,
}

/// The lanes of a collective on `input` and `output`, for `algorithm`.
pub(crate) fn lanes(
    operation: Operation,
    algorithm: &Algorithm,
    input: &Tensor,
    output: &Tensor,
    pes: &[PeId],
) -> Result<Vec<Lane>, Error> {
    let lanes = by_piece(operation, input, output)?;
    Ok(if algorithm.uses_all_pes(operation) { over_all(&lanes, pes) } else { lanes })
}

/// One lane for each piece of the tensors.
pub(crate) fn by_piece(
    operation: Operation,
    input: &Tensor,
    output: &Tensor,
) -> Result<Vec<Lane>, Error> {
    match (whole(input), whole(output)) {
        (Some(from), Some(to)) => {
            Ok(vec![Lane { pe: output.shards()[0].pe, input: from, output: to }])
        }
        _ if operation.is_elementwise() => by_shard(operation, input, output),
        _ => Err(refuse(operation, if whole(input).is_none() { input } else { output })),
    }
}

/// A tensor in one piece, as a buffer.
pub(crate) fn whole(tensor: &Tensor) -> Option<Buffer> {
    tensor.region().ok().filter(|_| tensor.is_contiguous())?;
    let copies: Vec<Region> = tensor.shards().iter().map(|shard| shard.region).collect();
    Some(Buffer { copies: copies.into(), start: tensor.storage_offset(), len: tensor.numel() })
}

/// One lane for each block of tensors that are cut alike.
fn by_shard(operation: Operation, input: &Tensor, output: &Tensor) -> Result<Vec<Lane>, Error> {
    let alike = input.shards().len() == output.shards().len()
        && input.shards().iter().zip(output.shards()).all(|(a, b)| a.is_copy_of(b));
    if !alike || !input.is_whole() || !output.is_whole() {
        return Err(refuse(operation, input));
    }
    let mut lanes: Vec<(&Shard, Vec<Region>, Vec<Region>)> = Vec::new();
    for (from, to) in input.shards().iter().zip(output.shards()) {
        match lanes.iter_mut().find(|(first, ..)| first.is_copy_of(from)) {
            Some((_, inputs, outputs)) => {
                inputs.push(from.region);
                outputs.push(to.region);
            }
            None => lanes.push((from, vec![from.region], vec![to.region])),
        }
    }
    let buffer = |copies: Vec<Region>, len| Buffer { copies: copies.into(), start: 0, len };
    let lane = |(first, inputs, outputs): (&Shard, _, _)| Lane {
        pe: first.pe,
        input: buffer(inputs, first.elements()),
        output: buffer(outputs, first.elements()),
    };
    Ok(lanes.into_iter().map(lane).collect())
}

/// Each lane cut into as many as there are PEs for it.
pub(crate) fn over_all(lanes: &[Lane], pes: &[PeId]) -> Vec<Lane> {
    let each = pes.len() / lanes.len();
    let mut spread = Vec::new();
    for (number, lane) in lanes.iter().enumerate() {
        let own = &pes[number * each..(number + 1) * each];
        for (index, pe) in own.iter().enumerate() {
            let range = share(&(0..lane.input.len), index, each);
            spread.push(Lane {
                pe: *pe,
                input: lane.input.part(&range),
                output: lane.output.part(&range),
            });
        }
    }
    spread
}

fn refuse(operation: Operation, tensor: &Tensor) -> Error {
    Error::argument(format!(
        "{operation}: {} must be contiguous and in one piece; use `contiguous()`",
        tensor.describe()
    ))
}
