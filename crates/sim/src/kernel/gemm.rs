//! A tiled matrix product that overlaps loads with computing.
//!
//! Output tiles are dealt in turn to those who share the product. For each, the k-steps load a pair of operand
//! tiles as one transfer and multiply-accumulate it in f32; the finished tile is stored while the next one is
//! computed. With two buffers the next pair is loaded meanwhile; with one, loading and computing alternate.

use super::{KernelError, Mask, Tile, Tl, View};
use crate::memory::Region;

/// A matrix in memory.
#[derive(Clone, Copy, Debug)]
pub struct Operand {
    /// Where.
    pub region: Region,
    /// The element of the region that is its corner.
    pub start: usize,
    /// How far apart rows, and columns, are, in elements.
    pub strides: [usize; 2],
}

impl Operand {
    /// A row-major matrix of `columns` columns, from the beginning of a region on.
    pub fn row_major(region: Region, columns: usize) -> Self {
        Self { region, start: 0, strides: [columns, 1] }
    }

    /// The same with its corner `start` elements further on.
    #[must_use]
    pub fn at(mut self, start: usize) -> Self {
        self.start += start;
        self
    }

    /// The same elements with rows and columns exchanged.
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
    /// 2 to load the next operands while computing, 1 not to.
    pub buffers: u32,
    /// Which of how many share the output tiles; `(0, 1)` does all of them.
    pub share: (usize, usize),
}

impl Gemm {
    /// Runs this program's share of the product.
    pub async fn run(&self, tl: &Tl) -> Result<(), KernelError> {
        self.run_into(tl, &[self.c]).await
    }

    /// The same, with every tile stored to each of `copies` instead of `c`.
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
                // The other buffer's load is issued before the product is waited for.
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

    /// The same product, for one of several that share it.
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
        // The engine rounds on its way out: no vector time.
        let value = sum.value().map(|value| value.cast(dtype));
        let shape = [tm, tn].into();
        let rounded = Tile::in_scratch(tl.program(), dtype, shape, value, "a rounded product")?;
        let place = |copy| block(copy, (row * tm, column * tn), [tm, tn], extent);
        Ok(copies.iter().map(|copy| tl.store(&place(copy), &rounded)).collect())
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

/// A tile of a matrix of `extent`, with what lies outside masked.
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
