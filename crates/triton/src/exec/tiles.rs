//! Operations on tiles.

use super::values::{Data, Slot, tile_shape, unsigned_of};
use super::{Run, Val};
use crate::index::Index;
use crate::number::{Arith, Comparison, Relation};
use crate::program::{Conversion, Function, Instruction, NONE, Op, Reg, RegType};
use crate::types::{Extent, Scalar};
use phalanx_sim::kernel::{Computing, KernelError, Seen, Shape, Tile};
use phalanx_sim::spec::VectorClass;
use phalanx_sim::value::{Binary, Compare, DType, Unary, Value};
use std::rc::Rc;

/// An operand of an operation on tiles: a tile that is there, and the shape it is seen in.
pub(super) struct Operand {
    slot: Rc<Slot>,
    pub(super) dtype: DType,
    pub(super) shape: Extent,
}

impl Operand {
    /// Returns the operand of a tile that was waited for.
    #[inline]
    pub(super) fn of(data: Data, dtype: DType) -> Self {
        Self { slot: data.slot, dtype, shape: data.shape }
    }

    /// Returns the tile for another register.
    pub(super) fn into_data(self, shape: Extent) -> Data {
        Data { slot: self.slot, shape }
    }

    /// Returns the tile.
    #[inline]
    pub(super) fn tile(&self) -> &Tile {
        self.slot.ready().expect("an operand was waited for")
    }

    /// Returns the tile as an operation of its own sees it.
    #[inline]
    pub(super) fn see(&self) -> Seen<'_> {
        self.tile().seen_as(self.dtype, tile_shape(&self.shape))
    }

    /// Returns the tile in a shape, with numbers without sign if `is_unsigned`.
    #[inline]
    fn see_in(&self, shape: Shape, is_unsigned: bool) -> Seen<'_> {
        let dtype = if is_unsigned { unsigned_of(self.dtype) } else { self.dtype };
        self.tile().seen_as(dtype, shape)
    }

    pub(super) fn value(&self) -> Option<Value> {
        self.see().value()
    }
}

/// Returns shapes of at most four axes in which operands of more axes broadcast to each other: neighbouring axes along which
/// the same operands are stretched become one.
fn together<const N: usize>(operands: [&Operand; N]) -> Result<[Shape; N], KernelError> {
    let rank = operands[0].shape.len();
    if rank <= 4 {
        return Ok(operands.map(|operand| tile_shape(&operand.shape)));
    }
    let mut groups: Vec<([bool; N], [usize; N])> = Vec::new();
    for axis in 0..rank {
        let dims = operands.map(|operand| operand.shape[axis]);
        let ones = dims.map(|dim| dim == 1);
        if ones == [true; N] {
            continue;
        }
        match groups.last_mut() {
            Some((known, product)) if *known == ones => {
                product.iter_mut().zip(dims).for_each(|(product, dim)| *product *= dim);
            }
            _ => groups.push((ones, dims)),
        }
    }
    if groups.len() > 4 {
        let text = "tensors of more than four axes are stretched along too many of them";
        return Err(KernelError::Other(text.to_owned()));
    }
    let mut number = 0;
    Ok(operands.map(|_| {
        let dims: Vec<usize> = groups.iter().map(|(_, dims)| dims[number]).collect();
        number += 1;
        Shape::from(dims.as_slice())
    }))
}

impl Run {
    /// Performs an instruction that needs tiles; returns where the program goes on if that is not the next instruction.
    pub(super) async fn on_tiles(
        &mut self,
        instruction: &Instruction,
    ) -> Result<Option<usize>, KernelError> {
        match &instruction.op {
            Op::Branch(then, otherwise) => {
                let condition = self.number(instruction, 0).await?;
                return Ok(Some(if condition == 0 { *otherwise } else { *then }));
            }
            Op::Load { .. }
            | Op::Ahead { .. }
            | Op::Store { .. }
            | Op::DescriptorLoad { .. }
            | Op::DescriptorAhead { .. }
            | Op::DescriptorStore
            | Op::Change { .. }
            | Op::CompareExchange
            | Op::DescriptorChange(_) => self.memory(instruction).await?,
            Op::Dot => self.dot(instruction).await?,
            _ if self.is_made_known(instruction) => {
                self.look_at_operands(instruction).await?;
                self.native(instruction)?;
            }
            op if op.is_element_wise() => self.element_wise_later(instruction).await?,
            Op::Print { .. } | Op::Assert { .. } => self.message(instruction).await?,
            _ => self.move_elements(instruction).await?,
        }
        Ok(None)
    }

    /// True if the instruction gives numbers that are known: its operands are looked at.
    pub(super) fn is_made_known(&self, instruction: &Instruction) -> bool {
        match instruction.op {
            Op::AddPointer | Op::Descriptor { .. } | Op::Splat => true,
            Op::Arith(_)
            | Op::Compare(_)
            | Op::Select
            | Op::Bitcast
            | Op::Convert(Conversion::Whole { .. }) => self.is_whole_number(instruction),
            _ => false,
        }
    }

    /// True if the instruction computes one integer, which later instructions may need at once.
    fn is_whole_number(&self, instruction: &Instruction) -> bool {
        let takes_one = |reg: &Reg| {
            let kind = self.kind(*reg);
            kind.is_one && !kind.scalar().is_float()
        };
        match instruction.op {
            Op::Select => self.kind(instruction.args[0]).is_one,
            Op::Bitcast if self.kind(instruction.to).scalar().is_float() => false,
            _ => instruction.args.iter().all(takes_one),
        }
    }

    /// Turns operands in tiles into known numbers.
    async fn look_at_operands(&mut self, instruction: &Instruction) -> Result<(), KernelError> {
        let count = if matches!(instruction.op, Op::Select) { 1 } else { instruction.args.len() };
        for number in 0..count {
            if matches!(self.look(instruction, number), Val::Data(_)) {
                let known = self.known_value(instruction.args[number]).await?;
                self.registers[instruction.args[number] as usize] = known;
            }
        }
        Ok(())
    }

    /// Reads the integers of a register.
    pub(super) async fn known_value(&self, reg: Reg) -> Result<Val, KernelError> {
        let Val::Data(data) = &self.registers[reg as usize] else {
            return Ok(self.registers[reg as usize].clone());
        };
        let (data, kind) = (data.clone(), self.kind(reg).clone());
        let tile = data.tile().await?;
        if !self.tl.has_data() {
            let what = "the kernel's control flow or addresses depend on numbers in memory";
            return Err(KernelError::Other(format!(
                "{what}, and this run computes none (data is off): run it with data on"
            )));
        }
        // Looking at one element computes all.
        self.tl.item(tile, 0)?;
        let list: Rc<[i64]> = tile.value().map(|value| value.to_i64()).unwrap_or_default().into();
        let first = list.first().copied().unwrap_or(0);
        if kind.is_one {
            return Ok(Val::Whole(first));
        }
        if list.iter().all(|number| *number == first) {
            return Ok(Val::index(Index::splat(first)));
        }
        Ok(Val::index(crate::index::broadcast(&Index::List(list), &data.shape, &kind.extent)))
    }

    /// Reads operand `number`, an integer.
    pub(super) async fn number(
        &mut self,
        instruction: &Instruction,
        number: usize,
    ) -> Result<i64, KernelError> {
        let value = self.known_value(instruction.args[number]).await?;
        match value {
            Val::Whole(whole) => {
                self.release(instruction);
                Ok(whole)
            }
            _ => Err(KernelError::Other("expected an integer".to_owned())),
        }
    }

    /// Returns operand `number` as a tile; numbers that are known become one.
    pub(super) async fn tile(
        &mut self,
        instruction: &Instruction,
        number: usize,
    ) -> Result<Operand, KernelError> {
        let kind = self.kind(instruction.args[number]).clone();
        let value = self.operand(instruction, number);
        self.as_tile(value, &kind).await
    }

    pub(super) async fn as_tile(&self, value: Val, kind: &RegType) -> Result<Operand, KernelError> {
        let tile = match value {
            Val::Data(data) => {
                data.tile().await?;
                return Ok(Operand::of(data, kind.dtype()));
            }
            Val::Float(number) => self.tl.full(kind.dtype(), tile_shape(&kind.ones), number)?,
            Val::Whole(number) | Val::Equal(number) => {
                self.whole_tile(kind.dtype(), tile_shape(&kind.ones), number).await?
            }
            Val::Index(index) => match index.as_splat() {
                Some(number) => {
                    self.whole_tile(kind.dtype(), tile_shape(&kind.ones), number).await?
                }
                None => self.materialised(&index, kind).await?,
            },
            Val::None | Val::Descriptor(_) => {
                return Err(KernelError::Other("an operand without a value".to_owned()));
            }
        };
        Ok(made(tile, kind))
    }

    /// Makes a tile of one number that is exact in a float.
    pub(super) fn one_number(&self, value: &Val, kind: &RegType) -> Result<Operand, KernelError> {
        #[expect(clippy::cast_precision_loss, reason = "the caller knows that it is exact")]
        let number = match value {
            Val::Float(number) => *number,
            Val::Whole(number) | Val::Equal(number) => *number as f64,
            _ => return Err(KernelError::Other("an operand without a value".to_owned())),
        };
        Ok(made(self.tl.full(kind.dtype(), tile_shape(&kind.ones), number)?, kind))
    }

    /// A tile of one integer.
    async fn whole_tile(
        &self,
        dtype: DType,
        shape: Shape,
        number: i64,
    ) -> Result<Tile, KernelError> {
        if is_exact(number) {
            #[expect(clippy::cast_precision_loss, reason = "exact")]
            return self.tl.full(dtype, shape, number as f64);
        }
        let value = self.tl.has_data().then(|| Value::full_whole(dtype, shape.elements(), number));
        self.tl.vector_operation(("index", VectorClass::Add), 0, dtype, shape, value).await
    }

    /// Writes known numbers into a tile: one vector operation.
    async fn materialised(&self, index: &Index, kind: &RegType) -> Result<Tile, KernelError> {
        let (dtype, shape) = (kind.dtype(), kind.shape());
        let value = self
            .tl
            .has_data()
            .then(|| Value::from_vec(index.list(&kind.extent).to_vec()).cast(dtype));
        self.tl.vector_operation(("index", VectorClass::Add), 0, dtype, shape, value).await
    }

    /// Keeps the result of an operation that was issued.
    pub(super) fn keep(&mut self, reg: Reg, operation: Computing, shape: Extent) {
        self.set(reg, Val::Data(Data::issued(operation, shape)));
    }

    /// Performs an operation on each element of tiles, after waiting for what it needs.
    async fn element_wise_later(&mut self, instruction: &Instruction) -> Result<(), KernelError> {
        let mut operands = [const { None }; 3];
        for (number, place) in operands.iter_mut().enumerate().take(instruction.args.len()) {
            *place = Some(self.tile(instruction, number).await?);
        }
        if !self.is_negated_bit(instruction) {
            return self.element_wise(instruction, operands);
        }
        // A bit with a sign is 0 or -1.
        let [Some(source), ..] = operands else { return Err(without_operands()) };
        let target = self.kind(instruction.to).dtype();
        let tile = self.tl.cast(&source.see(), target).await?;
        let operation = self.tl.unary(Unary::Neg, &tile);
        self.keep(instruction.to, operation, source.shape);
        Ok(())
    }

    /// True for the conversion of a bit with a sign.
    pub(super) fn is_negated_bit(&self, instruction: &Instruction) -> bool {
        let unsigned = Conversion::Whole { is_unsigned: true };
        let from_unsigned = Conversion::FromWhole { is_unsigned: true };
        match instruction.op {
            Op::Convert(Conversion::Float) => false,
            Op::Convert(conversion) if conversion == unsigned || conversion == from_unsigned => {
                false
            }
            Op::Convert(_) => self.kind(instruction.args[0]).scalar() == Scalar::Int(1),
            _ => false,
        }
    }

    /// Performs an operation on each element of tiles that are there.
    pub(super) fn element_wise(
        &mut self,
        instruction: &Instruction,
        operands: [Option<Operand>; 3],
    ) -> Result<(), KernelError> {
        match (&instruction.op, operands) {
            (Op::Arith(arith), [Some(left), Some(right), _]) => {
                self.arith_tiles(instruction, *arith, &left, &right)
            }
            (Op::Compare(comparison), [Some(left), Some(right), _]) => {
                self.compare_tiles(instruction, *comparison, &left, &right)
            }
            (Op::Function(function), [Some(source), ..]) => {
                let operation = self.tl.unary(unary_of(*function), &source.see());
                self.keep(instruction.to, operation, source.shape);
                Ok(())
            }
            (Op::Convert(conversion), [Some(source), ..]) => {
                self.convert_tile(instruction, *conversion, source);
                Ok(())
            }
            (Op::Select, [Some(condition), Some(left), Some(right)]) => {
                self.select_tiles(instruction, &condition, &left, &right)
            }
            (Op::Fma, [Some(left), Some(right), Some(addend)]) => {
                self.fma_tiles(instruction, &left, &right, &addend)
            }
            (Op::Bitcast, [Some(source), ..]) => {
                self.bitcast_tile(instruction, source);
                Ok(())
            }
            _ => Err(without_operands()),
        }
    }

    fn arith_tiles(
        &mut self,
        instruction: &Instruction,
        arith: Arith,
        left: &Operand,
        right: &Operand,
    ) -> Result<(), KernelError> {
        let Some(binary) = binary_of(arith) else {
            return Err(KernelError::Other(format!("{arith:?} of tiles is not supported")));
        };
        let is_unsigned = arith.is_unsigned();
        let [a, b] = together([left, right])?;
        let operation =
            self.tl.binary(binary, &left.see_in(a, is_unsigned), &right.see_in(b, is_unsigned));
        let shape = self.common(instruction.to, &left.shape, &right.shape);
        self.keep(instruction.to, operation, shape);
        Ok(())
    }

    fn compare_tiles(
        &mut self,
        instruction: &Instruction,
        comparison: Comparison,
        left: &Operand,
        right: &Operand,
    ) -> Result<(), KernelError> {
        let is_float = left.dtype.is_float();
        let is_unsigned = comparison.is_unsigned && !is_float;
        let relation = relation_of(comparison, is_float);
        let [a, b] = together([left, right])?;
        let operation = self.tl.predicate(
            relation,
            &left.see_in(a, is_unsigned),
            &right.see_in(b, is_unsigned),
        );
        let shape = self.common(instruction.to, &left.shape, &right.shape);
        self.keep(instruction.to, operation, shape);
        Ok(())
    }

    /// A conversion, unless it is of a bit with a sign.
    fn convert_tile(&mut self, instruction: &Instruction, how: Conversion, source: Operand) {
        let mut target = self.kind(instruction.to).dtype();
        let unsigned = matches!(
            how,
            Conversion::Whole { is_unsigned: true } | Conversion::FromWhole { is_unsigned: true }
        );
        if matches!(how, Conversion::ToWhole { is_unsigned: true }) {
            target = unsigned_of(target);
        }
        let operation = self.tl.cast(&source.see_in(tile_shape(&source.shape), unsigned), target);
        self.keep(instruction.to, operation, source.shape);
    }

    fn select_tiles(
        &mut self,
        instruction: &Instruction,
        condition: &Operand,
        left: &Operand,
        right: &Operand,
    ) -> Result<(), KernelError> {
        let [a, b, c] = together([condition, left, right])?;
        let operation = self.tl.select(
            &condition.see_in(a, false),
            &left.see_in(b, false),
            &right.see_in(c, false),
        );
        let shape = self.common(instruction.to, &left.shape, &right.shape);
        let shape = self.common(instruction.to, &condition.shape, &shape);
        self.keep(instruction.to, operation, shape);
        Ok(())
    }

    fn fma_tiles(
        &mut self,
        instruction: &Instruction,
        left: &Operand,
        right: &Operand,
        addend: &Operand,
    ) -> Result<(), KernelError> {
        let [a, b, c] = together([left, right, addend])?;
        let operation =
            self.tl.fma(&left.see_in(a, false), &right.see_in(b, false), &addend.see_in(c, false));
        let shape = self.common(instruction.to, &right.shape, &addend.shape);
        let shape = self.common(instruction.to, &left.shape, &shape);
        self.keep(instruction.to, operation, shape);
        Ok(())
    }

    fn bitcast_tile(&mut self, instruction: &Instruction, source: Operand) {
        let to = self.kind(instruction.to).dtype();
        let shape = source.shape.clone();
        // Integers of one size are the same bits, with sign or without.
        if source.dtype == to || source.dtype != DType::Bool && to != DType::Bool {
            return self.set(instruction.to, Val::Data(source.into_data(shape)));
        }
        let operation = self.tl.cast(&source.see(), to);
        self.keep(instruction.to, operation, shape);
    }

    /// Returns the shape of two that are broadcast to each other, for a result in a register.
    fn common(&self, to: Reg, left: &Extent, right: &Extent) -> Extent {
        if Rc::ptr_eq(left, right) || left == right {
            return left.clone();
        }
        let dims = || left.iter().zip(right.iter()).map(|(a, b)| if *a == 1 { *b } else { *a });
        match to {
            NONE => dims().collect(),
            to if dims().eq(self.kind(to).extent.iter().copied()) => self.kind(to).extent.clone(),
            _ => dims().collect(),
        }
    }

    /// Returns operand `number` as a tile of all elements.
    pub(super) async fn full_tile(
        &mut self,
        instruction: &Instruction,
        number: usize,
    ) -> Result<Operand, KernelError> {
        let shape = self.kind(instruction.args[number]).extent.clone();
        let operand = self.tile(instruction, number).await?;
        self.filled(operand, shape).await
    }

    /// Stretches a tile to all elements of its tensor: one vector operation if there is something to do.
    pub(super) async fn filled(
        &self,
        operand: Operand,
        shape: Extent,
    ) -> Result<Operand, KernelError> {
        if Rc::ptr_eq(&operand.shape, &shape) || operand.shape == shape {
            return Ok(operand);
        }
        let dtype = operand.dtype;
        let value = operand.value().map(|value| stretched(&value, &operand.shape, &shape));
        let label = ("broadcast", VectorClass::Add);
        let tile = self
            .tl
            .vector_operation(label, operand.tile().bytes(), dtype, tile_shape(&shape), value)
            .await?;
        Ok(Operand::of(Data::of_tile(tile, shape), dtype))
    }

    /// Prints, or checks an assertion.
    async fn message(&mut self, instruction: &Instruction) -> Result<(), KernelError> {
        if !self.tl.has_data() {
            self.release(instruction);
            return Ok(());
        }
        let mut texts = Vec::new();
        for number in 0..instruction.args.len() {
            let kind = self.kind(instruction.args[number]).clone();
            let operand = self.tile(instruction, number).await?;
            self.tl.item(operand.tile(), 0)?;
            let Some(value) = operand.value() else { continue };
            if let Op::Assert { text } = &instruction.op {
                if value.to_i64().contains(&0) {
                    return Err(KernelError::Other(format!("assertion failed: {text}")));
                }
                continue;
            }
            texts.push(shown(&value, &kind));
        }
        if let Op::Print { text } = &instruction.op {
            let ids = [0, 1, 2].map(|axis| self.tl.program_id_along(axis).to_string());
            let line = format!("program ({}){text}{}\n", ids.join(", "), texts.join(", "));
            // A kernel prints for whoever looks; nobody needs to.
            let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
        }
        Ok(())
    }
}

/// Shows the first elements of a value.
fn shown(value: &Value, kind: &RegType) -> String {
    const MOST: usize = 16;
    let numbers: Vec<String> = if kind.scalar().is_float() {
        value.to_f64().iter().take(MOST).map(ToString::to_string).collect()
    } else {
        value.to_i64().iter().take(MOST).map(ToString::to_string).collect()
    };
    let more = if value.len() > MOST { ", ..." } else { "" };
    format!("[{}{more}]", numbers.join(", "))
}

/// True for an integer that is exact in a float: one of no more than 53 bits.
pub(super) fn is_exact(number: i64) -> bool {
    number.unsigned_abs() < 1 << 52
}

/// Returns the operand of a tile that was made of known numbers: all of them, or one that stands for all.
fn made(tile: Tile, kind: &RegType) -> Operand {
    let dtype = tile.dtype();
    let shape = if tile.shape().elements() == 1 { &kind.ones } else { &kind.extent };
    Operand::of(Data::of_tile(tile, shape.clone()), dtype)
}

#[cold]
fn without_operands() -> KernelError {
    KernelError::Other("an operation without its operands".to_owned())
}

/// Stretches dimensions of 1.
pub(super) fn stretched(value: &Value, from: &[usize], to: &[usize]) -> Value {
    let own = crate::index::dense(from);
    let strides: Vec<usize> = own
        .iter()
        .zip(from.iter())
        .map(|(stride, dim)| if *dim == 1 { 0 } else { *stride })
        .collect();
    value.strided(0, to, &strides)
}

fn binary_of(arith: Arith) -> Option<Binary> {
    Some(match arith {
        Arith::Add | Arith::AddF => Binary::Add,
        Arith::Sub | Arith::SubF => Binary::Sub,
        Arith::Mul | Arith::MulF => Binary::Mul,
        Arith::DivS | Arith::DivU | Arith::DivF => Binary::Div,
        Arith::RemS | Arith::RemU | Arith::RemF => Binary::Rem,
        Arith::FloorDivS => Binary::FloorDiv,
        Arith::MinS | Arith::MinU | Arith::Minimum => Binary::Min,
        Arith::MaxS | Arith::MaxU | Arith::Maximum => Binary::Max,
        Arith::MaxNum => Binary::MaxNum,
        Arith::MinNum => Binary::MinNum,
        Arith::And => Binary::And,
        Arith::Or => Binary::Or,
        Arith::Xor => Binary::Xor,
        Arith::Shl => Binary::Shl,
        Arith::ShrS | Arith::ShrU => Binary::Shr,
        Arith::MulHiU | Arith::MulHiS => Binary::MulHi,
        Arith::Pow => Binary::Pow,
        Arith::CeilDivS => return None,
    })
}

fn unary_of(function: Function) -> Unary {
    match function {
        Function::Exp => Unary::Exp,
        Function::Exp2 => Unary::Exp2,
        Function::Log => Unary::Log,
        Function::Log2 => Unary::Log2,
        Function::Sqrt => Unary::Sqrt,
        Function::Rsqrt => Unary::Rsqrt,
        Function::Erf => Unary::Erf,
        Function::Sin => Unary::Sin,
        Function::Cos => Unary::Cos,
        Function::Tanh => Unary::Tanh,
        Function::Floor => Unary::Floor,
        Function::Ceil => Unary::Ceil,
        Function::Abs => Unary::Abs,
        Function::Neg => Unary::Neg,
    }
}

fn relation_of(comparison: Comparison, is_float: bool) -> Compare {
    let is_unordered = is_float && comparison.is_unsigned;
    match (comparison.relation, is_unordered) {
        (Relation::Eq, true) => Compare::UnorderedEq,
        (Relation::Lt, true) => Compare::UnorderedLt,
        (Relation::Le, true) => Compare::UnorderedLe,
        (Relation::Gt, true) => Compare::UnorderedGt,
        (Relation::Ge, true) => Compare::UnorderedGe,
        (Relation::Ne, false) if is_float => Compare::OrderedNe,
        (Relation::Eq, false) => Compare::Eq,
        (Relation::Ne, _) => Compare::Ne,
        (Relation::Lt, false) => Compare::Lt,
        (Relation::Le, false) => Compare::Le,
        (Relation::Gt, false) => Compare::Gt,
        (Relation::Ge, false) => Compare::Ge,
    }
}
