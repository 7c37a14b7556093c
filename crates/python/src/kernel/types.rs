//! The types of results, for lists that are recorded before they are played. `None` if operands do not fit: the operation is
//! then performed at once, and its own error is raised.

use phalanx_sim::DType;
use phalanx_sim::kernel::Shape;

/// Element type and shape of a tile.
pub(crate) type Type = (DType, Shape);

/// The result of an operation on two tiles, the shorter one stretched.
pub(crate) fn broadcast(left: Type, right: Type) -> Option<Type> {
    if left == right {
        return Some(left);
    }
    let (a, b) = (left.1.dims(), right.1.dims());
    if left.0 == right.0 && (a.is_empty() || b.is_empty()) {
        return Some(if a.is_empty() { right } else { left });
    }
    if left.0 != right.0 || a.len() != b.len() {
        return None;
    }
    let mut dims = [1; 4];
    for (dim, (x, y)) in dims.iter_mut().zip(a.iter().zip(b.iter())) {
        *dim = match (*x, *y) {
            (x, y) if x == y => x,
            (1, other) | (other, 1) => other,
            _ => return None,
        };
    }
    Some((left.0, Shape::from(&dims[..a.len()])))
}

/// The result of a choice between two tiles.
pub(crate) fn select(condition: Type, left: Type, right: Type) -> Option<Type> {
    if !matches!(condition.0, DType::I32 | DType::Bool) {
        return None;
    }
    broadcast((left.0, condition.1), broadcast(left, right)?)
}

/// The result of a reduction.
pub(crate) fn reduce((dtype, shape): Type, axis: usize) -> Option<Type> {
    let dims = shape.dims();
    if axis >= dims.len() {
        return None;
    }
    let left = dims.iter().enumerate().filter(|(at, _)| *at != axis).map(|(_, dim)| *dim);
    Some((dtype, Shape::from(left.collect::<Vec<_>>().as_slice())))
}

/// The result of a matrix product.
pub(crate) fn dot(left: Type, right: Type, accumulator: Option<Type>) -> Option<Type> {
    let (&[m, k], &[k2, n]) = (&*left.1.dims(), &*right.1.dims()) else { return None };
    let dtype = left.0.product();
    let made = (dtype, Shape::from([m, n]));
    let fits = k == k2 && left.0 == right.0 && accumulator.is_none_or(|sum| sum == made);
    fits.then_some(made)
}
