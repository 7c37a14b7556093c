//! Computation on tiles: the vector engine and the matrix engine.
//!
//! A vector operation takes the bytes of the largest of its operands (as broadcast) and its result, divided by the
//! engine's bandwidth. A product takes whole tiles of the engine, `2·m·n·k` operations each.

use super::issued::End;
use super::program::Program;
use super::tile::TileType;
use super::{Computing, KernelError, Shape, Tile, Tl};
use crate::machine::Engine;
use crate::record::Op;
use crate::spec::VectorClass;
use crate::stall::Kind;
use crate::time::Time;
use crate::value::{Binary, Compare, DType, Reduce, Unary, Value};

impl Tl {
    /// Applies `operation` to each pair of elements of two tiles of one type; a dimension of 1 is broadcast.
    pub fn binary(&self, operation: Binary, left: &Tile, right: &Tile) -> Computing {
        let (dtype, shape) = match broadcast("elementwise", left, right) {
            Ok(common) => common,
            Err(error) => return self.failed(error),
        };
        let bytes = (shape.elements() * dtype.size()) as u64;
        let value = both(self, left, right).map(|(x, y)| {
            Value::binary(operation, &stretch(&x, left, shape), &stretch(&y, right, shape))
        });
        self.vector(binary_label(operation), bytes, dtype, shape, value)
    }

    /// Computes `left + right`.
    pub fn add(&self, left: &Tile, right: &Tile) -> Computing {
        self.binary(Binary::Add, left, right)
    }

    /// Computes `left - right`.
    pub fn sub(&self, left: &Tile, right: &Tile) -> Computing {
        self.binary(Binary::Sub, left, right)
    }

    /// Computes `left * right`, element by element.
    pub fn mul(&self, left: &Tile, right: &Tile) -> Computing {
        self.binary(Binary::Mul, left, right)
    }

    /// Computes `left / right`.
    pub fn div(&self, left: &Tile, right: &Tile) -> Computing {
        self.binary(Binary::Div, left, right)
    }

    /// Computes the maximum of each pair of elements.
    pub fn maximum(&self, left: &Tile, right: &Tile) -> Computing {
        self.binary(Binary::Max, left, right)
    }

    /// Computes the minimum of each pair of elements.
    pub fn minimum(&self, left: &Tile, right: &Tile) -> Computing {
        self.binary(Binary::Min, left, right)
    }

    /// Compares each pair of elements: 1 if the comparison holds, otherwise 0, as `i32`.
    pub fn compare(&self, operation: Compare, left: &Tile, right: &Tile) -> Computing {
        let (dtype, shape) = match broadcast("compare", left, right) {
            Ok(common) => common,
            Err(error) => return self.failed(error),
        };
        let bytes = (shape.elements() * dtype.size()) as u64;
        let value = both(self, left, right).map(|(x, y)| {
            Value::compare(operation, &stretch(&x, left, shape), &stretch(&y, right, shape))
        });
        self.vector(("compare", VectorClass::Add), bytes, DType::I32, shape, value)
    }

    /// Selects `left` if `condition` (`i32`) is not 0, otherwise `right`; all of one shape.
    pub fn select(&self, condition: &Tile, left: &Tile, right: &Tile) -> Computing {
        if condition.dtype() != DType::I32
            || condition.shape() != left.shape()
            || left.shape() != right.shape()
            || left.dtype() != right.dtype()
        {
            let (left, right) = (format!("{condition:?} ? {left:?}"), right.describe());
            return self.failed(KernelError::Shape { operation: "select", left, right });
        }
        let value = condition
            .value()
            .zip(both(self, left, right))
            .map(|(condition, (left, right))| Value::select(&condition, &left, &right));
        self.vector(
            ("select", VectorClass::Add),
            condition.bytes(),
            left.dtype(),
            left.shape(),
            value,
        )
    }

    /// Applies a function to every element.
    pub fn unary(&self, operation: Unary, tile: &Tile) -> Computing {
        let value = tile.value().map(|value| Value::unary(operation, &value));
        self.vector(unary_label(operation), tile.bytes(), tile.dtype(), tile.shape(), value)
    }

    /// Computes the exponential of every element.
    pub fn exp(&self, tile: &Tile) -> Computing {
        self.unary(Unary::Exp, tile)
    }

    /// Converts every element to another type, rounded to nearest even.
    pub fn cast(&self, tile: &Tile, dtype: DType) -> Computing {
        let value = tile.value().map(|value| value.cast(dtype));
        self.vector(("cast", VectorClass::Add), tile.bytes(), dtype, tile.shape(), value)
    }

    /// Reduces a tile along `axis`, in ascending order of index.
    pub fn reduce(&self, operation: Reduce, tile: &Tile, axis: usize) -> Computing {
        let dims = tile.shape();
        if axis >= dims.dims().len() {
            let (left, right) = (format!("axis {axis}"), tile.describe());
            return self.failed(KernelError::Shape { operation: "reduce", left, right });
        }
        let outer = dims.dims()[..axis].iter().product();
        let inner = dims.dims()[axis + 1..].iter().product();
        let value = tile
            .value()
            .map(|value| Value::reduce(operation, &value, outer, dims.dims()[axis], inner));
        self.vector(
            ("reduce", VectorClass::Reduce),
            tile.bytes(),
            tile.dtype(),
            dims.without(axis),
            value,
        )
    }

    /// Computes the sum along `axis`.
    pub fn sum(&self, tile: &Tile, axis: usize) -> Computing {
        self.reduce(Reduce::Sum, tile, axis)
    }

    /// Computes the maximum along `axis`.
    pub fn max(&self, tile: &Tile, axis: usize) -> Computing {
        self.reduce(Reduce::Max, tile, axis)
    }

    /// Computes `left · right (+ accumulator)`: `[m, k]` by `[k, n]`, accumulated in f32 (i32 for i32), k ascending.
    pub fn dot(&self, left: &Tile, right: &Tile, accumulator: Option<&Tile>) -> Computing {
        let [m, n, k] = match product(left, right, accumulator) {
            Ok(dims) => dims,
            Err(error) => return self.failed(error),
        };
        let value = both(self, left, right).map(|(x, y)| {
            Value::dot(&x, &y, [m, n, k], accumulator.and_then(Tile::value).as_ref())
        });
        let dtype = if left.dtype() == DType::I32 { DType::I32 } else { DType::F32 };
        let tile = Tile::in_scratch(self.program(), dtype, [m, n].into(), value, "a product");
        let bytes = left.bytes() + right.bytes();
        let span = self.product_time(left.dtype(), [m, n, k]);
        self.engine(Engine::Gemm, "dot", span, bytes, tile)
    }

    /// Computes `left · right + sum` in the scratch memory of `sum`; the first product has no sum.
    pub(super) fn accumulate(&self, left: &Tile, right: &Tile, sum: Option<Tile>) -> Computing {
        let dims = match product(left, right, sum.as_ref()) {
            Ok(dims) => dims,
            Err(error) => return self.failed(error),
        };
        let [m, n, _] = dims;
        let value = both(self, left, right)
            .map(|(x, y)| Value::dot(&x, &y, dims, sum.as_ref().and_then(Tile::value).as_ref()));
        drop(sum);
        let dtype = if left.dtype() == DType::I32 { DType::I32 } else { DType::F32 };
        let tile = Tile::in_scratch(self.program(), dtype, [m, n].into(), value, "a product");
        let (span, bytes) = (self.product_time(left.dtype(), dims), left.bytes() + right.bytes());
        self.engine(Engine::Gemm, "dot", span, bytes, tile)
    }

    /// Returns the time the matrix engine takes for a product, in whole tiles.
    pub(super) fn product_time(&self, dtype: DType, dims: [usize; 3]) -> Time {
        let world = self.program().world();
        let gemm = &world.spec.gemm;
        let tiles: u64 = dims
            .iter()
            .zip(gemm.tile)
            .map(|(dim, tile)| (*dim as u64).div_ceil(tile.into()))
            .product();
        let operations: u64 = gemm.tile.iter().map(|dim| u64::from(*dim)).product::<u64>() * 2;
        world.product_rates[dtype as usize].time_for(tiles * operations)
    }

    /// Occupies the vector engine for `span`: work that is not modelled in detail.
    pub async fn compute(&self, span: Time) {
        let empty = Tile::in_scratch(self.program(), DType::F32, 0.into(), None, "nothing");
        let _ = self.engine(Engine::Vector, "compute", span, 0, empty).await;
    }

    /// Occupies the vector engine for an operation whose largest operand has `operand` bytes.
    #[inline]
    fn vector(
        &self,
        (label, class): (&'static str, VectorClass),
        operand: u64,
        dtype: DType,
        shape: Shape,
        value: Option<Value>,
    ) -> Computing {
        let bytes = operand.max((shape.elements() * dtype.size()) as u64);
        let spec = &self.program().world().spec;
        let span = spec.vector.time_for(bytes * u64::from(spec.vector_costs.of(class)));
        let tile = Tile::in_scratch(self.program(), dtype, shape, value, label);
        self.engine(Engine::Vector, label, span, bytes, tile)
    }

    /// Occupies an engine for `span`.
    #[inline]
    fn engine(
        &self,
        engine: Engine,
        label: &'static str,
        span: Time,
        bytes: u64,
        result: Result<Tile, Box<KernelError>>,
    ) -> Computing {
        let tile = match result {
            Ok(tile) => tile,
            Err(error) => return Computing::failed(self.program().clone(), error),
        };
        let program = self.program().clone();
        if self.has_data() {
            tile.start_if_deep();
        }
        let end = occupy(&program, engine, label, span, bytes);
        Computing::new(program, engine, tile, End::At(end))
    }

    #[cold]
    fn failed(&self, error: KernelError) -> Computing {
        Computing::failed(self.program().clone(), Box::new(error))
    }
}

/// Occupies an engine for `span`, as soon as it is free; returns the end.
fn occupy(program: &Program, engine: Engine, label: &'static str, span: Time, bytes: u64) -> Time {
    let (now, id) = (program.sim().now(), program.pe());
    let mut path = program.path();
    path.advance(now, Kind::Dependency);
    let sip = &mut *program.world().sips[id.sip as usize].borrow_mut();
    let (wire, resource) = (sip.pes[program.index()].engine(engine), engine.resource(id));
    let turn = wire.take(now, span, bytes, &mut path);
    sip.record.step(wire.leave_with(turn.end, &path), turn.end, Kind::Compute, resource);
    let (start, end) = (turn.start, turn.end);
    sip.record.op(|| Op::new((start, end), resource, label, bytes));
    end
}

#[inline]
fn both(tl: &Tl, left: &Tile, right: &Tile) -> Option<(Value, Value)> {
    if tl.has_data() { left.value().zip(right.value()) } else { None }
}

/// Returns the common type and shape of two tiles: equal ranks, and equal dimensions unless one is 1.
#[inline]
fn broadcast(
    operation: &'static str,
    left: &Tile,
    right: &Tile,
) -> Result<(DType, Shape), KernelError> {
    let TileType { dtype, shape, .. } = left.tile_type();
    if right.is(dtype, &shape) { Ok((dtype, shape)) } else { unequal(operation, left, right) }
}

fn unequal(
    operation: &'static str,
    left: &Tile,
    right: &Tile,
) -> Result<(DType, Shape), KernelError> {
    let TileType { dtype, shape: a, .. } = left.tile_type();
    let TileType { dtype: other, shape: b, .. } = right.tile_type();
    let mismatch =
        || KernelError::Shape { operation, left: left.describe(), right: right.describe() };
    if dtype != other || a.dims().len() != b.dims().len() {
        return Err(mismatch());
    }
    let fits = a.dims().iter().zip(b.dims().iter()).all(|(x, y)| x == y || *x == 1 || *y == 1);
    let dims: Vec<usize> =
        a.dims().iter().zip(b.dims().iter()).map(|(x, y)| if *x == 1 { *y } else { *x }).collect();
    if fits { Ok((dtype, dims.as_slice().into())) } else { Err(mismatch()) }
}

/// Broadcasts the value of a tile to `shape`.
fn stretch(value: &Value, tile: &Tile, shape: Shape) -> Value {
    if tile.shape() == shape {
        return value.clone();
    }
    let own = tile.shape().strides();
    let strides: Vec<usize> = tile
        .shape()
        .dims()
        .iter()
        .zip(own.dims().iter())
        .map(|(dim, stride)| if *dim == 1 { 0 } else { *stride })
        .collect();
    value.strided(0, &shape.dims(), &strides)
}

fn product(
    left: &Tile,
    right: &Tile,
    accumulator: Option<&Tile>,
) -> Result<[usize; 3], KernelError> {
    let mismatch =
        |right: String| KernelError::Shape { operation: "dot", left: left.describe(), right };
    let (&[m, k], &[k2, n]) = (&*left.shape().dims(), &*right.shape().dims()) else {
        return Err(mismatch(right.describe()));
    };
    if k != k2 || left.dtype() != right.dtype() {
        return Err(mismatch(right.describe()));
    }
    let wanted = if left.dtype() == DType::I32 { DType::I32 } else { DType::F32 };
    match accumulator {
        Some(tile) if tile.shape() != [m, n].into() || tile.dtype() != wanted => {
            Err(mismatch(format!("accumulator {}", tile.describe())))
        }
        _ => Ok([m, n, k]),
    }
}

/// Returns the name of an operation, and the class of its cost.
fn binary_label(operation: Binary) -> (&'static str, VectorClass) {
    match operation {
        Binary::Add => ("add", VectorClass::Add),
        Binary::Sub => ("sub", VectorClass::Add),
        Binary::Mul => ("mul", VectorClass::Add),
        Binary::Div => ("div", VectorClass::Divide),
        Binary::Max => ("max", VectorClass::Add),
        Binary::Min => ("min", VectorClass::Add),
    }
}

/// Returns the name of a function, and the class of its cost.
fn unary_label(operation: Unary) -> (&'static str, VectorClass) {
    match operation {
        Unary::Exp => ("exp", VectorClass::Exp),
        Unary::Log => ("log", VectorClass::Exp),
        Unary::Sqrt => ("sqrt", VectorClass::Divide),
        Unary::Tanh | Unary::Sigmoid | Unary::Gelu => ("map", VectorClass::Exp),
        Unary::Recip => ("map", VectorClass::Divide),
        Unary::Neg | Unary::Abs | Unary::Relu => ("map", VectorClass::Add),
    }
}
