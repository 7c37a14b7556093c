//! The operations on single elements, defined once.
//!
//! The fast paths and the reference call the same functions, so both give the same bits.
//!
//! - **OPS-1 (total).** No operation panics for any operands: `i32` wraps, division of `i32` by zero gives 0, a
//!   transcendental function of an `i32` is computed in `f32` and truncated.
//! - **OPS-2 (NaN goes on).** `Max`, `Min` and `Relu` of a NaN are NaN; of two equal numbers (such as `0.0` and `-0.0`)
//!   `Max` and `Min` take the second.

use super::math;

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
}

impl Unary {
    /// Every operation, in declaration order.
    pub const ALL: [Self; 10] = [
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
    ];

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
        }
    }

    /// Applies the operation to an integer.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "OPS-1: by way of f32"
    )]
    pub(crate) fn apply_i32(self, x: i32) -> i32 {
        match self {
            Self::Neg => x.wrapping_neg(),
            Self::Abs => x.wrapping_abs(),
            Self::Relu => x.max(0),
            _ => self.apply(x as f32) as i32,
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
    /// `a / b`.
    Div,
    /// Maximum.
    Max,
    /// Minimum.
    Min,
}

impl Binary {
    /// Every operation, in declaration order.
    pub const ALL: [Self; 6] = [Self::Add, Self::Sub, Self::Mul, Self::Div, Self::Max, Self::Min];

    /// Applies the operation to floats, before rounding to the element type.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "vectorised only inside the caller's loop")]
    pub fn apply(self, a: f32, b: f32) -> f32 {
        match self {
            Self::Add => a + b,
            Self::Sub => a - b,
            Self::Mul => a * b,
            Self::Div => a / b,
            Self::Max => {
                if a > b || a.is_nan() {
                    a
                } else {
                    b
                }
            }
            Self::Min => {
                if a < b || a.is_nan() {
                    a
                } else {
                    b
                }
            }
        }
    }

    /// Applies the operation to integers.
    #[inline]
    pub(crate) fn apply_i32(self, a: i32, b: i32) -> i32 {
        match self {
            Self::Add => a.wrapping_add(b),
            Self::Sub => a.wrapping_sub(b),
            Self::Mul => a.wrapping_mul(b),
            Self::Div if b == 0 => 0,
            Self::Div => a.wrapping_div(b),
            Self::Max => a.max(b),
            Self::Min => a.min(b),
        }
    }
}

/// A comparison of two elements of the same type; with a NaN only `Ne` holds.
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
}

impl Compare {
    /// Every comparison, in declaration order.
    pub const ALL: [Self; 6] = [Self::Eq, Self::Ne, Self::Lt, Self::Le, Self::Gt, Self::Ge];

    /// True if the comparison holds.
    #[inline]
    pub(crate) fn holds<T: PartialOrd + Copy>(self, a: T, b: T) -> bool {
        match self {
            Self::Eq => a == b,
            Self::Ne => a != b,
            Self::Lt => a < b,
            Self::Le => a <= b,
            Self::Gt => a > b,
            Self::Ge => a >= b,
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
    /// Maximum.
    Max,
    /// Minimum.
    Min,
}

impl Reduce {
    /// Every reduction, in declaration order.
    pub const ALL: [Self; 4] = [Self::Sum, Self::Prod, Self::Max, Self::Min];

    /// Returns the operation applied as `accumulator op element`.
    pub fn binary(self) -> Binary {
        match self {
            Self::Sum => Binary::Add,
            Self::Prod => Binary::Mul,
            Self::Max => Binary::Max,
            Self::Min => Binary::Min,
        }
    }

    /// Returns the starting value of a float accumulator, which is also the result of no elements.
    pub fn start(self) -> f32 {
        match self {
            Self::Sum => 0.0,
            Self::Prod => 1.0,
            Self::Max => f32::NEG_INFINITY,
            Self::Min => f32::INFINITY,
        }
    }

    /// Returns the starting value of an integer accumulator, which is also the result of no elements.
    pub(crate) fn start_i32(self) -> i32 {
        match self {
            Self::Sum => 0,
            Self::Prod => 1,
            Self::Max => i32::MIN,
            Self::Min => i32::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ops_1_integers_never_panic() {
        let edges = [i32::MIN, -1, 0, 1, i32::MAX];
        for a in edges {
            for op in Unary::ALL {
                op.apply_i32(a);
            }
            for b in edges {
                for op in Binary::ALL {
                    op.apply_i32(a, b);
                }
            }
        }
        assert_eq!(Binary::Div.apply_i32(7, 0), 0);
        assert_eq!(Binary::Div.apply_i32(i32::MIN, -1), i32::MIN);
    }

    #[test]
    fn ops_2_nan_goes_on() {
        for op in [Binary::Max, Binary::Min] {
            assert!(op.apply(f32::NAN, 1.0).is_nan());
            assert!(op.apply(1.0, f32::NAN).is_nan());
            assert!(op.apply(0.0, -0.0).is_sign_negative());
            assert!(op.apply(-0.0, 0.0).is_sign_positive());
        }
        assert!(Unary::Relu.apply(f32::NAN).is_nan());
    }
}
