//! Products of matrices: whether their operands fit, and what they give.

use super::math::{TYPES, misfit};
use super::{KernelError, Shape, Tile};
use crate::value::Value;

/// Products of matrices: as many as the first axis of tiles with three axes is long.
pub(super) struct Product {
    pub(super) count: u64,
    /// `m`, `n` and `k` of each.
    pub(super) dims: [usize; 3],
    /// The tiles have three axes.
    is_batch: bool,
}

impl Product {
    pub(super) fn of(
        left: &Tile,
        right: &Tile,
        accumulator: Option<&Tile>,
    ) -> Result<Self, KernelError> {
        let mismatch = |right: &str, why: &str| misfit("dot", left.describe(), right, why);
        let (shapes, is_batch) = ([left.shape(), right.shape()], left.shape().dims().len() == 3);
        let (count, [m, k], [other, n]) = match [&*shapes[0].dims(), &*shapes[1].dims()] {
            [&[m, k], &[k2, n]] => (1, [m, k], [k2, n]),
            [&[count, m, k], &[count2, k2, n]] if count == count2 => (count, [m, k], [k2, n]),
            _ => {
                let why = "a product takes two matrices, or two equal numbers of matrices";
                return Err(mismatch(&right.describe(), why));
            }
        };
        if left.dtype() != right.dtype() {
            return Err(mismatch(&right.describe(), TYPES));
        }
        if k != other {
            let (last, first) = if is_batch { (2, 1) } else { (1, 0) };
            let why = format!(
                "dimension {last} of the left is {k}, dimension {first} of the right is {other}"
            );
            return Err(mismatch(&right.describe(), &why));
        }
        let product = Self { count: count as u64, dims: [m, n, k], is_batch };
        let wanted = left.dtype().product();
        match accumulator {
            Some(tile) if tile.shape() != product.shape() || tile.dtype() != wanted => {
                let why = format!("the product is {wanted}{}", product.shape());
                Err(mismatch(&format!("accumulator {}", tile.describe()), &why))
            }
            _ => Ok(product),
        }
    }

    /// Returns the shape of the result.
    pub(super) fn shape(&self) -> Shape {
        let [m, n, _] = self.dims;
        if self.is_batch { [self.batch(), m, n].into() } else { [m, n].into() }
    }

    fn batch(&self) -> usize {
        usize::try_from(self.count).unwrap_or(usize::MAX)
    }

    /// Records the products of `left` and `right`, added to `acc`.
    pub(super) fn value(&self, left: &Value, right: &Value, acc: Option<&Value>) -> Value {
        let [m, n, k] = self.dims;
        if !self.is_batch {
            return Value::dot(left, right, self.dims, acc);
        }
        if self.count == 0 {
            return Value::zeros(left.dtype().product(), 0);
        }
        let part = |value: &Value, at: usize, len: usize| value.slice(at * len, len);
        let products = (0..self.batch()).map(|at| {
            let acc = acc.map(|acc| part(acc, at, m * n));
            Value::dot(&part(left, at, m * k), &part(right, at, k * n), self.dims, acc.as_ref())
        });
        Value::concat(&products.collect::<Vec<_>>())
    }
}
