//! Runs a program block by block, in memory that stays in the nearest cache.

use super::buffer::{Buffer, Scalar, Slice, copy};
use super::lanes;
use super::program::{Program, Step};
use super::{Binary, Compare, DType, Element, Unary, Value};
use bytemuck::{cast_slice, cast_slice_mut};
use half::{bf16, f16};
use std::cell::RefCell;

/// Number of elements of a block: 8 KiB of `f32`, so that a result and an operand fit a 32 KiB cache.
const BLOCK: usize = 2048;

/// Number of blocks that a thread keeps between programs.
const KEPT: usize = 8;

thread_local! {
    static BLOCKS: RefCell<Vec<Block>> = const { RefCell::new(Vec::new()) };
}

/// Elements of any type, as words.
struct Block(Vec<u32>);

impl Block {
    fn new() -> Self {
        Self(vec![0; BLOCK])
    }

    fn bytes(&self, dtype: DType, n: usize) -> &[u8] {
        &cast_slice(&self.0)[..n * dtype.size()]
    }

    fn bytes_mut(&mut self, dtype: DType, n: usize) -> &mut [u8] {
        &mut cast_slice_mut(&mut self.0)[..n * dtype.size()]
    }

    fn of<T: Element>(&self, n: usize) -> &[T] {
        cast_slice(self.bytes(T::DTYPE, n))
    }

    fn of_mut<T: Element>(&mut self, n: usize) -> &mut [T] {
        cast_slice_mut(self.bytes_mut(T::DTYPE, n))
    }

    fn elements(&self, dtype: DType, n: usize) -> Slice<'_> {
        match dtype {
            DType::F32 => Slice::F32(self.of(n)),
            DType::F16 => Slice::F16(self.of(n)),
            DType::Bf16 => Slice::Bf16(self.of(n)),
            DType::I32 => Slice::I32(self.of(n)),
        }
    }
}

/// Computes the result of `program`: `len` elements of `dtype`.
pub(super) fn run(program: &Program, dtype: DType, len: usize) -> Buffer {
    let mut out = Buffer::with_capacity(dtype, len);
    BLOCKS.with_borrow_mut(|blocks| {
        // One more block, for steps that cannot work in place.
        blocks.resize_with(blocks.len().max(program.height + 1), Block::new);
        for start in (0..len).step_by(BLOCK) {
            let n = BLOCK.min(len - start);
            Machine { blocks, top: 0, leaves: &program.leaves, start, n }.run(&program.steps);
            out.extend(blocks[0].elements(dtype, n));
        }
        blocks.truncate(KEPT);
    });
    out
}

struct Machine<'a, 'b> {
    blocks: &'b mut [Block],
    /// Number of blocks in use.
    top: usize,
    leaves: &'a [Value],
    start: usize,
    n: usize,
}

impl<'a> Machine<'a, '_> {
    fn run(mut self, steps: &[Step]) {
        for step in steps {
            self.step(step);
        }
        debug_assert_eq!(self.top, 1, "PROG-1: one result");
    }

    fn step(&mut self, step: &Step) {
        let (n, top) = (self.n, self.top);
        match *step {
            Step::Splat(scalar) => {
                splat(&mut self.blocks[top], scalar, n);
                self.top += 1;
            }
            Step::Load(leaf) => {
                let from = self.leaf(leaf);
                let to = self.blocks[top].bytes_mut(from.dtype(), n);
                copy(to, from.bytes());
                self.top += 1;
            }
            Step::Unary(op, dtype) => unary(op, dtype, &mut self.blocks[top - 1], n),
            Step::Binary { op, dtype, swapped } => {
                let (below, above) = self.blocks.split_at_mut(top - 1);
                let to = below[top - 2].bytes_mut(dtype, n);
                binary(op, dtype, to, above[0].bytes(dtype, n), swapped);
                self.top -= 1;
            }
            Step::BinaryLeaf { op, dtype, swapped, leaf } => {
                let with = self.leaf(leaf).bytes();
                let to = self.blocks[top - 1].bytes_mut(dtype, n);
                binary(op, dtype, to, with, swapped);
            }
            Step::AddLeaves { dtype, leaves } => {
                let with = leaves.map(|leaf| self.leaf(leaf).bytes());
                let to = self.blocks[top - 1].bytes_mut(dtype, n);
                lanes::run(dtype, lanes::Add4 { to, with });
            }
            Step::Compare { op, dtype, swapped } => self.compare(op, dtype, swapped),
            Step::Select { dtype, positions } => self.select(dtype, positions),
            Step::Cast { from, to } => self.cast(from, to),
        }
    }

    fn leaf(&self, leaf: usize) -> Slice<'a> {
        let leaves: &'a [Value] = self.leaves;
        leaves[leaf].ready_elements().range(self.start, self.n)
    }

    /// Returns the `operands` topmost blocks, and a spare block for the result, which [`Self::replace`] swaps with the
    /// lowest operand.
    fn aside(&mut self, operands: usize) -> (&[Block], &mut Block) {
        let (used, free) = self.blocks.split_at_mut(self.top);
        (&used[self.top - operands..], &mut free[0])
    }

    fn replace(&mut self, operands: usize) {
        self.blocks.swap(self.top - operands, self.top);
        self.top -= operands - 1;
    }

    fn compare(&mut self, op: Compare, dtype: DType, swapped: bool) {
        let n = self.n;
        let (operands, to) = self.aside(2);
        let (a, b) = (&operands[usize::from(swapped)], &operands[usize::from(!swapped)]);
        match dtype {
            DType::F32 => answers(op, to, a.of::<f32>(n), b.of(n)),
            DType::F16 => answers(op, to, a.of::<f16>(n), b.of(n)),
            DType::Bf16 => answers(op, to, a.of::<bf16>(n), b.of(n)),
            DType::I32 => answers(op, to, a.of::<i32>(n), b.of(n)),
        }
        self.replace(2);
    }

    fn select(&mut self, dtype: DType, positions: [usize; 3]) {
        let n = self.n;
        let (operands, to) = self.aside(3);
        let [condition, a, b] = positions.map(|position| &operands[position]);
        let condition = condition.of(n);
        match dtype {
            DType::F32 => choose(to, condition, a.of::<f32>(n), b.of(n)),
            DType::F16 => choose(to, condition, a.of::<f16>(n), b.of(n)),
            DType::Bf16 => choose(to, condition, a.of::<bf16>(n), b.of(n)),
            DType::I32 => choose(to, condition, a.of::<i32>(n), b.of(n)),
        }
        self.replace(3);
    }

    fn cast(&mut self, from: DType, to: DType) {
        let n = self.n;
        let mut wide = [0.0; BLOCK];
        let (operands, result) = self.aside(1);
        widen_into(operands[0].elements(from, n), &mut wide[..n]);
        if to == DType::I32 {
            truncate_into(&wide[..n], result.of_mut(n));
        } else {
            lanes::run(to, lanes::Narrow { to: result.bytes_mut(to, n), from: &wide[..n] });
        }
        self.replace(1);
    }
}

fn splat(block: &mut Block, scalar: Scalar, n: usize) {
    match scalar {
        Scalar::F32(x) => block.of_mut(n).fill(x),
        Scalar::F16(x) => block.of_mut(n).fill(x),
        Scalar::Bf16(x) => block.of_mut(n).fill(x),
        Scalar::I32(x) => block.of_mut(n).fill(x),
    }
}

fn unary(op: Unary, dtype: DType, block: &mut Block, n: usize) {
    if dtype.is_float() {
        return lanes::run(dtype, lanes::Map { op, to: block.bytes_mut(dtype, n) });
    }
    for x in block.of_mut(n) {
        *x = op.apply_i32(*x);
    }
}

fn binary(op: Binary, dtype: DType, to: &mut [u8], with: &[u8], swapped: bool) {
    if dtype.is_float() {
        return lanes::run(dtype, lanes::Zip { op, to, with, swapped });
    }
    let pairs = cast_slice_mut::<u8, i32>(to).iter_mut().zip(cast_slice::<u8, i32>(with));
    match (op, swapped) {
        (Binary::Add, _) => pairs.for_each(|(a, b)| *a = a.wrapping_add(*b)),
        (_, false) => pairs.for_each(|(a, b)| *a = op.apply_i32(*a, *b)),
        (_, true) => pairs.for_each(|(a, b)| *a = op.apply_i32(*b, *a)),
    }
}

fn answers<T: Element + PartialOrd>(op: Compare, to: &mut Block, a: &[T], b: &[T]) {
    for ((to, a), b) in to.of_mut(a.len()).iter_mut().zip(a).zip(b) {
        *to = i32::from(op.holds(*a, *b));
    }
}

fn choose<T: Element>(to: &mut Block, condition: &[i32], a: &[T], b: &[T]) {
    let choices = condition.iter().zip(a.iter().zip(b));
    for (to, (&condition, (&a, &b))) in to.of_mut(a.len()).iter_mut().zip(choices) {
        *to = if condition == 0 { b } else { a };
    }
}

#[expect(clippy::cast_possible_truncation, reason = "documented at Value::cast")]
fn truncate_into(from: &[f32], to: &mut [i32]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from as i32;
    }
}

/// Computes `to[i] = f32(from[i])`.
#[expect(clippy::cast_precision_loss, reason = "documented at Value::cast")]
pub(super) fn widen_into(from: Slice<'_>, to: &mut [f32]) {
    match from {
        Slice::F32(from) => to.copy_from_slice(from),
        Slice::I32(from) => to.iter_mut().zip(from).for_each(|(to, from)| *to = *from as f32),
        other => lanes::run(other.dtype(), lanes::Widen { to, from: other.bytes() }),
    }
}

/// Returns the elements as `f32`.
pub(super) fn widen(from: Slice<'_>) -> Vec<f32> {
    let mut to = vec![0.0; from.len()];
    widen_into(from, &mut to);
    to
}

/// Returns the elements rounded to `dtype`.
pub(super) fn narrow(dtype: DType, from: &[f32]) -> Buffer {
    fn rounded<T: Element>(from: &[f32]) -> Buffer {
        let mut to = vec![T::zeroed(); from.len()];
        lanes::run(T::DTYPE, lanes::Narrow { to: cast_slice_mut(&mut to), from });
        T::buffer(to)
    }
    match dtype {
        DType::F32 => Buffer::F32(from.to_vec()),
        DType::F16 => rounded::<f16>(from),
        DType::Bf16 => rounded::<bf16>(from),
        DType::I32 => {
            let mut to = vec![0; from.len()];
            truncate_into(from, &mut to);
            Buffer::I32(to)
        }
    }
}
