//! Functions of `f64`, without a system library: the same bits on every machine.
//!
//! The functions of `f32` that are not worth a polynomial of their own are these, rounded.
//!
//! - **MATH-2 (precise).** `exp`, `exp2`, `log`, `log2`, `sin`, `cos`, `erf` and `tanh` of an `f64` are within 8 units in
//!   the last place; rounded to `f32` they are within 1 of its units, and so is `pow`.

#![expect(clippy::inline_always, reason = "fused only inside the caller's SIMD context")]

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2, LN_2, LOG2_E};

const LN_2_HIGH: f64 = 6.931_471_803_691_238e-1;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// Returns `2^n` for `-1022 <= n <= 1023`.
#[inline(always)]
fn power_of_two(n: i64) -> f64 {
    f64::from_bits((n.wrapping_add(1023) << 52).cast_unsigned())
}

/// Returns `y * 2^n`, in two factors since `2^n` alone leaves the range of normal numbers at both ends.
#[inline(always)]
fn scaled(y: f64, n: f64) -> f64 {
    #[expect(clippy::cast_possible_truncation, reason = "between -1100 and 1100")]
    let n = n as i64;
    let half = n >> 1;
    y * power_of_two(half) * power_of_two(n - half)
}

/// Returns `e^r` for `|r| < 0.35`, by its series.
#[inline(always)]
fn exp_near_zero(r: f64) -> f64 {
    let mut p = 1.0 / 6_227_020_800.0;
    for c in [
        1.0 / 479_001_600.0,
        1.0 / 39_916_800.0,
        1.0 / 3_628_800.0,
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5_040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
    ] {
        p = r.mul_add(p, c);
    }
    (r * r).mul_add(p, r) + 1.0
}

/// Computes `e^x`.
#[inline(always)]
pub(super) fn exp(x: f64) -> f64 {
    let clamped = x.clamp(-750.0, 711.0);
    let n = (clamped * LOG2_E).round_ties_even();
    let r = n.mul_add(-LN_2_LOW, n.mul_add(-LN_2_HIGH, clamped));
    if x.is_nan() { x } else { scaled(exp_near_zero(r), n) }
}

/// Computes `2^x`.
#[inline(always)]
pub(super) fn exp2(x: f64) -> f64 {
    let clamped = x.clamp(-1080.0, 1025.0);
    let n = clamped.round_ties_even();
    if x.is_nan() { x } else { scaled(exp_near_zero((clamped - n) * LN_2), n) }
}

/// Returns the exponent `e` and the logarithm of `m` for `x = m * 2^e`, `m` near 1.
#[inline(always)]
#[expect(clippy::cast_precision_loss, reason = "an exponent fits")]
fn log_parts(x: f64) -> (f64, f64) {
    let tiny = x < f64::MIN_POSITIVE;
    let normal = if tiny { x * 18_014_398_509_481_984.0 } else { x };
    let bits = normal.to_bits().cast_signed();
    // The mantissa is taken from [sqrt(1/2), sqrt(2)).
    let exponent = bits.wrapping_sub(0x3fe6_a09e_667f_3bcd) >> 52;
    let m = f64::from_bits(bits.wrapping_sub(exponent << 52).cast_unsigned());
    let s = (m - 1.0) / (m + 1.0);
    let square = s * s;
    let mut p = 1.0 / 23.0;
    for c in [21.0, 19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0] {
        p = square.mul_add(p, 1.0 / c);
    }
    let log = (2.0 * s * square).mul_add(p, 2.0 * s);
    (exponent as f64 - if tiny { 54.0 } else { 0.0 }, log)
}

/// Returns `result`, or the logarithm of a special case.
#[inline(always)]
fn log_or_special(x: f64, result: f64) -> f64 {
    if x < 0.0 {
        f64::NAN
    } else if x == 0.0 {
        f64::NEG_INFINITY
    } else if x < f64::INFINITY {
        result
    } else {
        x
    }
}

/// Computes the natural logarithm.
#[inline(always)]
pub(super) fn log(x: f64) -> f64 {
    let (e, log) = log_parts(x);
    log_or_special(x, e.mul_add(LN_2_HIGH, e.mul_add(LN_2_LOW, log)))
}

/// Computes the logarithm of base 2, exact for powers of two.
#[inline(always)]
pub(super) fn log2(x: f64) -> f64 {
    let (e, log) = log_parts(x);
    log_or_special(x, log.mul_add(LOG2_E, e))
}

/// Computes `x^y`; the special cases are those of IEEE 754.
#[inline(always)]
pub(super) fn pow(x: f64, y: f64) -> f64 {
    if y == 0.0 || x.to_bits() == 1.0_f64.to_bits() {
        return 1.0;
    }
    let is_whole = y.trunc().to_bits() == y.to_bits();
    let is_odd = is_whole && y.abs() < 9_007_199_254_740_992.0 && y % 2.0 != 0.0;
    let size = x.abs();
    let one = size.to_bits() == 1.0_f64.to_bits();
    let power = if one && y.is_infinite() { 1.0 } else { exp2(y * log2(size)) };
    if x.is_sign_negative() && x < 0.0 && !is_whole && x.is_finite() {
        f64::NAN
    } else if x.is_sign_negative() && is_odd {
        -power
    } else {
        power
    }
}

/// The bits of 2/pi after the point.
const TWO_OVER_PI: [u64; 20] = [
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
    0x5603_3046_fc7b_6bab,
    0xf0cf_bc20_9af4_361d,
];

/// Returns the 64 bits of 2/pi from `offset` bits after the point on; zeros before the point.
#[expect(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "checked by `get`")]
fn bits_from(offset: i64) -> u64 {
    let word =
        |at: i64| if at < 0 { 0 } else { TWO_OVER_PI.get(at as usize).copied().unwrap_or(0) };
    let (at, shift) = (offset.div_euclid(64), offset.rem_euclid(64) as u32);
    let (high, low) = (word(at), word(at + 1));
    if shift == 0 { high } else { high << shift | low >> (64 - shift) }
}

/// Returns the quarter turn nearest to a large angle, modulo 4, and the rest of the angle: the product of the angle with
/// those bits of 2/pi that matter.
#[cold]
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "rounding is meant"
)]
fn reduce_large(x: f64) -> (u64, f64) {
    let bits = x.abs().to_bits();
    let exponent = (bits >> 52).cast_signed() - 1075;
    let mantissa = u128::from(bits & ((1 << 52) - 1) | 1 << 52);
    let [high, middle, low] = [0, 64, 128].map(|skip| u128::from(bits_from(exponent - 2 + skip)));
    // The product modulo 2^192, of which the upper two bits are the quarter turns.
    let low = mantissa * low;
    let middle = mantissa * middle + (low >> 64);
    let high = (mantissa * high + (middle >> 64)) as u64;
    let upper = u128::from(high) << 64 | u128::from(middle as u64);
    let fraction = (upper << 2 | u128::from(low as u64 >> 62)).cast_signed();
    let turns = (high >> 62) + u64::from(fraction < 0);
    let rest = fraction as f64 * power_of_two(-128) * FRAC_PI_2;
    if x < 0.0 { (turns.wrapping_neg() & 3, -rest) } else { (turns & 3, rest) }
}

/// Returns the quarter turn nearest to an angle, modulo 4, and the rest of the angle.
#[inline(always)]
fn reduce(x: f64) -> (u64, f64) {
    if x.abs() >= 1_048_576.0 {
        return reduce_large(x);
    }
    let n = (x * FRAC_2_PI).round_ties_even();
    let near = n.mul_add(-1.570_796_326_734_125_6, x);
    let nearer = n.mul_add(-6.077_100_506_303_966e-11, near);
    let rest = n.mul_add(-2.022_266_248_795_950_6e-21, nearer);
    #[expect(clippy::cast_possible_truncation, reason = "below 2^20")]
    ((n as i64).cast_unsigned() & 3, rest)
}

/// Returns the sine of an angle of at most an eighth of a turn, by its series.
#[inline(always)]
fn sin_near_zero(x: f64) -> f64 {
    let square = x * x;
    let mut p = 1.0 / 355_687_428_096_000.0;
    let facts =
        [-1_307_674_368_000.0, 6_227_020_800.0, -39_916_800.0, 362_880.0, -5_040.0, 120.0, -6.0];
    for fact in facts {
        p = square.mul_add(p, 1.0 / fact);
    }
    (x * square).mul_add(p, x)
}

/// Returns the cosine of an angle of at most an eighth of a turn, by its series.
#[inline(always)]
fn cos_near_zero(x: f64) -> f64 {
    let square = x * x;
    let mut p = 1.0 / 20_922_789_888_000.0;
    for fact in [-87_178_291_200.0, 479_001_600.0, -3_628_800.0, 40_320.0, -720.0, 24.0] {
        p = square.mul_add(p, 1.0 / fact);
    }
    (square * square).mul_add(p, square.mul_add(-0.5, 1.0))
}

/// Returns the sine `quarters` of a turn later.
#[inline(always)]
fn sin_after(x: f64, quarters: u64) -> f64 {
    if !x.is_finite() {
        return f64::NAN;
    }
    let (turns, rest) = reduce(x);
    match (turns + quarters) & 3 {
        0 => sin_near_zero(rest),
        1 => cos_near_zero(rest),
        2 => -sin_near_zero(rest),
        _ => -cos_near_zero(rest),
    }
}

/// Computes the sine.
#[inline(always)]
pub(super) fn sin(x: f64) -> f64 {
    if x == 0.0 { x } else { sin_after(x, 0) }
}

/// Computes the cosine.
#[inline(always)]
pub(super) fn cos(x: f64) -> f64 {
    sin_after(x, 1)
}

/// Computes the error function.
#[inline(always)]
pub(super) fn erf(x: f64) -> f64 {
    let size = x.abs();
    if x.is_nan() {
        return x;
    }
    if size > 6.0 {
        return 1.0_f64.copysign(x);
    }
    let square = size * size;
    let result = if size < 2.5 {
        // 2/sqrt(pi) * exp(-x^2) * (x + 2 x^3/3 + 4 x^5/15 + ...): terms of one sign.
        let (mut term, mut sum) = (size, size);
        for odd in (3..110).step_by(2) {
            term *= 2.0 * square / f64::from(odd);
            sum += term;
            if term < sum * 1e-18 {
                break;
            }
        }
        std::f64::consts::FRAC_2_SQRT_PI * exp(-square) * sum
    } else {
        // 1 - exp(-x^2)/sqrt(pi) / (x + (1/2)/(x + (2/2)/(x + (3/2)/(x + ...)))).
        let mut below = size;
        for half in (1..=60).rev() {
            below = size + f64::from(half) / 2.0 / below;
        }
        1.0 - exp(-square) * (std::f64::consts::FRAC_2_SQRT_PI / 2.0) / below
    };
    result.copysign(x)
}

/// Computes the hyperbolic tangent.
#[inline(always)]
pub(super) fn tanh(x: f64) -> f64 {
    let size = x.abs();
    let square = x * x;
    if size < 0.75 {
        // x / (1 + x^2/(3 + x^2/(5 + ...))).
        let mut below = 21.0;
        for odd in [19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
            below = odd + square / below;
        }
        return x / below;
    }
    (1.0 - 2.0 / (exp(2.0 * size) + 1.0)).copysign(x)
}

/// The functions of `f32`: those of `f64`, rounded.
#[expect(clippy::cast_possible_truncation, reason = "rounding is the point")]
#[inline(always)]
pub(super) fn rounded(f: impl Fn(f64) -> f64, x: f32) -> f32 {
    f(f64::from(x)) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the distance in units in the last place of `want`.
    fn units(got: f64, want: f64) -> f64 {
        (got - want).abs() / (want.abs().next_up() - want.abs())
    }

    fn check(name: &str, f: fn(f64) -> f64, truth: fn(f64) -> f64, from: f64, to: f64) {
        for step in 0..20_000 {
            let x = from + (to - from) * f64::from(step) / 19_999.3;
            let (got, want) = (f(x), truth(x));
            assert!(units(got, want) <= 8.0, "MATH-2: {name}({x}) is {got}, not {want}");
        }
    }

    #[test]
    fn math_2_close_to_the_truth() {
        check("exp", exp, f64::exp, -700.0, 700.0);
        check("exp2", exp2, f64::exp2, -1000.0, 1000.0);
        check("log", log, f64::ln, 1e-5, 3.0);
        check("log", log, f64::ln, 1e-300, 1e300);
        check("log2", log2, f64::log2, 3.0, 1e9);
        check("sin", sin, f64::sin, -40.0, 40.0);
        check("cos", cos, f64::cos, -40.0, 40.0);
        check("sin", sin, f64::sin, -3e6, 3e6);
        check("cos", cos, f64::cos, 1e15, 1e22);
        check("sin", sin, f64::sin, 1e200, 1e303);
        check("tanh", tanh, f64::tanh, -30.0, 30.0);
    }

    #[test]
    fn math_2_erf_and_pow_at_known_points() {
        // The integral of a Gaussian, from published tables.
        let table = [
            (0.1, 0.112_462_916_018_284_9),
            (0.5, 0.520_499_877_813_046_5),
            (1.0, 0.842_700_792_949_714_9),
            (2.0, 0.995_322_265_018_952_7),
            (2.5, 0.999_593_047_982_555),
            (3.0, 0.999_977_909_503_001_4),
        ];
        for (x, want) in table {
            assert!(units(erf(x), want) <= 8.0, "MATH-2: erf({x}) is {}, not {want}", erf(x));
            assert!(units(erf(-x), -want) <= 8.0, "MATH-2: erf is odd");
        }
        assert_eq!((erf(f64::INFINITY), erf(-9.0), erf(0.0)), (1.0, -1.0, 0.0));
        for (x, y) in [(2.0, 10.0), (10.0, -3.0), (-3.0, 5.0), (-3.0, 4.0), (1.5, 60.5)] {
            #[expect(clippy::cast_possible_truncation, reason = "rounding is the point")]
            let (got, want) = (pow(x, y) as f32, f64::powf(x, y) as f32);
            let apart = got.to_bits().abs_diff(want.to_bits());
            assert!(apart <= 1, "MATH-2: {x}^{y} is {got}, not {want}");
        }
    }

    #[test]
    fn math_2_special_cases() {
        let specials = [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, -3.0, 1e300, -1e300, 2.5];
        let specials = specials.into_iter().chain([f64::INFINITY, f64::NEG_INFINITY, f64::NAN]);
        for x in specials.clone() {
            for y in specials.clone() {
                let (got, want) = (pow(x, y), f64::powf(x, y));
                let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
                let near =
                    units(got, want) <= 2000.0 && got.is_sign_negative() == want.is_sign_negative();
                assert!(same || near, "MATH-2: {x}^{y} is {got}, not {want}");
            }
            for (f, truth) in [
                (exp as fn(f64) -> f64, f64::exp as fn(f64) -> f64),
                (exp2, f64::exp2),
                (log, f64::ln),
                (log2, f64::log2),
                (sin, f64::sin),
                (cos, f64::cos),
                (tanh, f64::tanh),
            ] {
                let (got, want) = (f(x), truth(x));
                let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
                assert!(same || units(got, want) <= 8.0, "MATH-2: {got}, not {want} at {x}");
            }
        }
    }
}
