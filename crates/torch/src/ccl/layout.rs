//! The layout of a collective's tensors: the PEs and cubes of each piece and its size, without memory.
//!
//! Ranks that place their tensors alike have equal layouts. A rank does not know the large tensor of another root (the input
//! of a scatter, the output of a gather): this tensor counts as placed like the small one.

use super::algorithm::Operation;
use super::channels::Channels;
use super::lanes::{Lane, spread};
use super::part::Buffer;
use phalanx_sim::machine::Machine;
use phalanx_sim::memory::MemoryError;
use phalanx_sim::topology::PeId;
use phalanx_sim::value::DType;

/// The places and sizes of the pieces of a rank's tensors.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Layout {
    /// Every piece: one for a tensor in one piece, one a shard otherwise.
    pub pieces: Vec<Piece>,
    /// True if a broadcast has an output of its own. The time of other operations does not depend on that.
    pub apart: bool,
}

/// One piece of a rank's tensors.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Piece {
    /// The cube of the PE that carries the piece.
    pub cube: u16,
    /// The PE in this cube.
    pub pe: u16,
    /// Elements of the vector; of one rank's part where an operation cuts the vector.
    pub count: usize,
    /// The cubes of the copies of the input.
    pub input: Vec<u16>,
    /// The cubes of the copies of the output.
    pub output: Vec<u16>,
}

/// A rank's role in an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Role {
    pub(crate) operation: Operation,
    pub(crate) ranks: usize,
    pub(crate) is_root: bool,
}

impl Layout {
    /// Tensors in one piece in cube 0, in place.
    pub fn single(count: usize) -> Self {
        let piece = Piece { cube: 0, pe: 0, count, input: vec![0], output: vec![0] };
        Self { pieces: vec![piece], apart: false }
    }

    /// The layout of these lanes, which are not spread over all PEs.
    pub(crate) fn of(operation: Operation, ranks: usize, lanes: &[Lane]) -> Self {
        let same = |lane: &Lane| {
            lane.input.copies == lane.output.copies && lane.input.start == lane.output.start
        };
        let apart = operation == Operation::Broadcast && !lanes.iter().all(same);
        Self { pieces: lanes.iter().map(|lane| piece(operation, ranks, lane)).collect(), apart }
    }

    /// The same places with other sizes.
    pub(crate) fn resized(&self, size: impl Fn(usize) -> usize) -> Self {
        let pieces = self.pieces.iter();
        let pieces = pieces.map(|piece| Piece { count: size(piece.count), ..piece.clone() });
        Self { pieces: pieces.collect(), apart: self.apart }
    }

    /// The elements of all pieces.
    pub(crate) fn count(&self) -> usize {
        self.pieces.iter().fold(0, |sum, piece| sum.saturating_add(piece.count))
    }

    /// Lanes with memory on a SIP of `machine`.
    pub(crate) fn lanes(
        &self,
        machine: &Machine,
        sip: u32,
        dtype: DType,
        role: Role,
        channels: Channels,
    ) -> Result<Vec<Lane>, MemoryError> {
        let memory = Memory { machine, sip, dtype };
        let lanes: Result<Vec<Lane>, MemoryError> =
            self.pieces.iter().map(|piece| memory.lane(piece, role, self.apart)).collect();
        let segments = role.operation.segments(role.ranks, role.is_root);
        let columns = machine.spec().cubes.columns;
        Ok(spread(lanes?, channels, segments, &machine.pes(sip), columns))
    }
}

fn piece(operation: Operation, ranks: usize, lane: &Lane) -> Piece {
    let cubes = |buffer: &Buffer| buffer.copies.iter().map(|region| region.cube).collect();
    let (input, output): (Vec<u16>, Vec<u16>) = (cubes(&lane.input), cubes(&lane.output));
    let (input, output) = match operation {
        Operation::Scatter => (output.clone(), output),
        Operation::Gather => (input.clone(), input),
        _ => (input, output),
    };
    let count = match operation {
        Operation::ReduceScatter | Operation::Scatter => lane.output.len,
        Operation::AllToAll => lane.input.len / ranks,
        _ => lane.input.len,
    };
    Piece { cube: lane.pe.cube, pe: lane.pe.pe, count, input, output }
}

/// The memory of a SIP.
struct Memory<'a> {
    machine: &'a Machine,
    sip: u32,
    dtype: DType,
}

impl Memory<'_> {
    fn buffer(&self, cubes: &[u16], len: usize) -> Result<Buffer, MemoryError> {
        let copies: Result<Vec<_>, _> =
            cubes.iter().map(|cube| self.machine.empty(self.sip, *cube, self.dtype, len)).collect();
        Ok(Buffer { copies: copies?.into(), start: 0, len, runs: None })
    }

    fn lane(&self, piece: &Piece, role: Role, apart: bool) -> Result<Lane, MemoryError> {
        let (one, all) = (piece.count, piece.count.saturating_mul(role.ranks));
        let input = |len| self.buffer(&piece.input, len);
        let output = |len| self.buffer(&piece.output, len);
        let (input, output) = match role.operation {
            Operation::Broadcast if apart => (input(one)?, output(one)?),
            Operation::AllReduce | Operation::Broadcast | Operation::Reduce => {
                let both = input(one)?;
                (both.clone(), both)
            }
            Operation::Scatter if !role.is_root => {
                let own = output(one)?;
                (own.clone(), own)
            }
            Operation::Gather if !role.is_root => {
                let own = input(one)?;
                (own.clone(), own)
            }
            Operation::ReduceScatter | Operation::Scatter => (input(all)?, output(one)?),
            Operation::AllGather | Operation::Gather => (input(one)?, output(all)?),
            Operation::AllToAll => (input(all)?, output(all)?),
        };
        let pe = PeId { sip: self.sip, cube: piece.cube, pe: piece.pe };
        Ok(Lane { pe, input, output })
    }
}
