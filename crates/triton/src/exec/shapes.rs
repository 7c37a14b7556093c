//! Operations that move elements: reductions, scans, transpositions and the like.
//!
//! Their values are computed by the operations of [`Value`] where it has them; others are computed here at once.

use super::tiles::Operand;
use super::values::{dtype_of, tile_shape};
use super::{Run, Val};
use crate::combine::{Combine, Number};
use crate::index::{Index, dense};
use crate::number::Arith;
use crate::program::{Instruction, NONE, Op, Reg, RegType};
use phalanx_sim::kernel::KernelError;
use phalanx_sim::spec::VectorClass;
use phalanx_sim::value::{DType, Reduce, Value};
use std::rc::Rc;

const MOVE: (&str, VectorClass) = ("move", VectorClass::Add);

impl Run {
    /// Performs an operation that moves elements.
    pub(super) async fn move_elements(
        &mut self,
        instruction: &Instruction,
    ) -> Result<(), KernelError> {
        match &instruction.op {
            Op::Reduce { axis, combine } => self.reduce(instruction, *axis, combine).await,
            Op::Scan { axis, is_reverse, combine } => {
                self.scan(instruction, *axis, *is_reverse, combine).await
            }
            Op::Reshape => self.reshape(instruction).await,
            Op::Transpose(order) => self.transpose(instruction, order).await,
            Op::Join => self.join(instruction).await,
            Op::Split => self.split(instruction).await,
            Op::Cat => self.cat(instruction).await,
            Op::Gather { axis } => self.gather(instruction, *axis).await,
            Op::Histogram => self.histogram(instruction).await,
            other => {
                Err(KernelError::Other(format!("{other:?} of these operands is not supported")))
            }
        }
    }

    /// Gives a register a tile that a vector operation makes.
    fn give(
        &mut self,
        reg: Reg,
        label: (&'static str, VectorClass),
        operand: u64,
        value: Option<Value>,
    ) {
        if reg == NONE {
            return;
        }
        let kind = self.kind(reg);
        let (dtype, extent) = (kind.dtype(), kind.extent.clone());
        let shape = tile_shape(&extent);
        let operation = self.tl.vector_operation(label, operand, dtype, shape, value);
        self.keep(reg, operation, extent);
    }

    async fn reduce(
        &mut self,
        instruction: &Instruction,
        axis: usize,
        combine: &Rc<Combine>,
    ) -> Result<(), KernelError> {
        if self.reduce_known(instruction, axis, combine) {
            return Ok(());
        }
        if let Some(how) = plain_reduction(combine) {
            let source = self.full_tile(instruction, 0).await?;
            self.reduce_tile(instruction, axis, how, &source);
            return Ok(());
        }
        let (operands, bytes) = self.all_operands(instruction).await?;
        let extent = self.kind(instruction.args[0]).extent.clone();
        let lists = self.numbers(&operands, instruction)?;
        let folded = lists.map(|lists| fold(combine, &lists, &extent, axis));
        for (number, reg) in instruction.results().enumerate().take(combine.width) {
            if reg == NONE {
                continue;
            }
            let dtype = self.kind(reg).dtype();
            let value = folded.as_ref().map(|lists| value_of(&lists[number], dtype));
            self.give(reg, ("reduce", VectorClass::Reduce), bytes, value);
        }
        Ok(())
    }

    /// Reduces a tile of all elements by one operation.
    pub(super) fn reduce_tile(
        &mut self,
        instruction: &Instruction,
        axis: usize,
        how: Reduce,
        source: &Operand,
    ) {
        let extent = &self.kind(instruction.args[0]).extent;
        let (before, rest) = extent.split_at(axis);
        let operation = if extent.len() > 4 {
            let (outer, inner) = (before.iter().product(), rest[1..].iter().product());
            let flat = [outer, extent[axis], inner];
            self.tl.reduce(how, &source.tile().seen_as(source.dtype, flat), 1)
        } else {
            self.tl.reduce(how, &source.see(), axis)
        };
        let left = if instruction.to == NONE {
            before.iter().chain(&rest[1..]).copied().collect()
        } else {
            self.kind(instruction.to).extent.clone()
        };
        self.keep(instruction.to, operation, left);
    }

    /// Reduces known numbers to known numbers.
    fn reduce_known(&mut self, instruction: &Instruction, axis: usize, combine: &Combine) -> bool {
        let extent = self.kind(instruction.args[0]).extent.clone();
        let mut lists = Vec::new();
        for number in 0..instruction.args.len() {
            let Some(index) = self.look(instruction, number).as_index() else { return false };
            lists.push(index.list(&extent).iter().map(|number| Number::Whole(*number)).collect());
        }
        let folded = fold(combine, &lists, &extent, axis);
        self.release(instruction);
        for (number, reg) in instruction.results().enumerate().take(combine.width) {
            if reg != NONE {
                let list: Rc<[i64]> = folded[number].iter().map(|number| number.whole()).collect();
                let value = if self.kind(reg).is_one {
                    Val::Whole(list[0])
                } else {
                    Val::index(Index::List(list))
                };
                self.set(reg, value);
            }
        }
        true
    }

    /// Returns all operands as tiles of all elements, and the bytes of the largest.
    async fn all_operands(
        &mut self,
        instruction: &Instruction,
    ) -> Result<(Vec<Operand>, u64), KernelError> {
        let mut operands = Vec::new();
        for number in 0..instruction.args.len() {
            operands.push(self.full_tile(instruction, number).await?);
        }
        let bytes = operands.iter().map(|operand| operand.tile().bytes()).max().unwrap_or(0);
        Ok((operands, bytes))
    }

    /// Reads the numbers of tiles; `None` without data.
    fn numbers(
        &self,
        operands: &[Operand],
        instruction: &Instruction,
    ) -> Result<Option<Vec<Vec<Number>>>, KernelError> {
        if !self.tl.has_data() {
            return Ok(None);
        }
        let mut lists = Vec::new();
        for (operand, reg) in operands.iter().zip(&instruction.args) {
            self.tl.item(operand.tile(), 0)?;
            let Some(value) = operand.value() else { return Ok(None) };
            lists.push(if self.kind(*reg).scalar().is_float() {
                value.to_f64().into_iter().map(Number::Float).collect()
            } else {
                value.to_i64().into_iter().map(Number::Whole).collect()
            });
        }
        Ok(Some(lists))
    }

    async fn scan(
        &mut self,
        instruction: &Instruction,
        axis: usize,
        is_reverse: bool,
        combine: &Rc<Combine>,
    ) -> Result<(), KernelError> {
        let (operands, bytes) = self.all_operands(instruction).await?;
        let extent = self.kind(instruction.args[0]).extent.clone();
        let lists = self.numbers(&operands, instruction)?;
        let scanned = lists.map(|lists| accumulate(combine, lists, &extent, axis, is_reverse));
        for (number, reg) in instruction.results().enumerate().take(combine.width) {
            if reg == NONE {
                continue;
            }
            let dtype = self.kind(reg).dtype();
            let value = scanned.as_ref().map(|lists| value_of(&lists[number], dtype));
            self.give(reg, ("scan", VectorClass::Reduce), bytes, value);
        }
        Ok(())
    }

    /// Another shape: nothing moves.
    async fn reshape(&mut self, instruction: &Instruction) -> Result<(), KernelError> {
        let shape = self.kind(instruction.to).extent.clone();
        let source = self.full_tile(instruction, 0).await?;
        self.set(instruction.to, Val::Data(source.into_data(shape)));
        Ok(())
    }

    async fn transpose(
        &mut self,
        instruction: &Instruction,
        order: &[usize],
    ) -> Result<(), KernelError> {
        let source = self.tile(instruction, 0).await?;
        let (dims, bytes) = (source.shape.clone(), source.tile().bytes());
        let own = dense(&dims);
        let turned: Vec<usize> = order.iter().map(|axis| dims[*axis]).collect();
        let strides: Vec<usize> = order.iter().map(|axis| own[*axis]).collect();
        let value = source.value().map(|value| value.strided(0, &turned, &strides));
        let shape = tile_shape(&turned);
        let operation = self.tl.vector_operation(MOVE, bytes, source.dtype, shape, value);
        self.keep(instruction.to, operation, turned.into());
        Ok(())
    }

    /// Two tensors side by side along a new last axis.
    async fn join(&mut self, instruction: &Instruction) -> Result<(), KernelError> {
        let (operands, bytes) = self.all_operands(instruction).await?;
        let len = operands[0].shape.iter().product::<usize>();
        let value =
            both(&operands).map(|[a, b]| Value::concat(&[a, b]).strided(0, &[len, 2], &[1, len]));
        self.give(instruction.to, MOVE, bytes * 2, value);
        Ok(())
    }

    async fn split(&mut self, instruction: &Instruction) -> Result<(), KernelError> {
        let source = self.full_tile(instruction, 0).await?;
        let (value, bytes) = (source.value(), source.tile().bytes());
        let len = source.shape.iter().product::<usize>() / 2;
        for (offset, reg) in instruction.results().enumerate() {
            let part = value.as_ref().map(|value| value.strided(offset, &[len], &[2]));
            self.give(reg, MOVE, bytes, part);
        }
        Ok(())
    }

    async fn cat(&mut self, instruction: &Instruction) -> Result<(), KernelError> {
        let (operands, bytes) = self.all_operands(instruction).await?;
        let value = both(&operands).map(|pair| Value::concat(&pair));
        self.give(instruction.to, MOVE, bytes * 2, value);
        Ok(())
    }

    /// Elements along an axis, chosen by a tensor of positions.
    async fn gather(&mut self, instruction: &Instruction, axis: usize) -> Result<(), KernelError> {
        let kinds = [0, 1].map(|number| self.kind(instruction.args[number]).clone());
        let (operands, bytes) = self.all_operands(instruction).await?;
        let value = match self.numbers(&operands, instruction)? {
            Some(lists) => Some(picked(&lists, &kinds, axis)?),
            None => None,
        };
        self.give(instruction.to, MOVE, bytes, value);
        Ok(())
    }

    async fn histogram(&mut self, instruction: &Instruction) -> Result<(), KernelError> {
        let (operands, bytes) = self.all_operands(instruction).await?;
        let kind = self.kind(instruction.to).clone();
        let lists = self.numbers(&operands, instruction)?;
        let value = lists.map(|lists| {
            let mut counts = vec![Number::Whole(0); kind.extent.iter().product()];
            for (at, number) in lists[0].iter().enumerate() {
                if lists.get(1).is_some_and(|mask| mask[at].whole() == 0) {
                    continue;
                }
                let bin = usize::try_from(number.whole()).ok().and_then(|bin| counts.get_mut(bin));
                if let Some(Number::Whole(count)) = bin {
                    *count += 1;
                }
            }
            value_of(&counts, kind.dtype())
        });
        self.give(instruction.to, ("histogram", VectorClass::Reduce), bytes, value);
        Ok(())
    }
}

/// Returns the reduction that a combination is, if it is one operation.
pub(super) fn plain_reduction(combine: &Combine) -> Option<Reduce> {
    combine.simple().and_then(reduce_of)
}

/// Returns the values of two operands.
fn both(operands: &[Operand]) -> Option<[Value; 2]> {
    Some([operands.first()?.value()?, operands.get(1)?.value()?])
}

/// Returns the reduction of one operation.
fn reduce_of(arith: Arith) -> Option<Reduce> {
    Some(match arith {
        Arith::Add | Arith::AddF => Reduce::Sum,
        Arith::Mul | Arith::MulF => Reduce::Prod,
        Arith::MaxNum => Reduce::MaxNum,
        Arith::MinNum => Reduce::MinNum,
        Arith::Maximum | Arith::MaxS => Reduce::Max,
        Arith::Minimum | Arith::MinS => Reduce::Min,
        Arith::And => Reduce::And,
        Arith::Or => Reduce::Or,
        Arith::Xor => Reduce::Xor,
        _ => return None,
    })
}

/// Makes a value of numbers.
fn value_of(numbers: &[Number], dtype: DType) -> Value {
    if dtype.is_float() {
        let floats: Vec<f64> = numbers.iter().map(|number| number.float()).collect();
        return Value::from_vec(floats).cast(dtype);
    }
    let wholes: Vec<i64> = numbers.iter().map(|number| number.whole()).collect();
    Value::from_vec(wholes).cast(dtype)
}

/// Returns the lines of a tensor along an axis: the first element of each, the number of elements, and their distance.
fn lines(extent: &[usize], axis: usize) -> (Vec<usize>, usize, usize) {
    let inner: usize = extent[axis + 1..].iter().product();
    let outer: usize = extent[..axis].iter().product();
    let length = extent[axis];
    let starts = (0..outer).flat_map(|o| (0..inner).map(move |i| o * length * inner + i)).collect();
    (starts, length, inner)
}

/// Reduces lists along an axis, in ascending order.
fn fold(
    combine: &Combine,
    lists: &[Vec<Number>],
    extent: &[usize],
    axis: usize,
) -> Vec<Vec<Number>> {
    let (starts, length, step) = lines(extent, axis);
    let mut folded = vec![Vec::with_capacity(starts.len()); combine.width];
    let mut scratch = Vec::new();
    for start in starts {
        let at = |number: usize| lists.iter().map(move |list| list[start + number * step]);
        let mut sum: Vec<Number> = at(0).collect();
        for number in 1..length {
            let next: Vec<Number> = at(number).collect();
            combine.apply(&mut sum, &next, &mut scratch);
        }
        folded.iter_mut().zip(&sum).for_each(|(list, number)| list.push(*number));
    }
    folded
}

/// Scans lists along an axis, in ascending order, or descending.
fn accumulate(
    combine: &Combine,
    mut lists: Vec<Vec<Number>>,
    extent: &[usize],
    axis: usize,
    is_reverse: bool,
) -> Vec<Vec<Number>> {
    let (starts, length, step) = lines(extent, axis);
    let mut scratch = Vec::new();
    for start in starts {
        let place =
            |number: usize| start + if is_reverse { length - 1 - number } else { number } * step;
        let mut sum: Vec<Number> = lists.iter().map(|list| list[place(0)]).collect();
        for number in 1..length {
            let next: Vec<Number> = lists.iter().map(|list| list[place(number)]).collect();
            combine.apply(&mut sum, &next, &mut scratch);
            lists.iter_mut().zip(&sum).for_each(|(list, sum)| list[place(number)] = *sum);
        }
    }
    lists
}

/// Picks elements along an axis.
fn picked(lists: &[Vec<Number>], kinds: &[RegType; 2], axis: usize) -> Result<Value, KernelError> {
    let (source, positions) = (&lists[0], &lists[1]);
    let (from, to) = (&kinds[0].extent, &kinds[1].extent);
    let (own, own_to) = (dense(from), dense(to));
    let mut result = Vec::with_capacity(positions.len());
    for (at, position) in positions.iter().enumerate() {
        let position = usize::try_from(position.whole()).unwrap_or(usize::MAX);
        if position >= from[axis] {
            let text = format!(
                "gather: position {} of {} along axis {axis}",
                positions[at].whole(),
                from[axis]
            );
            return Err(KernelError::Other(text));
        }
        let place: usize = (0..from.len())
            .map(|dim| {
                let index = if dim == axis { position } else { at / own_to[dim] % to[dim] };
                index * own[dim]
            })
            .sum();
        result.push(source[place]);
    }
    Ok(value_of(&result, dtype_of(kinds[0].scalar())))
}
