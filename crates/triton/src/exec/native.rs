//! Operations on known numbers: they take no time.

use super::values::{Data, Descriptor};
use super::{Next, Run, Val};
use crate::function::apply;
use crate::index::{self, Index, as_int};
use crate::number::{Arith, float, round, unsigned, whole, wrap};
use crate::program::{Constant, Conversion, Instruction, Op};
use crate::types::{Element, Scalar};
use phalanx_sim::kernel::KernelError;
use std::rc::Rc;

impl Run {
    /// Performs an instruction if no tile is needed for it.
    pub(super) fn native(&mut self, instruction: &Instruction) -> Result<Next, KernelError> {
        let to = instruction.to;
        match &instruction.op {
            Op::Jump(place) => return Ok(Next::At(*place)),
            Op::Branch(then, otherwise) => {
                let Val::Whole(condition) = self.look(instruction, 0) else {
                    return Ok(Next::Tiles);
                };
                let place = if *condition == 0 { *otherwise } else { *then };
                self.release(instruction);
                return Ok(Next::At(place));
            }
            Op::Round => self.count_round()?,
            Op::Return => return Ok(Next::End),
            Op::Drop => instruction.args.iter().for_each(|reg| self.set(*reg, Val::None)),
            Op::Move => {
                let value = self.operand(instruction, 0);
                self.set(to, value);
            }
            Op::Constant(constant) => {
                let value = self.constant(instruction, constant);
                self.set(to, value);
            }
            Op::ProgramId(axis) => {
                let number = as_int(self.tl.program_id_along((*axis).into()));
                self.set(to, Val::Whole(number));
            }
            Op::Programs(axis) => {
                let number = as_int(self.tl.num_programs_along((*axis).into()));
                self.set(to, Val::Whole(number));
            }
            Op::Range(start) => self.set(to, Val::index(Index::range(*start))),
            Op::HasRoom { queue, stages } => {
                let most = stages.unwrap_or(self.call.num_stages).max(1);
                let has_room = self.queues[*queue].len() < most;
                self.set(to, Val::Whole(has_room.into()));
            }
            Op::Pop(queue) => {
                let Some(data) = self.queues[*queue].pop_front() else {
                    return Err(KernelError::Other("a load that was not issued ahead".to_owned()));
                };
                self.set(to, Val::Data(data));
            }
            _ => return self.known(instruction),
        }
        Ok(Next::Follows)
    }

    fn constant(&self, instruction: &Instruction, constant: &Constant) -> Val {
        if instruction.to == crate::program::NONE {
            return Val::None;
        }
        match constant {
            Constant::Float(number) => Val::Float(*number),
            Constant::Whole(number) if self.kind(instruction.to).is_one => Val::Whole(*number),
            Constant::Whole(number) => Val::index(Index::splat(*number)),
            Constant::List(numbers) => Val::index(Index::List(numbers.clone())),
        }
    }

    /// Performs an operation whose operands are all known.
    fn known(&mut self, instruction: &Instruction) -> Result<Next, KernelError> {
        let has_tile = instruction
            .args
            .iter()
            .any(|reg| matches!(self.registers[*reg as usize], Val::Data(_)));
        let is_view = match instruction.op {
            Op::Broadcast | Op::Expand(_) => true,
            // A single integer is computed, so that later index arithmetic knows its value.
            Op::Splat => self.kind(instruction.args[0]).scalar().is_float(),
            _ => false,
        };
        if instruction.to == crate::program::NONE || has_tile && !is_view {
            return Ok(Next::Tiles);
        }
        let result = match &instruction.op {
            Op::Arith(arith) => self.arith(instruction, *arith),
            Op::Compare(comparison) => self.compare(instruction, *comparison),
            Op::Function(function) => match self.look(instruction, 0) {
                Val::Float(x) => {
                    Some(Val::Float(apply(*function, *x, self.kind(instruction.to).scalar())))
                }
                Val::Whole(x) if *function == crate::program::Function::Abs => {
                    Some(Val::Whole(x.wrapping_abs()))
                }
                _ => None,
            },
            Op::Convert(conversion) => self.convert(instruction, *conversion),
            Op::Select => self.select(instruction),
            Op::Fma => match [0, 1, 2].map(|number| self.look(instruction, number)) {
                [Val::Float(a), Val::Float(b), Val::Float(c)] => {
                    Some(Val::Float(round(a.mul_add(*b, *c), self.kind(instruction.to).scalar())))
                }
                _ => None,
            },
            Op::AddPointer => self.add_pointer(instruction),
            Op::Bitcast => self.bitcast(instruction),
            Op::Descriptor { rank } => Some(self.descriptor(instruction, *rank)?),
            _ => self.reshaped(instruction),
        };
        let Some(value) = result else { return Ok(Next::Tiles) };
        self.release(instruction);
        self.set(instruction.to, value);
        Ok(Next::Follows)
    }

    /// Operations that change the shape alone; of tiles too if no element moves.
    fn reshaped(&self, instruction: &Instruction) -> Option<Val> {
        let source = instruction.args.first()?;
        let (from, to) = (self.kind(*source), self.kind(instruction.to));
        match (&instruction.op, self.look(instruction, 0)) {
            (
                Op::Splat | Op::Broadcast | Op::Reshape | Op::Expand(_) | Op::Transpose(_),
                Val::Float(x),
            ) => Some(Val::Float(*x)),
            (Op::Splat, Val::Whole(number)) => Some(Val::index(Index::splat(*number))),
            (Op::Splat, Val::Data(data)) => Some(Val::Data(data.with_shape(to.ones()))),
            (Op::Broadcast, Val::Index(index)) => {
                Some(Val::index(index::broadcast(index, &from.extent, &to.extent)))
            }
            // The tile keeps its dimensions of 1.
            (Op::Broadcast, Val::Data(data)) => Some(Val::Data(data.clone())),
            (Op::Expand(axis), Val::Index(index)) => {
                Some(Val::index(index::expand(index, &from.extent, *axis)))
            }
            (Op::Expand(axis), Val::Data(data)) => Some(Val::Data(expanded(data, *axis))),
            (Op::Reshape, Val::Index(index)) => {
                Some(Val::index(index::reshape(index, &from.extent, &to.extent)))
            }
            (Op::Transpose(order), Val::Index(index)) => {
                Some(Val::index(index::transpose(index, &from.extent, order)))
            }
            _ => None,
        }
    }

    fn arith(&self, instruction: &Instruction, arith: Arith) -> Option<Val> {
        let kind = self.kind(instruction.to);
        match (self.look(instruction, 0), self.look(instruction, 1)) {
            (Val::Whole(a), Val::Whole(b)) => Some(Val::Whole(whole(arith, *a, *b, kind.bits()))),
            (Val::Float(a), Val::Float(b)) => Some(Val::Float(float(arith, *a, *b, kind.scalar()))),
            (Val::Index(a), Val::Index(b)) => {
                Some(Val::index(index::arith(arith, a, b, &kind.extent, kind.bits())))
            }
            _ => None,
        }
    }

    fn compare(
        &self,
        instruction: &Instruction,
        comparison: crate::number::Comparison,
    ) -> Option<Val> {
        let kind = self.kind(instruction.args[0]);
        match (self.look(instruction, 0), self.look(instruction, 1)) {
            (Val::Whole(a), Val::Whole(b)) => {
                Some(Val::Whole(comparison.of_whole(*a, *b, kind.bits()).into()))
            }
            (Val::Float(a), Val::Float(b)) => {
                let holds = i64::from(comparison.of_float(*a, *b));
                Some(if kind.is_one { Val::Whole(holds) } else { Val::index(Index::splat(holds)) })
            }
            (Val::Index(a), Val::Index(b)) => {
                Some(Val::index(index::compare(comparison, a, b, &kind.extent, kind.bits())))
            }
            _ => None,
        }
    }

    fn select(&self, instruction: &Instruction) -> Option<Val> {
        let [condition, left, right] = [0, 1, 2].map(|number| self.look(instruction, number));
        match (condition, left, right) {
            (Val::Whole(condition), ..) => {
                Some(if *condition == 0 { right.clone() } else { left.clone() })
            }
            (Val::Index(condition), Val::Index(a), Val::Index(b)) => {
                let extent = &self.kind(instruction.to).extent;
                Some(Val::index(Index::select(condition, a, b, extent)))
            }
            (Val::Index(condition), ..) => match condition.as_splat() {
                Some(0) => Some(right.clone()),
                Some(_) => Some(left.clone()),
                None => None,
            },
            _ => None,
        }
    }

    fn convert(&self, instruction: &Instruction, conversion: Conversion) -> Option<Val> {
        let (from, to) = (self.kind(instruction.args[0]), self.kind(instruction.to));
        match (conversion, self.look(instruction, 0)) {
            (Conversion::Whole { is_unsigned }, Val::Whole(number)) => {
                Some(Val::Whole(widened(*number, from.bits(), to.bits(), is_unsigned)))
            }
            (Conversion::Whole { is_unsigned }, Val::Index(index)) => {
                Some(Val::index(index.cast(&from.extent, from.bits(), to.bits(), is_unsigned)))
            }
            (Conversion::FromWhole { is_unsigned }, Val::Whole(number)) => {
                Some(Val::Float(as_float(*number, from.bits(), is_unsigned, to.scalar())))
            }
            (Conversion::FromWhole { is_unsigned }, Val::Index(index)) => {
                let number = index.as_splat()?;
                Some(Val::Float(as_float(number, from.bits(), is_unsigned, to.scalar())))
            }
            #[expect(clippy::cast_possible_truncation, reason = "truncated toward zero")]
            (Conversion::ToWhole { .. }, Val::Float(number)) => {
                let number = wrap(*number as i64, to.bits());
                Some(if to.is_one { Val::Whole(number) } else { Val::index(Index::splat(number)) })
            }
            (Conversion::Float, Val::Float(number)) if to.scalar().bits() > 8 => {
                Some(Val::Float(round(*number, to.scalar())))
            }
            _ => None,
        }
    }

    fn add_pointer(&self, instruction: &Instruction) -> Option<Val> {
        let size = i64::try_from(self.kind(instruction.to).pointee().bytes()).unwrap_or(1);
        match (self.look(instruction, 0), self.look(instruction, 1)) {
            (Val::Whole(base), Val::Whole(offset)) => {
                Some(Val::Whole(base.wrapping_add(offset.wrapping_mul(size))))
            }
            (Val::Index(base), Val::Index(offset)) => {
                let extent = &self.kind(instruction.to).extent;
                let bytes = index::arith(Arith::Mul, offset, &Index::splat(size), extent, 64);
                Some(Val::index(index::arith(Arith::Add, base, &bytes, extent, 64)))
            }
            _ => None,
        }
    }

    /// The same bits as another type; integers and addresses stay what they are.
    fn bitcast(&self, instruction: &Instruction) -> Option<Val> {
        let (from, to) = (self.kind(instruction.args[0]), self.kind(instruction.to));
        let is_whole =
            |element: Element| !matches!(element, Element::Number(scalar) if scalar.is_float());
        let value = self.look(instruction, 0);
        if is_whole(from.element) && is_whole(to.element) {
            return Some(value.clone());
        }
        #[expect(clippy::cast_possible_truncation, reason = "the bits of a float of 32 bits")]
        match (value, from.scalar(), to.scalar()) {
            (Val::Whole(bits), _, Scalar::F32) => {
                Some(Val::Float(f64::from(f32::from_bits(bits.cast_unsigned() as u32))))
            }
            (Val::Whole(bits), _, Scalar::F64) => {
                Some(Val::Float(f64::from_bits(bits.cast_unsigned())))
            }
            (Val::Float(number), Scalar::F32, _) => {
                let bits = wrap(i64::from((*number as f32).to_bits()), 32);
                Some(if to.is_one { Val::Whole(bits) } else { Val::index(Index::splat(bits)) })
            }
            _ => None,
        }
    }

    fn descriptor(&self, instruction: &Instruction, rank: usize) -> Result<Val, KernelError> {
        let number = |at: usize| match self.look(instruction, at) {
            Val::Whole(number) => Ok(*number),
            _ => Err(KernelError::Other("a descriptor of something unknown".to_owned())),
        };
        let lengths = (1..=rank).map(number).collect::<Result<_, _>>()?;
        let strides = (rank + 1..=2 * rank).map(number).collect::<Result<_, _>>()?;
        let descriptor = Descriptor { base: number(0)?, lengths, strides, pads_with_nan: false };
        Ok(Val::Descriptor(Rc::new(descriptor)))
    }
}

/// Adds a dimension of 1 to a tile.
fn expanded(data: &Data, axis: usize) -> Data {
    let mut dims = data.shape.to_vec();
    dims.insert(axis.min(dims.len()), 1);
    data.with_shape(dims.into())
}

/// Converts an integer to another number of bits.
fn widened(number: i64, from: u8, to: u8, is_unsigned: bool) -> i64 {
    match (is_unsigned, from) {
        (true, _) => wrap(unsigned(number, from).cast_signed(), to),
        // A bit with a sign is 0 or -1.
        (false, 1) => wrap(-number, to),
        _ => wrap(number, to),
    }
}

#[expect(clippy::cast_precision_loss, reason = "rounding is the point")]
fn as_float(number: i64, bits: u8, is_unsigned: bool, scalar: Scalar) -> f64 {
    let number = if is_unsigned {
        unsigned(number, bits) as f64
    } else if bits == 1 {
        -number as f64
    } else {
        number as f64
    };
    round(number, scalar)
}
