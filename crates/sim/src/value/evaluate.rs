//! The evaluation of recorded operations.
//!
//! A tree of elementwise operations that no other value uses becomes one program; a chain of `dot`s accumulates in one
//! buffer; all other operations are computed operand by operand. The work list is on the heap (VAL-7).

use super::buffer::Buffer;
use super::call::Call;
use super::dot::Chain;
use super::node::{Node, Op, Reduction, Strided};
use super::program::{self, Program};
use super::{Value, block, reduce, view};
use std::sync::Arc;

/// The strategy of evaluation: the thread that computes recorded operations.
pub trait Evaluator: Send + Sync {
    /// Makes all `values` ready before it returns.
    fn force(&self, values: &[Value]) {
        self.force_while(values, &|| true);
    }

    /// Makes all `values` ready, as long as `goes_on` returns true, which is asked before each operation, by this thread alone. True if they
    /// are ready; what is not can be computed later.
    fn force_while(&self, values: &[Value], goes_on: &dyn Fn() -> bool) -> bool;

    /// Starts to make `value` ready on another thread, if there is one; blocks only if too much is already started.
    fn start(&self, value: &Value);
}

/// An evaluator that computes on the calling thread, when forced.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inline;

impl Evaluator for Inline {
    fn force_while(&self, values: &[Value], goes_on: &dyn Fn() -> bool) -> bool {
        values.iter().all(|value| force_while(value, goes_on))
    }

    fn start(&self, value: &Value) {
        force(value);
    }
}

/// The computation of one node whose operands are all ready.
enum Plan {
    Fill,
    Program(Program),
    Join(Arc<[Value]>),
    Gather(Box<Strided>),
    Reduce(Box<Reduction>),
    Dot(Chain),
    Call(Box<(Call, Vec<Value>)>),
}

/// Makes `value` ready.
pub(super) fn force(value: &Value) {
    force_while(value, &|| true);
}

/// Makes `value` ready, as long as `goes_on` returns true; true if it is ready.
fn force_while(value: &Value, goes_on: &dyn Fn() -> bool) -> bool {
    if value.is_ready() {
        return true;
    }
    let mut todo = vec![Arc::clone(&value.node)];
    while let Some(node) = todo.last() {
        match plan(node) {
            Some(Ok(plan)) => {
                if !goes_on() {
                    return false;
                }
                node.settle(|| plan.compute(node));
                todo.pop();
            }
            Some(Err(blockers)) => todo.extend(blockers),
            None => drop(todo.pop()),
        }
    }
    true
}

/// Returns the plan for `node`, or the nodes that must be ready first; `None` if the node is ready.
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
        Op::Call(call) => blocked(&call.1).map(|()| Plan::Call(call)),
        Op::Dot(dot) => Chain::plan(*dot).map(Plan::Dot),
        op => program::compile(op, node.dtype).map(Plan::Program),
    })
}

/// Checks that all `values` are ready; the error is the nodes that are not.
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
            Self::Call(call) => call.0.compute(&call.1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Binary, DType, Unary};
    use super::*;
    use std::sync::Barrier;
    use std::thread;

    fn leaf() -> Value {
        Value::from_i32(&[1, 2, 3])
    }

    fn plus(a: &Value, b: &Value) -> Value {
        Value::binary(Binary::Add, a, b)
    }

    #[test]
    fn a_computation_that_is_stopped_goes_on_later() {
        let asked = std::cell::Cell::new(0);
        let goes_on = || asked.replace(asked.get() + 1) < 3;
        let sums: Vec<Value> = (0..8).map(|_| plus(&leaf(), &leaf())).collect();
        assert!(!Inline.force_while(&sums, &goes_on));
        assert_eq!(sums.iter().filter(|sum| sum.is_ready()).count(), 3, "as many as were allowed");
        assert!(Inline.force_while(&sums, &|| true) && sums.iter().all(Value::is_ready));
    }

    #[test]
    fn val_4_a_shared_value_is_computed_once() {
        let shared = plus(&leaf(), &leaf());
        let (left, right) = (plus(&shared, &leaf()), plus(&leaf(), &shared));
        Inline.force(&[left]);
        assert!(shared.is_ready(), "VAL-4: kept, since others look at it");
        assert_eq!(right.to_i32(), [3, 6, 9]);
        // Used twice by one operation, and by no other.
        let twice = plus(&leaf(), &leaf());
        assert_eq!(plus(&twice, &twice).to_i32(), [4, 8, 12]);
    }

    #[test]
    fn val_4_a_diamond_of_any_height_is_linear() {
        // Without sharing this would take 2^64 additions.
        let mut value = leaf();
        for _ in 0..64 {
            value = plus(&value, &value);
        }
        assert_eq!(value.to_i32(), [0, 0, 0]);
    }

    #[test]
    fn val_5_operands_are_let_go() {
        let operand = leaf();
        let weak = Arc::downgrade(&operand.node);
        let middle = plus(&operand, &leaf());
        let inner = Arc::downgrade(&middle.node);
        let sum = plus(&middle, &leaf());
        drop((operand, middle));
        assert!(weak.upgrade().is_some() && inner.upgrade().is_some());
        Inline.force(std::slice::from_ref(&sum));
        assert!(weak.upgrade().is_none() && inner.upgrade().is_none(), "VAL-5");
        assert_eq!(sum.to_i32(), [3, 6, 9]);
    }

    #[test]
    fn val_5_a_loop_does_not_grow() {
        let mut sum = leaf();
        let mut nodes = Vec::new();
        for i in 0..1000 {
            sum = plus(&sum, &leaf());
            nodes.push(Arc::downgrade(&sum.node));
            if sum.depth() >= Value::DEEP {
                Inline.start(&sum);
            }
            let alive = nodes.iter().filter(|node| node.strong_count() > 0).count();
            assert!(alive <= Value::DEEP as usize, "VAL-5: {alive} alive after {i}");
        }
        assert_eq!(sum.to_i32(), [1001, 2002, 3003]);
    }

    #[test]
    fn node_2_a_ready_node_has_no_operation() {
        let sum = plus(&leaf(), &leaf());
        assert!(sum.node.op().is_some());
        Inline.force(std::slice::from_ref(&sum));
        assert!(sum.node.op().is_none(), "NODE-2");
    }

    #[test]
    fn node_1_threads_that_look_together_see_one_buffer() {
        for _ in 0..50 {
            let shared = Value::unary(Unary::Neg, &plus(&leaf(), &leaf()));
            let ends: Vec<Value> = (0..4).map(|_| plus(&shared, &leaf())).collect();
            let barrier = Barrier::new(4);
            let look = |end: &Value| {
                barrier.wait();
                (end.to_i32(), std::ptr::from_ref(shared.buffer()) as usize)
            };
            let seen: Vec<_> = thread::scope(|scope| {
                let threads: Vec<_> = ends.iter().map(|end| scope.spawn(|| look(end))).collect();
                threads.into_iter().map(|t| t.join().expect("no panic")).collect()
            });
            assert!(seen.iter().all(|s| *s == seen[0]), "NODE-1: {seen:?}");
            assert_eq!(seen[0].0, [-1, -2, -3]);
        }
    }

    /// Graphs of a million operations, in each direction in which a graph can lean.
    #[test]
    fn val_7_a_deep_graph_is_computed_on_a_small_stack() {
        let deep = |n: usize, step: fn(&Value) -> Value| {
            let work = move || (0..n).fold(leaf(), |value, _| step(&value)).to_i32();
            thread::Builder::new().stack_size(64 << 10).spawn(work).expect("a thread").join()
        };
        let left = deep(1_000_000, |value| plus(value, &leaf())).expect("VAL-7: left");
        assert_eq!(left[0], 1_000_001);
        let right = deep(100_000, |value| plus(&leaf(), value)).expect("VAL-7: right");
        assert_eq!(right[0], 100_001);
        let select = |value: &Value| Value::select(&leaf(), &leaf(), value);
        assert_eq!(deep(100_000, select).expect("VAL-7: select")[0], 1);
        let join = |value: &Value| Value::concat(&[value.slice(1, 2), leaf().slice(0, 1)]);
        assert_eq!(deep(100_000, join).expect("VAL-7: join").len(), 3);
        let dot = |value: &Value| Value::dot(&leaf(), &leaf().slice(0, 1), [3, 1, 1], Some(value));
        assert_eq!(deep(100_000, dot).expect("VAL-7: dot")[0], 100_001);
    }

    #[test]
    fn node_3_a_deep_graph_is_dropped_on_a_small_stack() {
        let deep = |n: usize, step: fn(&Value) -> Value| {
            let work = move || drop((0..n).fold(leaf(), |value, _| step(&value)));
            thread::Builder::new().stack_size(64 << 10).spawn(work).expect("a thread").join()
        };
        deep(1_000_000, |value| plus(value, &leaf())).expect("NODE-3: a chain");
        let join = |value: &Value| Value::concat(&[value.slice(1, 2), leaf().slice(0, 1)]);
        deep(100_000, join).expect("NODE-3: joins");
    }

    #[test]
    fn dot_2_a_chain_accumulates_in_one_buffer() {
        let a = Value::from_f32(DType::F16, &[1.0; 16]);
        let first = Value::dot(&a, &a, [4; 3], None);
        let weak = Arc::downgrade(&first.node);
        let last = (0..9).fold(first, |sum, _| Value::dot(&a, &a, [4; 3], Some(&sum)));
        let Some(Ok(Plan::Dot(chain))) = plan(&last.node) else { panic!("DOT-2: no chain") };
        assert_eq!(chain.len(), 10, "DOT-2");
        drop(chain);
        assert_eq!(last.to_f32(), [40.0; 16]);
        assert!(weak.upgrade().is_none(), "DOT-2: no buffer of its own");
    }

    #[test]
    fn dot_3_tiles_of_a_ready_matrix_block_nothing() {
        let a = Value::from_f32(DType::F16, &[1.0; 64]);
        let tile = |at| a.strided(at, &[4, 4], &[8, 1]);
        let product = Value::dot(&tile(0), &tile(4), [4; 3], None);
        let Some(Ok(Plan::Dot(_))) = plan(&product.node) else { panic!("DOT-3: tiles are copied") };
        assert_eq!(product.to_f32(), [4.0; 16]);
    }
}
