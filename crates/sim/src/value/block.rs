//! Runs a program block by block, in memory that stays in the nearest cache.

use super::buffer::{Buffer, Scalar, Slice, copy};
use super::element::each_type;
use super::number::Number;
use super::program::{Program, Step};
use super::{Binary, Bool, Compare, DType, Element, Unary, Value, convert, lanes};
use crate::with_element;
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
struct Block(Vec<u64>);

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
        macro_rules! slices {
            ($($variant:ident $rust:ty),*) => {
                match dtype {
                    $(DType::$variant => Slice::$variant(self.of(n))),*
                }
            };
        }
        each_type!(slices)
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
            Step::Compare { op, dtype, to, swapped } => self.compare(op, dtype, to, swapped),
            Step::Select { dtype, condition, positions } => {
                self.select(dtype, condition, positions);
            }
            Step::Fma { dtype, positions } => self.fma(dtype, positions),
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

    fn compare(&mut self, op: Compare, dtype: DType, result: DType, swapped: bool) {
        let n = self.n;
        let (operands, to) = self.aside(2);
        let (a, b) = (&operands[usize::from(swapped)], &operands[usize::from(!swapped)]);
        if result == DType::Bool {
            with_element!(dtype, T => answers(op, to, Bool::new, a.of::<T>(n), b.of(n)));
        } else {
            with_element!(dtype, T => answers(op, to, i32::from, a.of::<T>(n), b.of(n)));
        }
        self.replace(2);
    }

    fn select(&mut self, dtype: DType, condition: DType, positions: [usize; 3]) {
        let n = self.n;
        let (operands, to) = self.aside(3);
        let [choice, a, b] = positions.map(|position| &operands[position]);
        // Only the size of an element matters.
        let ones = || choice.of::<i32>(n).iter().map(|choice| *choice != 0);
        let truths = || choice.of::<Bool>(n).iter().map(|choice| choice.get());
        macro_rules! chosen {
            ($T:ty) => {
                match condition {
                    DType::Bool => choose::<$T>(to, truths(), a.of(n), b.of(n)),
                    _ => choose::<$T>(to, ones(), a.of(n), b.of(n)),
                }
            };
        }
        match dtype.size() {
            1 => chosen!(u8),
            2 => chosen!(u16),
            4 => chosen!(u32),
            _ => chosen!(u64),
        }
        self.replace(3);
    }

    fn fma(&mut self, dtype: DType, positions: [usize; 3]) {
        let n = self.n;
        let (operands, to) = self.aside(3);
        let [a, b, c] = positions.map(|position| &operands[position]);
        if let DType::F32 | DType::F16 | DType::Bf16 = dtype {
            let with = [b, c].map(|block| block.bytes(dtype, n));
            copy(to.bytes_mut(dtype, n), a.bytes(dtype, n));
            lanes::run(dtype, lanes::Fma { to: to.bytes_mut(dtype, n), with });
        } else {
            with_element!(dtype, T => {
                let operands = a.of::<T>(n).iter().zip(b.of::<T>(n)).zip(c.of::<T>(n));
                for (to, ((a, b), c)) in to.of_mut::<T>(n).iter_mut().zip(operands) {
                    *to = T::fma(*a, *b, *c);
                }
            });
        }
        self.replace(3);
    }

    fn cast(&mut self, from: DType, to: DType) {
        let n = self.n;
        let (operands, result) = self.aside(1);
        if is_laned(from) && is_laned(to) {
            let mut wide = [0.0; BLOCK];
            widen_into(operands[0].elements(from, n), &mut wide[..n]);
            if to == DType::I32 {
                truncate_into(&wide[..n], result.of_mut(n));
            } else {
                lanes::run(to, lanes::Narrow { to: result.bytes_mut(to, n), from: &wide[..n] });
            }
        } else {
            convert::slice(operands[0].elements(from, n), result.bytes_mut(to, n), to);
        }
        self.replace(1);
    }
}

/// True if conversions of the type are vectorised.
fn is_laned(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::Bf16 | DType::I32)
}

fn splat(block: &mut Block, scalar: Scalar, n: usize) {
    macro_rules! fills {
        ($($variant:ident $rust:ty),*) => {
            match scalar {
                $(Scalar::$variant(x) => block.of_mut(n).fill(x)),*
            }
        };
    }
    each_type!(fills);
}

fn unary(op: Unary, dtype: DType, block: &mut Block, n: usize) {
    match dtype {
        DType::F32 | DType::F16 | DType::Bf16 => {
            lanes::run(dtype, lanes::Map { op, to: block.bytes_mut(dtype, n) });
        }
        _ => with_element!(dtype, T => {
            for x in block.of_mut::<T>(n) {
                *x = T::unary(op, *x);
            }
        }),
    }
}

fn binary(op: Binary, dtype: DType, to: &mut [u8], with: &[u8], swapped: bool) {
    match dtype {
        DType::F32 | DType::F16 | DType::Bf16 => {
            lanes::run(dtype, lanes::Zip { op, to, with, swapped });
        }
        _ => with_element!(dtype, T => {
            pairs::<T>(op, cast_slice_mut(to), cast_slice(with), swapped);
        }),
    }
}

/// Computes `to[i] = to[i] op with[i]`, or `with[i] op to[i]` when swapped; the frequent operations have a loop of their
/// own.
fn pairs<T: Number>(op: Binary, to: &mut [T], with: &[T], swapped: bool) {
    let pairs = to.iter_mut().zip(with);
    match (op, swapped) {
        (Binary::Add, _) => pairs.for_each(|(a, b)| *a = T::binary(Binary::Add, *a, *b)),
        (Binary::Mul, _) => pairs.for_each(|(a, b)| *a = T::binary(Binary::Mul, *a, *b)),
        (Binary::And, _) => pairs.for_each(|(a, b)| *a = T::binary(Binary::And, *a, *b)),
        (Binary::Xor, _) => pairs.for_each(|(a, b)| *a = T::binary(Binary::Xor, *a, *b)),
        (Binary::Sub, false) => pairs.for_each(|(a, b)| *a = T::binary(Binary::Sub, *a, *b)),
        (_, false) => pairs.for_each(|(a, b)| *a = T::binary(op, *a, *b)),
        (_, true) => pairs.for_each(|(a, b)| *a = T::binary(op, *b, *a)),
    }
}

fn answers<T: Element, R: Element>(
    op: Compare,
    to: &mut Block,
    answer: impl Fn(bool) -> R,
    a: &[T],
    b: &[T],
) {
    for ((to, a), b) in to.of_mut(a.len()).iter_mut().zip(a).zip(b) {
        *to = answer(op.holds(*a, *b));
    }
}

fn choose<T: Element>(to: &mut Block, condition: impl Iterator<Item = bool>, a: &[T], b: &[T]) {
    let choices = condition.zip(a.iter().zip(b));
    for (to, (condition, (&a, &b))) in to.of_mut(a.len()).iter_mut().zip(choices) {
        *to = if condition { a } else { b };
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
        Slice::F16(_) | Slice::Bf16(_) => {
            lanes::run(from.dtype(), lanes::Widen { to, from: from.bytes() });
        }
        other => convert::slice(other, cast_slice_mut(to), DType::F32),
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
        other => convert::buffer(Slice::F32(from), other),
    }
}
