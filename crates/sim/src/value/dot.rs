//! Matrix products with a fixed order of additions.
//!
//! ```text
//!   for each 256 of k, ascending:        C is updated in place
//!     for each 512 columns:              B as panels of 16 columns, converted to f32
//!       for each 128 rows:                A row by row, converted to f32
//!         6 x 16 elements of C in registers, k ascending
//! ```
//!
//! - **DOT-1 (order).** Each element starts at the accumulator and adds the products by ascending `k`, each step one fused
//!   multiply-add in `f32` (`f64` for `f64`): blocking changes the time of a computation, never its result.
//! - **DOT-2 (in place).** A chain of products, each the accumulator of the next, is computed in one buffer.
//! - **DOT-3 (no copy).** Operands that are tiles of a ready matrix are read without a copy.
//! - **DOT-4 (packed once).** Converted operands are kept for products that use them again soon. Each thread keeps at most
//!   a few MiB, and drops the parts of dropped values when it keeps more.
#![expect(clippy::inline_always, reason = "vectorised only inside the SIMD context")]

use super::block;
use super::buffer::{Buffer, Scalar};
use super::convert::convert;
use super::node::{Dot, Node, Op};
use super::number::Number;
use super::pack::{Line, Matrix, Packs, Span, WIDTH};
use super::program::{self, Program, is_private};
use super::{Bool, DType, Value};
use fearless_simd::{Level, Simd, dispatch, f32x8, prelude::*};
use std::cell::RefCell;
use std::sync::Arc;

/// Rows of `C` held in registers: 6 x 2 accumulators leave room for the operands.
const HEIGHT: usize = 6;
/// Steps of `k` in one iteration, to reduce the share of loop counting.
const STEPS: usize = 4;
/// Block of `k`: a panel of `B` (16 KiB) stays in the first-level cache.
const DEPTH: usize = 256;
/// Block of columns: `B` (512 KiB) stays in the second- or third-level cache.
const COLUMNS: usize = 512;
/// Block of rows: `A` (up to 128 KiB) stays in the second-level cache.
const ROWS: usize = 128;

/// Products of which each is the accumulator of the next, first to last.
pub(super) struct Chain {
    start: Option<Program>,
    links: Vec<Link>,
    dtype: DType,
    elements: usize,
}

struct Link {
    a: Matrix,
    b: Matrix,
    mnk: [usize; 3],
}

impl Chain {
    /// Returns the chain that ends in `dot`. The error is the nodes that must be ready first.
    pub(super) fn plan(dot: Dot) -> Result<Self, Vec<Arc<Node>>> {
        let (mut links, mut blockers) = (Vec::new(), Vec::new());
        let [m, n, _] = dot.mnk;
        let dtype = dot.a.dtype().product();
        let mut next = Some(dot);
        let mut start = None;
        while let Some(Dot { a, b, mnk, acc }) = next.take() {
            match (Matrix::plan(a, mnk[2]), Matrix::plan(b, mnk[1])) {
                (Ok(a), Ok(b)) => links.push(Link { a, b, mnk }),
                (a, b) => blockers.extend(a.err().into_iter().chain(b.err()).flatten()),
            }
            match acc.map(predecessor) {
                Some(Ok(dot)) => next = Some(dot),
                Some(Err(acc)) => start = Some(program::compile_value(acc)),
                None => {}
            }
        }
        links.reverse();
        let start = start.transpose().map_err(|more| blockers.extend(more));
        match (start, blockers.is_empty()) {
            (Ok(start), true) => Ok(Self { start, links, dtype, elements: m * n }),
            _ => Err(blockers),
        }
    }

    /// Returns the number of products.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.links.len()
    }

    /// Computes the last sum.
    pub(super) fn run(&self) -> Buffer {
        let (dtype, len) = (self.dtype, self.elements);
        let mut sum = match &self.start {
            Some(program) => block::run(program, dtype, len),
            None => Buffer::filled(Scalar::new(dtype, 0.0), len),
        };
        match &mut sum {
            Buffer::F32(sum) => self.links.iter().for_each(|link| link.floats(Level::new(), sum)),
            Buffer::I32(sum) => self.links.iter().for_each(|link| link.whole(sum)),
            Buffer::I64(sum) => self.links.iter().for_each(|link| link.whole(sum)),
            Buffer::F64(sum) => self.links.iter().for_each(|link| link.plain::<f64, f64>(sum)),
            other => unreachable!("VAL-6: products of {}", other.dtype()),
        }
        sum
    }
}

/// Returns the product that `acc` is, if no other value uses it; otherwise the error is `acc`.
fn predecessor(acc: Value) -> Result<Dot, Value> {
    let op = if is_private(&acc) { acc.node.op() } else { None };
    match op {
        Some(Op::Dot(dot)) => Ok(*dot),
        _ => Err(acc),
    }
}

/// One block of a product.
#[derive(Clone, Copy)]
struct Part {
    rows: Span,
    columns: Span,
    depth: Span,
}

/// The packed operands of one block: rows of `A` and panels of `B`.
struct PackedOperands<'a> {
    a: &'a [f32],
    b: &'a [Line],
}

/// The whole of `C`, and the distance of its rows.
struct Output<'a> {
    c: &'a mut [f32],
    pitch: usize,
}

thread_local! {
    static PACKS: RefCell<Packs> = RefCell::default();
}

impl Link {
    fn floats(&self, level: Level, c: &mut [f32]) {
        let [m, n, k] = self.mnk;
        PACKS.with_borrow_mut(|Packs { a, b }| {
            for p in (0..k).step_by(DEPTH) {
                let depth = Span { start: p, len: DEPTH.min(k - p) };
                for j in (0..n).step_by(COLUMNS) {
                    let columns = Span { start: j, len: COLUMNS.min(n - j) };
                    let panels = b.panels(&self.b, depth, columns);
                    for i in (0..m).step_by(ROWS) {
                        let rows = Span { start: i, len: ROWS.min(m - i) };
                        let left = a.rows(&self.a, rows, depth);
                        let part = Part { rows, columns, depth };
                        let operands = PackedOperands { a: left, b: panels };
                        let out = Output { c: &mut *c, pitch: n };
                        dispatch!(level, simd => part.multiply(simd, operands, out));
                    }
                }
            }
        });
    }

    /// Adds products of whole numbers of any type.
    fn whole<S: Number>(&self, c: &mut [S]) {
        match self.a.dtype() {
            DType::I8 => self.plain::<i8, S>(c),
            DType::I16 => self.plain::<i16, S>(c),
            DType::I32 => self.plain::<i32, S>(c),
            DType::I64 => self.plain::<i64, S>(c),
            DType::U8 => self.plain::<u8, S>(c),
            DType::U16 => self.plain::<u16, S>(c),
            DType::U32 => self.plain::<u32, S>(c),
            DType::U64 => self.plain::<u64, S>(c),
            DType::Bool => self.plain::<Bool, S>(c),
            other => unreachable!("VAL-6: whole products of {other}"),
        }
    }

    fn plain<T: Number, S: Number>(&self, c: &mut [S]) {
        let [_, n, k] = self.mnk;
        for (i, sums) in c.chunks_exact_mut(n.max(1)).enumerate() {
            let left: &[T] = self.a.row(i, 0, k).of();
            for (p, left) in left.iter().enumerate() {
                let (left, right) = (convert::<T, S>(*left), self.b.row(p, 0, n).of::<T>());
                for (sum, right) in sums.iter_mut().zip(right) {
                    *sum = S::fma(left, convert::<T, S>(*right), *sum);
                }
            }
        }
    }
}

impl Part {
    #[inline(always)]
    fn multiply<S: Simd>(self, simd: S, operands: PackedOperands<'_>, out: Output<'_>) {
        let (PackedOperands { a, b }, Output { c, pitch }) = (operands, out);
        let k = self.depth.len;
        for (panel, b) in b.chunks_exact(k).enumerate() {
            let width = WIDTH.min(self.columns.len - panel * WIDTH);
            let mut row = 0;
            while row < self.rows.len {
                let height = tile_height(self.rows.len - row);
                let at = (self.rows.start + row) * pitch + self.columns.start + panel * WIDTH;
                let tile = Tile { c: &mut c[at..], pitch, width };
                tile.update(simd, height, &a[row * k..], b);
                row += height;
            }
        }
    }
}

/// Returns a tile height that leaves no small remainder: 8 rows are 4 + 4, not 6 + 2.
fn tile_height(rows: usize) -> usize {
    match rows {
        8 => 4,
        rows => rows.min(HEIGHT),
    }
}

/// A tile of `C`: some rows of up to sixteen columns.
struct Tile<'a> {
    c: &'a mut [f32],
    pitch: usize,
    width: usize,
}

impl Tile<'_> {
    #[inline(always)]
    fn update<S: Simd>(self, simd: S, height: usize, a: &[f32], b: &[Line]) {
        match height {
            6 => self.rows::<S, 6>(simd, a, b),
            5 => self.rows::<S, 5>(simd, a, b),
            4 => self.rows::<S, 4>(simd, a, b),
            3 => self.rows::<S, 3>(simd, a, b),
            2 => self.rows::<S, 2>(simd, a, b),
            _ => self.rows::<S, 1>(simd, a, b),
        }
    }

    #[inline(always)]
    fn rows<S: Simd, const R: usize>(mut self, simd: S, a: &[f32], b: &[Line]) {
        let k = b.len();
        let mut rows = [a; R];
        for (r, row) in rows.iter_mut().enumerate() {
            *row = &a[r * k..][..k];
        }
        let a = rows;
        let mut sums = [[f32x8::splat(simd, 0.0); 2]; R];
        for (r, sum) in sums.iter_mut().enumerate() {
            *sum = halves(simd, &self.load(r));
        }
        let whole = k / STEPS * STEPS;
        for (p, b) in b.as_chunks::<STEPS>().0.iter().enumerate() {
            // Loops, not `map`: a call that is not inlined would leave the SIMD context.
            let mut left = [&[0.0; STEPS]; R];
            for r in 0..R {
                left[r] = a[r][p * STEPS..].first_chunk().expect("DOT-1: in step");
            }
            for q in 0..STEPS {
                let mut column = [0.0; R];
                for r in 0..R {
                    column[r] = left[r][q];
                }
                step(simd, &mut sums, column, &b[q]);
            }
        }
        for p in whole..k {
            let mut column = [0.0; R];
            for r in 0..R {
                column[r] = a[r][p];
            }
            step(simd, &mut sums, column, &b[p]);
        }
        for (r, sum) in sums.iter().enumerate() {
            let mut row = [0.0; WIDTH];
            sum[0].store_slice(&mut row[..8]);
            sum[1].store_slice(&mut row[8..]);
            self.store(r, &row);
        }
    }

    /// Returns row `r`, padded with zeros. The common width is a constant, so that the copy is inlined.
    #[inline(always)]
    fn load(&self, r: usize) -> [f32; WIDTH] {
        let from = &self.c[r * self.pitch..];
        if self.width == WIDTH {
            return *from.first_chunk().expect("DOT-1: a full row");
        }
        let mut row = [0.0; WIDTH];
        row[..self.width].copy_from_slice(&from[..self.width]);
        row
    }

    #[inline(always)]
    fn store(&mut self, r: usize, row: &[f32; WIDTH]) {
        let to = &mut self.c[r * self.pitch..];
        if self.width == WIDTH {
            *to.first_chunk_mut().expect("DOT-1: a full row") = *row;
        } else {
            to[..self.width].copy_from_slice(&row[..self.width]);
        }
    }
}

/// Computes one step of `k`.
#[inline(always)]
fn step<S: Simd, const R: usize>(simd: S, sums: &mut [[f32x8<S>; 2]; R], a: [f32; R], b: &Line) {
    let b = halves(simd, &b.0);
    for r in 0..R {
        let a = f32x8::splat(simd, a[r]);
        sums[r][0] = a.mul_add_precise(b[0], sums[r][0]);
        sums[r][1] = a.mul_add_precise(b[1], sums[r][1]);
    }
}

#[inline(always)]
fn halves<S: Simd>(simd: S, row: &[f32; WIDTH]) -> [f32x8<S>; 2] {
    [f32x8::from_slice(simd, &row[..8]), f32x8::from_slice(simd, &row[8..])]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_1_the_width_of_the_machine_does_not_show() {
        let [m, n, k] = [13, 37, 300];
        let element =
            |i: usize| f32::from(u16::try_from(i * 131 % 977).expect("small")) / 31.0 - 9.7;
        let matrix = |rows: usize, columns: usize| {
            let elements: Vec<f32> = (0..rows * columns).map(element).collect();
            Matrix::plan(Value::from_f32(DType::F16, &elements), columns).ok().expect("ready")
        };
        let link = Link { a: matrix(m, k), b: matrix(k, n), mnk: [m, n, k] };
        let sums = [Level::new(), Level::baseline()].map(|level| {
            let mut sum = vec![0.1; m * n];
            link.floats(level, &mut sum);
            sum.into_iter().map(f32::to_bits).collect::<Vec<_>>()
        });
        assert_eq!(sums[0], sums[1], "DOT-1");
    }
}
