//! Reductions in a fixed order: the accumulator starts at the operation's starting value and takes ascending indices of
//! the axis; floats accumulate in `f32` and round once.
#![expect(clippy::inline_always, reason = "vectorised only inside the AVX2 context")]

use super::block;
use super::buffer::{Buffer, Slice};
use super::dtype::Arithmetic;
use super::element::Element;
use super::lanes::{self, Job, Lanes};
use super::node::Reduction;
use super::number::Number;
use super::{Binary, DType, Reduce};
use crate::with_element;

/// Number of rows that are summed side by side, to overlap their dependent additions.
const ROWS: usize = 8;

/// Computes a reduction of a ready source.
pub(super) fn run(reduction: &Reduction) -> Buffer {
    let source = reduction.source.ready_elements();
    match source {
        Slice::F32(source) => Buffer::F32(floats(reduction, source)),
        other if other.dtype().kind() == Arithmetic::Narrow => {
            block::narrow(other.dtype(), &floats(reduction, &block::widen(other)))
        }
        other => with_element!(other.dtype(), T => T::buffer(plain::<T>(reduction, other.of()))),
    }
}

/// Reduces numbers that accumulate in a type of their own.
fn plain<T: Number>(reduction: &Reduction, source: &[T]) -> Vec<T> {
    let Reduction { how, outer, axis, inner, .. } = *reduction;
    let mut out = vec![<T::Sum as Number>::start(how); outer * inner];
    let op = how.binary();
    for (o, out) in out.chunks_exact_mut(inner.max(1)).enumerate() {
        for a in 0..axis {
            let row = &source[(o * axis + a) * inner..][..inner];
            for (out, x) in out.iter_mut().zip(row) {
                *out = <T::Sum as Number>::binary(op, *out, x.to_sum());
            }
        }
    }
    out.into_iter().map(T::from_sum).collect()
}

fn floats(reduction: &Reduction, source: &[f32]) -> Vec<f32> {
    let Reduction { how, outer, axis, inner, .. } = *reduction;
    let mut out = vec![how.start(); outer * inner];
    lanes::run(DType::F32, Floats { how, out: &mut out, source, axis, inner });
    out
}

struct Floats<'a> {
    how: Reduce,
    out: &'a mut [f32],
    source: &'a [f32],
    axis: usize,
    inner: usize,
}

impl Job for Floats<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self, _: L) {
        match self.how {
            Reduce::Sum => self.reduce(|a, b| a + b),
            Reduce::Prod => self.reduce(|a, b| a * b),
            Reduce::Max => self.reduce(|a, b| Binary::Max.apply(a, b)),
            Reduce::Min => self.reduce(|a, b| Binary::Min.apply(a, b)),
            Reduce::MaxNum => self.reduce(|a, b| Binary::MaxNum.apply(a, b)),
            Reduce::MinNum => self.reduce(|a, b| Binary::MinNum.apply(a, b)),
            Reduce::And | Reduce::Or | Reduce::Xor => unreachable!("VAL-6: bits of a float"),
        }
    }
}

impl Floats<'_> {
    #[inline(always)]
    fn reduce(self, f: impl Fn(f32, f32) -> f32) {
        if self.inner == 1 { self.rows(f) } else { self.columns(f) }
    }

    /// Reduces whole rows at a time.
    #[inline(always)]
    fn columns(self, f: impl Fn(f32, f32) -> f32) {
        for (o, out) in self.out.chunks_exact_mut(self.inner.max(1)).enumerate() {
            for a in 0..self.axis {
                let row = &self.source[(o * self.axis + a) * self.inner..][..self.inner];
                for (out, x) in out.iter_mut().zip(row) {
                    *out = f(*out, *x);
                }
            }
        }
    }

    /// Reduces each row to one element, several rows side by side.
    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "one index for several rows")]
    fn rows(self, f: impl Fn(f32, f32) -> f32) {
        let axis = self.axis;
        let (groups, rest) = self.out.as_chunks_mut::<ROWS>();
        let done = groups.len() * ROWS;
        for (g, out) in groups.iter_mut().enumerate() {
            let row = |r| &self.source[(g * ROWS + r) * axis..][..axis];
            let rows: [&[f32]; ROWS] = std::array::from_fn(row);
            for a in 0..axis {
                for r in 0..ROWS {
                    out[r] = f(out[r], rows[r][a]);
                }
            }
        }
        for (r, out) in rest.iter_mut().enumerate() {
            let row = &self.source[(done + r) * axis..][..axis];
            for x in row {
                *out = f(*out, *x);
            }
        }
    }
}
