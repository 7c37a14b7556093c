//! Index tensors: integers, addresses and masks whose numbers are known while the kernel runs.
//!
//! An index tensor takes no scratch memory and no time. It is affine (`base + sum(stride * position)`) as long as its operations
//! allow; a comparison with an affine tensor along one axis is a box; anything else is a list.
//!
//! - **IDX-1 (exact).** Every operation gives the numbers that its operation gives element by element, with the wrap-around of
//!   its type, in whatever form.
//! - **IDX-2 (affine stays).** Sums, products with one number, and quotients and remainders that do not wrap stay affine.

mod combine;
mod compare;
mod shape;

pub(crate) use combine::arith;
pub(crate) use compare::{alike, compare};
pub(crate) use shape::{broadcast, dense, expand, reshape, transpose};

use crate::number::wrap;
use std::rc::Rc;

/// The most axes of an affine tensor; one of more axes is a list.
pub(crate) const AXES: usize = 5;

/// The numbers of an index tensor.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Index {
    /// `base + sum(stride * position)`.
    Affine(i64, [i64; AXES]),
    /// 1 inside `low..high` along every axis, else 0.
    Box([i64; AXES], [i64; AXES]),
    /// All numbers, the last axis fastest.
    List(Rc<[i64]>),
}

impl Index {
    /// Returns a tensor of equal numbers.
    pub(crate) fn splat(number: i64) -> Self {
        Self::Affine(number, [0; AXES])
    }

    /// Returns `start, start + 1, ...`.
    pub(crate) fn range(start: i64) -> Self {
        let mut strides = [0; AXES];
        strides[0] = 1;
        Self::Affine(start, strides)
    }

    /// Returns the number that all elements are, if they are known to be equal.
    pub(crate) fn as_splat(&self) -> Option<i64> {
        match self {
            Self::Affine(..) => self.as_equal(),
            Self::Box(low, high) if low.iter().zip(high).any(|(low, high)| low >= high) => Some(0),
            _ => None,
        }
    }

    /// Returns the number of an affine tensor of equal numbers.
    #[inline]
    pub(crate) fn as_equal(&self) -> Option<i64> {
        let Self::Affine(base, strides) = self else { return None };
        let moves = strides.iter().fold(0, |all, stride| all | stride);
        (moves == 0).then_some(*base)
    }

    /// Returns the smallest and the largest number.
    pub(crate) fn bounds(&self, extent: &[usize]) -> (i64, i64) {
        match self {
            Self::Affine(base, strides) => bounds_of(*base, strides, extent),
            Self::Box(..) => (0, 1),
            Self::List(list) => list.iter().fold((i64::MAX, i64::MIN), |(low, high), number| {
                (low.min(*number), high.max(*number))
            }),
        }
    }

    /// Returns all numbers, the last axis fastest.
    pub(crate) fn list(&self, extent: &[usize]) -> Rc<[i64]> {
        match self {
            Self::List(list) => list.clone(),
            Self::Affine(base, strides) => {
                let mut numbers = vec![*base];
                // Beyond the last axis of an affine tensor all numbers are equal.
                for (axis, dim) in extent.iter().enumerate() {
                    let stride = strides.get(axis).unwrap_or(&0);
                    let steps = (0..as_int(*dim)).map(|at| at.wrapping_mul(*stride));
                    let steps: Vec<i64> = steps.collect();
                    numbers = numbers
                        .iter()
                        .flat_map(|number| steps.iter().map(|step| number.wrapping_add(*step)))
                        .collect();
                }
                numbers.into()
            }
            Self::Box(low, high) => {
                let mut inside = vec![1];
                for (axis, dim) in extent.iter().enumerate() {
                    let within = |at: i64| i64::from((low[axis]..high[axis]).contains(&at));
                    inside = inside
                        .iter()
                        .flat_map(|outer| (0..as_int(*dim)).map(move |at| outer * within(at)))
                        .collect();
                }
                inside.into()
            }
        }
    }

    /// Returns the affine form if its numbers are integers of `bits` bits, else a list of the wrapped numbers.
    fn fitted(self, extent: &[usize], bits: u8) -> Self {
        if bits >= 64 && extent.len() <= AXES {
            return self;
        }
        let (low, high) = self.bounds(extent);
        if wrap(low, bits) == low && wrap(high, bits) == high && extent.len() <= AXES {
            return self;
        }
        let list = self.list(extent);
        Self::List(list.iter().map(|number| wrap(*number, bits)).collect())
    }

    /// Converts to integers of `bits` bits; `from` bits without sign if `is_unsigned`.
    pub(crate) fn cast(&self, extent: &[usize], from: u8, bits: u8, is_unsigned: bool) -> Self {
        let (low, _) = self.bounds(extent);
        match self {
            Self::Box(..) if bits > 1 => {
                let sign = if is_unsigned { 1 } else { -1 };
                Self::List(self.list(extent).iter().map(|number| number * sign).collect())
            }
            _ if from == 1 && !is_unsigned => {
                Self::List(self.list(extent).iter().map(|number| -number).collect())
            }
            _ if is_unsigned && low < 0 => {
                let list = self.list(extent);
                let number =
                    |number: &i64| wrap(crate::number::unsigned(*number, from).cast_signed(), bits);
                Self::List(list.iter().map(number).collect())
            }
            _ => self.clone().fitted(extent, bits),
        }
    }

    /// Selects numbers of `left` where the condition is not 0, else of `right`.
    pub(crate) fn select(condition: &Self, left: &Self, right: &Self, extent: &[usize]) -> Self {
        match condition.as_splat() {
            Some(0) => return right.clone(),
            Some(_) => return left.clone(),
            None => {}
        }
        if condition.covers(extent) {
            return left.clone();
        }
        let (condition, left, right) =
            (condition.list(extent), left.list(extent), right.list(extent));
        let pick = |at: usize| if condition[at] != 0 { left[at] } else { right[at] };
        Self::List((0..condition.len()).map(pick).collect())
    }

    /// True if it is a box around all elements.
    pub(crate) fn covers(&self, extent: &[usize]) -> bool {
        let Self::Box(low, high) = self else { return false };
        extent.iter().enumerate().all(|(axis, dim)| low[axis] <= 0 && high[axis] >= as_int(*dim))
    }
}

/// Returns the smallest and the largest number of an affine tensor.
#[inline]
fn bounds_of(base: i64, strides: &[i64; AXES], extent: &[usize]) -> (i64, i64) {
    let (mut low, mut high) = (base, base);
    for (stride, dim) in strides.iter().zip(extent) {
        let reach = stride.saturating_mul(as_int(*dim) - 1);
        low = low.saturating_add(reach.min(0));
        high = high.saturating_add(reach.max(0));
    }
    (low, high)
}

/// Returns a length as an integer.
pub(crate) fn as_int(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
