//! Comparisons of index tensors.

use super::{AXES, Index, as_int, bounds_of};
use crate::number::{Comparison, Relation};

/// Compares integers of `bits` bits: 1 if the comparison holds, else 0.
pub(crate) fn compare(
    comparison: Comparison,
    left: &Index,
    right: &Index,
    extent: &[usize],
    bits: u8,
) -> Index {
    if let (Some(a), Some(b)) = (left.as_splat(), right.as_splat()) {
        return Index::splat(comparison.of_whole(a, b, bits).into());
    }
    if let Some(result) = by_bounds(comparison, left, right, extent) {
        return result;
    }
    let (left, right) = (left.list(extent), right.list(extent));
    let pairs = left.iter().zip(right.iter());
    Index::List(pairs.map(|(a, b)| comparison.of_whole(*a, *b, bits).into()).collect())
}

/// Returns how all numbers of a tensor compare with one number, if it is the same for all and easy to see.
#[inline]
pub(crate) fn alike(
    comparison: Comparison,
    left: &Index,
    number: i64,
    extent: &[usize],
) -> Option<bool> {
    let (Index::Affine(base, strides), false) = (left, comparison.is_unsigned) else { return None };
    let (low, high) = bounds_of(base.checked_sub(number)?, strides, extent);
    let holds = |difference: i64| comparison.of_whole(difference, 0, 64);
    match comparison.relation {
        Relation::Eq | Relation::Ne => None,
        _ => (holds(low) == holds(high)).then(|| holds(low)),
    }
}

/// Returns the result if it has a form other than a list.
fn by_bounds(
    comparison: Comparison,
    left: &Index,
    right: &Index,
    extent: &[usize],
) -> Option<Index> {
    let (Index::Affine(a, x), Index::Affine(b, y)) = (left, right) else { return None };
    let is_below_zero = || left.bounds(extent).0 < 0 || right.bounds(extent).0 < 0;
    if comparison.is_unsigned && is_below_zero() {
        return None;
    }
    // The comparison of the difference with zero.
    let mut strides = [0; AXES];
    for (axis, stride) in strides.iter_mut().enumerate() {
        *stride = x[axis].checked_sub(y[axis])?;
    }
    let base = a.checked_sub(*b)?;
    let (low, high) = Index::Affine(base, strides).bounds(extent);
    let signed = Comparison { is_unsigned: false, ..comparison };
    let holds = |number: i64| signed.of_whole(number, 0, 64);
    match comparison.relation {
        Relation::Eq | Relation::Ne if high < 0 || low > 0 => {
            return Some(Index::splat(holds(low).into()));
        }
        Relation::Eq | Relation::Ne => {}
        _ if holds(low) == holds(high) => return Some(Index::splat(holds(low).into())),
        _ => {}
    }
    let mut moving =
        (0..extent.len().min(AXES)).filter(|axis| strides[*axis] != 0 && extent[*axis] > 1);
    let (axis, None) = (moving.next()?, moving.next()) else { return None };
    along(comparison.relation, base, strides[axis], axis, extent)
}

/// Returns where `base + stride * position` along one axis compares with zero.
fn along(
    relation: Relation,
    base: i64,
    stride: i64,
    axis: usize,
    extent: &[usize],
) -> Option<Index> {
    let dim = as_int(extent[axis]);
    // `base + stride * position < limit` along the axis, for a positive stride.
    let (base, stride, relation) = if stride > 0 {
        (base, stride, relation)
    } else {
        let turned = match relation {
            Relation::Lt => Relation::Gt,
            Relation::Le => Relation::Ge,
            Relation::Gt => Relation::Lt,
            Relation::Ge => Relation::Le,
            same => same,
        };
        (base.checked_neg()?, stride.checked_neg()?, turned)
    };
    // The first position whose number is at least 0, and the first that is above 0.
    let at_least = ceil_div(base.checked_neg()?, stride).clamp(0, dim);
    let above = ceil_div(base.checked_neg()?.checked_add(1)?, stride).clamp(0, dim);
    let (from, to) = match relation {
        Relation::Lt => (0, at_least),
        Relation::Le => (0, above),
        Relation::Ge => (at_least, dim),
        Relation::Gt => (above, dim),
        Relation::Eq => (at_least, above),
        Relation::Ne => return None,
    };
    let (mut low, mut high) = ([0; AXES], [1; AXES]);
    for (side, dim) in high.iter_mut().zip(extent) {
        *side = as_int(*dim);
    }
    (low[axis], high[axis]) = (from, to);
    Some(Index::Box(low, high))
}

fn ceil_div(a: i64, b: i64) -> i64 {
    a.div_euclid(b) + i64::from(a.rem_euclid(b) != 0)
}
