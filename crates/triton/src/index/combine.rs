//! Operations on two index tensors.

use super::{AXES, Index};
use crate::number::{Arith, unsigned, whole};

/// Computes an operation on integers of `bits` bits.
pub(crate) fn arith(
    operation: Arith,
    left: &Index,
    right: &Index,
    extent: &[usize],
    bits: u8,
) -> Index {
    if let (Some(a), Some(b)) = (left.as_splat(), right.as_splat()) {
        return Index::splat(whole(operation, a, b, bits));
    }
    if let Some(result) = closed(operation, left, right, extent, bits) {
        return result.fitted(extent, bits);
    }
    let (left, right) = (left.list(extent), right.list(extent));
    let pairs = left.iter().zip(right.iter());
    Index::List(pairs.map(|(a, b)| whole(operation, *a, *b, bits)).collect())
}

/// Returns the result if it has a form other than a list.
fn closed(
    operation: Arith,
    left: &Index,
    right: &Index,
    extent: &[usize],
    bits: u8,
) -> Option<Index> {
    match (operation, left, right) {
        (Arith::Add, Index::Affine(a, x), Index::Affine(b, y)) => sum(*a, x, *b, y, 1),
        (Arith::Sub, Index::Affine(a, x), Index::Affine(b, y)) => sum(*a, x, *b, y, -1),
        (Arith::And, ..) if bits == 1 => both(left, right, extent),
        (Arith::Or, ..) if bits == 1 => either(left, right, extent),
        (Arith::Mul, ..) => match (left, right, left.as_splat(), right.as_splat()) {
            (Index::Affine(a, x), _, _, Some(by)) => scaled(*a, x, by),
            (_, Index::Affine(b, y), Some(by), _) => scaled(*b, y, by),
            _ => None,
        },
        (Arith::Shl, Index::Affine(a, x), _) => {
            let shift =
                right.as_splat().filter(|shift| (0..i64::from(bits).min(62)).contains(shift))?;
            scaled(*a, x, 1 << shift)
        }
        _ => divided(operation, left, right, extent, bits),
    }
}

fn sum(a: i64, x: &[i64; AXES], b: i64, y: &[i64; AXES], sign: i64) -> Option<Index> {
    let mut strides = [0; AXES];
    for (axis, stride) in strides.iter_mut().enumerate() {
        *stride = x[axis].checked_add(y[axis].checked_mul(sign)?)?;
    }
    Some(Index::Affine(a.checked_add(b.checked_mul(sign)?)?, strides))
}

fn scaled(base: i64, strides: &[i64; AXES], by: i64) -> Option<Index> {
    let mut scaled = [0; AXES];
    for (axis, stride) in scaled.iter_mut().enumerate() {
        *stride = strides[axis].checked_mul(by)?;
    }
    Some(Index::Affine(base.checked_mul(by)?, scaled))
}

/// Quotients, remainders, minima and the like of an affine tensor and one number.
fn divided(
    operation: Arith,
    left: &Index,
    right: &Index,
    extent: &[usize],
    bits: u8,
) -> Option<Index> {
    let (low, high) = left.bounds(extent);
    let (least, most) = right.bounds(extent);
    match operation {
        Arith::MinS if high <= least => return Some(left.clone()),
        Arith::MinS if most <= low => return Some(right.clone()),
        Arith::MaxS if low >= most => return Some(left.clone()),
        Arith::MaxS if least >= high => return Some(right.clone()),
        _ => {}
    }
    let Index::Affine(base, strides) = left else { return None };
    let by = right.as_splat()?;
    if low < 0 {
        return None;
    }
    let power = |shift: i64| (0..i64::from(bits.min(62))).contains(&shift).then(|| 1_i64 << shift);
    let (is_quotient, by) = match operation {
        Arith::DivS | Arith::DivU | Arith::FloorDivS if by > 0 => (true, by),
        Arith::RemS | Arith::RemU if by > 0 => (false, by),
        Arith::ShrS | Arith::ShrU => (true, power(by)?),
        // A mask of the lowest bits.
        Arith::And if by >= 0 && (unsigned(by, 64) + 1).is_power_of_two() => {
            (false, by.checked_add(1)?)
        }
        _ => return None,
    };
    let (quotient, rest) = split(*base, strides, by, extent)?;
    Some(if is_quotient { quotient } else { rest })
}

/// Splits a tensor of no negative number into quotient and rest, if the rest does not wrap.
fn split(base: i64, strides: &[i64; AXES], by: i64, extent: &[usize]) -> Option<(Index, Index)> {
    let (mut quotient, mut rest) = ([0; AXES], [0; AXES]);
    for (axis, stride) in strides.iter().enumerate() {
        if stride % by == 0 {
            quotient[axis] = stride / by;
        } else {
            rest[axis] = *stride;
        }
    }
    let part = Index::Affine(base.rem_euclid(by), rest);
    let (low, high) = part.bounds(extent);
    (low >= 0 && high < by).then(|| (Index::Affine(base.div_euclid(by), quotient), part))
}

/// Masks: both.
fn both(left: &Index, right: &Index, extent: &[usize]) -> Option<Index> {
    for (one, other) in [(left, right), (right, left)] {
        match one.as_splat() {
            Some(0) => return Some(Index::splat(0)),
            Some(_) => return Some(other.clone()),
            None if one.covers(extent) => return Some(other.clone()),
            None => {}
        }
    }
    let (Index::Box(a, b), Index::Box(c, d)) = (left, right) else { return None };
    let (mut low, mut high) = (*a, *b);
    for axis in 0..AXES {
        low[axis] = a[axis].max(c[axis]);
        high[axis] = b[axis].min(d[axis]);
    }
    Some(Index::Box(low, high))
}

/// Masks: one of them.
fn either(left: &Index, right: &Index, extent: &[usize]) -> Option<Index> {
    for (one, other) in [(left, right), (right, left)] {
        match one.as_splat() {
            Some(0) => return Some(other.clone()),
            Some(_) => return Some(Index::splat(1)),
            None if one.covers(extent) => return Some(Index::splat(1)),
            None => {}
        }
    }
    None
}
