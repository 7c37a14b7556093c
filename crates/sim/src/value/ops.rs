//! The operations on single elements, defined once.
//!
//! The fast paths and the reference call the same functions, so both give the same bits.
//!
//! - **OPS-1 (total).** No operation panics for any operands: whole numbers wrap, quotients and remainders of a division
//!   of whole numbers by zero are 0, a shift by as many bits as there are, or more, moves all bits out, and a
//!   transcendental function of a whole number is computed in `f32` and truncated.
//! - **OPS-2 (NaN goes on).** `Max`, `Min` and `Relu` of a NaN are NaN; of two equal numbers (such as `0.0` and `-0.0`)
//!   `Max` and `Min` take the second. `MaxNum` and `MinNum` of a NaN and a number are the number.
//! - **OPS-3 (signs).** Quotients, remainders, comparisons, shifts to the right and `MulHi` are those of the type: signed
//!   for `i32`, unsigned for `u32`. Operations on bits take whole numbers only.

use super::{DType, math, precise};

/// An operation on one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unary {
    /// `-x`.
    Neg,
    /// `|x|`.
    Abs,
    /// `1 / x`.
    Recip,
    /// Square root.
    Sqrt,
    /// Exponential.
    Exp,
    /// Natural logarithm.
    Log,
    /// `max(x, 0)`.
    Relu,
    /// Hyperbolic tangent.
    Tanh,
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// Gaussian error linear unit, in its `tanh` form.
    Gelu,
    /// `2^x`.
    Exp2,
    /// Logarithm of base 2.
    Log2,
    /// `1 / sqrt(x)`.
    Rsqrt,
    /// The error function.
    Erf,
    /// Sine.
    Sin,
    /// Cosine.
    Cos,
    /// The largest whole number that is not above `x`.
    Floor,
    /// The smallest whole number that is not below `x`.
    Ceil,
    /// All bits turned over; whole numbers only.
    Not,
}

impl Unary {
    /// Every operation, in declaration order.
    pub const ALL: [Self; 19] = [
        Self::Neg,
        Self::Abs,
        Self::Recip,
        Self::Sqrt,
        Self::Exp,
        Self::Log,
        Self::Relu,
        Self::Tanh,
        Self::Sigmoid,
        Self::Gelu,
        Self::Exp2,
        Self::Log2,
        Self::Rsqrt,
        Self::Erf,
        Self::Sin,
        Self::Cos,
        Self::Floor,
        Self::Ceil,
        Self::Not,
    ];

    /// True if the operation is defined for elements of this type.
    pub const fn takes(self, dtype: DType) -> bool {
        !matches!(self, Self::Not) || !dtype.is_float()
    }

    /// Applies the operation to a float, before rounding to the element type.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "vectorised only inside the caller's loop")]
    pub fn apply(self, x: f32) -> f32 {
        match self {
            Self::Neg => -x,
            Self::Abs => x.abs(),
            Self::Recip => 1.0 / x,
            Self::Sqrt => x.sqrt(),
            Self::Exp => math::exp(x),
            Self::Log => math::log(x),
            Self::Relu => Binary::Max.apply(x, 0.0),
            Self::Tanh => math::tanh(x),
            Self::Sigmoid => math::sigmoid(x),
            Self::Gelu => math::gelu(x),
            Self::Exp2 => math::exp2(x),
            Self::Log2 => precise::rounded(precise::log2, x),
            Self::Rsqrt => precise::rounded(|x| 1.0 / x.sqrt(), x),
            Self::Erf => precise::rounded(precise::erf, x),
            Self::Sin => precise::rounded(precise::sin, x),
            Self::Cos => precise::rounded(precise::cos, x),
            Self::Floor => x.floor(),
            Self::Ceil => x.ceil(),
            Self::Not => f32::NAN,
        }
    }

    /// Applies the operation to an `f64`.
    pub(crate) fn apply_f64(self, x: f64) -> f64 {
        match self {
            Self::Neg => -x,
            Self::Abs => x.abs(),
            Self::Recip => 1.0 / x,
            Self::Sqrt => x.sqrt(),
            Self::Exp => precise::exp(x),
            Self::Log => precise::log(x),
            Self::Relu => Binary::Max.apply_f64(x, 0.0),
            Self::Tanh => precise::tanh(x),
            Self::Sigmoid => 1.0 / (1.0 + precise::exp(-x)),
            Self::Gelu => {
                let inner = 0.797_884_560_802_865_4 * (x * x * x).mul_add(0.044_715, x);
                0.5 * x * (1.0 + precise::tanh(inner))
            }
            Self::Exp2 => precise::exp2(x),
            Self::Log2 => precise::log2(x),
            Self::Rsqrt => 1.0 / x.sqrt(),
            Self::Erf => precise::erf(x),
            Self::Sin => precise::sin(x),
            Self::Cos => precise::cos(x),
            Self::Floor => x.floor(),
            Self::Ceil => x.ceil(),
            Self::Not => f64::NAN,
        }
    }
}

/// An operation on two elements of the same type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// `a + b`.
    Add,
    /// `a - b`.
    Sub,
    /// `a * b`.
    Mul,
    /// `a / b`; of whole numbers truncated toward zero.
    Div,
    /// Maximum; a NaN goes on.
    Max,
    /// Minimum; a NaN goes on.
    Min,
    /// The rest of the truncated quotient, with the sign of `a`.
    Rem,
    /// The quotient, rounded down.
    FloorDiv,
    /// The rest of the quotient that is rounded down, with the sign of `b`.
    FloorRem,
    /// Maximum; of a NaN and a number the number.
    MaxNum,
    /// Minimum; of a NaN and a number the number.
    MinNum,
    /// `a` to the power of `b`.
    Pow,
    /// Bits of both.
    And,
    /// Bits of either.
    Or,
    /// Bits of one.
    Xor,
    /// `a` shifted left by `b` bits.
    Shl,
    /// `a` shifted right by `b` bits, filled with the sign (with zeros if unsigned).
    Shr,
    /// The upper half of the product.
    MulHi,
}

impl Binary {
    /// Every operation, in declaration order.
    pub const ALL: [Self; 18] = [
        Self::Add,
        Self::Sub,
        Self::Mul,
        Self::Div,
        Self::Max,
        Self::Min,
        Self::Rem,
        Self::FloorDiv,
        Self::FloorRem,
        Self::MaxNum,
        Self::MinNum,
        Self::Pow,
        Self::And,
        Self::Or,
        Self::Xor,
        Self::Shl,
        Self::Shr,
        Self::MulHi,
    ];

    /// True if the operation is defined for elements of this type: operations on bits take whole numbers only.
    pub const fn takes(self, dtype: DType) -> bool {
        let bits =
            matches!(self, Self::And | Self::Or | Self::Xor | Self::Shl | Self::Shr | Self::MulHi);
        !bits || !dtype.is_float()
    }

    /// Applies the operation to floats, before rounding to the element type.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "vectorised only inside the caller's loop")]
    #[expect(clippy::cast_possible_truncation, reason = "rounding is the point")]
    pub fn apply(self, a: f32, b: f32) -> f32 {
        match self {
            Self::Add => a + b,
            Self::Sub => a - b,
            Self::Mul => a * b,
            Self::Div => a / b,
            Self::Max => larger(a, b),
            Self::Min => smaller(a, b),
            Self::MaxNum => {
                if a > b || b.is_nan() {
                    a
                } else {
                    b
                }
            }
            Self::MinNum => {
                if a < b || b.is_nan() {
                    a
                } else {
                    b
                }
            }
            Self::FloorDiv => (a / b).floor(),
            Self::Rem => a % b,
            Self::Pow => precise::pow(f64::from(a), f64::from(b)) as f32,
            // Remainders of f32 are exact in f64.
            Self::FloorRem => self.apply_f64(f64::from(a), f64::from(b)) as f32,
            Self::And | Self::Or | Self::Xor | Self::Shl | Self::Shr | Self::MulHi => f32::NAN,
        }
    }

    /// Applies the operation to `f64`s.
    #[inline]
    pub(crate) fn apply_f64(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Add => a + b,
            Self::Sub => a - b,
            Self::Mul => a * b,
            Self::Div => a / b,
            Self::Max => larger(a, b),
            Self::Min => smaller(a, b),
            Self::MaxNum => {
                if a > b || b.is_nan() {
                    a
                } else {
                    b
                }
            }
            Self::MinNum => {
                if a < b || b.is_nan() {
                    a
                } else {
                    b
                }
            }
            Self::FloorDiv => (a / b).floor(),
            Self::Rem => a % b,
            Self::Pow => precise::pow(a, b),
            Self::FloorRem => {
                let rest = a % b;
                if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
            }
            Self::And | Self::Or | Self::Xor | Self::Shl | Self::Shr | Self::MulHi => f64::NAN,
        }
    }
}

/// The maximum, or a NaN; of two equal numbers the second.
#[inline(always)]
#[expect(clippy::inline_always, reason = "vectorised only inside the caller's loop")]
#[expect(clippy::eq_op, reason = "a NaN does not equal itself")]
fn larger<T: PartialOrd + Copy>(a: T, b: T) -> T {
    if a > b || a != a { a } else { b }
}

/// The minimum, or a NaN; of two equal numbers the second.
#[inline(always)]
#[expect(clippy::inline_always, reason = "vectorised only inside the caller's loop")]
#[expect(clippy::eq_op, reason = "a NaN does not equal itself")]
fn smaller<T: PartialOrd + Copy>(a: T, b: T) -> T {
    if a < b || a != a { a } else { b }
}

/// A comparison of two elements of the same type; with a NaN only `Ne` and those that say so hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// `a == b`.
    Eq,
    /// `a != b`.
    Ne,
    /// `a < b`.
    Lt,
    /// `a <= b`.
    Le,
    /// `a > b`.
    Gt,
    /// `a >= b`.
    Ge,
    /// Neither is a NaN.
    Ordered,
    /// One is a NaN.
    Unordered,
    /// `a != b`, and neither is a NaN.
    OrderedNe,
    /// `a == b`, or one is a NaN.
    UnorderedEq,
    /// `a < b`, or one is a NaN.
    UnorderedLt,
    /// `a <= b`, or one is a NaN.
    UnorderedLe,
    /// `a > b`, or one is a NaN.
    UnorderedGt,
    /// `a >= b`, or one is a NaN.
    UnorderedGe,
}

impl Compare {
    /// Every comparison, in declaration order.
    pub const ALL: [Self; 14] = [
        Self::Eq,
        Self::Ne,
        Self::Lt,
        Self::Le,
        Self::Gt,
        Self::Ge,
        Self::Ordered,
        Self::Unordered,
        Self::OrderedNe,
        Self::UnorderedEq,
        Self::UnorderedLt,
        Self::UnorderedLe,
        Self::UnorderedGt,
        Self::UnorderedGe,
    ];

    /// True if the comparison holds.
    #[inline]
    #[expect(clippy::neg_cmp_op_on_partial_ord, reason = "true of a NaN")]
    pub(crate) fn holds<T: PartialOrd + Copy>(self, a: T, b: T) -> bool {
        match self {
            Self::Eq => a == b,
            Self::Ne => a != b,
            Self::Lt => a < b,
            Self::Le => a <= b,
            Self::Gt => a > b,
            Self::Ge => a >= b,
            Self::Ordered => a.partial_cmp(&b).is_some(),
            Self::Unordered => a.partial_cmp(&b).is_none(),
            Self::OrderedNe => a != b && a.partial_cmp(&b).is_some(),
            Self::UnorderedEq => a == b || a.partial_cmp(&b).is_none(),
            Self::UnorderedLt => !(a >= b),
            Self::UnorderedLe => !(a > b),
            Self::UnorderedGt => !(a <= b),
            Self::UnorderedGe => !(a < b),
        }
    }
}

/// A reduction of many elements to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduce {
    /// Sum.
    Sum,
    /// Product.
    Prod,
    /// Maximum; a NaN goes on.
    Max,
    /// Minimum; a NaN goes on.
    Min,
    /// Maximum of the numbers; NaN if there are only NaNs.
    MaxNum,
    /// Minimum of the numbers; NaN if there are only NaNs.
    MinNum,
    /// Bits of all; whole numbers only.
    And,
    /// Bits of any; whole numbers only.
    Or,
    /// Bits of an odd number; whole numbers only.
    Xor,
}

impl Reduce {
    /// Every reduction, in declaration order.
    pub const ALL: [Self; 9] = [
        Self::Sum,
        Self::Prod,
        Self::Max,
        Self::Min,
        Self::MaxNum,
        Self::MinNum,
        Self::And,
        Self::Or,
        Self::Xor,
    ];

    /// Returns the operation applied as `accumulator op element`.
    pub fn binary(self) -> Binary {
        match self {
            Self::Sum => Binary::Add,
            Self::Prod => Binary::Mul,
            Self::Max => Binary::Max,
            Self::Min => Binary::Min,
            Self::MaxNum => Binary::MaxNum,
            Self::MinNum => Binary::MinNum,
            Self::And => Binary::And,
            Self::Or => Binary::Or,
            Self::Xor => Binary::Xor,
        }
    }

    /// True if the reduction is defined for elements of this type.
    pub fn takes(self, dtype: DType) -> bool {
        self.binary().takes(dtype)
    }

    /// Returns the starting value of a float accumulator, which is also the result of no elements.
    pub fn start(self) -> f32 {
        match self {
            Self::Sum | Self::And | Self::Or | Self::Xor => 0.0,
            Self::Prod => 1.0,
            Self::Max => f32::NEG_INFINITY,
            Self::Min => f32::INFINITY,
            Self::MaxNum | Self::MinNum => f32::NAN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ops_2_nan_goes_on() {
        for op in [Binary::Max, Binary::Min] {
            assert!(op.apply(f32::NAN, 1.0).is_nan());
            assert!(op.apply(1.0, f32::NAN).is_nan());
            assert!(op.apply(0.0, -0.0).is_sign_negative());
            assert!(op.apply(-0.0, 0.0).is_sign_positive());
        }
        assert!(Unary::Relu.apply(f32::NAN).is_nan());
        for op in [Binary::MaxNum, Binary::MinNum] {
            assert_eq!((op.apply(f32::NAN, 1.0), op.apply(1.0, f32::NAN)), (1.0, 1.0));
            assert!(op.apply(f32::NAN, f32::NAN).is_nan());
        }
    }
}
