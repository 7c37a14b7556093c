//! Operations on known numbers: they take no time.

use super::values::{Data, Descriptor};
use super::{Next, Run, Val};
use crate::function::apply;
use crate::index::{self, Index, as_int};
use crate::number::{Arith, float, round, unsigned, whole, wrap};
use crate::program::{Constant, Conversion, Instruction, NONE, Op, Reg};
use crate::types::{Element, Extent, Scalar};
use phalanx_sim::kernel::KernelError;
use std::rc::Rc;

/// A result that takes no time.
enum Known {
    Value(Val),
    Index(Index),
}

impl Run {
    /// Performs an instruction if no tile is needed for it.
    pub(super) fn native(&mut self, instruction: &Instruction) -> Result<Next, Box<KernelError>> {
        let to = instruction.to;
        match &instruction.op {
            Op::Jump(place) => return Ok(Next::At(*place)),
            Op::Branch(then, otherwise) => {
                let Val::Whole(condition) = self.look(instruction, 0) else {
                    return Ok(Next::Tiles);
                };
                return Ok(Next::At(if *condition == 0 { *otherwise } else { *then }));
            }
            Op::Move => {
                let value = self.operand(instruction, 0);
                self.set(to, value);
            }
            Op::HasRoom { queue, stages } => {
                let most = stages.unwrap_or(self.call.num_stages).max(1);
                let has_room = self.queues[*queue].len() < most;
                self.set(to, Val::Whole(has_room.into()));
            }
            Op::Pop(queue) => {
                let Some(data) = self.queues[*queue].pop_front() else {
                    let text = "a load that was not issued ahead".to_owned();
                    return Err(Box::new(KernelError::Other(text)));
                };
                self.set(to, Val::Data(data));
            }
            Op::Round => self.count_round()?,
            Op::Drop => instruction.args.iter().for_each(|reg| self.set(*reg, Val::None)),
            Op::Load { .. } | Op::Ahead { .. } | Op::Store { .. } | Op::Dot => {
                return Ok(Next::Tiles);
            }
            _ if self.with_numbers(instruction) || self.shifted(instruction) => {}
            _ if self.is_of_tiles(instruction) => return Ok(Next::Tiles),
            _ => return self.rarely(instruction),
        }
        Ok(Next::Follows)
    }

    /// Performs instructions that loops seldom have, or that make tensors.
    #[inline(never)]
    fn rarely(&mut self, instruction: &Instruction) -> Result<Next, Box<KernelError>> {
        let to = instruction.to;
        match &instruction.op {
            Op::Return => return Ok(Next::End),
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
            _ => return self.known(instruction),
        }
        Ok(Next::Follows)
    }

    /// Performs an operation whose operands and result are one number each, of all elements or alone, or a comparison that gives one; false
    /// if it is another one. Numbers hold nothing, so that operands need not be released.
    #[inline]
    fn with_numbers(&mut self, instruction: &Instruction) -> bool {
        if instruction.to == NONE {
            return false;
        }
        let value = match &instruction.op {
            Op::Arith(arith) => match (self.look(instruction, 0), self.look(instruction, 1)) {
                (Val::Whole(a), Val::Whole(b)) => {
                    Val::Whole(whole(*arith, *a, *b, self.kind(instruction.to).bits()))
                }
                (Val::Equal(a), Val::Equal(b)) => {
                    Val::Equal(whole(*arith, *a, *b, self.kind(instruction.to).bits()))
                }
                _ => return false,
            },
            Op::Compare(comparison) => {
                let bits = self.kind(instruction.args[0]).bits();
                match (self.look(instruction, 0), self.look(instruction, 1)) {
                    (Val::Whole(a), Val::Whole(b)) => {
                        Val::Whole(comparison.of_whole(*a, *b, bits).into())
                    }
                    (Val::Equal(a), Val::Equal(b)) => {
                        Val::Equal(comparison.of_whole(*a, *b, bits).into())
                    }
                    (Val::Index(a), Val::Equal(b)) => {
                        let extent = &self.kind(instruction.args[0]).extent;
                        match index::alike(*comparison, a, *b, extent) {
                            Some(holds) => Val::Equal(holds.into()),
                            None => return false,
                        }
                    }
                    _ => return false,
                }
            }
            Op::Splat => match self.look(instruction, 0) {
                Val::Whole(number) => Val::Equal(*number),
                _ => return false,
            },
            Op::Broadcast => match self.look(instruction, 0) {
                Val::Equal(number) => Val::Equal(*number),
                _ => return false,
            },
            Op::AddPointer => match (self.look(instruction, 0), self.look(instruction, 1)) {
                (Val::Whole(base), Val::Whole(offset)) => {
                    let size = self.element_size(instruction.to);
                    Val::Whole(base.wrapping_add(offset.wrapping_mul(size)))
                }
                _ => return false,
            },
            _ => return false,
        };
        self.set(instruction.to, value);
        true
    }

    /// True for an operation on elements that has a tile among its operands.
    #[inline]
    fn is_of_tiles(&self, instruction: &Instruction) -> bool {
        matches!(
            instruction.op,
            Op::Arith(_) | Op::Compare(_) | Op::Function(_) | Op::Convert(_) | Op::Select | Op::Fma
        ) && self.has_tile(instruction)
    }

    fn has_tile(&self, instruction: &Instruction) -> bool {
        let is_tile = |reg: &Reg| matches!(self.registers[*reg as usize], Val::Data(_));
        instruction.args.iter().any(is_tile)
    }

    /// Returns the bytes of what a pointer points to.
    fn element_size(&self, pointer: Reg) -> i64 {
        i64::try_from(self.kind(pointer).pointee().bytes()).unwrap_or(1)
    }

    /// Adds one number to all addresses of a tensor that nobody else needs, where they are; false if it is another operation.
    #[inline]
    fn shifted(&mut self, instruction: &Instruction) -> bool {
        let is_last = instruction.dies & 1 == 1 && instruction.to != NONE;
        if !matches!(instruction.op, Op::AddPointer) || !is_last {
            return false;
        }
        let Val::Equal(offset) = self.look(instruction, 1) else { return false };
        let by = offset.wrapping_mul(self.element_size(instruction.to));
        let register = &mut self.registers[instruction.args[0] as usize];
        let Val::Index(index) = register else { return false };
        let Some(Index::Affine(base, _)) = Rc::get_mut(index) else { return false };
        let Some(sum) = base.checked_add(by) else { return false };
        *base = sum;
        let value = std::mem::take(register);
        self.set(instruction.to, value);
        true
    }

    fn constant(&self, instruction: &Instruction, constant: &Constant) -> Val {
        if instruction.to == NONE {
            return Val::None;
        }
        match constant {
            Constant::Float(number) => Val::Float(*number),
            Constant::Whole(number) if self.kind(instruction.to).is_one => Val::Whole(*number),
            Constant::Whole(number) => Val::Equal(*number),
            Constant::List(numbers) => Val::index(Index::List(numbers.clone())),
        }
    }

    /// Performs an operation whose operands are all known.
    fn known(&mut self, instruction: &Instruction) -> Result<Next, Box<KernelError>> {
        let is_view = match instruction.op {
            Op::Broadcast | Op::Expand(_) => true,
            // A single integer is computed, so that later index arithmetic knows its value.
            Op::Splat => self.kind(instruction.args[0]).scalar().is_float(),
            _ => false,
        };
        if instruction.to == NONE || !is_view && self.has_tile(instruction) {
            return Ok(Next::Tiles);
        }
        let result = match &instruction.op {
            Op::Arith(arith) => self.arith(instruction, *arith),
            Op::Compare(comparison) => self.compare(instruction, *comparison),
            Op::Function(function) => match self.look(instruction, 0) {
                Val::Float(x) => {
                    let scalar = self.kind(instruction.to).scalar();
                    Some(Known::Value(Val::Float(apply(*function, *x, scalar))))
                }
                Val::Whole(x) if *function == crate::program::Function::Abs => {
                    Some(Known::Value(Val::Whole(x.wrapping_abs())))
                }
                _ => None,
            },
            Op::Convert(conversion) => self.convert(instruction, *conversion),
            Op::Select => self.select(instruction),
            Op::Fma => match [0, 1, 2].map(|number| self.look(instruction, number)) {
                [Val::Float(a), Val::Float(b), Val::Float(c)] => {
                    let scalar = self.kind(instruction.to).scalar();
                    Some(Known::Value(Val::Float(round(a.mul_add(*b, *c), scalar))))
                }
                _ => None,
            },
            Op::AddPointer => self.add_pointer(instruction),
            Op::Bitcast => self.bitcast(instruction).map(Known::Value),
            Op::Descriptor { rank } => Some(Known::Value(self.descriptor(instruction, *rank)?)),
            _ => self.reshaped(instruction),
        };
        match result {
            None => return Ok(Next::Tiles),
            Some(Known::Value(value)) => {
                self.release(instruction);
                self.set(instruction.to, value);
            }
            Some(Known::Index(index)) => self.set_index(instruction, index),
        }
        Ok(Next::Follows)
    }

    /// Sets the result of an instruction, in the memory of an operand that nobody needs any more.
    fn set_index(&mut self, instruction: &Instruction, index: Index) {
        if let Some(number) = index.as_equal() {
            self.release(instruction);
            return self.set(instruction.to, Val::Equal(number));
        }
        let mut spare = None;
        for (number, reg) in instruction.args.iter().enumerate() {
            if instruction.dies >> number & 1 == 1
                && let Val::Index(old) = std::mem::take(&mut self.registers[*reg as usize])
            {
                spare = Some(old);
            }
        }
        let value = match spare.as_mut().and_then(Rc::get_mut) {
            Some(place) => {
                *place = index;
                spare
            }
            None => Some(Rc::new(index)),
        };
        self.set(instruction.to, value.map_or(Val::None, Val::Index));
    }

    /// Operations that change the shape alone; of tiles too if no element moves.
    fn reshaped(&self, instruction: &Instruction) -> Option<Known> {
        let source = instruction.args.first()?;
        let (from, to) = (self.kind(*source), self.kind(instruction.to));
        let value = match (&instruction.op, self.look(instruction, 0)) {
            (
                Op::Splat | Op::Broadcast | Op::Reshape | Op::Expand(_) | Op::Transpose(_),
                Val::Float(x),
            ) => Val::Float(*x),
            (Op::Splat, Val::Data(data)) => Val::Data(data.with_shape(to.ones.clone())),
            // The tile keeps its dimensions of 1.
            (Op::Broadcast, Val::Data(data)) => Val::Data(data.clone()),
            (Op::Expand(axis), Val::Data(data)) => Val::Data(expanded(data, *axis, &to.extent)),
            (op, value) => {
                let index = value.as_index()?;
                return Some(Known::Index(match op {
                    Op::Broadcast => index::broadcast(&index, &from.extent, &to.extent),
                    Op::Expand(axis) => index::expand(&index, &from.extent, *axis),
                    Op::Reshape => index::reshape(&index, &from.extent, &to.extent),
                    Op::Transpose(order) => index::transpose(&index, &from.extent, order),
                    _ => return None,
                }));
            }
        };
        Some(Known::Value(value))
    }

    fn arith(&self, instruction: &Instruction, arith: Arith) -> Option<Known> {
        let kind = self.kind(instruction.to);
        let value = match (self.look(instruction, 0), self.look(instruction, 1)) {
            (Val::Float(a), Val::Float(b)) => Val::Float(float(arith, *a, *b, kind.scalar())),
            (a, b) => {
                let (a, b) = (a.as_index()?, b.as_index()?);
                return Some(Known::Index(index::arith(arith, &a, &b, &kind.extent, kind.bits())));
            }
        };
        Some(Known::Value(value))
    }

    fn compare(
        &self,
        instruction: &Instruction,
        comparison: crate::number::Comparison,
    ) -> Option<Known> {
        let kind = self.kind(instruction.args[0]);
        let value = match (self.look(instruction, 0), self.look(instruction, 1)) {
            (Val::Float(a), Val::Float(b)) => {
                let holds = i64::from(comparison.of_float(*a, *b));
                if kind.is_one { Val::Whole(holds) } else { Val::Equal(holds) }
            }
            (a, b) => {
                let (a, b) = (a.as_index()?, b.as_index()?);
                let result = index::compare(comparison, &a, &b, &kind.extent, kind.bits());
                return Some(Known::Index(result));
            }
        };
        Some(Known::Value(value))
    }

    fn select(&self, instruction: &Instruction) -> Option<Known> {
        let [condition, left, right] = [0, 1, 2].map(|number| self.look(instruction, number));
        if let Val::Whole(condition) | Val::Equal(condition) = condition {
            let pick = if *condition == 0 { right } else { left };
            return Some(Known::Value(pick.clone()));
        }
        let condition = condition.as_index()?;
        match (left.as_index(), right.as_index()) {
            (Some(a), Some(b)) => {
                let extent = &self.kind(instruction.to).extent;
                Some(Known::Index(Index::select(&condition, &a, &b, extent)))
            }
            _ => match condition.as_splat() {
                Some(0) => Some(Known::Value(right.clone())),
                Some(_) => Some(Known::Value(left.clone())),
                None => None,
            },
        }
    }

    fn convert(&self, instruction: &Instruction, conversion: Conversion) -> Option<Known> {
        let (from, to) = (self.kind(instruction.args[0]), self.kind(instruction.to));
        let value = match (conversion, self.look(instruction, 0)) {
            (Conversion::Whole { is_unsigned }, Val::Whole(number)) => {
                Val::Whole(widened(*number, from.bits(), to.bits(), is_unsigned))
            }
            (Conversion::Whole { is_unsigned }, value) => {
                let index = value.as_index()?;
                let index = index.cast(&from.extent, from.bits(), to.bits(), is_unsigned);
                return Some(Known::Index(index));
            }
            (Conversion::FromWhole { is_unsigned }, Val::Whole(number) | Val::Equal(number)) => {
                Val::Float(as_float(*number, from.bits(), is_unsigned, to.scalar()))
            }
            (Conversion::FromWhole { is_unsigned }, Val::Index(index)) => {
                let number = index.as_splat()?;
                Val::Float(as_float(number, from.bits(), is_unsigned, to.scalar()))
            }
            #[expect(clippy::cast_possible_truncation, reason = "truncated toward zero")]
            (Conversion::ToWhole { .. }, Val::Float(number)) => {
                let number = wrap(*number as i64, to.bits());
                if to.is_one { Val::Whole(number) } else { Val::Equal(number) }
            }
            (Conversion::Float, Val::Float(number)) if to.scalar().bits() > 8 => {
                Val::Float(round(*number, to.scalar()))
            }
            _ => return None,
        };
        Some(Known::Value(value))
    }

    fn add_pointer(&self, instruction: &Instruction) -> Option<Known> {
        let size = self.element_size(instruction.to);
        let (base, offset) = (self.look(instruction, 0), self.look(instruction, 1));
        let extent = &self.kind(instruction.to).extent;
        let bytes = match offset {
            Val::Equal(offset) => Index::splat(offset.wrapping_mul(size)),
            offset => {
                let (offset, size) = (offset.as_index()?, Index::splat(size));
                index::arith(Arith::Mul, &offset, &size, extent, 64)
            }
        };
        let base = base.as_index()?;
        Some(Known::Index(index::arith(Arith::Add, &base, &bytes, extent, 64)))
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
                Some(if to.is_one { Val::Whole(bits) } else { Val::Equal(bits) })
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

/// Adds a dimension of 1 to a tile, for a tensor of these dimensions.
fn expanded(data: &Data, axis: usize, to: &Extent) -> Data {
    let axis = axis.min(data.shape.len());
    let (before, after) = data.shape.split_at(axis);
    let dims = || before.iter().chain(&[1]).chain(after).copied();
    let shape = if dims().eq(to.iter().copied()) { to.clone() } else { dims().collect() };
    data.with_shape(shape)
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
