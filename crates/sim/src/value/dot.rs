//! Matrix products with a fixed order of additions.
//!
//! ```text
//!   for each 256 of k, ascending:        C stays where it is
//!     for each 512 columns:              B as panels of 16 columns, converted to f32
//!       for each 128 rows:                A row by row, converted to f32
//!         6 x 16 elements of C in registers, k ascending
//! ```
//!
//! - **DOT-1 (order).** Each element starts at the accumulator and takes `k` ascending, each step one
//!   fused multiply-add in `f32`: blocking decides when an element is computed, never how.
//! - **DOT-2 (in place).** A chain of products, each the accumulator of the next, is computed in one
//!   buffer.
//! - **DOT-3 (no copy).** Operands that are tiles of a ready matrix are read where they lie.
#![expect(clippy::inline_always, reason = "vectorised only inside the SIMD context")]

use super::block;
use super::buffer::{Buffer, Scalar, Slice};
use super::evaluate::blocked;
use super::node::{Dot, Node, Op};
use super::program::{self, Program, is_private};
use super::{DType, Value};
use fearless_simd::{Level, Simd, dispatch, f32x8, prelude::*};
use std::cell::RefCell;
use std::sync::Arc;

/// Columns of a panel of `B`: two registers of eight.
const WIDTH: usize = 16;
/// Rows of `C` held in registers: 6 x 2 accumulators leave room for the operands.
const HEIGHT: usize = 6;
/// Block of `k`: a panel of `B` (16 KiB) stays in the first-level cache.
const DEPTH: usize = 256;
/// Block of columns: `B` (512 KiB) stays in the second- or third-level cache.
const COLUMNS: usize = 512;
/// Block of rows: `A` (up to 128 KiB) stays in the second-level cache.
const ROWS: usize = 128;

/// Products whose accumulators follow on each other, first to last.
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

/// A ready matrix: rows of unit stride, `pitch` elements apart.
struct Matrix {
    value: Value,
    offset: usize,
    pitch: usize,
}

impl Chain {
    /// The chain that ends in `dot`, or what must be ready first.
    pub(super) fn plan(dot: Dot) -> Result<Self, Vec<Arc<Node>>> {
        let (mut links, mut blockers) = (Vec::new(), Vec::new());
        let [m, n, _] = dot.mnk;
        let dtype = if dot.a.dtype().is_float() { DType::F32 } else { DType::I32 };
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

    /// The number of products.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.links.len()
    }

    /// The last sum.
    pub(super) fn run(&self) -> Buffer {
        let (dtype, len) = (self.dtype, self.elements);
        let mut sum = match &self.start {
            Some(program) => block::run(program, dtype, len),
            None => Buffer::filled(Scalar::new(dtype, 0.0), len),
        };
        match &mut sum {
            Buffer::F32(sum) => self.links.iter().for_each(|link| link.floats(Level::new(), sum)),
            Buffer::I32(sum) => self.links.iter().for_each(|link| link.integers(sum)),
            other => unreachable!("VAL-6: products of {}", other.dtype()),
        }
        sum
    }
}

/// The product that `acc` is, if nobody else will look at it; else `acc`.
fn predecessor(acc: Value) -> Result<Dot, Value> {
    let op = if is_private(&acc) { acc.node.op() } else { None };
    match op {
        Some(Op::Dot(dot)) => Ok(*dot),
        _ => Err(acc),
    }
}

impl Matrix {
    fn plan(value: Value, columns: usize) -> Result<Self, Vec<Arc<Node>>> {
        if value.is_ready() {
            return Ok(Self { value, offset: 0, pitch: columns });
        }
        let op = if is_private(&value) { value.node.op() } else { None };
        match op {
            Some(Op::Strided(view)) => match (&view.shape[..], &view.strides[..]) {
                (&[_, n], &[pitch, 1]) if n == columns => {
                    blocked([&view.source])?;
                    Ok(Self { value: view.source, offset: view.offset, pitch })
                }
                _ => Err(vec![value.into_node()]),
            },
            _ if value.is_ready() => Ok(Self { value, offset: 0, pitch: columns }),
            _ => Err(vec![value.into_node()]),
        }
    }

    /// `n` elements of row `row` from column `column`.
    fn row(&self, row: usize, column: usize, n: usize) -> Slice<'_> {
        let start = self.offset + row * self.pitch + column;
        self.value.ready_elements().range(start, n)
    }
}

impl Matrix {
    /// Reads one byte of every cache line of a part. Rows of a tile are short and far apart, which no
    /// prefetcher follows; loads that nothing waits for overlap, conversions do not.
    fn warm(&self, rows: (usize, usize), columns: (usize, usize)) {
        let bytes = self.value.ready_elements().bytes();
        let size = self.value.dtype().size();
        let mut seen = 0;
        for row in rows.0..rows.0 + rows.1 {
            let start = (self.offset + row * self.pitch + columns.0) * size;
            for byte in bytes[start..start + columns.1 * size].iter().step_by(64) {
                seen ^= byte;
            }
        }
        std::hint::black_box(seen);
    }
}

/// Copies of parts of the operands, kept by each thread.
#[derive(Default)]
struct Scratch {
    a: Vec<f32>,
    b: Vec<[f32; WIDTH]>,
    row: Vec<f32>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// One block of a product.
#[derive(Clone, Copy)]
struct Part {
    rows: (usize, usize),
    columns: (usize, usize),
    depth: (usize, usize),
}

impl Link {
    fn floats(&self, level: Level, c: &mut [f32]) {
        let [m, n, k] = self.mnk;
        SCRATCH.with_borrow_mut(|scratch| {
            for p in (0..k).step_by(DEPTH) {
                let depth = (p, DEPTH.min(k - p));
                for j in (0..n).step_by(COLUMNS) {
                    let columns = (j, COLUMNS.min(n - j));
                    scratch.pack_b(&self.b, depth, columns);
                    for i in (0..m).step_by(ROWS) {
                        let rows = (i, ROWS.min(m - i));
                        scratch.pack_a(&self.a, rows, depth);
                        let part = Part { rows, columns, depth };
                        dispatch!(level, simd => scratch.multiply(simd, part, c, n));
                    }
                }
            }
        });
    }

    fn integers(&self, c: &mut [i32]) {
        let [_, n, k] = self.mnk;
        for (i, sums) in c.chunks_exact_mut(n.max(1)).enumerate() {
            let left: &[i32] = self.a.row(i, 0, k).of();
            for (p, left) in left.iter().enumerate() {
                let right: &[i32] = self.b.row(p, 0, n).of();
                for (sum, right) in sums.iter_mut().zip(right) {
                    *sum = sum.wrapping_add(left.wrapping_mul(*right));
                }
            }
        }
    }
}

impl Scratch {
    fn pack_a(&mut self, a: &Matrix, rows: (usize, usize), depth: (usize, usize)) {
        self.a.resize(self.a.len().max(rows.1 * depth.1), 0.0);
        for (r, to) in self.a.chunks_exact_mut(depth.1).take(rows.1).enumerate() {
            if r % 8 == 0 {
                a.warm((rows.0 + r, 8.min(rows.1 - r)), depth);
            }
            block::widen_into(a.row(rows.0 + r, depth.0, depth.1), to);
        }
    }

    /// Panels of sixteen columns, the last padded with whatever was there: those products are
    /// never stored.
    fn pack_b(&mut self, b: &Matrix, depth: (usize, usize), columns: (usize, usize)) {
        let panels = columns.1.div_ceil(WIDTH);
        self.b.resize(self.b.len().max(panels * depth.1), [0.0; WIDTH]);
        self.row.resize(panels * WIDTH, 0.0);
        for p in 0..depth.1 {
            if p % 8 == 0 {
                b.warm((depth.0 + p, 8.min(depth.1 - p)), columns);
            }
            block::widen_into(b.row(depth.0 + p, columns.0, columns.1), &mut self.row[..columns.1]);
            let (row, _) = self.row.as_chunks::<WIDTH>();
            for (panel, from) in self.b.chunks_exact_mut(depth.1).zip(row) {
                panel[p] = *from;
            }
        }
    }

    #[inline(always)]
    fn multiply<S: Simd>(&self, simd: S, part: Part, c: &mut [f32], pitch: usize) {
        let k = part.depth.1;
        for (j, b) in self.b.chunks_exact(k).take(part.columns.1.div_ceil(WIDTH)).enumerate() {
            let width = WIDTH.min(part.columns.1 - j * WIDTH);
            let mut i = 0;
            while i < part.rows.1 {
                let height = tile_height(part.rows.1 - i);
                let at = (part.rows.0 + i) * pitch + part.columns.0 + j * WIDTH;
                let tile = Tile { c: &mut c[at..], pitch, width };
                tile.update(simd, height, &self.a[i * k..], b);
                i += height;
            }
        }
    }
}

/// Heights that leave no thin rest: 8 rows are 4 + 4, not 6 + 2.
fn tile_height(rows: usize) -> usize {
    match rows {
        8 => 4,
        rows => rows.min(HEIGHT),
    }
}

/// Some rows of up to sixteen columns of `C`.
struct Tile<'a> {
    c: &'a mut [f32],
    pitch: usize,
    width: usize,
}

impl Tile<'_> {
    #[inline(always)]
    fn update<S: Simd>(self, simd: S, height: usize, a: &[f32], b: &[[f32; WIDTH]]) {
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
    fn rows<S: Simd, const R: usize>(mut self, simd: S, a: &[f32], b: &[[f32; WIDTH]]) {
        let k = b.len();
        let a: [&[f32]; R] = std::array::from_fn(|r| &a[r * k..][..k]);
        let mut sums = [[f32x8::splat(simd, 0.0); 2]; R];
        for (r, sum) in sums.iter_mut().enumerate() {
            *sum = halves(simd, &self.load(r));
        }
        for (p, b) in b.iter().enumerate() {
            let b = halves(simd, b);
            for r in 0..R {
                let a = f32x8::splat(simd, a[r][p]);
                sums[r][0] = a.mul_add_precise(b[0], sums[r][0]);
                sums[r][1] = a.mul_add_precise(b[1], sums[r][1]);
            }
        }
        for (r, sum) in sums.iter().enumerate() {
            let mut row = [0.0; WIDTH];
            sum[0].store_slice(&mut row[..8]);
            sum[1].store_slice(&mut row[8..]);
            self.store(r, &row);
        }
    }

    /// Row `r`, padded with zeros. The common width is a constant, so that it is no call.
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
