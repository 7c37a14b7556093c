//! The kernels of parallel layers.
//!
//! Activations have a copy in every cube that computes: a PE reads from the copy nearest to it and stores to all of
//! them. Work is spread over PEs by output tiles (products) or by rows (everything else).
//!
//! - **TPK-1 (rounding).** Products are accumulated in f32, k ascending, and rounded once to the type of activations.
//!   Softmax and layer norm are computed in f32 and rounded once. Bias, activation and residual are rounded one by one.

pub(crate) mod attention;
pub(crate) mod embedding;
pub(crate) mod linear;
pub(crate) mod rows;

use crate::error::Error;
use crate::tensor::Tensor;
use phalanx_sim::kernel::{KernelError, Loading, Operand, Tile, Tl, View};
use phalanx_sim::memory::Region;
use phalanx_sim::{Bytes, Capacity};
use std::ops::Range;
use std::rc::Rc;

/// Adjacent elements in one or several copies, seen as rows of `columns` elements.
#[derive(Clone, Debug)]
pub(crate) struct Dense {
    copies: Rc<[Region]>,
    start: usize,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

impl Dense {
    /// The elements of a tensor that is contiguous and not cut; its last dimension is the columns.
    pub(crate) fn of(tensor: &Tensor) -> Result<Self, Error> {
        tensor.region()?;
        if !tensor.is_contiguous() {
            return Err(Error::argument(format!(
                "{} must be contiguous; use `contiguous()`",
                tensor.describe()
            )));
        }
        let columns = tensor.shape().last().copied().unwrap_or(1);
        let rows = tensor.numel().checked_div(columns).unwrap_or(0);
        let copies = tensor.shards().iter().map(|shard| shard.region).collect();
        Ok(Self { copies, start: tensor.storage_offset(), rows, columns })
    }

    /// The copy in the PE's cube, or the first copy.
    pub(crate) fn near(&self, tl: &Tl) -> Region {
        let near = self.copies.iter().find(|region| region.cube == tl.pe().cube);
        *near.unwrap_or(&self.copies[0])
    }

    /// The nearest copy as an operand of a product.
    pub(crate) fn operand(&self, tl: &Tl) -> Operand {
        Operand::row_major(self.near(tl), self.columns).at(self.start)
    }

    /// Every copy as an operand of a product.
    pub(crate) fn operands(&self) -> Vec<Operand> {
        let operand = |region: &Region| Operand::row_major(*region, self.columns).at(self.start);
        self.copies.iter().map(operand).collect()
    }

    /// The block of some rows and columns.
    fn block(&self, region: &Region, rows: &Range<usize>, columns: &Range<usize>) -> View {
        let start = self.start + rows.start * self.columns + columns.start;
        View::strided(region, start, [rows.len(), columns.len()], [self.columns, 1])
    }

    /// A view of some rows of the nearest copy.
    pub(crate) fn view(&self, tl: &Tl, rows: &Range<usize>) -> View {
        self.block(&self.near(tl), rows, &(0..self.columns))
    }

    /// Loads some rows.
    pub(crate) fn load(&self, tl: &Tl, rows: &Range<usize>) -> Loading<Tile> {
        tl.load(&self.view(tl, rows))
    }

    /// Loads some rows and columns.
    pub(crate) fn load_block(
        &self,
        tl: &Tl,
        rows: &Range<usize>,
        columns: &Range<usize>,
    ) -> Loading<Tile> {
        tl.load(&self.block(&self.near(tl), rows, columns))
    }

    /// Stores some rows, in every copy, without waiting.
    pub(crate) fn store(&self, tl: &Tl, rows: &Range<usize>, tile: &Tile) {
        self.store_block(tl, rows, &(0..self.columns), tile);
    }

    /// Stores some rows and columns, in every copy.
    pub(crate) fn store_block(
        &self,
        tl: &Tl,
        rows: &Range<usize>,
        columns: &Range<usize>,
        tile: &Tile,
    ) {
        for region in self.copies.iter() {
            drop(tl.store(&self.block(region, rows, columns), tile));
        }
    }
}

/// This program's share of `rows`, cut so that `alive` f32 tiles of `columns` columns fit into scratch memory.
pub(crate) fn blocks(tl: &Tl, rows: usize, columns: usize, alive: usize) -> Vec<Range<usize>> {
    let (start, len) = tl.share(rows);
    let scratch = match tl.scratch_capacity() {
        Capacity::Unlimited => 64 << 20,
        Capacity::Limited(Bytes(bytes)) => usize::try_from(bytes).unwrap_or(usize::MAX),
    };
    let high = (scratch / alive.max(1) / 4 / columns.max(1)).clamp(1, 128);
    let end = start + len;
    (start..end).step_by(high).map(|row| row..(row + high).min(end)).collect()
}

/// A stream of tiles; the next tile is loaded while the kernel works on the current one.
pub(crate) struct Stream<L: Fn(&Range<usize>) -> Loading<Tile>> {
    blocks: std::vec::IntoIter<Range<usize>>,
    load: L,
    ahead: Option<(Range<usize>, Loading<Tile>)>,
}

impl<L: Fn(&Range<usize>) -> Loading<Tile>> Stream<L> {
    pub(crate) fn new(blocks: Vec<Range<usize>>, load: L) -> Self {
        let mut stream = Self { blocks: blocks.into_iter(), load, ahead: None };
        stream.ahead = stream.issue();
        stream
    }

    fn issue(&mut self) -> Option<(Range<usize>, Loading<Tile>)> {
        let block = self.blocks.next()?;
        let loading = (self.load)(&block);
        Some((block, loading))
    }

    /// The next block with its tile.
    pub(crate) async fn next(&mut self) -> Result<Option<(Range<usize>, Tile)>, KernelError> {
        let Some((block, loading)) = self.ahead.take() else { return Ok(None) };
        let tile = loading.await?;
        self.ahead = self.issue();
        Ok(Some((block, tile)))
    }
}
