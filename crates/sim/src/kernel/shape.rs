//! Tiles in other shapes: ranges, broadcasts, permutations, joins, and elements by index.
//!
//! A reshape of an owned tile ([`Tile::reshape`]) is free; each of these gives a new tile and is one vector operation
//! of the class `add`: the bytes are moved.
//!
//! - **SHP-1 (as numpy).** Shapes and orders of elements are those of the functions of numpy with these names.

use super::math::{NewTile, TYPES, counted, difference, misfit};
use super::{Computing, Issued, KernelError, Shape, Tile, Tl};
use crate::spec::VectorClass;
use crate::value::{Axes, DType, Value};

impl Tl {
    /// Creates the whole numbers from `start` to `end`, which is excluded.
    #[track_caller]
    pub fn arange(&self, dtype: DType, start: i64, end: i64) -> Computing {
        let len = usize::try_from(end.saturating_sub(start))
            .ok()
            .filter(|len| u32::try_from(*len).is_ok());
        let Some(len) = len else {
            let why = "a range goes up, by fewer than 2^32";
            return self.failed(misfit("arange", start.to_string(), &end.to_string(), why));
        };
        let value = self.has_data().then(|| Value::arange(dtype, start, len));
        self.vector(("arange", VectorClass::Add), 0, dtype, len.into(), value)
    }

    /// Repeats a tile along its dimensions of 1, to `shape`.
    #[track_caller]
    pub fn broadcast_to(&self, tile: &Tile, shape: impl Into<Shape>) -> Computing {
        let shape = shape.into();
        if tile.shape().broadcast(&shape) != Some(shape) {
            let why = difference(tile.shape(), shape);
            return self.failed(misfit("broadcast_to", tile.describe(), &shape.to_string(), &why));
        }
        let value = tile.value().map(|value| super::math::stretch(&value, tile, shape));
        self.moved("broadcast_to", tile, shape, value)
    }

    /// Adds a dimension of 1 before `axis`.
    #[track_caller]
    pub fn expand_dims(&self, tile: &Tile, axis: usize) -> Computing {
        let mut dims = tile.shape().dims().to_vec();
        if axis > dims.len() || dims.len() == 4 {
            return self.failed(no_axis("expand_dims", axis, tile));
        }
        dims.insert(axis, 1);
        self.moved("expand_dims", tile, dims.as_slice().into(), tile.value())
    }

    /// Copies a tile in another shape with as many elements; of a tile that is not needed any more,
    /// [`Tile::reshape`] is free.
    #[track_caller]
    pub fn reshaped(&self, tile: &Tile, shape: impl Into<Shape>) -> Computing {
        let shape = shape.into();
        if shape.elements() != tile.shape().elements() {
            let why = format!("{} and {} elements", tile.shape().elements(), shape.elements());
            return self.failed(misfit("reshape", tile.describe(), &shape.to_string(), &why));
        }
        self.moved("reshape", tile, shape, tile.value())
    }

    /// Reorders the dimensions: dimension `i` of the result is dimension `order[i]` of the tile.
    #[track_caller]
    pub fn permute(&self, tile: &Tile, order: &[usize]) -> Computing {
        let dims = tile.shape().dims();
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        if sorted.into_iter().ne(0..dims.len()) {
            let why = "the order names each dimension once";
            return self.failed(misfit("permute", tile.describe(), &format!("{order:?}"), why));
        }
        let strides = tile.shape().strides().dims();
        let shape: Vec<usize> = order.iter().map(|axis| dims[*axis]).collect();
        let apart: Vec<usize> = order.iter().map(|axis| strides[*axis]).collect();
        let value = tile.value().map(|value| value.strided(0, &shape, &apart));
        self.moved("permute", tile, shape.as_slice().into(), value)
    }

    /// Exchanges the last two dimensions.
    #[track_caller]
    pub fn transpose(&self, tile: &Tile) -> Computing {
        let rank = tile.shape().dims().len();
        let mut order: Vec<usize> = (0..rank).collect();
        if rank < 2 {
            return self.failed(no_axis("transpose", 1, tile));
        }
        order.swap(rank - 2, rank - 1);
        self.permute(tile, &order)
    }

    /// Joins two tiles of one type and shape along a new last dimension of 2.
    #[track_caller]
    pub fn join(&self, left: &Tile, right: &Tile) -> Computing {
        let shape = left.shape();
        if !right.is(left.dtype(), &shape) || shape.dims().len() == 4 {
            return self.failed(unlike("join", left, right));
        }
        let (dims, n) = ([&*shape.dims(), &[2]].concat(), shape.elements());
        let value = left.value().zip(right.value());
        let value = value.map(|(x, y)| Value::concat(&[x, y]).strided(0, &[n, 2], &[1, n]));
        self.moved("join", left, dims.as_slice().into(), value)
    }

    /// Splits a tile whose last dimension is 2 into its two halves.
    #[track_caller]
    pub fn split(&self, tile: &Tile) -> Issued<(Tile, Tile)> {
        let dims = tile.shape().dims();
        let Some((&2, rest)) = dims.split_last() else {
            let why = "the last dimension is split in two";
            let error = misfit("split", tile.describe(), "a last dimension of 2", why);
            return self.failed(error);
        };
        let (shape, n) = (Shape::from(rest), tile.shape().elements() / 2);
        let half = |at| {
            let value = tile.value().map(|value| value.strided(at, &[n], &[2]));
            NewTile { dtype: tile.dtype(), shape, value }
        };
        let class = ("split", VectorClass::Add);
        self.vector_many(class, tile.bytes(), 1, [half(0), half(1)])
            .map(|[left, right]| (left, right))
    }

    /// Joins two tiles along `axis`.
    #[track_caller]
    pub fn cat(&self, left: &Tile, right: &Tile, axis: usize) -> Computing {
        let (a, b) = (left.shape().dims(), right.shape().dims());
        let fits = axis < a.len() && left.shape().without(axis) == right.shape().without(axis);
        if !fits || a.len() != b.len() || left.dtype() != right.dtype() {
            return self.failed(unlike("cat", left, right));
        }
        let mut dims = a.to_vec();
        dims[axis] += b[axis];
        let [first, second] = [&a, &b].map(|dims| Axes::of(dims, axis));
        let value = left.value().zip(right.value()).map(|(left, right)| {
            let [m, n] = [first, second].map(|lines| lines.axis * lines.inner);
            let block = |o| [left.slice(o * m, m), right.slice(o * n, n)];
            Value::concat(&(0..first.outer).flat_map(block).collect::<Vec<_>>())
        });
        self.moved("cat", left, dims.as_slice().into(), value)
    }

    /// Reverses the order along `axis`.
    #[track_caller]
    pub fn flip(&self, tile: &Tile, axis: usize) -> Computing {
        let dims = tile.shape().dims();
        if axis >= dims.len() {
            return self.failed(no_axis("flip", axis, tile));
        }
        let Axes { outer, axis: n, inner } = Axes::of(&dims, axis);
        let value = tile.value().map(|value| {
            let rows = (0..outer).flat_map(|o| (0..n).rev().map(move |a| (o * n + a) * inner));
            value.take(rows.flat_map(|row| row..row + inner).collect())
        });
        self.moved("flip", tile, tile.shape(), value)
    }

    /// Takes, for each element of `index` (of a whole type), the element of `tile` at that index along `axis` and at the
    /// same place in the other dimensions. An index outside the axis gives 0.
    #[track_caller]
    pub fn gather(&self, tile: &Tile, index: &Tile, axis: usize) -> Computing {
        let (dims, places) = (tile.shape(), index.shape());
        let rank = dims.dims().len();
        if axis >= rank {
            return self.failed(no_axis("gather", axis, tile));
        }
        let fits = rank == places.dims().len() && dims.without(axis) == places.without(axis);
        if !fits || index.dtype().is_float() {
            return self.failed(unlike("gather", tile, index));
        }
        let lines = Axes::of(&dims.dims(), axis);
        let value = tile.value().zip(index.value()).map(|(tile, index)| tile.gather(lines, &index));
        self.moved("gather", tile, places, value)
    }

    /// A vector operation of the class `add` that moves the elements of `tile`.
    #[track_caller]
    fn moved(
        &self,
        label: &'static str,
        tile: &Tile,
        shape: Shape,
        value: Option<Value>,
    ) -> Computing {
        self.vector((label, VectorClass::Add), tile.bytes(), tile.dtype(), shape, value)
    }
}

/// Returns the error of a dimension that a tile does not have.
#[cold]
pub(super) fn no_axis(operation: &'static str, axis: usize, tile: &Tile) -> KernelError {
    let why = format!("it has {}", counted(tile.shape().dims().len(), "dimension"));
    misfit(operation, format!("axis {axis}"), &tile.describe(), &why)
}

/// Returns the error of two tiles that do not go together.
#[cold]
pub(super) fn unlike(operation: &'static str, left: &Tile, right: &Tile) -> KernelError {
    let why = match (left.dtype(), right.dtype()) {
        (a, b) if a != b && operation != "gather" => TYPES.to_owned(),
        (_, b) if b.is_float() && operation == "gather" => "an index is a whole number".to_owned(),
        _ if left.shape() == right.shape() => "a tile has at most four dimensions".to_owned(),
        _ => difference(left.shape(), right.shape()),
    };
    misfit(operation, left.describe(), &right.describe(), &why)
}
