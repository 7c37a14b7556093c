//! Lanes: the PEs of a SIP that carry a collective, each with its part of the tensors.
//!
//! A tensor in one piece has one lane. A tensor cut into shards has a lane for each shard, on the shard's PE. With several
//! channels, each lane is cut once more.

use super::algorithm::Operation;
use super::channels::Channels;
use super::part::Buffer;
use crate::error::Error;
use crate::placement::Shard;
use crate::tensor::Tensor;
use phalanx_sim::MachineSpec;
use phalanx_sim::memory::Region;
use phalanx_sim::topology::PeId;

/// One PE's part of the tensors.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    pub(crate) pe: PeId,
    pub(crate) input: Buffer,
    pub(crate) output: Buffer,
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
    let (start, len) = (tensor.storage_offset(), tensor.numel());
    Some(Buffer { copies: copies.into(), start, len, runs: None })
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
    let buffer =
        |copies: Vec<Region>, len| Buffer { copies: copies.into(), start: 0, len, runs: None };
    let lane = |(first, inputs, outputs): (&Shard, _, _)| Lane {
        pe: first.pe,
        input: buffer(inputs, first.elements()),
        output: buffer(outputs, first.elements()),
    };
    Ok(lanes.into_iter().map(lane).collect())
}

/// The PEs near to a PE's memory: those of its cube from this PE on, and of each cube beside it a quarter as many, since the wires between
/// cubes carry their loads, stores and messages. `columns` are those of the cubes.
fn nearest(pe: PeId, pes: &[PeId], columns: u32) -> Vec<PeId> {
    let place = |cube: u16| (u32::from(cube) / columns.max(1), u32::from(cube) % columns.max(1));
    let is_beside = |other: &&PeId| {
        let ((row, column), (to_row, to_column)) = (place(pe.cube), place(other.cube));
        row.abs_diff(to_row) + column.abs_diff(to_column) == 1
    };
    let mut near: Vec<PeId> = pes.iter().copied().filter(|other| other.cube == pe.cube).collect();
    let quarter = near.len() / 4;
    let first = near.iter().position(|other| *other == pe).unwrap_or(0);
    near.rotate_left(first);
    let beside = pes.iter().filter(is_beside).filter(|other| usize::from(other.pe) < quarter);
    near.extend(beside);
    near
}

/// Each lane cut into as many as it has channels; `segments` are those of the input and of the output (CHN-1).
pub(crate) fn spread(
    lanes: Vec<Lane>,
    channels: Channels,
    segments: [usize; 2],
    pes: &[PeId],
    columns: u32,
) -> Vec<Lane> {
    let near = lanes.first().map_or_else(Vec::new, |lane| nearest(lane.pe, pes, columns));
    let each = channels.pes_of_piece(pes.len(), near.len(), lanes.len());
    if each == 0 || (each == 1 && channels != Channels::All) {
        return lanes;
    }
    // The first channel of a tensor in one piece is on the PE of the tensor (CHN-2).
    let pes = if lanes.len() == 1 && channels != Channels::All { &*near } else { pes };
    let apart = pes.len() / lanes.len();
    let mut spread = Vec::new();
    for (number, lane) in lanes.iter().enumerate() {
        for index in 0..each {
            let cut = |buffer: &Buffer, segments| buffer.strip(segments, &(index..index + 1), each);
            spread.push(Lane {
                pe: pes[number * apart + index],
                input: cut(&lane.input, segments[0]),
                output: cut(&lane.output, segments[1]),
            });
        }
    }
    spread
}

/// The number of lanes that [`spread`] makes of tensors in so many pieces, the first of which is at this cube and PE.
pub(crate) fn count(
    machine: &MachineSpec,
    (cube, pe): (u16, u16),
    pieces: usize,
    channels: Channels,
) -> usize {
    let narrow = |count: u32| u16::try_from(count).unwrap_or(u16::MAX);
    let cubes = 0..narrow(machine.cubes.count());
    let pes = cubes
        .flat_map(|cube| (0..narrow(machine.pes.count())).map(move |pe| PeId { sip: 0, cube, pe }));
    let pes: Vec<PeId> = pes.collect();
    let near = nearest(PeId { sip: 0, cube, pe }, &pes, machine.cubes.columns).len();
    pieces * channels.pes_of_piece(pes.len(), near, pieces).max(1)
}

fn refuse(operation: Operation, tensor: &Tensor) -> Error {
    Error::argument(format!(
        "{operation}: {} must be contiguous and in one piece; use `contiguous()`",
        tensor.describe()
    ))
}
