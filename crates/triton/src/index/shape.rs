//! Index tensors of other shapes.

use super::{AXES, Index, as_int};

/// Stretches axes of length 1.
pub(crate) fn broadcast(index: &Index, from: &[usize], to: &[usize]) -> Index {
    match index {
        Index::Affine(base, strides) => {
            let mut strides = *strides;
            for axis in 0..from.len().min(AXES) {
                if from[axis] == 1 {
                    strides[axis] = 0;
                }
            }
            Index::Affine(*base, strides)
        }
        Index::Box(low, high) => {
            let (low, mut high) = (*low, *high);
            for axis in 0..from.len().min(AXES) {
                if from[axis] == 1 && low[axis] <= 0 && high[axis] >= 1 {
                    high[axis] = as_int(to[axis]);
                }
            }
            Index::Box(low, high)
        }
        Index::List(list) => {
            let strides: Vec<usize> = dense(from)
                .iter()
                .zip(from)
                .map(|(stride, dim)| if *dim == 1 { 0 } else { *stride })
                .collect();
            Index::List(strided(list, to, &strides))
        }
    }
}

/// Adds an axis of length 1.
pub(crate) fn expand(index: &Index, from: &[usize], axis: usize) -> Index {
    let insert = |from: &[i64; AXES], new: i64| {
        let mut to = [new; AXES];
        to[..axis].copy_from_slice(&from[..axis]);
        to[axis + 1..].copy_from_slice(&from[axis..AXES - 1]);
        to
    };
    match index {
        _ if from.len() + 1 > AXES => Index::List(index.list(from)),
        Index::Affine(base, strides) => Index::Affine(*base, insert(strides, 0)),
        Index::Box(low, high) => Index::Box(insert(low, 0), insert(high, 1)),
        Index::List(list) => Index::List(list.clone()),
    }
}

/// Gives the same elements another shape.
pub(crate) fn reshape(index: &Index, from: &[usize], to: &[usize]) -> Index {
    if let Index::Affine(base, strides) = index
        && to.len() <= AXES
    {
        let mut moving =
            (0..from.len().min(AXES)).filter(|axis| strides[*axis] != 0 && from[*axis] > 1);
        let (first, second) = (moving.next(), moving.next());
        match (first, second) {
            (None, _) => return Index::splat(*base),
            // Only one axis is longer than 1.
            (Some(axis), None) if from.iter().product::<usize>() == from[axis] => {
                let mut new = [0; AXES];
                for (new, dense) in new.iter_mut().zip(dense(to)) {
                    *new = strides[axis] * as_int(dense);
                }
                return Index::Affine(*base, new);
            }
            _ => {}
        }
    }
    Index::List(index.list(from))
}

/// Reorders the axes: axis `i` of the result is axis `order[i]`.
pub(crate) fn transpose(index: &Index, from: &[usize], order: &[usize]) -> Index {
    let pick = |values: &[i64; AXES], rest: i64| {
        let mut picked = [rest; AXES];
        for (to, from) in picked.iter_mut().zip(order) {
            *to = values.get(*from).copied().unwrap_or(rest);
        }
        picked
    };
    match index {
        Index::Affine(base, strides) => Index::Affine(*base, pick(strides, 0)),
        Index::Box(low, high) => Index::Box(pick(low, 0), pick(high, 1)),
        Index::List(list) => {
            let own = dense(from);
            let dims: Vec<usize> = order.iter().map(|axis| from[*axis]).collect();
            let strides: Vec<usize> = order.iter().map(|axis| own[*axis]).collect();
            Index::List(strided(list, &dims, &strides))
        }
    }
}

/// Returns the strides of adjacent elements.
pub(crate) fn dense(extent: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; extent.len()];
    for axis in (1..extent.len()).rev() {
        strides[axis - 1] = strides[axis] * extent[axis];
    }
    strides
}

/// Reads a list through strides.
fn strided(list: &[i64], dims: &[usize], strides: &[usize]) -> std::rc::Rc<[i64]> {
    let mut places = vec![0usize];
    for (dim, stride) in dims.iter().zip(strides) {
        places =
            places.iter().flat_map(|at| (0..*dim).map(move |step| at + step * stride)).collect();
    }
    places.into_iter().map(|at| list[at]).collect()
}
