//! The arithmetic of each element type, defined once.

use super::buffer::Scalar;
use super::element::{Bool, Element, F8e4m3, F8e5m2};
use super::{Binary, Reduce, Unary, bf16, f16};

/// An element type with its arithmetic.
pub(crate) trait Number: Element {
    /// The type in which reductions accumulate.
    type Sum: Number;
    fn unary(op: Unary, x: Self) -> Self;
    fn binary(op: Binary, a: Self, b: Self) -> Self;
    /// `a * b + c`, of floats with one rounding in the type of computation.
    fn fma(a: Self, b: Self, c: Self) -> Self;
    /// The starting value of an accumulator of this type, which is also the result of no elements.
    fn start(how: Reduce) -> Self;
    fn to_sum(self) -> Self::Sum;
    fn from_sum(sum: Self::Sum) -> Self;
    fn to_f32(self) -> f32;
    fn from_f32(x: f32) -> Self;
    fn to_f64(self) -> f64;
    fn from_f64(x: f64) -> Self;
    /// Of an `u64` the same bits.
    fn to_i64(self) -> i64;
    /// Wraps.
    fn from_i64(x: i64) -> Self;
    /// The bits, above them zeros.
    fn bits(self) -> u64;
    fn from_bits64(bits: u64) -> Self;
    fn scalar(self) -> Scalar;
}

/// Rounds to `f32` toward the neighbour with an odd mantissa, so that a second rounding gives what one would.
#[expect(clippy::cast_possible_truncation, reason = "rounding is the point")]
fn odd(x: f64) -> f32 {
    let near = x as f32;
    let (beyond, below) = (f64::from(near).abs() > x.abs(), f64::from(near).abs() < x.abs());
    if !beyond && !below || x.is_infinite() {
        return near;
    }
    f32::from_bits((near.to_bits() - u32::from(beyond)) | 1)
}

macro_rules! narrow {
    ($($rust:ty, $variant:ident, $bits:ty, $up:expr, $down:expr, $down64:expr);*) => {$(
        #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "defined so")]
        impl Number for $rust {
            type Sum = f32;
            #[inline]
            fn unary(op: Unary, x: Self) -> Self {
                Self::from_f32(op.apply(x.to_f32()))
            }
            #[inline]
            fn binary(op: Binary, a: Self, b: Self) -> Self {
                Self::from_f32(op.apply(a.to_f32(), b.to_f32()))
            }
            #[inline]
            fn fma(a: Self, b: Self, c: Self) -> Self {
                Self::from_f32(a.to_f32().mul_add(b.to_f32(), c.to_f32()))
            }
            fn start(how: Reduce) -> Self {
                Self::from_f32(how.start())
            }
            #[inline]
            fn to_sum(self) -> f32 {
                self.to_f32()
            }
            #[inline]
            fn from_sum(sum: f32) -> Self {
                Self::from_f32(sum)
            }
            #[inline]
            fn to_f32(self) -> f32 {
                let up: fn(Self) -> f32 = $up;
                up(self)
            }
            #[inline]
            fn from_f32(x: f32) -> Self {
                let down: fn(f32) -> Self = $down;
                down(x)
            }
            #[inline]
            fn to_f64(self) -> f64 {
                f64::from(self.to_f32())
            }
            #[inline]
            fn from_f64(x: f64) -> Self {
                let down: fn(f64) -> Self = $down64;
                down(x)
            }
            #[inline]
            fn to_i64(self) -> i64 {
                self.to_f32() as i64
            }
            #[inline]
            fn from_i64(x: i64) -> Self {
                Self::from_f32(x as f32)
            }
            #[inline]
            fn bits(self) -> u64 {
                u64::from(self.to_bits())
            }
            #[inline]
            fn from_bits64(bits: u64) -> Self {
                Self::from_bits(bits as $bits)
            }
            fn scalar(self) -> Scalar {
                Scalar::$variant(self)
            }
        }
    )*};
}
narrow! {
    f32, F32, u32, |x| x, |x| x, |x| x as f32;
    f16, F16, u16, f16::to_f32, f16::from_f32, |x| f16::from_f32(odd(x));
    bf16, Bf16, u16, bf16::to_f32, bf16::from_f32, |x| bf16::from_f32(odd(x));
    F8e4m3, F8e4m3, u8, F8e4m3::to_f32, F8e4m3::from_f32, |x| F8e4m3::from_f32(odd(x));
    F8e5m2, F8e5m2, u8, F8e5m2::to_f32, F8e5m2::from_f32, |x| F8e5m2::from_f32(odd(x))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "defined so")]
impl Number for f64 {
    type Sum = f64;
    #[inline]
    fn unary(op: Unary, x: Self) -> Self {
        op.apply_f64(x)
    }
    #[inline]
    fn binary(op: Binary, a: Self, b: Self) -> Self {
        op.apply_f64(a, b)
    }
    #[inline]
    fn fma(a: Self, b: Self, c: Self) -> Self {
        a.mul_add(b, c)
    }
    fn start(how: Reduce) -> Self {
        f64::from(how.start())
    }
    #[inline]
    fn to_sum(self) -> f64 {
        self
    }
    #[inline]
    fn from_sum(sum: f64) -> Self {
        sum
    }
    #[inline]
    fn to_f32(self) -> f32 {
        self as f32
    }
    #[inline]
    fn from_f32(x: f32) -> Self {
        f64::from(x)
    }
    #[inline]
    fn to_f64(self) -> f64 {
        self
    }
    #[inline]
    fn from_f64(x: f64) -> Self {
        x
    }
    #[inline]
    fn to_i64(self) -> i64 {
        self as i64
    }
    #[inline]
    fn from_i64(x: i64) -> Self {
        x as f64
    }
    #[inline]
    fn bits(self) -> u64 {
        self.to_bits()
    }
    #[inline]
    fn from_bits64(bits: u64) -> Self {
        f64::from_bits(bits)
    }
    fn scalar(self) -> Scalar {
        Scalar::F64(self)
    }
}

/// The operations that differ between signed and unsigned numbers.
macro_rules! sign {
    (signed neg $x:expr) => {
        $x.wrapping_neg()
    };
    (signed abs $x:expr) => {
        $x.wrapping_abs()
    };
    (signed floor_div $a:expr, $b:expr) => {{
        let (quotient, rest) = ($a.wrapping_div($b), $a.wrapping_rem($b));
        if rest != 0 && (rest < 0) != ($b < 0) { quotient - 1 } else { quotient }
    }};
    (signed floor_rem $a:expr, $b:expr) => {{
        let rest = $a.wrapping_rem($b);
        if rest != 0 && (rest < 0) != ($b < 0) { rest + $b } else { rest }
    }};
    (signed negative $x:expr) => {
        $x < 0
    };
    (unsigned neg $x:expr) => {
        $x.wrapping_neg()
    };
    (unsigned abs $x:expr) => {
        $x
    };
    (unsigned floor_div $a:expr, $b:expr) => {
        $a / $b
    };
    (unsigned floor_rem $a:expr, $b:expr) => {
        $a % $b
    };
    (unsigned negative $x:expr) => {
        false
    };
}

/// `a^b` with wrapping products; a negative power is a fraction, and 0 unless `a` is 1 or -1.
macro_rules! whole_power {
    ($a:expr, $b:expr, $sign:tt) => {{
        if sign!($sign negative $b) {
            let is_one = $a == 1 || $a.wrapping_add(1) == 0 && $b % 2 == 0;
            if is_one { 1 } else if $a.wrapping_add(1) == 0 { $a } else { 0 }
        } else {
            let (mut base, mut power, mut left) = ($a, 1, $b);
            while left != 0 {
                if left % 2 != 0 {
                    power = base.wrapping_mul(power);
                }
                base = base.wrapping_mul(base);
                left /= 2;
            }
            power
        }
    }};
}

macro_rules! whole {
    ($($rust:ident, $variant:ident, $unsigned:ident, $wide:ident, $sign:tt);*) => {$(
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_possible_wrap,
            clippy::cast_precision_loss,
            clippy::cast_sign_loss,
            clippy::cast_lossless,
            reason = "conversions wrap, and functions go by way of f32 (OPS-1)"
        )]
        impl Number for $rust {
            type Sum = Self;
            #[inline]
            fn unary(op: Unary, x: Self) -> Self {
                match op {
                    Unary::Neg => sign!($sign neg x),
                    Unary::Abs => sign!($sign abs x),
                    Unary::Relu => x.max(0),
                    Unary::Not => !x,
                    Unary::Floor | Unary::Ceil => x,
                    _ => op.apply(x as f32) as Self,
                }
            }
            #[inline(always)]
            fn binary(op: Binary, a: Self, b: Self) -> Self {
                // A shift by all bits or more, or by a negative number, moves all bits out.
                let far = b as $unsigned >= Self::BITS as $unsigned;
                match op {
                    Binary::Add => a.wrapping_add(b),
                    Binary::Sub => a.wrapping_sub(b),
                    Binary::Mul => a.wrapping_mul(b),
                    Binary::Div if b == 0 => 0,
                    Binary::Div => a.wrapping_div(b),
                    Binary::Max | Binary::MaxNum => a.max(b),
                    Binary::Min | Binary::MinNum => a.min(b),
                    Binary::Rem | Binary::FloorDiv | Binary::FloorRem if b == 0 => 0,
                    Binary::Rem => a.wrapping_rem(b),
                    Binary::FloorDiv => sign!($sign floor_div a, b),
                    Binary::FloorRem => sign!($sign floor_rem a, b),
                    Binary::Pow => whole_power!(a, b, $sign),
                    Binary::And => a & b,
                    Binary::Or => a | b,
                    Binary::Xor => a ^ b,
                    Binary::Shl => if far { 0 } else { a << b },
                    Binary::Shr => {
                        if !far { a >> b } else if sign!($sign negative a) { !0 } else { 0 }
                    }
                    Binary::MulHi => ((a as $wide * b as $wide) >> Self::BITS) as Self,
                }
            }
            #[inline]
            fn fma(a: Self, b: Self, c: Self) -> Self {
                a.wrapping_mul(b).wrapping_add(c)
            }
            fn start(how: Reduce) -> Self {
                match how {
                    Reduce::Sum | Reduce::Or | Reduce::Xor => 0,
                    Reduce::Prod => 1,
                    Reduce::And => !0,
                    Reduce::Max | Reduce::MaxNum => Self::MIN,
                    Reduce::Min | Reduce::MinNum => Self::MAX,
                }
            }
            #[inline]
            fn to_sum(self) -> Self {
                self
            }
            #[inline]
            fn from_sum(sum: Self) -> Self {
                sum
            }
            #[inline]
            fn to_f32(self) -> f32 {
                self as f32
            }
            #[inline]
            fn from_f32(x: f32) -> Self {
                x as Self
            }
            #[inline]
            fn to_f64(self) -> f64 {
                self as f64
            }
            #[inline]
            fn from_f64(x: f64) -> Self {
                x as Self
            }
            #[inline]
            fn to_i64(self) -> i64 {
                self as i64
            }
            #[inline]
            fn from_i64(x: i64) -> Self {
                x as Self
            }
            #[inline]
            fn bits(self) -> u64 {
                u64::from(self as $unsigned)
            }
            #[inline]
            fn from_bits64(bits: u64) -> Self {
                bits as Self
            }
            fn scalar(self) -> Scalar {
                Scalar::$variant(self)
            }
        }
    )*};
}
whole! {
    i8, I8, u8, i16, signed;
    i16, I16, u16, i32, signed;
    i32, I32, u32, i64, signed;
    i64, I64, u64, i128, signed;
    u8, U8, u8, u16, unsigned;
    u16, U16, u16, u32, unsigned;
    u32, U32, u32, u64, unsigned;
    u64, U64, u64, u128, unsigned
}

impl Bool {
    /// The lowest bit.
    fn low(bits: u8) -> Self {
        Self::new(bits & 1 != 0)
    }

    fn bit(self) -> u8 {
        u8::from(self.get())
    }
}

/// One unsigned bit: the lowest bit of the same operation on bytes.
impl Number for Bool {
    type Sum = Self;
    #[inline]
    fn unary(op: Unary, x: Self) -> Self {
        Self::low(u8::unary(op, x.bit()))
    }
    #[inline]
    fn binary(op: Binary, a: Self, b: Self) -> Self {
        Self::low(u8::binary(op, a.bit(), b.bit()))
    }
    #[inline]
    fn fma(a: Self, b: Self, c: Self) -> Self {
        Self::low(u8::fma(a.bit(), b.bit(), c.bit()))
    }
    fn start(how: Reduce) -> Self {
        Self::low(u8::start(how))
    }
    #[inline]
    fn to_sum(self) -> Self {
        self
    }
    #[inline]
    fn from_sum(sum: Self) -> Self {
        sum
    }
    #[inline]
    fn to_f32(self) -> f32 {
        f32::from(self.bit())
    }
    #[inline]
    fn from_f32(x: f32) -> Self {
        Self::new(x != 0.0)
    }
    #[inline]
    fn to_f64(self) -> f64 {
        f64::from(self.bit())
    }
    #[inline]
    fn from_f64(x: f64) -> Self {
        Self::new(x != 0.0)
    }
    #[inline]
    fn to_i64(self) -> i64 {
        i64::from(self.bit())
    }
    #[inline]
    fn from_i64(x: i64) -> Self {
        Self::new(x != 0)
    }
    #[inline]
    fn bits(self) -> u64 {
        u64::from(self.bit())
    }
    #[inline]
    fn from_bits64(bits: u64) -> Self {
        Self::new(bits != 0)
    }
    fn scalar(self) -> Scalar {
        Scalar::Bool(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ops_1_whole_numbers_never_panic() {
        fn all<T: Number>() {
            let edges = [
                i64::MIN,
                i64::MAX,
                -129,
                -128,
                -2,
                -1,
                0,
                1,
                2,
                7,
                8,
                31,
                32,
                63,
                64,
                127,
                128,
                255,
            ];
            let edges = edges.map(T::from_i64);
            for a in edges {
                for op in Unary::ALL {
                    T::unary(op, a);
                }
                for b in edges {
                    for op in Binary::ALL {
                        T::binary(op, a, b);
                    }
                }
            }
        }
        all::<i8>();
        all::<i16>();
        all::<i32>();
        all::<i64>();
        all::<u8>();
        all::<u16>();
        all::<u32>();
        all::<u64>();
        all::<Bool>();
        assert_eq!((i32::binary(Binary::Div, 7, 0), u64::binary(Binary::Rem, 7, 0)), (0, 0));
        assert_eq!(i32::binary(Binary::Div, i32::MIN, -1), i32::MIN);
    }

    #[test]
    fn ops_3_signs_are_those_of_the_type() {
        use Binary::{Div, FloorDiv, FloorRem, MulHi, Pow, Rem, Shl, Shr};
        let i = |op, a, b| i32::binary(op, a, b);
        assert_eq!((i(Div, -7, 2), i(Rem, -7, 2)), (-3, -1), "OPS-3");
        assert_eq!((i(FloorDiv, -7, 2), i(FloorRem, -7, 2), i(FloorRem, 7, -2)), (-4, 1, -1));
        assert_eq!((i(Shr, -8, 1), i(Shr, -8, 99), i(Shl, 1, 32), i(Shl, 1, -1)), (-4, -1, 0, 0));
        assert_eq!(
            (i(MulHi, -1, 2), i(Pow, -3, 3), i(Pow, -1, -3), i(Pow, 2, -1)),
            (-1, -27, -1, 0)
        );
        let u = |op, a, b| u32::binary(op, a, b);
        assert_eq!((u(Div, u32::MAX, 2), u(Shr, u32::MAX, 31), u(Shr, 9, 32)), (0x7fff_ffff, 1, 0));
        assert_eq!(u64::binary(MulHi, u64::MAX, u64::MAX), u64::MAX - 1, "OPS-3");
        assert_eq!(i64::binary(MulHi, i64::MIN, 2), -1, "OPS-3");
    }

    #[test]
    fn the_reference_rounds_halves_once() {
        use crate::value::reference::Array;
        use crate::value::{DType, Value};
        // Just above a middle, near the largest numbers, below the smallest ones, and what is no number.
        let numbers =
            [-1.274_375_3e-23, 65_519.996, 65_520.0, -3.39e38, f32::MAX, 2e-8, 3e-8, 9.2e-41, -0.0];
        let others =
            [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MIN_POSITIVE, 1.0 + 1.0 / 256.0];
        let all = [&numbers[..], &others].concat();
        for dtype in [DType::F16, DType::Bf16] {
            assert_eq!(
                Array::new(dtype, &all),
                Array::of(&Value::from_f32(dtype, &all)),
                "VAL-2: {dtype}"
            );
        }
    }

    #[test]
    fn one_rounding_from_f64_to_narrow_floats() {
        // Just above the middle of two f16: through f32 it would be rounded to the middle, and then to even.
        let x = 1.0 + 2.0_f64.powi(-11) + 2.0_f64.powi(-40);
        assert_eq!(<f16 as Number>::from_f64(x).to_bits(), f16::from_f32(1.0).to_bits() + 1);
        assert_eq!(<f16 as Number>::from_f64(-1e300), f16::NEG_INFINITY);
    }
}
