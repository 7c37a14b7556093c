//! Exponential, logarithm and related functions, without a system library.
//!
//! Polynomials of fixed shape, evaluated with fused multiply-adds and without branches: the same bits on every machine,
//! and eight at a time with SIMD.
//!
//! - **MATH-1 (accuracy).** `exp`, `exp2`, `log` and `tanh` are within 4 units in the last place of the true result if that is a
//!   normal number; special cases follow IEEE 754.
#![expect(clippy::inline_always, reason = "vectorised only inside the caller's loop")]

use std::f32::consts::{LN_2, LOG2_E};

const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;

/// 1.5 * 2^23: adding it rounds to the nearest integer, in the low bits.
const SHIFT: f32 = 12_582_912.0;

/// Returns `2^n` for `-126 <= n <= 127`.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) << 23).cast_unsigned())
}

/// Computes `e^x`: 0 below -104, infinity above 88.73.
#[inline(always)]
#[expect(clippy::many_single_char_names, reason = "the letters of the textbook")]
pub(super) fn exp(x: f32) -> f32 {
    let clamped = x.clamp(-104.0, 89.0);
    let shifted = clamped.mul_add(LOG2_E, SHIFT);
    let n = shifted - SHIFT;
    let r = n.mul_add(-LN_2_LOW, n.mul_add(-LN_2_HIGH, clamped));
    let mut p = 1.987_569_1e-4_f32;
    for c in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        p = p.mul_add(r, c);
    }
    let y = (p * r).mul_add(r, r) + 1.0;
    // The low bits of the shifted number are n itself, which saves a checked conversion.
    let n = shifted.to_bits().wrapping_sub(SHIFT.to_bits()).cast_signed();
    // Two factors, because 2^n alone leaves the range of normal numbers at both ends.
    let half = n >> 1;
    let result = y * power_of_two(half) * power_of_two(n.wrapping_sub(half));
    if x.is_nan() { x } else { result }
}

/// Computes `2^x`: 0 below -151, infinity from 128 on; exact for whole numbers.
#[inline(always)]
#[expect(clippy::many_single_char_names, reason = "the letters of the textbook")]
pub(super) fn exp2(x: f32) -> f32 {
    let clamped = x.clamp(-151.0, 128.5);
    let shifted = clamped + SHIFT;
    let r = clamped - (shifted - SHIFT);
    let mut p = 1.525_273_4e-5_f32;
    for c in [1.540_353e-4, 1.333_355_8e-3, 9.618_129e-3, 5.550_411e-2, 2.402_265e-1, LN_2] {
        p = p.mul_add(r, c);
    }
    let y = p.mul_add(r, 1.0);
    let n = shifted.to_bits().wrapping_sub(SHIFT.to_bits()).cast_signed();
    let half = n >> 1;
    let result = y * power_of_two(half) * power_of_two(n.wrapping_sub(half));
    if x.is_nan() { x } else { result }
}

/// Computes the natural logarithm: NaN below zero, minus infinity at zero.
#[inline(always)]
#[expect(clippy::cast_precision_loss, reason = "an exponent fits")]
pub(super) fn log(x: f32) -> f32 {
    let tiny = x < f32::MIN_POSITIVE;
    let scaled = if tiny { x * 8_388_608.0 } else { x };
    let bits = scaled.to_bits().cast_signed();
    // The mantissa is taken from [sqrt(1/2), sqrt(2)).
    let exponent = bits.wrapping_sub(0x3f35_04f3) >> 23;
    let m = f32::from_bits(bits.wrapping_sub(exponent << 23).cast_unsigned()) - 1.0;
    let e = exponent as f32 - if tiny { 23.0 } else { 0.0 };
    let mut p = 7.037_683_6e-2_f32;
    for c in [
        -1.151_461e-1,
        1.167_699_9e-1,
        -1.242_014_1e-1,
        1.424_932_3e-1,
        -1.666_805_8e-1,
        2.000_071_5e-1,
        -2.499_999_4e-1,
        3.333_333e-1,
    ] {
        p = p.mul_add(m, c);
    }
    let square = m * m;
    let low = e.mul_add(LN_2_LOW, p * m * square);
    let tail = square.mul_add(-0.5, low);
    let result = e.mul_add(LN_2_HIGH, m + tail);
    if x < 0.0 {
        f32::NAN
    } else if x == 0.0 {
        f32::NEG_INFINITY
    } else if x < f32::INFINITY {
        result
    } else {
        x
    }
}

/// Computes the hyperbolic tangent.
#[inline(always)]
pub(super) fn tanh(x: f32) -> f32 {
    let a = x.abs();
    let square = x * x;
    let mut p = -5.704_988_7e-3_f32;
    for c in [2.063_909e-2, -5.373_971_6e-2, 1.333_144_2e-1, -3.333_328e-1] {
        p = p.mul_add(square, c);
    }
    let small = (p * square).mul_add(x, x);
    let large = 1.0 - 2.0 / (exp(2.0 * a) + 1.0);
    (if a < 0.625 { small } else { large }).copysign(x)
}

/// Computes the logistic function.
#[inline(always)]
pub(super) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// Computes `x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))`.
#[inline(always)]
pub(super) fn gelu(x: f32) -> f32 {
    let cube = x * x * x;
    let inner = 0.797_884_6 * cube.mul_add(0.044_715, x);
    0.5 * x * (1.0 + tanh(inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the distance in units in the last place of `want`.
    #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is the point")]
    fn ulps(got: f32, want: f64) -> f64 {
        let near = want as f32;
        let ulp = f64::from(near.abs().next_up()) - f64::from(near.abs());
        (f64::from(got) - want).abs() / ulp
    }

    fn check(name: &str, f: fn(f32) -> f32, truth: fn(f64) -> f64, domain: std::ops::Range<f32>) {
        let mut worst: (f64, f32) = (0.0, 0.0);
        for bits in (0..u32::MAX).step_by(9973) {
            let x = f32::from_bits(bits);
            let want = truth(f64::from(x));
            if domain.contains(&x) && want.abs() >= f64::from(f32::MIN_POSITIVE) {
                worst = if ulps(f(x), want) > worst.0 { (ulps(f(x), want), x) } else { worst };
            }
        }
        assert!(worst.0 <= 4.0, "MATH-1: {name} is off by {} units at {}", worst.0, worst.1);
    }

    #[test]
    fn math_1_close_to_the_truth() {
        check("exp", exp, f64::exp, -87.0..88.7);
        check("exp2", exp2, f64::exp2, -126.0..127.99);
        check("log", log, f64::ln, 0.0..f32::MAX);
        check("tanh", tanh, f64::tanh, -100.0..100.0);
    }

    #[test]
    fn math_1_special_cases() {
        assert_eq!((exp(f32::NEG_INFINITY), exp(f32::INFINITY)), (0.0, f32::INFINITY));
        assert_eq!((exp(0.0), exp(-1e30), exp(1e30)), (1.0, 0.0, f32::INFINITY));
        assert_eq!((exp2(10.0), exp2(-149.0), exp2(-1e9)), (1024.0, f32::from_bits(1), 0.0));
        assert_eq!((exp2(128.0), exp2(f32::INFINITY)), (f32::INFINITY, f32::INFINITY));
        assert!(exp2(f32::NAN).is_nan());
        assert_eq!((log(0.0), log(f32::INFINITY)), (f32::NEG_INFINITY, f32::INFINITY));
        assert_eq!((log(1.0), tanh(1e30), tanh(-1e30)), (0.0, 1.0, -1.0));
        assert!(exp(f32::NAN).is_nan() && log(f32::NAN).is_nan() && log(-1.0).is_nan());
        assert!(tanh(f32::NAN).is_nan() && tanh(-0.0).is_sign_negative());
        assert!(sigmoid(f32::NAN).is_nan() && gelu(f32::NAN).is_nan());
    }
}
