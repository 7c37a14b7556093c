//! Immutable data with lazy evaluation.
//!
//! A [`Value`] is a row-major sequence of elements of one type: either a buffer or a recorded operation on other values.
//! Recording an operation costs one small allocation; an [`Evaluator`] computes it later, on any thread.
//!
//! ```
//! use phalanx_sim::value::{Binary, DType, Unary, Value};
//!
//! let a = Value::from_f32(DType::F16, &[1.0, 2.0, 3.0]);
//! let sum = Value::binary(Binary::Add, &a, &Value::full(DType::F16, 3, 0.5));
//! assert!(!sum.is_ready());
//! assert_eq!(Value::unary(Unary::Neg, &sum).to_f32(), [-1.5, -2.5, -3.5]);
//! ```
//!
//! - **VAL-1 (immutable).** The elements of a value never change.
//! - **VAL-2 (exact).** Elements equal those of [`mod@reference`] bit for bit, with every evaluator, whole or in pieces,
//!   fused or not; only the payload and sign of a NaN may differ. Orders are fixed: a reduction takes ascending indices
//!   from its starting value; each element of `dot` starts at the accumulator and takes ascending `k` with fused
//!   multiply-add.
//! - **VAL-3 (rounding).** Floats of fewer than 32 bits compute each operation in `f32` and round to the nearest, ties to
//!   even; a reduction accumulates in `f32` and rounds once. Whole numbers are computed in their own type, and wrap.
//! - **VAL-4 (once).** A value used by several others is computed once.
//! - **VAL-5 (release).** A ready value holds no operand; an unreachable value is freed. A view keeps its whole buffer.
//! - **VAL-6 (typed).** Operand types and lengths are checked at recording; evaluation cannot fail.
//! - **VAL-7 (flat).** Evaluating or dropping a graph of any depth uses constant stack.
//! - **VAL-8 (cheap).** Slices and fills use no memory for elements.

mod atomic;
mod block;
mod buffer;
mod bytes;
mod call;
mod combine;
mod convert;
mod dot;
mod dtype;
mod element;
mod evaluate;
#[cfg(target_arch = "x86_64")]
mod f16c;
mod lanes;
mod math;
mod node;
mod number;
mod ops;
mod pack;
mod packed;
mod precise;
mod program;
mod reduce;
pub mod reference;
mod view;

pub use atomic::Atomic;
pub use buffer::{Buffer, Slice};
pub use call::Axes;
pub use combine::{Combine, CombineError, Register};
pub use dtype::{DType, UnknownDType};
pub use element::{Bool, Element, F8e4m3, F8e5m2};
pub use evaluate::{Evaluator, Inline};
pub use half::{bf16, f16};
pub use ops::{Binary, Compare, Reduce, Unary};

use buffer::Scalar;
use node::{Dot, Node, Op, Reduction};
use std::fmt;
use std::sync::Arc;

/// Elements of one type, ready or recorded. Cloning is cheap.
#[derive(Clone)]
pub struct Value {
    node: Arc<Node>,
    start: usize,
    len: usize,
}

/// Creation of ready values.
impl Value {
    /// Creates `len` zeros.
    pub fn zeros(dtype: DType, len: usize) -> Self {
        Self::full(dtype, len, 0.0)
    }

    /// Creates `len` copies of `number`, rounded to `f32` and then to `dtype` (at once to types of 64 bits).
    pub fn full(dtype: DType, len: usize, number: f64) -> Self {
        Self::filled(Scalar::new(dtype, number), dtype, len)
    }

    /// Creates `len` copies of a whole number, converted to `dtype` as by a cast from `i64`.
    pub fn full_whole(dtype: DType, len: usize, number: i64) -> Self {
        Self::filled(Scalar::from_i64(dtype, number), dtype, len)
    }

    fn filled(scalar: Scalar, dtype: DType, len: usize) -> Self {
        Self::whole(Node::fill(dtype, len, scalar))
    }

    /// Creates a value from `elements`, each rounded to `dtype`.
    pub fn from_f32(dtype: DType, elements: &[f32]) -> Self {
        Self::whole(Node::ready(block::narrow(dtype, elements)))
    }

    /// Creates a value from `elements`.
    pub fn from_i32(elements: &[i32]) -> Self {
        Self::from_vec(elements.to_vec())
    }

    /// Creates a value from `elements`, without a copy.
    pub fn from_vec_f32(elements: Vec<f32>) -> Self {
        Self::from_vec(elements)
    }

    /// Creates a value from `elements`, without a copy.
    pub fn from_vec<T: Element>(elements: Vec<T>) -> Self {
        Self::whole(Node::ready(T::buffer(elements)))
    }

    /// Creates a value from the elements of a buffer, without a copy.
    pub fn from_buffer(elements: Buffer) -> Self {
        Self::whole(Node::ready(elements))
    }

    fn whole(node: Node) -> Self {
        Self { start: 0, len: node.len, node: Arc::new(node) }
    }

    fn record(dtype: DType, len: usize, op: Op) -> Self {
        Self::whole(Node::recorded(dtype, len, op))
    }
}

/// Recording of operations.
impl Value {
    /// The [`depth`](Self::depth) from which a value should be [started](Evaluator::start), to bound the memory of its
    /// operands.
    pub const DEEP: u32 = 64;

    /// Records `op` of each element.
    ///
    /// # Panics
    ///
    /// If the operation does not [take](Unary::takes) elements of this type.
    pub fn unary(op: Unary, a: &Self) -> Self {
        assert!(op.takes(a.dtype()), "VAL-6: {op:?} of {}", a.dtype());
        Self::record(a.dtype(), a.len, Op::Unary(op, a.clone()))
    }

    /// Records `op` of each pair of elements.
    ///
    /// # Panics
    ///
    /// If types or lengths differ, or the operation does not [take](Binary::takes) elements of this type.
    pub fn binary(op: Binary, a: &Self, b: &Self) -> Self {
        same(a, b);
        assert!(op.takes(a.dtype()), "VAL-6: {op:?} of {}", a.dtype());
        Self::record(a.dtype(), a.len, Op::Binary(op, [a.clone(), b.clone()]))
    }

    /// Records a comparison of each pair of elements: 1 if `op` holds, otherwise 0, of type `i32`.
    ///
    /// # Panics
    ///
    /// If types or lengths differ.
    pub fn compare(op: Compare, a: &Self, b: &Self) -> Self {
        same(a, b);
        Self::record(DType::I32, a.len, Op::Compare(op, [a.clone(), b.clone()]))
    }

    /// Records a comparison of each pair of elements, with answers of type `bool`.
    ///
    /// # Panics
    ///
    /// If types or lengths differ.
    pub fn predicate(op: Compare, a: &Self, b: &Self) -> Self {
        same(a, b);
        Self::record(DType::Bool, a.len, Op::Compare(op, [a.clone(), b.clone()]))
    }

    /// Records `a * b + c` of each three elements, of floats with one rounding in the type of computation.
    ///
    /// # Panics
    ///
    /// If types or lengths differ.
    pub fn fma(a: &Self, b: &Self, c: &Self) -> Self {
        same(a, b);
        same(a, c);
        Self::record(a.dtype(), a.len, Op::Fma(Box::new([a.clone(), b.clone(), c.clone()])))
    }

    /// Records a selection: elements of `a` if `condition` (of type `i32` or `bool`) is not 0, otherwise of `b`.
    ///
    /// # Panics
    ///
    /// If types or lengths do not fit.
    pub fn select(condition: &Self, a: &Self, b: &Self) -> Self {
        same(a, b);
        let is_condition = matches!(condition.dtype(), DType::I32 | DType::Bool);
        assert!(is_condition, "VAL-6: a condition is i32 or bool, not {}", condition.dtype());
        assert_eq!(condition.len, a.len, "VAL-6: a condition for each element");
        let operands = Box::new([condition.clone(), a.clone(), b.clone()]);
        Self::record(a.dtype(), a.len, Op::Select(operands))
    }

    /// Records a conversion of each element to `dtype`: floats round to nearest; floats become whole numbers truncated
    /// and saturating, NaN as 0; whole numbers wrap, and become floats of fewer than 32 bits through `f32`; to `bool`
    /// every number but 0 is 1.
    #[must_use]
    pub fn cast(&self, dtype: DType) -> Self {
        if dtype == self.dtype() {
            return self.clone();
        }
        Self::record(dtype, self.len, Op::Cast(self.clone()))
    }

    /// Returns the same bits as elements of another type of the same size.
    ///
    /// # Panics
    ///
    /// If the sizes differ, or `dtype` is `bool`.
    #[must_use]
    pub fn bitcast(&self, dtype: DType) -> Self {
        if dtype == self.dtype() {
            return self.clone();
        }
        let fits = dtype.size() == self.dtype().size() && dtype != DType::Bool;
        assert!(fits, "VAL-6: bits of {} as {dtype}", self.dtype());
        match self.node.fill {
            Some(scalar) => Self::filled(Scalar::from_bits(dtype, scalar.bits()), dtype, self.len),
            None => Self::record(dtype, self.len, Op::Bitcast(self.clone())),
        }
    }

    /// Records a reduction of `a`, with the shape `[outer, axis, inner]`, over `axis`.
    ///
    /// # Panics
    ///
    /// If `a` does not have `outer * axis * inner` elements, or the reduction does not take elements of this type.
    pub fn reduce(how: Reduce, a: &Self, outer: usize, axis: usize, inner: usize) -> Self {
        assert!(how.takes(a.dtype()), "VAL-6: {how:?} of {}", a.dtype());
        assert_eq!(a.len, outer * axis * inner, "VAL-6: shape of a reduction");
        let reduction = Reduction { how, source: a.clone(), outer, axis, inner };
        Self::record(a.dtype(), outer * inner, Op::Reduce(Box::new(reduction)))
    }

    /// Records the matrix product of `a` (m*k) and `b` (k*n), added to `acc` (m*n; zeros if none).
    ///
    /// The type of the result is [`DType::product`]; whole numbers wrap.
    ///
    /// # Panics
    ///
    /// If types or lengths do not fit.
    #[expect(clippy::many_single_char_names, reason = "the letters of the textbook")]
    pub fn dot(a: &Self, b: &Self, mnk: [usize; 3], acc: Option<&Self>) -> Self {
        let [m, n, k] = mnk;
        let dtype = a.dtype().product();
        assert_eq!(a.dtype(), b.dtype(), "VAL-6: operands of one type");
        assert_eq!((a.len, b.len), (m * k, k * n), "VAL-6: operands of a product");
        if let Some(acc) = acc {
            assert_eq!((acc.dtype(), acc.len), (dtype, m * n), "VAL-6: accumulator of a product");
        }
        let dot = Dot { a: a.clone(), b: b.clone(), mnk, acc: acc.cloned() };
        Self::record(dtype, m * n, Op::Dot(Box::new(dot)))
    }
}

fn same(a: &Value, b: &Value) {
    assert_eq!(a.dtype(), b.dtype(), "VAL-6: operands of one type");
    assert_eq!(a.len, b.len, "VAL-6: operands of one length");
}

/// Properties that need no evaluation.
impl Value {
    /// Returns the type of the elements.
    pub fn dtype(&self) -> DType {
        self.node.dtype
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// True if the elements are in memory.
    pub fn is_ready(&self) -> bool {
        self.node.is_ready()
    }

    /// Returns the depth of the recorded graph at the time of recording; 0 for a ready value.
    ///
    /// An [`Evaluator`] with threads may change the depth to 0 at any moment: simulated time must not depend on it.
    pub fn depth(&self) -> u32 {
        if self.is_ready() { 0 } else { self.node.depth }
    }

    fn is_whole(&self) -> bool {
        self.start == 0 && self.len == self.node.len
    }

    fn into_node(self) -> Arc<Node> {
        self.node
    }
}

/// Access to the elements, which evaluates on the calling thread if the value is not ready.
impl Value {
    /// Returns the elements, without a copy.
    pub fn elements(&self) -> Slice<'_> {
        evaluate::force(self);
        self.ready_elements()
    }

    /// Returns the buffer that holds the elements; for a view, the buffer of the whole.
    pub fn buffer(&self) -> &Buffer {
        evaluate::force(self);
        self.node.buffer().expect("VAL-2: forced")
    }

    fn ready_elements(&self) -> Slice<'_> {
        let buffer = self.node.buffer().expect("VAL-2: forced");
        buffer.view().range(self.start, self.len)
    }

    /// Returns the elements as `f32`.
    pub fn to_f32(&self) -> Vec<f32> {
        block::widen(self.elements())
    }

    /// Returns the elements as `i32`: floats truncated and saturating, NaN as 0; whole numbers wrapped.
    pub fn to_i32(&self) -> Vec<i32> {
        match self.elements() {
            Slice::I32(s) => s.to_vec(),
            other => convert::buffer(other, DType::I32).view().of().to_vec(),
        }
    }

    /// Returns the elements as `i64`: floats truncated and saturating, NaN as 0; of `u64` the same bits.
    pub fn to_i64(&self) -> Vec<i64> {
        convert::buffer(self.elements(), DType::I64).view().of().to_vec()
    }

    /// Returns the elements as `f64`.
    pub fn to_f64(&self) -> Vec<f64> {
        convert::buffer(self.elements(), DType::F64).view().of().to_vec()
    }

    /// Returns element `i`, the nearest `f64` to it.
    ///
    /// # Panics
    ///
    /// If there is no such element.
    pub fn get(&self, i: usize) -> f64 {
        self.scalar(i).to_f64()
    }

    /// Returns element `i` as a whole number: floats truncated and saturating, NaN as 0; of `u64` the same bits.
    ///
    /// # Panics
    ///
    /// If there is no such element.
    pub(crate) fn get_i64(&self, i: usize) -> i64 {
        self.scalar(i).to_i64()
    }

    fn scalar(&self, i: usize) -> Scalar {
        assert!(i < self.len, "VAL-6: element {i} of {}", self.len);
        self.node.fill.unwrap_or_else(|| self.elements().get(i))
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.is_ready() { "ready" } else { "recorded" };
        write!(f, "Value({}[{}], {state})", self.dtype(), self.len)
    }
}
