//! Computation on tiles: the vector engine and the matrix engine.
//!
//! A vector operation takes the bytes of the largest of its operands (as broadcast) and its result, divided by the
//! engine's bandwidth. A product takes whole tiles of the engine, `2·m·n·k` operations each.

use super::class::{binary_label, unary_label};
use super::issued::{End, Started};
use super::product::Product;
use super::program::Program;
use super::tile::TileType;
use super::{Computing, Issued, KernelError, Shape, Tile, Tl};
use crate::machine::Engine;
use crate::record::{Gap, Op};
use crate::spec::{NumberType, VectorClass};
use crate::stall::Kind;
use crate::time::Time;
use crate::value::{Binary, Compare, DType, Reduce, Unary, Value};

impl Tl {
    /// Applies `operation` to each pair of elements of two tiles of one type; a dimension of 1 is broadcast.
    #[inline]
    #[track_caller]
    pub fn binary(&self, operation: Binary, left: &Tile, right: &Tile) -> Computing {
        let started = self.start_binary(operation, left, right);
        Computing::of(self.program(), Engine::Vector, started)
    }

    #[track_caller]
    fn start_binary(&self, operation: Binary, left: &Tile, right: &Tile) -> Started<Tile> {
        let label = binary_label(operation);
        let (dtype, shape) = match alike(left, right) {
            Some(common) => common,
            None => match unequal(label.0, left, right) {
                Ok(common) => common,
                Err(error) => return Err(self.fault(Box::new(error))),
            },
        };
        if !operation.takes(dtype) {
            return Err(self.fault(Box::new(not_taken(label.0, left))));
        }
        let bytes = (shape.elements() * dtype.size()) as u64;
        let value = both(self, left, right).map(|(x, y)| {
            Value::binary(operation, &stretch(&x, left, shape), &stretch(&y, right, shape))
        });
        self.start_vector(label, bytes, dtype, shape, value)
    }

    /// Computes `left + right`.
    #[track_caller]
    pub fn add(&self, left: &Tile, right: &Tile) -> Computing {
        self.binary(Binary::Add, left, right)
    }

    /// Computes `left - right`.
    #[track_caller]
    pub fn sub(&self, left: &Tile, right: &Tile) -> Computing {
        self.binary(Binary::Sub, left, right)
    }

    /// Computes `left * right`, element by element.
    #[track_caller]
    pub fn mul(&self, left: &Tile, right: &Tile) -> Computing {
        self.binary(Binary::Mul, left, right)
    }

    /// Computes `left / right`.
    #[track_caller]
    pub fn div(&self, left: &Tile, right: &Tile) -> Computing {
        self.binary(Binary::Div, left, right)
    }

    /// Computes the maximum of each pair of elements.
    #[track_caller]
    pub fn maximum(&self, left: &Tile, right: &Tile) -> Computing {
        self.binary(Binary::Max, left, right)
    }

    /// Computes the minimum of each pair of elements.
    #[track_caller]
    pub fn minimum(&self, left: &Tile, right: &Tile) -> Computing {
        self.binary(Binary::Min, left, right)
    }

    /// Compares each pair of elements: 1 if the comparison holds, otherwise 0, as `i32`.
    #[track_caller]
    pub fn compare(&self, operation: Compare, left: &Tile, right: &Tile) -> Computing {
        self.compared(operation, left, right, DType::I32)
    }

    /// Compares each pair of elements, as `bool`.
    #[track_caller]
    pub fn predicate(&self, operation: Compare, left: &Tile, right: &Tile) -> Computing {
        self.compared(operation, left, right, DType::Bool)
    }

    #[track_caller]
    fn compared(&self, operation: Compare, left: &Tile, right: &Tile, to: DType) -> Computing {
        let (dtype, shape) = match broadcast("compare", left, right) {
            Ok(common) => common,
            Err(error) => return self.failed(error),
        };
        let bytes = (shape.elements() * dtype.size()) as u64;
        let value = both(self, left, right).map(|(x, y)| {
            let (x, y) = (stretch(&x, left, shape), stretch(&y, right, shape));
            match to {
                DType::Bool => Value::predicate(operation, &x, &y),
                _ => Value::compare(operation, &x, &y),
            }
        });
        self.vector(("compare", VectorClass::Add), bytes, to, shape, value)
    }

    /// Selects `left` if `condition` (`i32` or `bool`) is not 0, otherwise `right`; a dimension of 1 is broadcast.
    #[track_caller]
    pub fn select(&self, condition: &Tile, left: &Tile, right: &Tile) -> Computing {
        let (dtype, shape) = match selection(condition, left, right) {
            Ok(common) => common,
            Err(error) => return self.failed(error),
        };
        let value = condition.value().zip(both(self, left, right)).map(|(choice, (x, y))| {
            let choice = stretch(&choice, condition, shape);
            Value::select(&choice, &stretch(&x, left, shape), &stretch(&y, right, shape))
        });
        let bytes = (shape.elements() * condition.dtype().size()) as u64;
        self.vector(("select", VectorClass::Add), bytes, dtype, shape, value)
    }

    /// Computes `left * right + addend`, of floats with one rounding; a dimension of 1 is broadcast.
    #[track_caller]
    pub fn fma(&self, left: &Tile, right: &Tile, addend: &Tile) -> Computing {
        let common = broadcast("fma", left, right)
            .and_then(|(dtype, shape)| Ok((dtype, common("fma", left, shape, addend)?)));
        let (dtype, shape) = match common {
            Ok((dtype, _)) if dtype != addend.dtype() => {
                return self.failed(misfit("fma", left.describe(), &addend.describe(), TYPES));
            }
            Ok(common) => common,
            Err(error) => return self.failed(error),
        };
        let value = both(self, left, right).zip(addend.value()).map(|((x, y), z)| {
            let (x, y) = (stretch(&x, left, shape), stretch(&y, right, shape));
            Value::fma(&x, &y, &stretch(&z, addend, shape))
        });
        let bytes = (shape.elements() * dtype.size()) as u64;
        self.vector(("fma", VectorClass::Add), bytes, dtype, shape, value)
    }

    /// Reads the bits of every element as another type of the same size.
    #[track_caller]
    pub fn bitcast(&self, tile: &Tile, dtype: DType) -> Computing {
        if dtype.size() != tile.dtype().size() || dtype == DType::Bool && tile.dtype() != dtype {
            let why = "bits become a type of the same size, and not bool";
            return self.failed(misfit("bitcast", tile.describe(), dtype.name(), why));
        }
        let value = tile.value().map(|value| value.bitcast(dtype));
        self.vector(("bitcast", VectorClass::Add), tile.bytes(), dtype, tile.shape(), value)
    }

    /// Applies a function to every element.
    #[track_caller]
    pub fn unary(&self, operation: Unary, tile: &Tile) -> Computing {
        if !operation.takes(tile.dtype()) {
            return self.failed(not_taken(unary_label(operation).0, tile));
        }
        let value = tile.value().map(|value| Value::unary(operation, &value));
        self.vector(unary_label(operation), tile.bytes(), tile.dtype(), tile.shape(), value)
    }

    /// Computes the exponential of every element.
    #[track_caller]
    pub fn exp(&self, tile: &Tile) -> Computing {
        self.unary(Unary::Exp, tile)
    }

    /// Converts every element to another type, as [`Value::cast`].
    #[track_caller]
    pub fn cast(&self, tile: &Tile, dtype: DType) -> Computing {
        let value = tile.value().map(|value| value.cast(dtype));
        self.vector(("cast", VectorClass::Add), tile.bytes(), dtype, tile.shape(), value)
    }

    /// Reduces a tile along `axis`, in ascending order of index.
    #[track_caller]
    pub fn reduce(&self, operation: Reduce, tile: &Tile, axis: usize) -> Computing {
        let dims = tile.shape();
        if axis >= dims.dims().len() {
            let why = format!("it has {}", counted(dims.dims().len(), "dimension"));
            let left = format!("axis {axis}");
            return self.failed(misfit("reduce", left, &tile.describe(), &why));
        }
        if !operation.takes(tile.dtype()) {
            return self.failed(not_taken("reduce", tile));
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
    #[track_caller]
    pub fn sum(&self, tile: &Tile, axis: usize) -> Computing {
        self.reduce(Reduce::Sum, tile, axis)
    }

    /// Computes the maximum along `axis`.
    #[track_caller]
    pub fn max(&self, tile: &Tile, axis: usize) -> Computing {
        self.reduce(Reduce::Max, tile, axis)
    }

    /// Computes `left · right (+ accumulator)`: `[m, k]` by `[k, n]`, k ascending, of type [`DType::product`]. Tiles of three
    /// axes are as many products as their first axis is long.
    #[track_caller]
    pub fn dot(&self, left: &Tile, right: &Tile, accumulator: Option<&Tile>) -> Computing {
        self.dot_at(left, right, accumulator, None)
    }

    /// Computes a product at the rate of its type, or of another type of number that the machine lists.
    #[track_caller]
    fn dot_at(
        &self,
        left: &Tile,
        right: &Tile,
        accumulator: Option<&Tile>,
        number: Option<NumberType>,
    ) -> Computing {
        let product = match self.product(left, right, accumulator) {
            Ok(product) => product,
            Err(error) => return self.failed(error),
        };
        let value = both(self, left, right)
            .map(|(x, y)| product.value(&x, &y, accumulator.and_then(Tile::value).as_ref()));
        let dtype = left.dtype().product();
        let tile = Tile::in_scratch(self.program(), dtype, product.shape(), value, "a product");
        let bytes = left.bytes() + right.bytes();
        let gemm = &self.program().world().spec.gemm;
        let operations = product.count * self.operations(product.dims);
        let span = match number.and_then(|number| gemm.rates[number as usize]) {
            None => self.program().world().costs.products[left.dtype() as usize],
            Some(rate) => gemm.efficiency.of(rate),
        };
        self.engine(Engine::Gemm, "dot", span.time_for(operations), bytes, tile)
    }

    /// Computes the product of `f32` tiles at the machine's rate for tf32. The numbers are those of `f32`.
    #[track_caller]
    pub fn dot_tf32(&self, left: &Tile, right: &Tile, accumulator: Option<&Tile>) -> Computing {
        if left.dtype() != DType::F32 {
            let why = "tf32 is a way to multiply f32";
            return self.failed(misfit("dot", left.describe(), "tf32", why));
        }
        self.dot_at(left, right, accumulator, Some(NumberType::Tf32))
    }

    /// Computes `left · right + sum` in the scratch memory of `sum`; the first product has no sum.
    #[track_caller]
    pub fn accumulate(&self, left: &Tile, right: &Tile, sum: Option<Tile>) -> Computing {
        let product = match self.product(left, right, sum.as_ref()) {
            Ok(product) => product,
            Err(error) => return self.failed(error),
        };
        let value = both(self, left, right)
            .map(|(x, y)| product.value(&x, &y, sum.as_ref().and_then(Tile::value).as_ref()));
        drop(sum);
        let dtype = left.dtype().product();
        let tile = Tile::in_scratch(self.program(), dtype, product.shape(), value, "a product");
        let rate = self.program().world().costs.products[left.dtype() as usize];
        let span = rate.time_for(product.count * self.operations(product.dims));
        self.engine(Engine::Gemm, "dot", span, left.bytes() + right.bytes(), tile)
    }

    /// Returns a product that the machine can compute.
    fn product(
        &self,
        left: &Tile,
        right: &Tile,
        accumulator: Option<&Tile>,
    ) -> Result<Product, KernelError> {
        let gemm = &self.program().world().spec.gemm;
        match gemm.lacks(left.dtype()) {
            None => Product::of(left, right, accumulator),
            Some(number) => Err(lacking(number, left.dtype(), &gemm.listed())),
        }
    }

    /// Returns the operations of the whole tiles of a product.
    fn operations(&self, dims: [usize; 3]) -> u64 {
        let gemm = &self.program().world().spec.gemm;
        let tiles: u64 = dims
            .iter()
            .zip(gemm.tile)
            .map(|(dim, tile)| (*dim as u64).div_ceil(tile.into()))
            .product();
        let operations: u64 = gemm.tile.iter().map(|dim| u64::from(*dim)).product::<u64>() * 2;
        tiles * operations
    }

    /// Occupies the vector engine for `span`: work that is not modelled in detail.
    pub async fn compute(&self, span: Time) {
        let empty = Tile::in_scratch(self.program(), DType::F32, 0.into(), None, "nothing");
        let _ = self.engine(Engine::Vector, "compute", span, 0, empty).await;
    }

    /// Occupies the vector engine for `passes` operations whose largest operand has `operand` bytes, with several results.
    #[track_caller]
    pub(super) fn vector_all(
        &self,
        (label, class): (&'static str, VectorClass),
        operand: u64,
        passes: u64,
        results: Vec<NewTile>,
    ) -> Issued<Vec<Tile>> {
        let sizes = results.iter().map(|new| (new.shape.elements() * new.dtype.size()) as u64);
        let bytes = operand.max(sizes.sum());
        let spec = &self.program().world().spec;
        let cost = u64::from(spec.vector_costs.of(class)) * passes;
        let span = spec.vector.time_for(bytes * cost);
        let tile = |NewTile { dtype, shape, value }| {
            Tile::in_scratch(self.program(), dtype, shape, value, label)
        };
        let tiles = results.into_iter().map(tile).collect::<Result<Vec<Tile>, _>>();
        match tiles {
            Ok(tiles) => {
                if self.has_data() {
                    tiles.iter().for_each(Tile::start_if_deep);
                }
                let program = self.program().clone();
                let end = occupy(&program, Engine::Vector, label, span, bytes);
                Issued::new(program, Engine::Vector, tiles, End::At(end))
            }
            Err(error) => self.failed(*error),
        }
    }

    /// As [`Self::vector_all`], with a fixed number of results.
    #[track_caller]
    pub(super) fn vector_many<const N: usize>(
        &self,
        class: (&'static str, VectorClass),
        operand: u64,
        passes: u64,
        results: [NewTile; N],
    ) -> Issued<[Tile; N]> {
        let all = self.vector_all(class, operand, passes, results.into());
        all.map(|tiles| <[Tile; N]>::try_from(tiles).expect("as many as asked for"))
    }

    /// Occupies the vector engine for an operation whose largest operand has `operand` bytes.
    #[inline]
    #[track_caller]
    pub(super) fn vector(
        &self,
        class: (&'static str, VectorClass),
        operand: u64,
        dtype: DType,
        shape: Shape,
        value: Option<Value>,
    ) -> Computing {
        let started = self.start_vector(class, operand, dtype, shape, value);
        Computing::of(self.program(), Engine::Vector, started)
    }

    #[inline]
    #[track_caller]
    fn start_vector(
        &self,
        (label, class): (&'static str, VectorClass),
        operand: u64,
        dtype: DType,
        shape: Shape,
        value: Option<Value>,
    ) -> Started<Tile> {
        let bytes = operand.max((shape.elements() * dtype.size()) as u64);
        let spec = &self.program().world().spec;
        let span = spec.vector.time_for(bytes * u64::from(spec.vector_costs.of(class)));
        let tile = Tile::in_scratch(self.program(), dtype, shape, value, label);
        self.start_engine(Engine::Vector, label, span, bytes, tile)
    }

    /// Occupies an engine for `span`.
    #[inline]
    #[track_caller]
    fn engine(
        &self,
        engine: Engine,
        label: &'static str,
        span: Time,
        bytes: u64,
        result: Result<Tile, Box<KernelError>>,
    ) -> Computing {
        let started = self.start_engine(engine, label, span, bytes, result);
        Computing::of(self.program(), engine, started)
    }

    #[inline]
    #[track_caller]
    fn start_engine(
        &self,
        engine: Engine,
        label: &'static str,
        span: Time,
        bytes: u64,
        result: Result<Tile, Box<KernelError>>,
    ) -> Started<Tile> {
        let tile = match result {
            Ok(tile) => tile,
            Err(error) => return Err(self.fault(error)),
        };
        if self.has_data() {
            tile.start_if_deep();
        }
        let end = occupy(self.program(), engine, label, span, bytes);
        Ok((tile, End::At(end)))
    }

    #[cold]
    #[track_caller]
    pub(super) fn failed<T>(&self, error: KernelError) -> Issued<T> {
        Issued::failed(self.program().clone(), self.fault(Box::new(error)))
    }
}

/// A tile that an operation makes.
pub(super) struct NewTile {
    pub(super) dtype: DType,
    pub(super) shape: Shape,
    pub(super) value: Option<Value>,
}

/// Occupies an engine for `span`, as soon as it is free; returns the end.
fn occupy(program: &Program, engine: Engine, label: &'static str, span: Time, bytes: u64) -> Time {
    program.count_operation(bytes);
    let (now, id) = (program.sim().now(), program.pe());
    let mut path = program.path();
    path.advance(now, Gap::Dependency);
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

/// Returns the common type and shape of two tiles: equal ranks (or no dimension at all), and equal dimensions unless one
/// is 1.
#[inline]
fn broadcast(
    operation: &'static str,
    left: &Tile,
    right: &Tile,
) -> Result<(DType, Shape), KernelError> {
    alike(left, right).map_or_else(|| unequal(operation, left, right), Ok)
}

/// Returns the type and shape of two tiles that have the same.
#[inline]
fn alike(left: &Tile, right: &Tile) -> Option<(DType, Shape)> {
    let TileType { dtype, shape, .. } = left.tile_type();
    right.is(dtype, &shape).then_some((dtype, shape))
}

#[inline(never)]
fn unequal(
    operation: &'static str,
    left: &Tile,
    right: &Tile,
) -> Result<(DType, Shape), KernelError> {
    let TileType { dtype, shape: a, .. } = left.tile_type();
    let TileType { dtype: other, shape: b, .. } = right.tile_type();
    let mismatch = |why: &str| misfit(operation, left.describe(), &right.describe(), why);
    if dtype != other {
        return Err(mismatch(TYPES));
    }
    match a.broadcast(&b) {
        Some(shape) => Ok((dtype, shape)),
        None => Err(mismatch(&difference(a, b))),
    }
}

/// Returns the common shape of a tile and `shape`, to which another operand was broadcast.
fn common(
    operation: &'static str,
    other: &Tile,
    shape: Shape,
    tile: &Tile,
) -> Result<Shape, KernelError> {
    shape.broadcast(&tile.shape()).ok_or_else(|| {
        let why = difference(shape, tile.shape());
        misfit(operation, other.describe(), &tile.describe(), &why)
    })
}

/// Returns the type and the shape of a selection.
fn selection(condition: &Tile, left: &Tile, right: &Tile) -> Result<(DType, Shape), KernelError> {
    let mismatch = |why: &str| {
        let (left, right) = (format!("{condition:?} ? {left:?}"), right.describe());
        misfit("select", left, &right, why)
    };
    if !matches!(condition.dtype(), DType::I32 | DType::Bool) {
        return Err(mismatch("the condition must be i32 or bool"));
    }
    if left.dtype() != right.dtype() {
        return Err(mismatch(TYPES));
    }
    let mut shape = condition.shape();
    for tile in [left, right] {
        let joined = shape.broadcast(&tile.shape());
        shape = joined.ok_or_else(|| mismatch(&difference(shape, tile.shape())))?;
    }
    Ok((left.dtype(), shape))
}

/// Returns the error of an operation on bits that gets floats.
#[cold]
pub(super) fn not_taken(operation: &'static str, tile: &Tile) -> KernelError {
    let why = "bits are those of whole numbers: cast or bitcast first";
    misfit(operation, tile.describe(), "an operation on bits", why)
}

/// Returns the error of a product that the matrix engine cannot compute.
#[cold]
fn lacking(number: NumberType, dtype: DType, listed: &[&str]) -> KernelError {
    KernelError::Other(format!(
        "dot: this machine's matrix engine has no rate for {} ({dtype}): `pe.gemm.rates` lists {}",
        number.name(),
        listed.join(", ")
    ))
}

/// The words for operands of two types.
pub(super) const TYPES: &str = "their types differ";

/// Returns the error of operands that do not fit, with the reason.
#[cold]
pub(super) fn misfit(operation: &'static str, left: String, right: &str, why: &str) -> KernelError {
    KernelError::Shape { operation, left, right: format!("{right}: {why}") }
}

/// Returns the first difference of two shapes, in words.
#[cold]
pub(super) fn difference(left: Shape, right: Shape) -> String {
    let (a, b) = (left.dims(), right.dims());
    if a.len() != b.len() {
        return format!("one has {}, the other {}", counted(a.len(), "dimension"), b.len());
    }
    let broadcast = |x: usize, y: usize| x == 1 || y == 1;
    let differs = |axis: &usize| a[*axis] != b[*axis];
    let axis = (0..a.len())
        .find(|axis| differs(axis) && !broadcast(a[*axis], b[*axis]))
        .or_else(|| (0..a.len()).find(differs));
    axis.map_or_else(String::new, |axis| format!("dimension {axis} is {} and {}", a[axis], b[axis]))
}

/// `1 dimension`, `2 dimensions`.
pub(super) fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Broadcasts the value of a tile to `shape`.
pub(super) fn stretch(value: &Value, tile: &Tile, shape: Shape) -> Value {
    if tile.shape() == shape {
        return value.clone();
    }
    if tile.shape().dims().is_empty() {
        return value.strided(0, &shape.dims(), &vec![0; shape.dims().len()]);
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
