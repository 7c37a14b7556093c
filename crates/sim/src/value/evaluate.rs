//! Carrying recorded operations out.
//!
//! A tree of elementwise operations that nobody else can see becomes one program; a chain of `dot`s
//! accumulates in one buffer; everything else is computed operand by operand. The work list is on
//! the heap (VAL-7).

use super::buffer::Buffer;
use super::dot::Chain;
use super::node::{Node, Op, Reduction, Strided};
use super::program::{self, Program};
use super::{Value, block, reduce, view};
use std::sync::Arc;

/// Who carries recorded operations out, and on which thread.
pub trait Evaluator: Send + Sync {
    /// Makes all `values` ready; they are on return.
    fn force(&self, values: &[Value]);

    /// Begins to make `value` ready on another thread if there is one; may take long only when too
    /// much is already begun.
    fn start(&self, value: &Value);
}

/// Evaluates on the calling thread, when forced.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inline;

impl Evaluator for Inline {
    fn force(&self, values: &[Value]) {
        values.iter().for_each(force);
    }

    fn start(&self, value: &Value) {
        force(value);
    }
}

/// How one node will be computed, every operand being ready.
enum Plan {
    Fill,
    Program(Program),
    Join(Arc<[Value]>),
    Gather(Box<Strided>),
    Reduce(Box<Reduction>),
    Dot(Chain),
}

/// Makes `value` ready.
pub(super) fn force(value: &Value) {
    if value.is_ready() {
        return;
    }
    let mut todo = vec![Arc::clone(&value.node)];
    while let Some(node) = todo.last() {
        match plan(node) {
            Some(Ok(plan)) => {
                node.settle(|| plan.compute(node));
                todo.pop();
            }
            Some(Err(blockers)) => todo.extend(blockers),
            None => drop(todo.pop()),
        }
    }
}

/// How to compute `node`, or what must be ready first; nothing when it is ready.
fn plan(node: &Node) -> Option<Result<Plan, Vec<Arc<Node>>>> {
    if node.fill.is_some() && !node.is_ready() {
        return Some(Ok(Plan::Fill));
    }
    Some(match node.op()? {
        Op::Concat(pieces) => {
            let pending = |piece: &&Value| piece.node.fill.is_none();
            blocked(pieces.iter().filter(pending)).map(|()| Plan::Join(pieces))
        }
        Op::Strided(view) => blocked([&view.source]).map(|()| Plan::Gather(view)),
        Op::Reduce(reduction) => blocked([&reduction.source]).map(|()| Plan::Reduce(reduction)),
        Op::Dot(dot) => Chain::plan(*dot).map(Plan::Dot),
        op => program::compile(op, node.dtype).map(Plan::Program),
    })
}

/// An error naming those of `values` that are not ready.
pub(super) fn blocked<'a>(
    values: impl IntoIterator<Item = &'a Value>,
) -> Result<(), Vec<Arc<Node>>> {
    let pending = values.into_iter().filter(|value| !value.is_ready());
    let nodes: Vec<_> = pending.map(|value| Arc::clone(&value.node)).collect();
    if nodes.is_empty() { Ok(()) } else { Err(nodes) }
}

impl Plan {
    fn compute(&self, node: &Node) -> Buffer {
        match self {
            Self::Fill => Buffer::filled(node.fill.expect("planned"), node.len),
            Self::Program(program) => block::run(program, node.dtype, node.len),
            Self::Join(pieces) => view::join(pieces),
            Self::Gather(strided) => view::gather(strided),
            Self::Reduce(reduction) => reduce::run(reduction),
            Self::Dot(chain) => chain.run(),
        }
    }
}
