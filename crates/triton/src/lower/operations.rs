//! Operations without regions.

use super::{Frame, Lower, Lowered};
use crate::ir::{Attribute, Operation, ValueId};
use crate::number::{Arith, Comparison, round, wrap};
use crate::program::{Change, Constant, Conversion, Function, NONE, Op, Reg, RegType};
use crate::types::{Element, Scalar};
use phalanx_sim::config::suggestion;
use std::rc::Rc;

/// The operations that are performed, besides those of one or two numbers.
const KNOWN: [&str; 56] = [
    "arith.bitcast",
    "arith.cmpf",
    "arith.cmpi",
    "arith.constant",
    "arith.extf",
    "arith.extsi",
    "arith.extui",
    "arith.fptosi",
    "arith.fptoui",
    "arith.index_cast",
    "arith.select",
    "arith.sitofp",
    "arith.truncf",
    "arith.trunci",
    "arith.uitofp",
    "arith.mulsi_extended",
    "cf.br",
    "cf.cond_br",
    "math.fma",
    "scf.for",
    "scf.if",
    "scf.while",
    "tt.addptr",
    "tt.assert",
    "tt.atomic_cas",
    "tt.atomic_rmw",
    "tt.bitcast",
    "tt.broadcast",
    "tt.call",
    "tt.cat",
    "tt.clampf",
    "tt.descriptor_load",
    "tt.descriptor_reduce",
    "tt.descriptor_store",
    "tt.dot",
    "tt.dot_scaled",
    "tt.expand_dims",
    "tt.extern_elementwise",
    "tt.fp_to_fp",
    "tt.gather",
    "tt.get_num_programs",
    "tt.get_program_id",
    "tt.histogram",
    "tt.int_to_ptr",
    "tt.join",
    "tt.load",
    "tt.make_range",
    "tt.make_tensor_descriptor",
    "tt.print",
    "tt.ptr_to_int",
    "tt.reduce",
    "tt.reshape",
    "tt.scan",
    "tt.split",
    "tt.store",
    "tt.trans",
];

impl<'m> Lower<'m> {
    /// Lowers one operation.
    pub(super) fn operation(
        &mut self,
        operation: &'m Operation,
        frame: &mut Frame<'m>,
    ) -> Lowered<()> {
        let name = operation.name.as_str();
        if let Some(arith) = Arith::of_name(name) {
            return self.plain(Op::Arith(arith), operation, frame, 2);
        }
        if let Some(function) = Function::of_name(name) {
            return self.plain(Op::Function(function), operation, frame, 1);
        }
        match name {
            "arith.constant" => self.constant(operation, frame),
            "arith.cmpi" | "arith.cmpf" => self.comparison(operation, frame),
            "scf.for" => self.for_loop(operation, frame),
            "scf.while" => self.while_loop(operation, frame),
            "scf.if" => self.branch(operation, frame),
            "tt.call" => self.call(operation, frame),
            "tt.load" | "tt.descriptor_load" => self.load(operation, frame, None),
            "tt.trans" => self.transpose(operation, frame),
            "tt.reduce" | "tt.scan" => self.reduction(operation, frame),
            "tt.atomic_rmw" | "tt.atomic_cas" | "tt.descriptor_reduce" => {
                self.atomic(operation, frame)
            }
            "tt.clampf" => self.clamp(operation, frame),
            "tt.dot_scaled" => self.scaled_product(operation, frame),
            "tt.extern_elementwise" => self.external(operation, frame),
            "tt.assert" | "tt.print" => self.message(operation, frame),
            "tt.int_to_ptr" => {
                self.uses_pointers_from_memory = true;
                self.plain(Op::Bitcast, operation, frame, 1)
            }
            "tt.make_tensor_descriptor" => {
                let rank = operation.groups.first().copied().unwrap_or(0);
                self.plain(Op::Descriptor { rank }, operation, frame, 1 + 2 * rank)
            }
            // Hints, and orders of memory accesses that the program keeps anyway.
            "llvm.intr.assume" | "gpu.barrier" | "ttg.barrier" | "tt.debug_barrier" => Ok(()),
            "ub.poison" => {
                self.poison(operation, frame);
                Ok(())
            }
            _ => match self.simple(operation, frame) {
                Some((op, count)) => self.plain(op, operation, frame, count),
                None => Err(self.unknown(operation)),
            },
        }
    }

    /// Returns the instruction of an operation that has one, and the number of its operands.
    fn simple(&self, operation: &Operation, frame: &Frame<'m>) -> Option<(Op, usize)> {
        let axis =
            || operation.int("axis").and_then(|axis| usize::try_from(axis).ok()).unwrap_or(0);
        let along = |operation: &Operation| match operation.words.first().map(String::as_str) {
            Some("y") => 1,
            Some("z") => 2,
            _ => u8::try_from(operation.int("axis").unwrap_or(0)).unwrap_or(3),
        };
        Some(match operation.name.as_str() {
            "tt.get_program_id" => (Op::ProgramId(along(operation)), 0),
            "tt.get_num_programs" => (Op::Programs(along(operation)), 0),
            "tt.make_range" => (Op::Range(operation.int("start").unwrap_or(0)), 0),
            "tt.splat" => (Op::Splat, 1),
            "tt.broadcast" => (Op::Broadcast, 1),
            "tt.expand_dims" => (Op::Expand(axis()), 1),
            "tt.reshape" => (Op::Reshape, 1),
            "tt.addptr" => (Op::AddPointer, 2),
            "tt.bitcast" | "arith.bitcast" | "tt.ptr_to_int" => (Op::Bitcast, 1),
            "arith.select" => (Op::Select, 3),
            "math.fma" => (Op::Fma, 3),
            "tt.store" => {
                (Op::Store { has_mask: operation.operands.len() > 2 }, operation.operands.len())
            }
            "tt.descriptor_store" => (Op::DescriptorStore, operation.operands.len()),
            "tt.dot" => (Op::Dot, 3),
            "tt.join" => (Op::Join, 2),
            "tt.split" => (Op::Split, 1),
            "tt.cat" => (Op::Cat, 2),
            "tt.gather" => (Op::Gather { axis: axis() }, 2),
            "tt.histogram" => (Op::Histogram, operation.operands.len()),
            _ => (Op::Convert(self.conversion(operation, frame)?), 1),
        })
    }

    #[expect(clippy::unused_self, reason = "beside its caller")]
    fn conversion(&self, operation: &Operation, frame: &Frame<'m>) -> Option<Conversion> {
        let is_float = |value: Option<&ValueId>| {
            value.is_some_and(|value| match frame.kind(*value).element() {
                Element::Number(scalar) => scalar.is_float(),
                Element::Pointer(_) => false,
            })
        };
        Some(match operation.name.as_str() {
            "arith.extsi" | "arith.trunci" | "arith.index_cast" => {
                Conversion::Whole { is_unsigned: false }
            }
            "arith.extui" | "arith.index_castui" => Conversion::Whole { is_unsigned: true },
            "arith.sitofp" => Conversion::FromWhole { is_unsigned: false },
            "arith.uitofp" => Conversion::FromWhole { is_unsigned: true },
            "arith.fptosi" => Conversion::ToWhole { is_unsigned: false },
            "arith.fptoui" => Conversion::ToWhole { is_unsigned: true },
            "arith.extf" | "arith.truncf" | "tt.fp_to_fp"
                if is_float(operation.operands.first()) =>
            {
                Conversion::Float
            }
            _ => return None,
        })
    }

    /// Returns the error of an operation that is not performed (LOW-1).
    fn unknown(&self, operation: &Operation) -> crate::TritonError {
        let near = suggestion(&operation.name, KNOWN);
        let hint = near
            .map_or_else(String::new, |near| format!("; the nearest supported one is `{near}`"));
        self.error(operation, format!("this operation is not supported{hint}"))
    }

    /// Emits an instruction whose operands and results are those of the operation.
    fn plain(
        &mut self,
        op: Op,
        operation: &'m Operation,
        frame: &mut Frame<'m>,
        count: usize,
    ) -> Lowered<()> {
        if operation.operands.len() != count {
            let text = format!("{} operands, expected {count}", operation.operands.len());
            return Err(self.error(operation, text));
        }
        let args = self.operands(operation, frame);
        self.with_results(op, &args, operation, frame);
        Ok(())
    }

    #[expect(clippy::unused_self, reason = "beside its callers")]
    fn operands(&self, operation: &Operation, frame: &Frame<'m>) -> Vec<Reg> {
        operation.operands.iter().map(|value| frame.get(*value)).collect()
    }

    pub(super) fn with_results(
        &mut self,
        op: Op,
        args: &[Reg],
        operation: &Operation,
        frame: &mut Frame<'m>,
    ) {
        let results = self.results(operation, frame);
        self.emit(op, results.first().copied().unwrap_or(NONE), args);
        if let (Some(also), Some(last)) = (results.get(1..), self.blocks[self.current].last_mut()) {
            last.also = also.into();
        }
    }

    fn constant(&mut self, operation: &'m Operation, frame: &mut Frame<'m>) -> Lowered<()> {
        let Some(result) = operation.results.first() else { return Ok(()) };
        let Element::Number(scalar) = frame.kind(*result).element() else {
            return Err(self.error(operation, "a constant pointer"));
        };
        let number = |value: &Attribute| match (value, scalar) {
            (Attribute::Bool(is_set), _) => Some(Constant::Whole((*is_set).into())),
            (Attribute::Int(number), Scalar::Int(bits)) => {
                Some(Constant::Whole(wrap(*number, bits)))
            }
            (Attribute::Bits(bits), Scalar::Int(width)) => {
                Some(Constant::Whole(wrap(bits.cast_signed(), width)))
            }
            #[expect(clippy::cast_precision_loss, reason = "a whole number for a float")]
            (Attribute::Int(number), _) => Some(Constant::Float(round(*number as f64, scalar))),
            (Attribute::Float(number), _) => Some(Constant::Float(round(*number, scalar))),
            (Attribute::Bits(bits), _) => Some(Constant::Float(float_of(*bits, scalar))),
            _ => None,
        };
        let value = operation.attribute("value");
        let constant = match value {
            Some(Attribute::List(entries)) => list(entries, scalar),
            Some(value) => number(value),
            None => None,
        };
        let Some(constant) = constant else {
            return Err(self.error(
                operation,
                format!("a constant {value:?} of type {scalar} is not supported"),
            ));
        };
        self.with_results(Op::Constant(constant), &[], operation, frame);
        Ok(())
    }

    /// Any number will do.
    fn poison(&mut self, operation: &'m Operation, frame: &mut Frame<'m>) {
        let is_float = operation.results.first().is_some_and(|result| {
            matches!(frame.kind(*result).element(), Element::Number(scalar) if scalar.is_float())
        });
        let constant = if is_float { Constant::Float(0.0) } else { Constant::Whole(0) };
        self.with_results(Op::Constant(constant), &[], operation, frame);
    }

    fn comparison(&mut self, operation: &'m Operation, frame: &mut Frame<'m>) -> Lowered<()> {
        let word = operation.words.first().map_or("", String::as_str);
        let Some(comparison) = Comparison::of_name(word) else {
            return Err(self.error(
                operation,
                format!("no comparison `{word}`: allowed are slt, ult, oeq, une and the like"),
            ));
        };
        self.plain(Op::Compare(comparison), operation, frame, 2)
    }

    /// Lowers a load; with a queue as a load ahead.
    pub(super) fn load(
        &mut self,
        operation: &'m Operation,
        frame: &mut Frame<'m>,
        ahead: Option<usize>,
    ) -> Lowered<()> {
        let Some(&result) = operation.results.first() else { return Ok(()) };
        let turn = frame.turned(result);
        let order = turn.map(order_of);
        let kind = turn.and_then(|turn| turn.results.first()).map_or(result, |turned| *turned);
        let reg = self.register(frame.kind(kind));
        frame.set(result, reg);
        if ahead.is_none()
            && let Some(queue) = frame.queues.get(&result)
        {
            self.emit(Op::Pop(*queue), reg, &[]);
            return Ok(());
        }
        let mut args = self.operands(operation, frame);
        if operation.name == "tt.descriptor_load" {
            let op = match ahead {
                Some(queue) => Op::DescriptorAhead { queue, order },
                None => Op::DescriptorLoad { order },
            };
            self.emit(op, reg, &args);
            return Ok(());
        }
        if matches!(frame.kind(operation.operands[0]).element(), Element::Number(_)) {
            return Err(self.error(operation, "a load from something that is no pointer"));
        }
        if let Some(order) = order {
            for arg in &mut args {
                *arg = self.turned_index(*arg, &order);
            }
        }
        let (has_mask, has_other) = (args.len() > 1, args.len() > 2);
        let op = match ahead {
            Some(queue) => Op::Ahead { queue, has_mask, has_other },
            None => Op::Load { has_mask, has_other },
        };
        self.emit(op, reg, &args);
        Ok(())
    }

    fn turned_index(&mut self, arg: Reg, order: &Rc<[usize]>) -> Reg {
        let kind = &self.types[arg as usize];
        let extent = order.iter().map(|axis| kind.extent[*axis]).collect();
        let turned = self.typed_register(RegType { extent, ..kind.clone() });
        self.emit(Op::Transpose(order.clone()), turned, &[arg]);
        turned
    }

    fn transpose(&mut self, operation: &'m Operation, frame: &mut Frame<'m>) -> Lowered<()> {
        let source = operation.operands.first().copied().unwrap_or(0);
        if frame.turned(source).is_some() {
            let reg = frame.get(source);
            if let Some(result) = operation.results.first() {
                frame.set(*result, reg);
            }
            return Ok(());
        }
        let order = order_of(operation);
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..frame.kind(source).extent().len()) {
            return Err(self.error(operation, "`order` must name every axis once"));
        }
        self.plain(Op::Transpose(order), operation, frame, 1)
    }

    fn reduction(&mut self, operation: &'m Operation, frame: &mut Frame<'m>) -> Lowered<()> {
        let combine = Rc::new(self.combination(operation, frame)?);
        let count = operation.operands.len();
        let axis = operation.int("axis").and_then(|axis| usize::try_from(axis).ok()).unwrap_or(0);
        let rank = frame.kind(operation.operands.first().copied().unwrap_or(0)).extent().len();
        if axis >= rank {
            return Err(self.error(operation, format!("axis {axis} of a tensor of {rank} axes")));
        }
        let op = if operation.name == "tt.reduce" {
            Op::Reduce { axis, combine }
        } else {
            Op::Scan { axis, is_reverse: operation.int("reverse") == Some(1), combine }
        };
        self.plain(op, operation, frame, count)
    }

    fn atomic(&mut self, operation: &'m Operation, frame: &mut Frame<'m>) -> Lowered<()> {
        if operation.name == "tt.atomic_cas" {
            return self.plain(Op::CompareExchange, operation, frame, 3);
        }
        let word = operation.words.first().map_or("", String::as_str);
        let change = match word {
            "add" | "fadd" => Change::Add,
            "max" => Change::Max,
            "umax" => Change::MaxUnsigned,
            "min" => Change::Min,
            "umin" => Change::MinUnsigned,
            "and" => Change::And,
            "or" => Change::Or,
            "xor" => Change::Xor,
            "exch" | "xchg" => Change::Exchange,
            _ => {
                let text = format!(
                    "no atomic `{word}`: allowed are add, fadd, max, min, and, or, xor, exch"
                );
                return Err(self.error(operation, text));
            }
        };
        let count = operation.operands.len();
        if operation.name == "tt.descriptor_reduce" {
            return self.plain(Op::DescriptorChange(change), operation, frame, count);
        }
        self.plain(Op::Change { change, has_mask: count > 2 }, operation, frame, count)
    }

    /// `min(max(x, low), high)`.
    fn clamp(&mut self, operation: &'m Operation, frame: &mut Frame<'m>) -> Lowered<()> {
        let args = self.operands(operation, frame);
        let [x, low, high] = args[..] else {
            return Err(self.error(operation, "expected three operands"));
        };
        let propagates = operation.text("propagateNan") == Some("all");
        let (up, down) = if propagates {
            (Arith::Maximum, Arith::Minimum)
        } else {
            (Arith::MaxNum, Arith::MinNum)
        };
        let between = self.typed_register(self.types[x as usize].clone());
        self.emit(Op::Arith(up), between, &[x, low]);
        self.with_results(Op::Arith(down), &[between, high], operation, frame);
        Ok(())
    }

    /// A function of the device library.
    fn external(&mut self, operation: &'m Operation, frame: &mut Frame<'m>) -> Lowered<()> {
        let symbol = operation.text("symbol").unwrap_or_default();
        let op = match symbol {
            "__nv_powf" | "__nv_pow" => Some(Op::Arith(Arith::Pow)),
            "__nv_fmaf" | "__nv_fma" => Some(Op::Fma),
            "__nv_umulhi" => Some(Op::Arith(Arith::MulHiU)),
            "__nv_mulhi" => Some(Op::Arith(Arith::MulHiS)),
            "__nv_fmodf" | "__nv_fmod" => Some(Op::Arith(Arith::RemF)),
            "__nv_fmaxf" => Some(Op::Arith(Arith::MaxNum)),
            "__nv_fminf" => Some(Op::Arith(Arith::MinNum)),
            _ => Function::of_name(symbol).map(Op::Function),
        };
        let Some(op) = op else {
            return Err(self.error(
                operation,
                format!("the function `{symbol}` of the device library is not supported"),
            ));
        };
        self.plain(op, operation, frame, operation.operands.len())
    }

    fn message(&mut self, operation: &'m Operation, frame: &mut Frame<'m>) -> Lowered<()> {
        let text: Rc<str> = operation.words.first().map_or("", String::as_str).into();
        let is_assert = operation.name == "tt.assert";
        let op = if is_assert { Op::Assert { text } } else { Op::Print { text } };
        self.plain(op, operation, frame, operation.operands.len())
    }
}

/// Returns the axes of a transposition.
fn order_of(operation: &Operation) -> Rc<[usize]> {
    match operation.attribute("order") {
        Some(Attribute::List(order)) => order
            .iter()
            .map(|axis| match axis {
                Attribute::Int(number) => usize::try_from(*number).unwrap_or(usize::MAX),
                _ => usize::MAX,
            })
            .collect(),
        _ => [1, 0].into(),
    }
}

/// Returns the elements of a dense constant of integers, in the order of the text.
fn list(entries: &[Attribute], scalar: Scalar) -> Option<Constant> {
    let Scalar::Int(bits) = scalar else { return None };
    let mut numbers = Vec::new();
    let mut open: Vec<&Attribute> = entries.iter().rev().collect();
    while let Some(entry) = open.pop() {
        match entry {
            Attribute::Int(number) => numbers.push(wrap(*number, bits)),
            Attribute::Bool(is_set) => numbers.push((*is_set).into()),
            Attribute::List(inner) => open.extend(inner.iter().rev()),
            _ => return None,
        }
    }
    Some(Constant::List(numbers.into()))
}

/// Returns the float with these bits.
#[expect(clippy::cast_possible_truncation, reason = "the type's own bits")]
pub(super) fn float_of(bits: u64, scalar: Scalar) -> f64 {
    use phalanx_sim::value::{bf16, f16};
    match scalar {
        Scalar::F64 | Scalar::Int(_) => f64::from_bits(bits),
        Scalar::F32 => f64::from(f32::from_bits(bits as u32)),
        Scalar::F16 => f16::from_bits(bits as u16).to_f64(),
        Scalar::BF16 => bf16::from_bits(bits as u16).to_f64(),
        Scalar::F8E4M3 | Scalar::F8E5M2 => small_float(bits as u8, scalar),
    }
}

/// Returns the float of 8 bits with these bits.
fn small_float(bits: u8, scalar: Scalar) -> f64 {
    let (exponent_bits, mantissa_bits) = if scalar == Scalar::F8E4M3 { (4, 3) } else { (5, 2) };
    let offset = (1 << (exponent_bits - 1)) - 1;
    let (mantissa, exponent) = (bits & ((1 << mantissa_bits) - 1), (bits & 0x7f) >> mantissa_bits);
    let is_special = if scalar == Scalar::F8E4M3 { bits & 0x7f == 0x7f } else { exponent == 31 };
    let sign = if bits & 0x80 == 0 { 1.0 } else { -1.0 };
    if is_special {
        return if scalar == Scalar::F8E5M2 && mantissa == 0 {
            sign * f64::INFINITY
        } else {
            f64::NAN
        };
    }
    let scale = |power: i32| f64::from(power).exp2();
    let part = f64::from(mantissa) / scale(mantissa_bits);
    if exponent == 0 {
        return sign * part * scale(1 - offset);
    }
    sign * (1.0 + part) * scale(i32::from(exponent) - offset)
}
