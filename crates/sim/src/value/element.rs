//! The Rust types of elements, and the types of eight bits that Rust does not have.
//!
//! - **BYTE-1 (nearest).** A number becomes the nearest 8-bit float, ties to even. Numbers beyond the largest, and infinities,
//!   become the largest of their sign, as in the conversion instructions of GPUs and in Triton (torch makes NaN or
//!   infinity of them). A NaN stays a NaN.

use super::buffer::{Buffer, Slice};
use super::{DType, bf16, f16};
use bytemuck::{Pod, Zeroable};
use std::cmp::Ordering;

/// 0 or 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Pod, Zeroable)]
#[repr(transparent)]
pub struct Bool(u8);

impl Bool {
    /// Creates 1 for `true`, otherwise 0.
    #[inline]
    pub const fn new(truth: bool) -> Self {
        Self(truth as u8)
    }

    /// True unless 0.
    #[inline]
    pub const fn get(self) -> bool {
        self.0 != 0
    }
}

/// A float of 8 bits: 4 of exponent (bias 7) and 3 of mantissa. No infinity; the largest number is 448; 0x7f is NaN.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(transparent)]
pub struct F8e4m3(u8);

/// A float of 8 bits: 5 of exponent (bias 15) and 2 of mantissa, the upper byte of an `f16`. The largest number is 57344.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(transparent)]
pub struct F8e5m2(u8);

/// Returns the bits of the nearest float with `mantissa` bits of mantissa and this exponent bias; `largest` is the
/// largest number, and `nan` are the bits of a NaN.
#[inline]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most seven bits")]
fn narrow(x: f32, mantissa: u32, exponent_bias: u32, largest: f32, nan: u8) -> u8 {
    let sign = (x.to_bits() >> 24) as u8 & 0x80;
    if x.is_nan() {
        return sign | nan;
    }
    let size = x.abs().min(largest);
    let cut = 23 - mantissa;
    let smallest_normal = f32::from_bits((128 - exponent_bias) << 23);
    let bits = if size < smallest_normal {
        // A whole number of the smallest steps.
        let steps = f32::from_bits((126 + exponent_bias + mantissa) << 23);
        (size * steps).round_ties_even() as u32
    } else {
        let odd = (size.to_bits() >> cut) & 1;
        ((size.to_bits() + (1 << (cut - 1)) - 1 + odd) >> cut) - ((127 - exponent_bias) << mantissa)
    };
    sign | bits as u8
}

/// Returns the number of the lower seven bits, and the sign of the eighth.
#[inline]
fn widen(bits: u8, mantissa: u32, exponent_bias: u32) -> f32 {
    let shifted = f32::from_bits(u32::from(bits & 0x7f) << (23 - mantissa));
    let scaled = shifted * f32::from_bits((254 - exponent_bias) << 23);
    scaled.copysign(if bits & 0x80 == 0 { 1.0 } else { -1.0 })
}

macro_rules! eight_bits {
    ($name:ident, $mantissa:literal, $bias:literal, $largest:literal, $nan:literal, $special:expr) => {
        impl $name {
            /// The largest number.
            pub const MAX: f32 = $largest;

            /// Creates the number with these bits.
            #[inline]
            pub const fn from_bits(bits: u8) -> Self {
                Self(bits)
            }

            /// Returns the bits.
            #[inline]
            pub const fn to_bits(self) -> u8 {
                self.0
            }

            /// Returns the nearest number (BYTE-1).
            #[inline]
            pub fn from_f32(x: f32) -> Self {
                Self(narrow(x, $mantissa, $bias, $largest, $nan))
            }

            /// Returns the number, which an `f32` holds exactly.
            #[inline]
            pub fn to_f32(self) -> f32 {
                let special: fn(u8) -> Option<f32> = $special;
                let sign = if self.0 & 0x80 == 0 { 1.0 } else { -1.0 };
                special(self.0 & 0x7f)
                    .map_or_else(|| widen(self.0, $mantissa, $bias), |x| x.copysign(sign))
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.to_f32() == other.to_f32()
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                self.to_f32().partial_cmp(&other.to_f32())
            }
        }
    };
}
eight_bits!(F8e4m3, 3, 7, 448.0, 0x7f, |bits| (bits == 0x7f).then_some(f32::NAN));
eight_bits!(F8e5m2, 2, 15, 57344.0, 0x7f, |bits| match bits {
    0x7c => Some(f32::INFINITY),
    0x7d.. => Some(f32::NAN),
    _ => None,
});

/// A Rust type that is an element type.
pub trait Element: Pod + Default + PartialOrd + Send + Sync + std::fmt::Debug {
    /// The element type.
    const DTYPE: DType;
    /// Returns the elements of `slice`.
    ///
    /// # Panics
    ///
    /// If the elements are of another type.
    fn slice(slice: Slice<'_>) -> &[Self];
    /// Creates a buffer of these elements.
    fn buffer(elements: Vec<Self>) -> Buffer;
}

/// Calls a macro with every variant of [`DType`] and its Rust type.
macro_rules! each_type {
    ($then:ident) => {
        $then! {
            F32 f32, F16 f16, Bf16 bf16, I32 i32, F64 f64, I64 i64, I16 i16, I8 i8,
            U64 u64, U32 u32, U16 u16, U8 u8, Bool Bool, F8e4m3 F8e4m3, F8e5m2 F8e5m2
        }
    };
}
pub(crate) use each_type;

/// Evaluates an expression in which a name stands for the Rust type of a [`DType`].
///
/// ```
/// use phalanx_sim::value::DType;
/// let size = phalanx_sim::with_element!(DType::F16, T => size_of::<T>());
/// assert_eq!(size, 2);
/// ```
#[macro_export]
macro_rules! with_element {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            $crate::value::DType::F32 => {
                type $T = f32;
                $body
            }
            $crate::value::DType::F16 => {
                type $T = $crate::value::f16;
                $body
            }
            $crate::value::DType::Bf16 => {
                type $T = $crate::value::bf16;
                $body
            }
            $crate::value::DType::I32 => {
                type $T = i32;
                $body
            }
            $crate::value::DType::F64 => {
                type $T = f64;
                $body
            }
            $crate::value::DType::I64 => {
                type $T = i64;
                $body
            }
            $crate::value::DType::I16 => {
                type $T = i16;
                $body
            }
            $crate::value::DType::I8 => {
                type $T = i8;
                $body
            }
            $crate::value::DType::U64 => {
                type $T = u64;
                $body
            }
            $crate::value::DType::U32 => {
                type $T = u32;
                $body
            }
            $crate::value::DType::U16 => {
                type $T = u16;
                $body
            }
            $crate::value::DType::U8 => {
                type $T = u8;
                $body
            }
            $crate::value::DType::Bool => {
                type $T = $crate::value::Bool;
                $body
            }
            $crate::value::DType::F8e4m3 => {
                type $T = $crate::value::F8e4m3;
                $body
            }
            $crate::value::DType::F8e5m2 => {
                type $T = $crate::value::F8e5m2;
                $body
            }
        }
    };
}

macro_rules! elements {
    ($($variant:ident $rust:ty),*) => {$(
        impl Element for $rust {
            const DTYPE: DType = DType::$variant;
            fn slice(slice: Slice<'_>) -> &[Self] {
                match slice {
                    Slice::$variant(s) => s,
                    other => panic!("elements are {}, not {}", other.dtype(), Self::DTYPE),
                }
            }
            fn buffer(elements: Vec<Self>) -> Buffer {
                Buffer::$variant(elements)
            }
        }
    )*};
}
each_type!(elements);

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the finite number nearest to `x`, the even one of two, by looking at all.
    fn nearest(x: f32, up: fn(u8) -> f32) -> f32 {
        let finite: Vec<u8> = (0..0x7f).filter(|bits| up(*bits).is_finite()).collect();
        let distance = |bits: u8| (f64::from(up(bits)) - f64::from(x).abs().min(1e9)).abs();
        let mut best = 0;
        for bits in finite {
            let closer = distance(bits) < distance(best);
            if closer || distance(bits) <= distance(best) && bits % 2 == 0 {
                best = bits;
            }
        }
        up(best).copysign(x)
    }

    #[test]
    fn byte_1_every_number_goes_to_the_nearest() {
        for bits in (0..u32::MAX).step_by(400_009) {
            let x = f32::from_bits(bits);
            let got = [F8e4m3::from_f32(x).to_f32(), F8e5m2::from_f32(x).to_f32()];
            let up: [fn(u8) -> f32; 2] =
                [|bits| F8e4m3(bits).to_f32(), |bits| F8e5m2(bits).to_f32()];
            for (got, up) in got.into_iter().zip(up) {
                let want = if x.is_nan() { x } else { nearest(x, up) };
                let same = want.to_bits() == got.to_bits() || want.is_nan() && got.is_nan();
                assert!(same, "BYTE-1: {x} becomes {got}, not {want}");
            }
        }
    }

    #[test]
    fn byte_1_all_bits_come_back() {
        for bits in 0..=u8::MAX {
            let (a, b) = (F8e4m3(bits), F8e5m2(bits));
            if !a.to_f32().is_nan() {
                assert_eq!(F8e4m3::from_f32(a.to_f32()).0, bits, "BYTE-1: e4m3");
            }
            if b.to_f32().is_finite() {
                assert_eq!(F8e5m2::from_f32(b.to_f32()).0, bits, "BYTE-1: e5m2");
            }
            let half = f16::from_bits(u16::from(bits) << 8).to_f32();
            let same = half.to_bits() == b.to_f32().to_bits() || half.is_nan();
            assert!(
                same && half.is_nan() == b.to_f32().is_nan(),
                "BYTE-1: the upper byte of an f16"
            );
        }
        assert_eq!(F8e4m3(0x7e).to_f32().to_bits(), 448.0_f32.to_bits());
        assert_eq!((F8e4m3(0x08).to_f32(), F8e4m3(0x01).to_f32()), (1.0 / 64.0, 1.0 / 512.0));
        assert_eq!((F8e4m3::from_f32(1e9).0, F8e4m3::from_f32(f32::NEG_INFINITY).0), (0x7e, 0xfe));
        assert_eq!((F8e5m2::from_f32(1e9).0, F8e5m2::from_f32(f32::NEG_INFINITY).0), (0x7b, 0xfb));
    }
}
