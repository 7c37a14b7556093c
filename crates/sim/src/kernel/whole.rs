//! Operations along an axis of tiles: reductions, scans, sorts, and random numbers.
//!
//! The cost of each, in vector operations over its operands' bytes:
//!
//! | operation | class | passes |
//! |---|---|---|
//! | reduction, scan, index of an extreme, histogram | `reduce` | 1 |
//! | reduction or scan by a program | `reduce` | one for each step, at least 1 |
//! | sort of `n` | `add` | `k (k + 1) / 2` with `k = log2 n`, as a bitonic network |
//! | random bits | `add` | 8 for each round |
//!
//! - **WHL-1 (as the value).** The elements are those of the function of [`Value`] with the same name.

use super::math::{NewTile, misfit};
use super::shape::{no_axis, unlike};
use super::{Computing, Issued, KernelError, Shape, Tile, Tl};
use crate::spec::VectorClass;
use crate::value::{Axes, Binary, Combine, DType, Reduce, Unary, Value};
use std::sync::Arc;

impl Tl {
    /// Reduces a tile to one element, in ascending order of the elements; the result has no dimension.
    #[track_caller]
    pub fn reduce_all(&self, operation: Reduce, tile: &Tile) -> Computing {
        if !operation.takes(tile.dtype()) {
            return self.failed(super::math::not_taken("reduce", tile));
        }
        let n = tile.shape().elements();
        let value = tile.value().map(|value| Value::reduce(operation, &value, 1, n, 1));
        self.along("reduce", tile, tile.dtype(), [].into(), value)
    }

    /// Returns the index of the largest element along `axis`, as `i32`: the first of equals.
    #[track_caller]
    pub fn argmax(&self, tile: &Tile, axis: usize) -> Computing {
        self.arg_extreme("argmax", tile, axis, true)
    }

    /// Returns the index of the smallest element along `axis`, as `i32`: the first of equals.
    #[track_caller]
    pub fn argmin(&self, tile: &Tile, axis: usize) -> Computing {
        self.arg_extreme("argmin", tile, axis, false)
    }

    #[track_caller]
    fn arg_extreme(
        &self,
        label: &'static str,
        tile: &Tile,
        axis: usize,
        largest: bool,
    ) -> Computing {
        let lines = match axes_of(label, tile, axis) {
            Ok(lines) => lines,
            Err(error) => return self.failed(error),
        };
        let value = tile.value().map(|value| Value::arg_extreme(&value, lines, largest));
        self.along(label, tile, DType::I32, tile.shape().without(axis), value)
    }

    /// Reduces the elements along `axis` up to each element, in ascending order (descending if `reverse`).
    #[track_caller]
    pub fn scan(&self, operation: Reduce, tile: &Tile, axis: usize, reverse: bool) -> Computing {
        let lines = match axes_of("scan", tile, axis) {
            Ok(_) if !operation.takes(tile.dtype()) => {
                return self.failed(super::math::not_taken("scan", tile));
            }
            Ok(lines) => lines,
            Err(error) => return self.failed(error),
        };
        let value = tile.value().map(|value| Value::scan(operation, &value, lines, reverse));
        self.along("scan", tile, tile.dtype(), tile.shape(), value)
    }

    /// Computes the sum of the elements along `axis` up to each element.
    #[track_caller]
    pub fn cumsum(&self, tile: &Tile, axis: usize) -> Computing {
        self.scan(Reduce::Sum, tile, axis, false)
    }

    /// Computes the product of the elements along `axis` up to each element.
    #[track_caller]
    pub fn cumprod(&self, tile: &Tile, axis: usize) -> Computing {
        self.scan(Reduce::Prod, tile, axis, false)
    }

    /// Reduces tiles of one shape along `axis` by a program; one tile for each operand.
    #[track_caller]
    pub fn combine(
        &self,
        program: &Arc<Combine>,
        tiles: &[&Tile],
        axis: usize,
    ) -> Issued<Vec<Tile>> {
        self.combined(program, tiles, axis, None)
    }

    /// Scans tiles of one shape along `axis` by a program; one tile for each operand.
    #[track_caller]
    pub fn combine_scan(
        &self,
        program: &Arc<Combine>,
        tiles: &[&Tile],
        axis: usize,
        reverse: bool,
    ) -> Issued<Vec<Tile>> {
        self.combined(program, tiles, axis, Some(reverse))
    }

    #[track_caller]
    fn combined(
        &self,
        program: &Arc<Combine>,
        tiles: &[&Tile],
        axis: usize,
        scan: Option<bool>,
    ) -> Issued<Vec<Tile>> {
        let lines = match group(program, tiles, axis) {
            Ok(lines) => lines,
            Err(error) => return self.failed(error),
        };
        let shape = tiles[0].shape();
        let shape = if scan.is_some() { shape } else { shape.without(axis) };
        let values: Option<Vec<Value>> = tiles.iter().map(|tile| tile.value()).collect();
        let values = values.map(|values| match scan {
            None => Value::combine(program, &values, lines),
            Some(reverse) => Value::combine_scan(program, &values, lines, reverse),
        });
        let result = |(i, dtype): (usize, &DType)| {
            let value = values.as_ref().map(|values| values[i].clone());
            NewTile { dtype: *dtype, shape, value }
        };
        let results: Vec<_> = program.types().iter().enumerate().map(result).collect();
        let bytes = tiles.iter().map(|tile| tile.bytes()).sum();
        let passes = u64::try_from(program.len()).unwrap_or(1).max(1);
        self.vector_all(("combine", VectorClass::Reduce), bytes, passes, results)
    }

    /// Sorts along `axis`; NaNs come last in either direction.
    #[track_caller]
    pub fn sort(&self, tile: &Tile, axis: usize, descending: bool) -> Computing {
        let lines = match axes_of("sort", tile, axis) {
            Ok(lines) => lines,
            Err(error) => return self.failed(error),
        };
        let value = tile.value().map(|value| Value::sort(&value, lines, descending));
        let sorted = NewTile { dtype: tile.dtype(), shape: tile.shape(), value };
        self.network("sort", tile, lines, sorted)
    }

    /// Returns the `k` largest elements along the last axis, in descending order; NaNs come last.
    #[track_caller]
    pub fn topk(&self, tile: &Tile, k: usize) -> Computing {
        let dims = tile.shape().dims();
        let axis = dims.len().wrapping_sub(1);
        let lines = match axes_of("topk", tile, axis) {
            Ok(lines) if k > lines.axis => {
                let why = format!("the last dimension has {}", lines.axis);
                return self.failed(misfit("topk", format!("k = {k}"), &tile.describe(), &why));
            }
            Ok(lines) => lines,
            Err(error) => return self.failed(error),
        };
        let mut shape = dims.to_vec();
        shape[axis] = k;
        let value = tile.value().map(|value| {
            Value::sort(&value, lines, true).strided(0, &[lines.outer, k], &[lines.axis, 1])
        });
        let shape = shape.as_slice().into();
        self.network("topk", tile, lines, NewTile { dtype: tile.dtype(), shape, value })
    }

    /// Counts the elements equal to each of the whole numbers below `bins`, as `i32`.
    #[track_caller]
    pub fn histogram(&self, tile: &Tile, bins: usize) -> Computing {
        if tile.dtype().is_float() {
            return self.failed(super::math::not_taken("histogram", tile));
        }
        let value = tile.value().map(|value| Value::histogram(&value, bins));
        self.along("histogram", tile, DType::I32, bins.into(), value)
    }

    /// Returns random `i32`s: the first word of Philox 4x32-10 with this seed, for each counter in `offsets`.
    #[track_caller]
    pub fn randint(&self, seed: u64, offsets: &Tile) -> Computing {
        self.random("randint", seed, offsets, |[first, ..]| first.bitcast(DType::I32))
    }

    /// Returns random `f32`s between 0 and 1, the same as Triton's `tl.rand` for this seed and these offsets.
    #[track_caller]
    pub fn rand(&self, seed: u64, offsets: &Tile) -> Computing {
        self.random("rand", seed, offsets, |[first, ..]| uniform(first))
    }

    /// Returns normally distributed `f32`s with mean 0 and variance 1, by the method of Triton's `tl.randn`.
    #[track_caller]
    pub fn randn(&self, seed: u64, offsets: &Tile) -> Computing {
        self.random("randn", seed, offsets, |[first, second, ..]| {
            let full = |number| Value::full(DType::F32, first.len(), number);
            let at_least = Value::binary(Binary::Max, &full(1e-7), &uniform(first));
            let log = Value::unary(Unary::Log, &at_least);
            let radius = Value::unary(Unary::Sqrt, &Value::binary(Binary::Mul, &full(-2.0), &log));
            let angle = Value::binary(Binary::Mul, &full(std::f64::consts::TAU), &uniform(second));
            Value::binary(Binary::Mul, &radius, &Value::unary(Unary::Cos, &angle))
        })
    }

    #[track_caller]
    fn random(
        &self,
        label: &'static str,
        seed: u64,
        offsets: &Tile,
        number: impl FnOnce(&[Value; 4]) -> Value,
    ) -> Computing {
        if offsets.dtype().is_float() {
            return self.failed(super::math::not_taken(label, offsets));
        }
        let dtype = if label == "randint" { DType::I32 } else { DType::F32 };
        let value = offsets.value().map(|offsets| number(&Value::philox(seed, &offsets, ROUNDS)));
        let (class, passes) = ((label, VectorClass::Add), 8 * u64::from(ROUNDS));
        let result = NewTile { dtype, shape: offsets.shape(), value };
        self.vector_many(class, offsets.bytes(), passes, [result]).map(|[tile]| tile)
    }

    /// One vector operation of the class `reduce`.
    #[track_caller]
    fn along(
        &self,
        label: &'static str,
        tile: &Tile,
        dtype: DType,
        shape: Shape,
        value: Option<Value>,
    ) -> Computing {
        self.vector((label, VectorClass::Reduce), tile.bytes(), dtype, shape, value)
    }

    /// The vector operations of a sorting network.
    #[track_caller]
    fn network(&self, label: &'static str, tile: &Tile, lines: Axes, result: NewTile) -> Computing {
        let depth = u64::from(lines.axis.next_power_of_two().trailing_zeros());
        let passes = (depth * (depth + 1) / 2).max(1);
        let class = (label, VectorClass::Add);
        self.vector_many(class, tile.bytes(), passes, [result]).map(|[tile]| tile)
    }
}

/// Rounds of Philox.
const ROUNDS: u32 = 10;

/// Returns floats between 0 and 1 from random words: the words as signed numbers, folded, times the largest scale that
/// keeps them below 1.
fn uniform(words: &Value) -> Value {
    let whole = words.bitcast(DType::I32);
    let zero = Value::zeros(DType::I32, whole.len());
    let negative = Value::predicate(crate::value::Compare::Lt, &whole, &zero);
    let folded = Value::select(&negative, &Value::unary(Unary::Not, &whole), &whole);
    let scale = Value::full(DType::F32, whole.len(), 4.656_612_734_2e-10);
    Value::binary(Binary::Mul, &folded.cast(DType::F32), &scale)
}

/// Returns the shape of a tile seen from `axis`, which is not empty.
fn axes_of(operation: &'static str, tile: &Tile, axis: usize) -> Result<Axes, KernelError> {
    let dims = tile.shape().dims();
    if axis >= dims.len() {
        return Err(no_axis(operation, axis, tile));
    }
    match Axes::of(&dims, axis) {
        Axes { axis: 0, .. } => {
            Err(misfit(operation, tile.describe(), "an axis", "the axis has no element"))
        }
        lines => Ok(lines),
    }
}

/// Returns the shape of the operands of a program, seen from `axis`.
fn group(program: &Combine, tiles: &[&Tile], axis: usize) -> Result<Axes, KernelError> {
    let types: Vec<DType> = tiles.iter().map(|tile| tile.dtype()).collect();
    if types.is_empty() || types != program.types() {
        let (left, right) = (format!("{types:?}"), format!("{:?}", program.types()));
        return Err(misfit("combine", left, &right, "operands of the program's types"));
    }
    match tiles.iter().find(|tile| tile.shape() != tiles[0].shape()) {
        Some(other) => Err(unlike("combine", tiles[0], other)),
        None => axes_of("combine", tiles[0], axis),
    }
}
