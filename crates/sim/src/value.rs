//! Immutable data, computed when someone looks.
//!
//! A [`Value`] is a row-major run of elements of one type: either a buffer or an operation on other
//! values, recorded and not yet carried out. Recording costs one small allocation; an [`Evaluator`]
//! carries operations out later, on whatever thread it likes.
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
//! - **VAL-2 (exact).** Elements equal those of [`mod@reference`] bit for bit, whoever evaluates, whole
//!   or in pieces, fused or not; only the payload and sign of a NaN are open. Orders are fixed: a
//!   reduction takes indices ascending from its starting value; each element of `dot` starts at the
//!   accumulator and takes `k` ascending with fused multiply-add.
//! - **VAL-3 (rounding).** `f16` and `bf16` compute each operation in `f32` and round to the nearest,
//!   ties to even; a reduction accumulates in `f32` and rounds once.
//! - **VAL-4 (once).** A value reached by several others is computed once.
//! - **VAL-5 (release).** A value that is ready holds no operand; one that nobody reaches is freed.
//!   A view keeps the whole buffer under it.
//! - **VAL-6 (typed).** Operand types and lengths are checked when recorded; evaluation cannot fail.
//! - **VAL-7 (flat).** Evaluating or dropping a graph of any depth uses constant stack.
//! - **VAL-8 (cheap).** Slices and fills use no memory for elements.

mod block;
mod buffer;
mod dot;
mod dtype;
mod evaluate;
#[cfg(target_arch = "x86_64")]
mod f16c;
mod lanes;
mod math;
mod node;
mod ops;
mod pack;
mod packed;
mod program;
mod reduce;
pub mod reference;
mod view;

pub use buffer::{Buffer, Element, Slice};
pub use dtype::{DType, UnknownDType};
pub use evaluate::{Evaluator, Inline};
pub use half::{bf16, f16};
pub use ops::{Binary, Compare, Reduce, Unary};

use buffer::Scalar;
use node::{Dot, Node, Op, Reduction};
use std::fmt;
use std::sync::Arc;

/// Elements of one type, ready or yet to be computed. Cloning is cheap.
#[derive(Clone)]
pub struct Value {
    node: Arc<Node>,
    start: usize,
    len: usize,
}

/// What is there at once.
impl Value {
    /// `len` zeros.
    pub fn zeros(dtype: DType, len: usize) -> Self {
        Self::full(dtype, len, 0.0)
    }

    /// `len` times `number`, rounded to `dtype` by way of `f32`.
    pub fn full(dtype: DType, len: usize, number: f64) -> Self {
        Self::filled(Scalar::new(dtype, number), dtype, len)
    }

    fn filled(scalar: Scalar, dtype: DType, len: usize) -> Self {
        Self::whole(Node::fill(dtype, len, scalar))
    }

    /// `elements`, each rounded to `dtype`.
    pub fn from_f32(dtype: DType, elements: &[f32]) -> Self {
        Self::whole(Node::ready(block::narrow(dtype, elements)))
    }

    /// `elements` as they are.
    pub fn from_i32(elements: &[i32]) -> Self {
        Self::from_vec(elements.to_vec())
    }

    /// `elements` as they are, without copying.
    pub fn from_vec_f32(elements: Vec<f32>) -> Self {
        Self::from_vec(elements)
    }

    /// `elements` as they are, without copying.
    pub fn from_vec<T: Element>(elements: Vec<T>) -> Self {
        Self::whole(Node::ready(T::buffer(elements)))
    }

    fn whole(node: Node) -> Self {
        Self { start: 0, len: node.len, node: Arc::new(node) }
    }

    fn record(dtype: DType, len: usize, op: Op) -> Self {
        Self::whole(Node::recorded(dtype, len, op))
    }
}

/// Recording operations.
impl Value {
    /// From this [`depth`](Self::depth) on it pays to [`start`](Evaluator::start) a value, so that
    /// what it holds on to stays bounded.
    pub const DEEP: u32 = 64;

    /// `op` of each element.
    pub fn unary(op: Unary, a: &Self) -> Self {
        Self::record(a.dtype(), a.len, Op::Unary(op, a.clone()))
    }

    /// `op` of each pair of elements.
    ///
    /// # Panics
    ///
    /// When types or lengths differ.
    pub fn binary(op: Binary, a: &Self, b: &Self) -> Self {
        same(a, b);
        Self::record(a.dtype(), a.len, Op::Binary(op, [a.clone(), b.clone()]))
    }

    /// 1 where `op` holds between the elements, else 0; of type `i32`.
    ///
    /// # Panics
    ///
    /// When types or lengths differ.
    pub fn compare(op: Compare, a: &Self, b: &Self) -> Self {
        same(a, b);
        Self::record(DType::I32, a.len, Op::Compare(op, [a.clone(), b.clone()]))
    }

    /// The elements of `a` where `condition` (of type `i32`) is not 0, else those of `b`.
    ///
    /// # Panics
    ///
    /// When types or lengths do not fit.
    pub fn select(condition: &Self, a: &Self, b: &Self) -> Self {
        same(a, b);
        assert_eq!(condition.dtype(), DType::I32, "VAL-6: a condition is i32");
        assert_eq!(condition.len, a.len, "VAL-6: a condition for each element");
        let operands = Box::new([condition.clone(), a.clone(), b.clone()]);
        Self::record(a.dtype(), a.len, Op::Select(operands))
    }

    /// Each element as `dtype`: rounded to nearest; to `i32` truncated, saturating, NaN as 0; from
    /// `i32` to `f16` and `bf16` by way of `f32`.
    #[must_use]
    pub fn cast(&self, dtype: DType) -> Self {
        if dtype == self.dtype() {
            return self.clone();
        }
        Self::record(dtype, self.len, Op::Cast(self.clone()))
    }

    /// `a`, seen as `[outer, axis, inner]`, reduced over `axis`.
    ///
    /// # Panics
    ///
    /// When `a` has not `outer * axis * inner` elements.
    pub fn reduce(how: Reduce, a: &Self, outer: usize, axis: usize, inner: usize) -> Self {
        assert_eq!(a.len, outer * axis * inner, "VAL-6: shape of a reduction");
        let reduction = Reduction { how, source: a.clone(), outer, axis, inner };
        Self::record(a.dtype(), outer * inner, Op::Reduce(Box::new(reduction)))
    }

    /// The matrix product of `a` (m*k) and `b` (k*n), added to `acc` (m*n; zeros if none).
    ///
    /// Floats of any type give `f32`; `i32` gives `i32`, wrapping.
    ///
    /// # Panics
    ///
    /// When types or lengths do not fit.
    #[expect(clippy::many_single_char_names, reason = "the letters of the textbook")]
    pub fn dot(a: &Self, b: &Self, mnk: [usize; 3], acc: Option<&Self>) -> Self {
        let [m, n, k] = mnk;
        let dtype = if a.dtype().is_float() { DType::F32 } else { DType::I32 };
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

/// What is known without looking.
impl Value {
    /// The type of the elements.
    pub fn dtype(&self) -> DType {
        self.node.dtype
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the elements lie in memory.
    pub fn is_ready(&self) -> bool {
        self.node.is_ready()
    }

    /// How many operations deep the recorded graph was when this was recorded; 0 when ready.
    ///
    /// An [`Evaluator`] with threads may make it 0 at any moment: decide nothing by it that anyone
    /// can see in simulated time.
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

/// Looking: evaluates on the calling thread what is not ready.
impl Value {
    /// The elements, in place.
    pub fn elements(&self) -> Slice<'_> {
        evaluate::force(self);
        self.ready_elements()
    }

    /// The whole buffer the elements lie in, in place; for a view it holds more than the view.
    pub fn buffer(&self) -> &Buffer {
        evaluate::force(self);
        self.node.buffer().expect("VAL-2: forced")
    }

    fn ready_elements(&self) -> Slice<'_> {
        let buffer = self.node.buffer().expect("VAL-2: forced");
        buffer.view().range(self.start, self.len)
    }

    /// The elements as `f32`.
    pub fn to_f32(&self) -> Vec<f32> {
        block::widen(self.elements())
    }

    /// The elements as `i32`: floats truncated, saturating, NaN as 0.
    #[expect(clippy::cast_possible_truncation, reason = "documented")]
    pub fn to_i32(&self) -> Vec<i32> {
        match self.elements() {
            Slice::I32(s) => s.to_vec(),
            other => block::widen(other).into_iter().map(|x| x as i32).collect(),
        }
    }

    /// Element `i`.
    ///
    /// # Panics
    ///
    /// When there is no such element.
    pub fn get(&self, i: usize) -> f64 {
        assert!(i < self.len, "VAL-6: element {i} of {}", self.len);
        match self.node.fill {
            Some(scalar) => scalar.to_f64(),
            None => self.elements().get(i).to_f64(),
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.is_ready() { "ready" } else { "recorded" };
        write!(f, "Value({}[{}], {state})", self.dtype(), self.len)
    }
}
