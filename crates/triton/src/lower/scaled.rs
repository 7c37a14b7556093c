//! Products of scaled operands: numbers of 4, 8 or 16 bits, and a power of two for each group of them along `k`.
//!
//! The operands are multiplied by their scales and rounded to 16 bits, and the product is one of 16 bits: as Triton
//! lowers it for machines whose matrix engines know no scales.

use super::{Frame, Lower, Lowered};
use crate::ir::{Operation, ValueId};
use crate::number::Arith;
use crate::program::{Constant, Conversion, Op, Reg, RegType};
use crate::types::{Element, Scalar};
use std::rc::Rc;

/// One operand: its values, their format, and its scale.
struct Side<'a> {
    value: ValueId,
    format: &'a str,
    scale: Option<ValueId>,
}

impl<'m> Lower<'m> {
    /// Lowers `tt.dot_scaled`.
    pub(super) fn scaled_product(
        &mut self,
        operation: &'m Operation,
        frame: &mut Frame<'m>,
    ) -> Lowered<()> {
        let [left, right] = self.sides(operation, frame)?;
        if operation.int("lhs_k_pack") == Some(0) || operation.int("rhs_k_pack") == Some(0) {
            let text = "numbers of 4 bits that are packed along another axis than k";
            return Err(self.error(operation, format!("{text} are not supported")));
        }
        for (side, k) in [(&left, 1), (&right, 0)] {
            let extent = |value: ValueId| RegType::of(frame.kind(value)).extent;
            let packed = if side.format == "e2m1" { 2 } else { 1 };
            let (values, scale) = (extent(side.value), side.scale.map(extent));
            let (depth, others) = (values[k] * packed, values[1 - k]);
            let fits =
                |scale: &[usize]| scale[0] == others && scale[1] > 0 && depth % scale[1] == 0;
            if !scale.is_none_or(|scale| fits(&scale)) {
                return Err(self.error(operation, "a scale that does not fit its operand"));
            }
        }
        let is_half = [left.format, right.format].contains(&"fp16");
        let narrow = if is_half { Scalar::F16 } else { Scalar::BF16 };
        let last = operation.operands.last().map_or(0, |sum| frame.get(*sum));
        let left = self.side(&left, frame, 1, narrow);
        let right = self.side(&right, frame, 0, narrow);
        self.with_results(Op::Dot, &[left, right, last], operation, frame);
        Ok(())
    }

    /// Tells values from scales: a scale may be left out.
    fn sides(&self, operation: &'m Operation, frame: &Frame<'m>) -> Lowered<[Side<'m>; 2]> {
        let [lhs, rhs] = ["lhs", "rhs"].map(|name| operation.text(name).unwrap_or_default());
        let extent = |value: ValueId| RegType::of(frame.kind(value)).extent;
        let given = &operation.operands;
        let is_flat = given.iter().all(|value| extent(*value).len() == 2);
        let known = ["e2m1", "e4m3", "e5m2", "bf16", "fp16"];
        if !is_flat || !known.contains(&lhs) || !known.contains(&rhs) {
            let text = format!("a scaled product of `{lhs}` and `{rhs}`: allowed are matrices of");
            return Err(self.error(operation, format!("{text} {}", known.join(", "))));
        }
        let is_right = |value: ValueId, sum: ValueId| {
            let pack = |format: &str| if format == "e2m1" { 2 } else { 1 };
            let (value, sum) = (extent(value), extent(sum));
            let depth = extent(given[0])[1] * pack(lhs);
            value[0] * pack(rhs) == depth && value[1] == sum[1]
        };
        let (left, right) = match *given.as_slice() {
            [a, b, _] => ((a, None), (b, None)),
            [a, b, s, sum] if is_right(b, sum) => ((a, None), (b, Some(s))),
            [a, s, b, _] => ((a, Some(s)), (b, None)),
            [a, s, b, t, _] => ((a, Some(s)), (b, Some(t))),
            _ => return Err(self.error(operation, "expected three to five operands")),
        };
        let side = |format, (value, scale)| Side { value, format, scale };
        Ok([side(lhs, left), side(rhs, right)])
    }

    /// Emits an operand of 16 bits; `k` is the axis of the sum.
    fn side(&mut self, side: &Side<'_>, frame: &Frame<'m>, k: usize, narrow: Scalar) -> Reg {
        let value = frame.get(side.value);
        let wide = if side.format == "e2m1" {
            self.unpacked(value, k)
        } else {
            self.like(Op::Convert(Conversion::Float), Scalar::F32, value, &[value])
        };
        let product = match side.scale {
            Some(scale) => {
                let scale = self.powers(frame.get(scale), wide, k);
                self.like(Op::Arith(Arith::MulF), Scalar::F32, wide, &[wide, scale])
            }
            None => wide,
        };
        self.like(Op::Convert(Conversion::Float), narrow, product, &[product])
    }

    /// Emits the powers of two of a scale, one for each number: 8 bits are an exponent, all of them set are no number.
    fn powers(&mut self, scale: Reg, wide: Reg, k: usize) -> Reg {
        let whole = Scalar::Int(32);
        let bits =
            self.like(Op::Convert(Conversion::Whole { is_unsigned: true }), whole, scale, &[scale]);
        let bits = self.with_number(Arith::Shl, bits, 23);
        // The smallest power has no exponent of its own.
        let bits = self.with_number(Arith::MaxS, bits, 1 << 22);
        let power = self.like(Op::Bitcast, Scalar::F32, bits, &[bits]);
        let zero = self.number(power, Constant::Float(0.0));
        let power = self.like(Op::Fma, Scalar::F32, power, &[power, zero, power]);
        let extent = self.types[power as usize].extent.clone();
        let depth = self.types[wide as usize].extent[k];
        let group = depth / extent[1].max(1);
        let one = self.shaped(Op::Expand(2), power, vec![extent[0], extent[1], 1]);
        let all = self.shaped(Op::Broadcast, one, vec![extent[0], extent[1], group]);
        let power = self.shaped(Op::Reshape, all, vec![extent[0], depth]);
        if k == 1 {
            return power;
        }
        self.shaped(Op::Transpose(Rc::new([1, 0])), power, vec![depth, extent[0]])
    }

    /// Emits numbers of 4 bits, two in a byte along axis `k`, as `f32`.
    fn unpacked(&mut self, packed: Reg, k: usize) -> Reg {
        let convert = Op::Convert(Conversion::Whole { is_unsigned: true });
        let bytes = self.like(convert, Scalar::Int(32), packed, &[packed]);
        let low = self.with_number(Arith::And, bytes, 15);
        let high = self.with_number(Arith::ShrU, bytes, 4);
        let extent = self.types[packed as usize].extent.clone();
        let (rows, columns) = (extent[0], extent[1]);
        let kind = self.of(low, Scalar::Int(32), vec![rows, columns, 2]);
        let mut both = self.typed_register(kind);
        self.emit(Op::Join, both, &[low, high]);
        let mut whole = vec![rows, 2 * columns];
        if k == 0 {
            let order = Op::Transpose(Rc::new([0, 2, 1]));
            both = self.shaped(order, both, vec![rows, 2, columns]);
            whole = vec![2 * rows, columns];
        }
        let all = self.shaped(Op::Reshape, both, whole);
        // Sign, two bits of exponent and one of mantissa, at the places of an `f32`.
        let size = self.with_number(Arith::And, all, 7);
        let size = self.with_number(Arith::Shl, size, 22);
        let sign = self.with_number(Arith::And, all, 8);
        let sign = self.with_number(Arith::Shl, sign, 28);
        let bits = self.like(Op::Arith(Arith::Or), Scalar::Int(32), size, &[size, sign]);
        let small = self.like(Op::Bitcast, Scalar::F32, bits, &[bits]);
        let factor = self.number(small, Constant::Float(f64::from(126).exp2()));
        self.like(Op::Arith(Arith::MulF), Scalar::F32, small, &[small, factor])
    }

    fn of(&self, reg: Reg, scalar: Scalar, extent: Vec<usize>) -> RegType {
        let kind = self.types[reg as usize].clone();
        RegType { element: Element::Number(scalar), extent: extent.into(), ..kind }
    }

    /// Emits an instruction whose result has the shape of a register.
    fn like(&mut self, op: Op, scalar: Scalar, shape: Reg, args: &[Reg]) -> Reg {
        let kind =
            RegType { element: Element::Number(scalar), ..self.types[shape as usize].clone() };
        let to = self.typed_register(kind);
        self.emit(op, to, args);
        to
    }

    /// Emits an instruction that changes the shape of a register.
    fn shaped(&mut self, op: Op, from: Reg, extent: Vec<usize>) -> Reg {
        let kind = RegType { extent: extent.into(), ..self.types[from as usize].clone() };
        let to = self.typed_register(kind);
        self.emit(op, to, &[from]);
        to
    }

    /// Emits a constant of the type and the shape of a register.
    fn number(&mut self, like: Reg, constant: Constant) -> Reg {
        let to = self.typed_register(self.types[like as usize].clone());
        self.emit(Op::Constant(constant), to, &[]);
        to
    }

    fn with_number(&mut self, arith: Arith, reg: Reg, number: i64) -> Reg {
        let constant = self.number(reg, Constant::Whole(number));
        let to = self.typed_register(self.types[reg as usize].clone());
        self.emit(Op::Arith(arith), to, &[reg, constant]);
        to
    }
}
