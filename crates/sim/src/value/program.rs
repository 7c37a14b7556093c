//! A tree of elementwise operations as a list of steps for a stack of blocks.
//!
//! - **PROG-1 (order).** Each operation is one step on rounded operands, exactly as recorded: fusion saves memory, never an
//!   operation.
//! - **PROG-2 (narrow).** The deeper operand is computed first, so a chain of any length and direction needs one block.

use super::buffer::Scalar;
use super::node::{Node, Op};
use super::{Binary, Compare, DType, Unary, Value};
use std::sync::Arc;

/// One step on a stack of blocks.
#[derive(Debug)]
pub(super) enum Step {
    Splat(Scalar),
    Load(usize),
    Unary(Unary, DType),
    /// An operation on the top two blocks; `swapped` if the upper block is the left operand.
    Binary {
        op: Binary,
        dtype: DType,
        swapped: bool,
    },
    /// An operation on the top block and a leaf, which never enters the stack.
    BinaryLeaf {
        op: Binary,
        dtype: DType,
        swapped: bool,
        leaf: usize,
    },
    /// The sum of the top block and each of four leaves, one after the other.
    AddLeaves {
        dtype: DType,
        leaves: [usize; 4],
    },
    /// A comparison of the top two blocks, of type `dtype`; the answers are of type `to`.
    Compare {
        op: Compare,
        dtype: DType,
        to: DType,
        swapped: bool,
    },
    /// A selection on the top three blocks; the positions of condition, first and second operand, from the lowest.
    Select {
        dtype: DType,
        condition: DType,
        positions: [usize; 3],
    },
    /// A fused multiply-add on the top three blocks; the positions of the factors and the addend, from the lowest.
    Fma {
        dtype: DType,
        positions: [usize; 3],
    },
    Cast {
        from: DType,
        to: DType,
    },
}

/// Steps that leave the result in the lowest block.
#[derive(Debug, Default)]
pub(super) struct Program {
    pub(super) steps: Vec<Step>,
    /// Ready values.
    pub(super) leaves: Vec<Value>,
    /// Number of blocks needed at once.
    pub(super) height: usize,
}

enum Task {
    Visit(Value),
    Emit(Step),
}

#[derive(Default)]
struct Compiler {
    program: Program,
    tasks: Vec<Task>,
    now: usize,
    blockers: Vec<Arc<Node>>,
}

/// True if an operation works element by element.
pub(super) fn is_elementwise(op: &Op) -> bool {
    matches!(
        op,
        Op::Unary(..)
            | Op::Binary(..)
            | Op::Compare(..)
            | Op::Select(..)
            | Op::Fma(..)
            | Op::Cast(..)
            | Op::Bitcast(..)
    )
}

/// Returns the steps for `op`, whose result is of type `dtype`. The error is the nodes that must be ready first.
pub(super) fn compile(op: Op, dtype: DType) -> Result<Program, Vec<Arc<Node>>> {
    let mut compiler = Compiler::default();
    compiler.expand(op, dtype);
    compiler.finish()
}

/// Returns the steps that copy `value`. The error is the nodes that must be ready first.
pub(super) fn compile_value(value: Value) -> Result<Program, Vec<Arc<Node>>> {
    let mut compiler = Compiler { tasks: vec![Task::Visit(value)], ..Compiler::default() };
    compiler.finish()
}

/// True if only one operation uses `value`: its elements need no buffer.
pub(super) fn is_private(value: &Value) -> bool {
    // One reference is the operation, one is `value`. Other threads may change the count; either answer gives the same
    // bits.
    value.is_whole() && Arc::strong_count(&value.node) <= 2
}

impl Compiler {
    fn finish(&mut self) -> Result<Program, Vec<Arc<Node>>> {
        while let Some(task) = self.tasks.pop() {
            match task {
                Task::Visit(value) => self.visit(value),
                Task::Emit(step) => self.emit(step),
            }
        }
        if self.blockers.is_empty() {
            Ok(std::mem::take(&mut self.program))
        } else {
            Err(std::mem::take(&mut self.blockers))
        }
    }

    fn visit(&mut self, value: Value) {
        if value.is_ready() {
            return self.load(value);
        }
        if let Some(scalar) = value.node.fill {
            return self.push(Step::Splat(scalar));
        }
        let op = if is_private(&value) { value.node.op() } else { None };
        match op.filter(is_elementwise) {
            Some(op) => self.expand(op, value.dtype()),
            None if value.is_ready() => self.load(value),
            None => self.blockers.push(value.into_node()),
        }
    }

    fn expand(&mut self, op: Op, dtype: DType) {
        match op {
            Op::Unary(op, a) => self.operation(Step::Unary(op, dtype), [a]),
            Op::Cast(a) => self.operation(Step::Cast { from: a.dtype(), to: dtype }, [a]),
            Op::Binary(op, ab) => {
                let swapped = ab[1].depth() > ab[0].depth();
                self.operation(Step::Binary { op, dtype, swapped }, turned(ab, swapped));
            }
            Op::Compare(op, ab) => {
                let (swapped, of) = (ab[1].depth() > ab[0].depth(), ab[0].dtype());
                let step = Step::Compare { op, dtype: of, to: dtype, swapped };
                self.operation(step, turned(ab, swapped));
            }
            Op::Select(operands) => {
                let condition = operands[0].dtype();
                let step = |positions| Step::Select { dtype, condition, positions };
                self.three(*operands, step);
            }
            Op::Fma(operands) => self.three(*operands, |positions| Step::Fma { dtype, positions }),
            // The same bits: no step.
            Op::Bitcast(a) => self.tasks.push(Task::Visit(a)),
            _ => unreachable!("PROG-1: not elementwise"),
        }
    }

    /// Emits a step of three operands, the deepest first.
    fn three(&mut self, operands: [Value; 3], step: impl FnOnce([usize; 3]) -> Step) {
        let mut order = [0, 1, 2];
        let depths = operands.each_ref().map(Value::depth);
        order.sort_by_key(|&i| std::cmp::Reverse(depths[i]));
        let mut positions = [0; 3];
        for (position, &operand) in order.iter().enumerate() {
            positions[operand] = position;
        }
        let mut operands = operands.map(Some);
        let operands = order.map(|i| operands[i].take().expect("each once"));
        self.operation(step(positions), operands);
    }

    /// Emits `step` after its operands, in order.
    fn operation<const N: usize>(&mut self, step: Step, operands: [Value; N]) {
        self.tasks.push(Task::Emit(step));
        self.tasks.extend(operands.into_iter().rev().map(Task::Visit));
    }

    fn load(&mut self, value: Value) {
        self.program.leaves.push(value);
        self.push(Step::Load(self.program.leaves.len() - 1));
    }

    fn push(&mut self, step: Step) {
        self.program.steps.push(step);
        self.now += 1;
        self.program.height = self.program.height.max(self.now);
    }

    fn emit(&mut self, step: Step) {
        match step {
            Step::Binary { .. } | Step::Compare { .. } => self.now = self.now.saturating_sub(1),
            Step::Select { .. } | Step::Fma { .. } => self.now = self.now.saturating_sub(2),
            _ => {}
        }
        let steps = &mut self.program.steps;
        match (step, steps.last()) {
            (Step::Binary { op, dtype, swapped }, Some(&Step::Load(leaf))) => {
                steps.pop();
                steps.push(Step::BinaryLeaf { op, dtype, swapped, leaf });
                gather_additions(steps);
            }
            (step, _) => steps.push(step),
        }
    }
}

/// Merges the last four additions of leaves into one step: one pass over the sum, and four streams from memory at a time.
fn gather_additions(steps: &mut Vec<Step>) {
    let Some(last) = steps.last_chunk::<4>() else { return };
    let addition = |step: &Step| match *step {
        Step::BinaryLeaf {
            op: Binary::Add,
            dtype: dtype @ (DType::F32 | DType::F16 | DType::Bf16),
            leaf,
            ..
        } => Some((dtype, leaf)),
        _ => None,
    };
    if let [Some((dtype, a)), Some((_, b)), Some((_, c)), Some((_, d))] =
        last.each_ref().map(addition)
    {
        steps.truncate(steps.len() - 4);
        steps.push(Step::AddLeaves { dtype, leaves: [a, b, c, d] });
    }
}

fn turned([a, b]: [Value; 2], swapped: bool) -> [Value; 2] {
    if swapped { [b, a] } else { [a, b] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiled(value: &Value) -> Program {
        compile(value.node.op().expect("recorded"), value.dtype()).ok().expect("nothing blocks")
    }

    fn leaf() -> Value {
        Value::from_i32(&[1, 2, 3])
    }

    #[test]
    fn prog_1_one_step_an_operation() {
        let mut sum = leaf();
        for _ in 0..9 {
            sum = Value::binary(Binary::Add, &sum, &leaf());
        }
        let program = compiled(&sum);
        assert_eq!((program.steps.len(), program.leaves.len()), (10, 10));
        let mut sum = Value::from_vec_f32(vec![1.0]);
        for _ in 0..9 {
            sum = Value::binary(Binary::Add, &sum, &Value::from_vec_f32(vec![1.0]));
        }
        let program = compiled(&sum);
        assert_eq!((program.steps.len(), program.leaves.len()), (4, 10));
    }

    #[test]
    fn prog_2_chains_need_few_blocks() {
        let (mut left, mut right) = (leaf(), leaf());
        for _ in 0..100 {
            left = Value::binary(Binary::Sub, &left, &leaf());
            right = Value::binary(Binary::Sub, &leaf(), &right);
        }
        assert_eq!(compiled(&left).height, 2);
        assert_eq!(compiled(&right).height, 2);
    }
}
