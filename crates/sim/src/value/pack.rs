//! Packed operands of matrix products: `f32`, contiguous, sized for the nearest caches.
//!
//! ```text
//!   A: row after row, `depth` long        B: panels of 16 columns, each `depth` rows of one cache line
//! ```
#![expect(clippy::inline_always, reason = "vectorised only inside the AVX2 context")]

use super::buffer::Slice;
use super::evaluate::blocked;
use super::lanes::{self, Job, Lanes};
use super::node::{Node, Op};
use super::packed::{Key, Side};
use super::program::is_private;
use super::{DType, Element, Value, block};
use bytemuck::cast_slice;
use std::sync::Arc;

/// Columns of a panel of `B`: two registers of eight.
pub(super) const WIDTH: usize = 16;

/// One row of a panel: a whole cache line, so that no load crosses two.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Line(pub(super) [f32; WIDTH]);

/// A range of rows, columns or steps of `k`.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) len: usize,
}

/// A ready matrix: rows of unit stride, `pitch` elements apart.
pub(super) struct Matrix {
    value: Value,
    offset: usize,
    pitch: usize,
}

impl Matrix {
    /// Returns `value` as a matrix of `columns` columns, without a copy if it is a tile of a ready matrix. The error is
    /// the nodes that must be ready first.
    pub(super) fn plan(value: Value, columns: usize) -> Result<Self, Vec<Arc<Node>>> {
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

    /// Returns `n` elements of row `row` from column `column`.
    pub(super) fn row(&self, row: usize, column: usize, n: usize) -> Slice<'_> {
        let start = self.offset + row * self.pitch + column;
        self.value.ready_elements().range(start, n)
    }

    pub(super) fn dtype(&self) -> DType {
        self.value.dtype()
    }

    /// Calls `see` with each row of a part, as `f32`.
    fn widen(&self, rows: Span, columns: Span, mut see: impl FnMut(usize, &[f32])) {
        let mut wide = vec![0.0; columns.len];
        for r in 0..rows.len {
            block::widen_into(self.row(rows.start + r, columns.start, columns.len), &mut wide);
            see(r, &wide);
        }
    }

    fn key(&self, rows: Span, columns: Span) -> Key {
        let start = self.value.start + self.offset + rows.start * self.pitch + columns.start;
        Key { start, pitch: self.pitch, shape: [rows.len, columns.len] }
    }

    fn part(&self, rows: Span, columns: Span) -> Part<'_> {
        let elements = self.value.ready_elements();
        let start = self.offset + rows.start * self.pitch + columns.start;
        let bytes = &elements.bytes()[start * elements.dtype().size()..];
        Part { bytes, pitch: self.pitch, rows: rows.len, columns: columns.len }
    }
}

/// A part of a matrix, with the bytes from its first element on.
#[derive(Clone, Copy)]
struct Part<'a> {
    bytes: &'a [u8],
    pitch: usize,
    rows: usize,
    columns: usize,
}

/// Number of rows that are loaded into the cache together.
const AHEAD: usize = 8;

impl<'a> Part<'a> {
    #[inline(always)]
    fn row<T: Element>(self, row: usize) -> &'a [T] {
        &cast_slice(self.bytes)[row * self.pitch..][..self.columns]
    }

    /// Reads one element of every cache line of some rows. Rows of a tile are short and far apart, which no prefetcher
    /// follows; independent loads overlap, conversions do not.
    #[inline(always)]
    fn warm(self, from: usize, size: usize) {
        let mut seen = 0;
        for row in from..self.rows.min(from + AHEAD) {
            let start = row * self.pitch * size;
            for byte in self.bytes[start..start + self.columns * size].iter().step_by(64) {
                seen ^= byte;
            }
        }
        std::hint::black_box(seen);
    }
}

/// The conversion of rows to `f32`, one after the other.
struct Rows<'a> {
    part: Part<'a>,
    to: &'a mut [f32],
}

impl Job for Rows<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let columns = self.part.columns;
        for (r, to) in self.to.chunks_exact_mut(columns).take(self.part.rows).enumerate() {
            if r % AHEAD == 0 {
                self.part.warm(r, L::Element::DTYPE.size());
            }
            lanes.widen(to, self.part.row::<L::Element>(r));
        }
    }
}

/// The conversion of rows to `f32`, in panels.
struct Panels<'a> {
    part: Part<'a>,
    to: &'a mut [Line],
}

impl Job for Panels<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let depth = self.part.rows;
        for p in 0..depth {
            if p % AHEAD == 0 {
                self.part.warm(p, L::Element::DTYPE.size());
            }
            let (whole, rest) = self.part.row::<L::Element>(p).as_chunks::<WIDTH>();
            for (j, from) in whole.iter().enumerate() {
                lanes.widen(&mut self.to[j * depth + p].0, from);
            }
            if !rest.is_empty() {
                lanes.widen(&mut self.to[whole.len() * depth + p].0[..rest.len()], rest);
            }
        }
    }
}

/// The packed parts of operands that a thread keeps.
#[derive(Default)]
pub(super) struct Packs {
    pub(super) a: Side<f32>,
    pub(super) b: Side<Line>,
}

impl Side<f32> {
    pub(super) fn rows(&mut self, a: &Matrix, rows: Span, depth: Span) -> &[f32] {
        self.get(&a.value.node, a.key(rows, depth), rows.len * depth.len, 0.0, |to| {
            if a.dtype().is_fp8() {
                return a.widen(rows, depth, |r, row| {
                    to[r * depth.len..][..depth.len].copy_from_slice(row);
                });
            }
            lanes::run(a.dtype(), Rows { part: a.part(rows, depth), to });
        })
    }
}

impl Side<Line> {
    /// Returns panels of sixteen columns. The padding of the last panel is arbitrary: those products are never stored.
    pub(super) fn panels(&mut self, b: &Matrix, depth: Span, columns: Span) -> &[Line] {
        let len = columns.len.div_ceil(WIDTH) * depth.len;
        self.get(&b.value.node, b.key(depth, columns), len, Line([0.0; WIDTH]), |to| {
            if b.dtype().is_fp8() {
                return b.widen(depth, columns, |p, row| {
                    for (j, part) in row.chunks(WIDTH).enumerate() {
                        to[j * depth.len + p].0[..part.len()].copy_from_slice(part);
                    }
                });
            }
            lanes::run(b.dtype(), Panels { part: b.part(depth, columns), to });
        })
    }
}
