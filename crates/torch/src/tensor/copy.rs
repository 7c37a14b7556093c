//! Copying one tensor into another, on the SIP.

use super::Tensor;
use crate::error::Error;
use crate::placement::Shard;
use crate::request::{Access, Handle, RequestSpec, Subject, Touch};
use phalanx_sim::Capacity;
use phalanx_sim::kernel::{KernelError, Tl, View};
use phalanx_sim::machine::Launch;
use phalanx_sim::memory::Region;
use std::ops::Range;
use std::rc::Rc;

/// A copy of a block of one region to a block of another.
#[derive(Clone, Copy, Debug)]
struct Move {
    from: Side,
    to: Side,
    shape: [usize; 2],
}

/// One side of a [`Move`].
#[derive(Clone, Copy, Debug)]
struct Side {
    region: Region,
    /// The first element.
    start: usize,
    /// Strides of rows and columns.
    strides: [usize; 2],
}

impl Side {
    fn view(&self, shape: [usize; 2]) -> View {
        View::strided(&self.region, self.start, shape, self.strides)
    }

    fn at(&self, row: usize, column: usize) -> Self {
        let start = self.start + row * self.strides[0] + column * self.strides[1];
        Self { start, ..*self }
    }
}

impl Tensor {
    /// Copies the elements of `source` into this tensor and converts their type. The copy waits for the writer of `source` and
    /// for earlier requests on this tensor.
    pub fn copy_(&self, source: &Self) -> Result<Handle, Error> {
        if self.shape() != source.shape() {
            return Err(Error::argument(format!(
                "copy_: {} cannot take {}",
                self.describe(),
                source.describe()
            )));
        }
        if !self.rank.is(&source.rank) {
            return Err(Error::argument(format!(
                "copy_: {source:?} belongs to another rank than {self:?}; send it"
            )));
        }
        if Rc::ptr_eq(&self.storage, &source.storage) {
            // The two may overlap: all elements are read before the first is written.
            let staged = self.rank.empty(source.shape(), source.dtype())?;
            staged.copy_(source)?;
            return self.copy_(&staged);
        }
        let moves = self.moves(source)?;
        let asked = RequestSpec {
            what: "copy",
            subject: Subject::Words(format!("{source:?} to {self:?}").into()),
            touches: &[Touch::of(source, Access::Read), Touch::of(self, Access::Write)],
            after: Vec::new(),
        };
        let (host, pe) = (self.rank.host().clone(), self.storage.shards[0].pe);
        let limit = tile_limit(host.spec().tcm);
        Ok(self.rank.request(asked, move |cause| async move {
            let cause = host.command("launch", cause).await;
            let moves: std::rc::Rc<[Move]> = moves.into();
            let launch = Launch { name: "copy", label: None, pes: &[pe], exclusive: false, cause };
            Ok(host.run(launch, |tl| run(tl, moves.clone(), limit)).await?)
        }))
    }

    /// Returns a tensor with the same elements, adjacent: this tensor if they are, a copy otherwise.
    pub fn contiguous(&self) -> Result<Self, Error> {
        if self.is_contiguous() {
            return Ok(self.clone());
        }
        let dense = self.rank.empty(self.shape(), self.dtype())?;
        dense.copy_(self)?;
        Ok(dense)
    }

    /// The blocks to copy.
    fn moves(&self, source: &Self) -> Result<Vec<Move>, Error> {
        if let (Ok(_), Ok(from)) = (self.region(), source.region()) {
            let targets = self.shards().iter().map(|shard| shard.region);
            return Ok(targets.flat_map(|to| self.strided_moves(source, from, to)).collect());
        }
        if !self.is_whole() || !source.is_whole() {
            return Err(Error::argument(format!(
                "copy_: {} and {} must be whole tensors where one is cut into shards",
                self.describe(),
                source.describe()
            )));
        }
        let width = self.storage.columns;
        if source.storage.columns != width {
            return Err(Error::argument("copy_: the two are cut along different last dimensions"));
        }
        let mut seen: Vec<&Shard> = Vec::new();
        let mut moves = Vec::new();
        for from in source.shards() {
            // One copy of each block is enough to read from.
            if seen.iter().any(|other| other.is_copy_of(from)) {
                continue;
            }
            seen.push(from);
            moves.extend(self.shards().iter().filter_map(|to| overlap(from, to)));
        }
        Ok(moves)
    }

    /// One block for each index of all dimensions but the last two.
    fn strided_moves(&self, source: &Self, from: Region, to: Region) -> Vec<Move> {
        let pad = |list: &[usize], with: usize| {
            let mut padded = vec![with; 2_usize.saturating_sub(list.len())];
            padded.extend(list);
            padded
        };
        let shape = pad(self.shape(), 1);
        let (to_strides, from_strides) = (pad(self.strides(), 0), pad(source.strides(), 0));
        let outer = shape.len() - 2;
        let count: usize = shape[..outer].iter().product();
        let block = |number: usize| {
            let (mut rest, mut to_at, mut from_at) = (number, 0, 0);
            for axis in (0..outer).rev() {
                let index = rest % shape[axis];
                rest /= shape[axis];
                to_at += index * to_strides[axis];
                from_at += index * from_strides[axis];
            }
            let last = |strides: &[usize]| [strides[outer], strides[outer + 1]];
            Move {
                from: Side {
                    region: from,
                    start: source.storage_offset() + from_at,
                    strides: last(&from_strides),
                },
                to: Side {
                    region: to,
                    start: self.storage_offset() + to_at,
                    strides: last(&to_strides),
                },
                shape: [shape[outer], shape[outer + 1]],
            }
        };
        (0..count).map(block).collect()
    }
}

/// The copy of the elements that two shards have in common.
fn overlap(from: &Shard, to: &Shard) -> Option<Move> {
    let common = |a: &Range<usize>, b: &Range<usize>| a.start.max(b.start)..a.end.min(b.end);
    let (rows, columns) = (common(&from.rows, &to.rows), common(&from.columns, &to.columns));
    if rows.is_empty() || columns.is_empty() {
        return None;
    }
    let side = |shard: &Shard| Side {
        region: shard.region,
        start: shard.at(rows.start, columns.start),
        strides: [shard.columns.len(), 1],
    };
    Some(Move { from: side(from), to: side(to), shape: [rows.len(), columns.len()] })
}

/// Most bytes of a tile of a copy: two tiles are alive at once.
fn tile_limit(tcm: Capacity) -> usize {
    match tcm {
        Capacity::Unlimited => 1 << 20,
        Capacity::Limited(bytes) => usize::try_from(bytes.0 / 8).unwrap_or(usize::MAX).max(64),
    }
}

async fn run(tl: Tl, moves: std::rc::Rc<[Move]>, limit: usize) -> Result<(), KernelError> {
    for whole in moves.iter() {
        for piece in pieces(whole, limit) {
            let mut tile = tl.load(&piece.from.view(piece.shape)).await?;
            if tile.dtype() != piece.to.region.dtype {
                tile = tl.cast(&tile, piece.to.region.dtype).await?;
            }
            drop(tl.store(&piece.to.view(piece.shape), &tile));
        }
    }
    Ok(())
}

/// A move cut so that no piece is larger than `limit` bytes.
fn pieces(whole: &Move, limit: usize) -> Vec<Move> {
    let size = whole.from.region.dtype.size().max(whole.to.region.dtype.size());
    let [rows, columns] = whole.shape;
    let wide = columns.min((limit / size).max(1));
    let high = (limit / (size * wide).max(1)).clamp(1, rows.max(1));
    let mut pieces = Vec::new();
    for row in (0..rows).step_by(high) {
        for column in (0..columns).step_by(wide.max(1)) {
            let shape = [high.min(rows - row), wide.min(columns - column)];
            let (from, to) = (whole.from.at(row, column), whole.to.at(row, column));
            pieces.push(Move { from, to, shape });
        }
    }
    pieces
}
