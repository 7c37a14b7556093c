//! One node of the graph of recorded operations.
//!
//! ```text
//!   fill ──────────────┐
//!   recorded (op) ─────┴──► ready (buffer, op gone)
//! ```
//!
//! - **NODE-1 (once).** The thread that holds the node's lock computes and sets the buffer; all others wait for the lock.
//!   The holder never takes a second lock, so no cycle of waits exists.
//! - **NODE-2 (release).** A node that becomes ready drops its operands.
//! - **NODE-3 (flat).** Dropping a graph of any depth uses constant stack.

use super::buffer::{Buffer, Scalar};
use super::call::Call;
use super::{Binary, Compare, DType, Reduce, Unary, Value};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// A recorded operation on other values.
#[derive(Clone)]
pub(crate) enum Op {
    Unary(Unary, Value),
    Binary(Binary, [Value; 2]),
    Compare(Compare, [Value; 2]),
    Select(Box<[Value; 3]>),
    /// The first times the second, plus the third.
    Fma(Box<[Value; 3]>),
    Cast(Value),
    /// The same bits as another type of the same size.
    Bitcast(Value),
    Concat(Arc<[Value]>),
    Strided(Box<Strided>),
    Reduce(Box<Reduction>),
    Dot(Box<Dot>),
    /// An operation on whole values, and its operands.
    Call(Box<(Call, Vec<Value>)>),
}

/// The elements of `source` at `offset + sum(index * stride)`, with indices in row-major order of `shape`.
#[derive(Clone)]
pub(crate) struct Strided {
    pub(crate) source: Value,
    pub(crate) offset: usize,
    pub(crate) shape: Vec<usize>,
    pub(crate) strides: Vec<usize>,
}

/// The reduction of `source`, with the shape `[outer, axis, inner]`, over `axis`.
#[derive(Clone)]
pub(crate) struct Reduction {
    pub(crate) how: Reduce,
    pub(crate) source: Value,
    pub(crate) outer: usize,
    pub(crate) axis: usize,
    pub(crate) inner: usize,
}

/// The product of `a` (m*k) and `b` (k*n), added to `acc` (m*n).
#[derive(Clone)]
pub(crate) struct Dot {
    pub(crate) a: Value,
    pub(crate) b: Value,
    pub(crate) mnk: [usize; 3],
    pub(crate) acc: Option<Value>,
}

pub(crate) struct Node {
    pub(crate) dtype: DType,
    pub(crate) len: usize,
    /// 0 for a node created ready or filled; otherwise one more than the deepest operand at recording.
    pub(crate) depth: u32,
    pub(crate) fill: Option<Scalar>,
    ready: OnceLock<Buffer>,
    op: Mutex<Option<Op>>,
}

impl Node {
    pub(crate) fn ready(buffer: Buffer) -> Self {
        let (dtype, len) = (buffer.dtype(), buffer.len());
        let op = Mutex::new(None);
        Self { dtype, len, depth: 0, fill: None, ready: OnceLock::from(buffer), op }
    }

    pub(crate) fn fill(dtype: DType, len: usize, scalar: Scalar) -> Self {
        let (ready, op) = (OnceLock::new(), Mutex::new(None));
        Self { dtype, len, depth: 0, fill: Some(scalar), ready, op }
    }

    pub(crate) fn recorded(dtype: DType, len: usize, op: Op) -> Self {
        let mut deepest = 0;
        op.each_operand(|value| deepest = deepest.max(value.depth()));
        let (ready, op) = (OnceLock::new(), Mutex::new(Some(op)));
        Self { dtype, len, depth: deepest.saturating_add(1), fill: None, ready, op }
    }

    pub(crate) fn buffer(&self) -> Option<&Buffer> {
        self.ready.get()
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.buffer().is_some()
    }

    /// Returns a copy of the recorded operation, unless the node is ready.
    pub(crate) fn op(&self) -> Option<Op> {
        if self.is_ready() { None } else { self.lock().clone() }
    }

    /// Makes the node ready with the result of `compute`, unless it is already ready.
    pub(crate) fn settle(&self, compute: impl FnOnce() -> Buffer) {
        let mut op = self.lock();
        if self.is_ready() {
            return;
        }
        let buffer = compute();
        debug_assert_eq!((buffer.dtype(), buffer.len()), (self.dtype, self.len));
        let fresh = self.ready.set(buffer).is_ok();
        assert!(fresh, "NODE-1: set twice");
        let spent = op.take();
        // Operands may be the last references to a large graph: drop them after the lock.
        drop(op);
        drop(spent);
    }

    /// Locks the operation. After a panic of another thread the operation is still there and is computed again.
    fn lock(&self) -> MutexGuard<'_, Option<Op>> {
        self.op.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let mut doomed = Vec::new();
        self.take_operands(&mut doomed);
        while let Some(value) = doomed.pop() {
            if let Some(mut node) = Arc::into_inner(value.into_node()) {
                node.take_operands(&mut doomed);
            }
        }
    }
}

impl Node {
    fn take_operands(&mut self, into: &mut Vec<Value>) {
        let slot = self.op.get_mut().unwrap_or_else(PoisonError::into_inner);
        match slot.take() {
            None => {}
            Some(Op::Unary(_, a) | Op::Cast(a) | Op::Bitcast(a)) => into.push(a),
            Some(Op::Binary(_, ab) | Op::Compare(_, ab)) => into.extend(ab),
            Some(Op::Select(abc) | Op::Fma(abc)) => into.extend(*abc),
            Some(Op::Strided(view)) => into.push(view.source),
            Some(Op::Reduce(reduction)) => into.push(reduction.source),
            Some(Op::Call(call)) => into.extend(call.1),
            Some(Op::Dot(dot)) => into.extend([dot.a, dot.b].into_iter().chain(dot.acc)),
            // Copies of the operation share the pieces: the last copy frees them.
            Some(Op::Concat(mut pieces)) => {
                if let Some(pieces) = Arc::get_mut(&mut pieces) {
                    let empty = || Value::zeros(DType::I32, 0);
                    into.extend(pieces.iter_mut().map(|p| std::mem::replace(p, empty())));
                }
            }
        }
    }
}

impl Op {
    /// Calls `see` with each operand, in order.
    pub(crate) fn each_operand<'a>(&'a self, mut see: impl FnMut(&'a Value)) {
        match self {
            Self::Unary(_, a) | Self::Cast(a) | Self::Bitcast(a) => see(a),
            Self::Binary(_, ab) | Self::Compare(_, ab) => ab.iter().for_each(see),
            Self::Select(abc) | Self::Fma(abc) => abc.iter().for_each(see),
            Self::Concat(pieces) => pieces.iter().for_each(see),
            Self::Strided(view) => see(&view.source),
            Self::Call(call) => call.1.iter().for_each(see),
            Self::Reduce(reduction) => see(&reduction.source),
            Self::Dot(dot) => {
                [&dot.a, &dot.b].into_iter().chain(&dot.acc).for_each(see);
            }
        }
    }
}
