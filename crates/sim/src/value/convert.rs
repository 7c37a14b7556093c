//! Conversions between element types.
//!
//! - **CONV-1 (whole).** Between whole numbers a conversion wraps: the lower bits stay. To `bool` every number but 0 is 1.
//! - **CONV-2 (floats).** Between floats a conversion rounds once, to the nearest, ties to even; to 8 bits as BYTE-1 says.
//! - **CONV-3 (truncated).** A float becomes the whole number that is next toward zero; beyond the type's range, the
//!   nearest in range; a NaN becomes 0.
//! - **CONV-4 (through f32).** A whole number becomes the nearest float; of fewer than 32 bits by way of `f32`.

use super::buffer::{Buffer, Scalar, Slice};
use super::dtype::Arithmetic;
use super::number::Number;
use super::{DType, Element};
use crate::with_element;
use bytemuck::cast_slice_mut;

/// Converts one element.
#[inline]
pub(super) fn convert<A: Number, B: Number>(x: A) -> B {
    match (A::DTYPE.kind(), B::DTYPE.kind()) {
        (Arithmetic::Whole, Arithmetic::Whole) => B::from_i64(x.to_i64()),
        (Arithmetic::Double, _) | (_, Arithmetic::Double) => B::from_f64(x.to_f64()),
        _ => B::from_f32(x.to_f32()),
    }
}

/// Converts an element of any type.
pub(super) fn scalar(x: Scalar, dtype: DType) -> Scalar {
    match (x.dtype().kind(), dtype.kind()) {
        (Arithmetic::Whole, Arithmetic::Whole) => {
            with_element!(dtype, T => T::from_i64(x.to_i64()).scalar())
        }
        (Arithmetic::Double, _) | (_, Arithmetic::Double) => {
            with_element!(dtype, T => <T as Number>::from_f64(x.to_f64()).scalar())
        }
        _ => with_element!(dtype, T => <T as Number>::from_f32(x.to_f32()).scalar()),
    }
}

/// Number of elements that are converted at a time.
const CHUNK: usize = 256;

/// Converts elements, by way of the type that holds both: `i64`, `f64` or `f32`.
pub(super) fn slice(from: Slice<'_>, to: &mut [u8], dtype: DType) {
    for start in (0..from.len()).step_by(CHUNK) {
        let n = CHUNK.min(from.len() - start);
        let part = &mut to[start * dtype.size()..][..n * dtype.size()];
        chunk(from.range(start, n), part, dtype);
    }
}

fn chunk(from: Slice<'_>, to: &mut [u8], dtype: DType) {
    match (from.dtype().kind(), dtype.kind()) {
        (Arithmetic::Whole, Arithmetic::Whole) => {
            let mut wide = [0_i64; CHUNK];
            with_element!(from.dtype(), A => each(from.of::<A>(), &mut wide, A::to_i64));
            with_element!(dtype, B => each(&wide, cast_slice_mut::<u8, B>(to), B::from_i64));
        }
        (Arithmetic::Double, _) | (_, Arithmetic::Double) => {
            let mut wide = [0_f64; CHUNK];
            with_element!(from.dtype(), A => each(from.of::<A>(), &mut wide, Number::to_f64));
            with_element!(dtype, B => each(&wide, cast_slice_mut::<u8, B>(to), <B as Number>::from_f64));
        }
        _ => {
            let mut wide = [0_f32; CHUNK];
            with_element!(from.dtype(), A => each(from.of::<A>(), &mut wide, Number::to_f32));
            with_element!(dtype, B => each(&wide, cast_slice_mut::<u8, B>(to), <B as Number>::from_f32));
        }
    }
}

fn each<A: Copy, B>(from: &[A], to: &mut [B], convert: impl Fn(A) -> B) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = convert(*from);
    }
}

/// Returns the elements converted to `dtype`.
pub(super) fn buffer(from: Slice<'_>, dtype: DType) -> Buffer {
    with_element!(dtype, T => {
        let mut elements = vec![<T as bytemuck::Zeroable>::zeroed(); from.len()];
        slice(from, cast_slice_mut(&mut elements), dtype);
        T::buffer(elements)
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Bool, F8e5m2, f16};
    use super::*;

    #[test]
    fn conv_1_whole_numbers_wrap() {
        assert_eq!(convert::<i64, i8>(0x1_80), -128, "CONV-1");
        assert_eq!(convert::<i32, u64>(-1), u64::MAX, "CONV-1: the sign fills");
        assert_eq!(convert::<u32, i64>(u32::MAX), 0xffff_ffff, "CONV-1: zeros fill");
        assert_eq!(convert::<i64, Bool>(256), Bool::new(true), "CONV-1: not the lowest bit");
    }

    #[test]
    fn conv_2_floats_round_once() {
        let x = 1.0 + 2.0_f64.powi(-11) + 2.0_f64.powi(-40);
        assert_eq!(convert::<f64, f16>(x).to_bits(), 0x3c01, "CONV-2");
        assert_eq!(convert::<f32, F8e5m2>(1.125), F8e5m2::from_f32(1.0), "CONV-2: ties to even");
    }

    #[test]
    fn conv_3_floats_are_truncated() {
        let to_i8 = |x| convert::<f32, i8>(x);
        assert_eq!(
            [1.9, -1.9, 300.0, -300.0, f32::NAN].map(to_i8),
            [1, -1, 127, -128, 0],
            "CONV-3"
        );
        assert_eq!([-1.0, 1e30].map(convert::<f64, u64>), [0, u64::MAX], "CONV-3");
        assert_eq!(
            [0.25, f32::NAN, -0.0].map(convert::<f32, Bool>).map(Bool::get),
            [true, true, false]
        );
    }

    #[test]
    fn conv_4_whole_numbers_go_through_f32() {
        assert_eq!(convert::<i64, f64>(i64::MAX).to_bits(), 2_f64.powi(63).to_bits(), "CONV-4");
        assert_eq!(convert::<u64, f32>(u64::MAX).to_bits(), 2_f32.powi(64).to_bits(), "CONV-4");
        assert_eq!(convert::<i32, f16>(0x0100_1001), f16::INFINITY, "CONV-4");
    }
}
