//! A tiled matrix product that overlaps loads with computation.
//!
//! The programs of a product take its output tiles in turn. For each output tile, every k-step loads a pair of operand
//! tiles as one transfer and multiply-accumulates them in f32; the finished tile is stored while the next tile is
//! computed. With two buffers the next pair is loaded meanwhile; with one buffer, loads and computation alternate.

mod plan;
mod split;

pub use plan::{GemmPlan, GemmProblem};
pub use split::SplitGemm;

use super::{KernelError, Mask, Tile, Tl, View};
use crate::memory::Region;

/// A matrix in memory.
#[derive(Clone, Copy, Debug)]
pub struct Operand {
    /// Region that holds the matrix.
    pub region: Region,
    /// Element of the region that is the corner of the matrix.
    pub start: usize,
    /// Distance of rows and distance of columns, in elements.
    pub strides: [usize; 2],
}

impl Operand {
    /// Returns a row-major matrix of `columns` columns from the start of a region.
    pub fn row_major(region: Region, columns: usize) -> Self {
        Self { region, start: 0, strides: [columns, 1] }
    }

    /// Moves the corner by `start` elements.
    #[must_use]
    pub fn at(mut self, start: usize) -> Self {
        self.start += start;
        self
    }

    /// Exchanges rows and columns.
    #[must_use]
    pub fn transposed(mut self) -> Self {
        self.strides.swap(0, 1);
        self
    }
}

/// `c = a · b`, tile by tile.
#[derive(Clone, Copy, Debug)]
pub struct Gemm {
    /// `m` by `k`.
    pub a: Operand,
    /// `k` by `n`.
    pub b: Operand,
    /// `m` by `n`.
    pub c: Operand,
    /// The dimensions `m, n, k`.
    pub dims: [usize; 3],
    /// The tile's `m, n, k`.
    pub tile: [usize; 3],
    /// Number of operand buffers: 2 to load the next operands during computation, 1 to alternate.
    pub buffers: u32,
    /// Index of this program and number of programs that divide the output tiles; `(0, 1)` for all tiles.
    pub share: (usize, usize),
}

impl Gemm {
    /// Computes this program's share of the product.
    pub async fn run(&self, tl: &Tl) -> Result<(), KernelError> {
        self.run_into(tl, &[self.c]).await
    }

    /// Computes this program's share of the product and stores every tile to each of `copies` instead of `c`.
    pub async fn run_into(&self, tl: &Tl, copies: &[Operand]) -> Result<(), KernelError> {
        let [m, n, _] = self.dims;
        let columns = n.div_ceil(self.tile[1]);
        let tiles = m.div_ceil(self.tile[0]) * columns;
        let (share, shares) = self.share;
        let mine: Vec<_> =
            (share..tiles).step_by(shares).map(|tile| (tile / columns, tile % columns)).collect();
        let mut steps = Steps { gemm: self, mine: &mine, tile: 0, step: 0 };
        let mut next = if self.buffers > 1 { steps.load(tl) } else { None };
        for corner in &mine {
            let mut sum: Option<Tile> = None;
            for _ in 0..self.steps() {
                let current = match next.take() {
                    Some(loading) => loading,
                    None => steps.load(tl).expect("as many loads as steps"),
                };
                let (left, right) = current.await?;
                // The load into the other buffer is issued before the wait for the product.
                if self.buffers > 1 {
                    next = steps.load(tl);
                }
                sum = Some(tl.dot(&left, &right, sum.as_ref()).await?);
            }
            for storing in self.store(tl, *corner, sum, copies)? {
                if self.buffers == 1 {
                    storing.await?;
                }
            }
        }
        Ok(())
    }

    /// Sets the index of this program and the number of programs that divide the output tiles.
    #[must_use]
    pub fn share(mut self, share: usize, shares: usize) -> Self {
        self.share = (share, shares);
        self
    }

    fn steps(&self) -> usize {
        self.dims[2].div_ceil(self.tile[2]).max(1)
    }

    fn store(
        &self,
        tl: &Tl,
        (row, column): (usize, usize),
        sum: Option<Tile>,
        copies: &[Operand],
    ) -> Result<Vec<super::Storing>, KernelError> {
        let [tm, tn, _] = self.tile;
        let (extent, dtype) = ([self.dims[0], self.dims[1]], self.c.region.dtype);
        let sum = sum.expect("at least one step");
        // The matrix engine rounds its output: no vector time.
        let value = sum.value().map(|value| value.cast(dtype));
        let shape = [tm, tn].into();
        let rounded = Tile::in_scratch(tl.program(), dtype, shape, value, "a rounded product")?;
        let view = |copy| block(copy, (row * tm, column * tn), [tm, tn], extent);
        Ok(copies.iter().map(|copy| tl.store(&view(copy), &rounded)).collect())
    }
}

/// The loads of a program, in order.
struct Steps<'a> {
    gemm: &'a Gemm,
    mine: &'a [(usize, usize)],
    tile: usize,
    step: usize,
}

impl Steps<'_> {
    /// Issues the next load, if there is one.
    fn load(&mut self, tl: &Tl) -> Option<super::Loading<(Tile, Tile)>> {
        let &(row, column) = self.mine.get(self.tile)?;
        let (gemm, step) = (self.gemm, self.step);
        let ([m, n, k], [tm, tn, tk]) = (gemm.dims, gemm.tile);
        let left = block(&gemm.a, (row * tm, step * tk), [tm, tk], [m, k]);
        let right = block(&gemm.b, (step * tk, column * tn), [tk, tn], [k, n]);
        self.step += 1;
        if self.step == gemm.steps() {
            (self.tile, self.step) = (self.tile + 1, 0);
        }
        Some(tl.load_pair(&left, &right))
    }
}

/// Returns the view of one tile of a matrix of `extent`; elements outside the matrix are masked.
fn block(
    operand: &Operand,
    (row, column): (usize, usize),
    tile: [usize; 2],
    extent: [usize; 2],
) -> View {
    let [down, right] = operand.strides;
    let start = operand.start + row * down + column * right;
    let view = View::strided(&operand.region, start, tile, operand.strides);
    let inside = [
        tile[0].min(extent[0] - row.min(extent[0])),
        tile[1].min(extent[1] - column.min(extent[1])),
    ];
    if inside == tile { view } else { view.masked(Mask::below(inside)) }
}
