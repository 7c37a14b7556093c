//! Operands of products as the inner loop wants them: `f32`, in a piece, where the nearest caches are.
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
use super::{Element, Value};
use bytemuck::cast_slice;
use std::sync::Arc;

/// Columns of a panel of `B`: two registers of eight.
pub(super) const WIDTH: usize = 16;

/// One row of a panel: a whole cache line, so that no load crosses two.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Line(pub(super) [f32; WIDTH]);

/// Where a block begins, and how long it is.
pub(super) type Span = (usize, usize);

/// A ready matrix: rows of unit stride, `pitch` elements apart.
pub(super) struct Matrix {
    value: Value,
    offset: usize,
    pitch: usize,
}

impl Matrix {
    /// `value` with that many columns, read where it lies if it is a tile of a ready matrix; or what
    /// must be ready first.
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

    /// `n` elements of row `row` from column `column`.
    pub(super) fn row(&self, row: usize, column: usize, n: usize) -> Slice<'_> {
        let start = self.offset + row * self.pitch + column;
        self.value.ready_elements().range(start, n)
    }

    fn key(&self, rows: Span, columns: Span) -> Key {
        let start = self.value.start + self.offset + rows.0 * self.pitch + columns.0;
        Key { start, pitch: self.pitch, shape: [rows.1, columns.1] }
    }

    fn part(&self, rows: Span, columns: Span) -> Part<'_> {
        let elements = self.value.ready_elements();
        let start = self.offset + rows.0 * self.pitch + columns.0;
        let bytes = &elements.bytes()[start * elements.dtype().size()..];
        Part { bytes, pitch: self.pitch, rows: rows.1, columns: columns.1 }
    }
}

/// A part of a matrix: its elements as bytes, from the first on.
#[derive(Clone, Copy)]
struct Part<'a> {
    bytes: &'a [u8],
    pitch: usize,
    rows: usize,
    columns: usize,
}

/// Rows that are asked for together.
const AHEAD: usize = 8;

impl<'a> Part<'a> {
    #[inline(always)]
    fn row<T: Element>(self, row: usize) -> &'a [T] {
        &cast_slice(self.bytes)[row * self.pitch..][..self.columns]
    }

    /// Reads one element of every cache line of some rows. Rows of a tile are short and far apart, which
    /// no prefetcher follows; loads that nothing waits for overlap, conversions do not.
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

/// Rows to `f32`, one after the other.
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

/// Rows to `f32`, in panels.
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

/// Copies of parts of the operands, kept by each thread.
#[derive(Default)]
pub(super) struct Packs {
    pub(super) a: Side<f32>,
    pub(super) b: Side<Line>,
}

impl Side<f32> {
    pub(super) fn rows(&mut self, a: &Matrix, rows: Span, depth: Span) -> &[f32] {
        self.get(&a.value.node, a.key(rows, depth), (rows.1 * depth.1, 0.0), |to| {
            lanes::run(a.value.dtype(), Rows { part: a.part(rows, depth), to });
        })
    }
}

impl Side<Line> {
    /// Panels of sixteen columns, the last padded with whatever was there: those products are
    /// never stored.
    pub(super) fn panels(&mut self, b: &Matrix, depth: Span, columns: Span) -> &[Line] {
        let len = columns.1.div_ceil(WIDTH) * depth.1;
        self.get(&b.value.node, b.key(depth, columns), (len, Line([0.0; WIDTH])), |to| {
            lanes::run(b.value.dtype(), Panels { part: b.part(depth, columns), to });
        })
    }
}
