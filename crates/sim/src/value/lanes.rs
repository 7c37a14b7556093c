//! Loops over floats of each type, in `f32` and back.
//!
//! All loops are ordinary safe code that the compiler vectorises. On x86-64 they run inside an AVX2 context if there is
//! one, and `f16` is converted by the F16C instructions. Only code inlined into that context is vectorised: hence `for`
//! loops, since `for_each` would stay a call outside the context.
//!
//! - **LANE-1 (same bits).** Hardware and software conversions agree on every number.
#![expect(clippy::inline_always, reason = "vectorised only inside the AVX2 context")]

use super::{Binary, DType, Element, Unary};
use bytemuck::{cast_slice, cast_slice_mut};
use half::{bf16, f16};

/// Loops over the elements of one float type as `f32`.
pub(super) trait Lanes: Copy {
    type Element: Element;
    fn widen(self, to: &mut [f32], from: &[Self::Element]);
    fn narrow(self, to: &mut [Self::Element], from: &[f32]);
    /// `to[i] = round(f(to[i]))`.
    fn map(self, to: &mut [Self::Element], f: impl Fn(f32) -> f32);
    /// `to[i] = round(f(to[i], with[i]))`.
    fn zip(self, to: &mut [Self::Element], with: &[Self::Element], f: impl Fn(f32, f32) -> f32);
    /// `to[i] = round(f(to[i], b[i], c[i]))`.
    fn zip3(
        self,
        to: &mut [Self::Element],
        with: [&[Self::Element]; 2],
        f: impl Fn(f32, f32, f32) -> f32,
    );
    /// `to[i]` plus each of `with[..][i]`, rounded after each.
    fn add4(self, to: &mut [Self::Element], with: [&[Self::Element]; 4]);
}

/// A float type with arithmetic conversions, which the compiler vectorises with the loop.
pub(super) trait Plain: Copy {
    type Element: Element;
    fn up(x: Self::Element) -> f32;
    fn down(x: f32) -> Self::Element;
}

impl<P: Plain> Lanes for P {
    type Element = P::Element;
    #[inline(always)]
    fn widen(self, to: &mut [f32], from: &[P::Element]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = P::up(*from);
        }
    }
    #[inline(always)]
    fn narrow(self, to: &mut [P::Element], from: &[f32]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = P::down(*from);
        }
    }
    #[inline(always)]
    fn map(self, to: &mut [P::Element], f: impl Fn(f32) -> f32) {
        for to in to {
            *to = P::down(f(P::up(*to)));
        }
    }
    #[inline(always)]
    fn zip(self, to: &mut [P::Element], with: &[P::Element], f: impl Fn(f32, f32) -> f32) {
        for (to, with) in to.iter_mut().zip(with) {
            *to = P::down(f(P::up(*to), P::up(*with)));
        }
    }
    #[inline(always)]
    fn zip3(
        self,
        to: &mut [P::Element],
        [b, c]: [&[P::Element]; 2],
        f: impl Fn(f32, f32, f32) -> f32,
    ) {
        for ((to, b), c) in to.iter_mut().zip(b).zip(c) {
            *to = P::down(f(P::up(*to), P::up(*b), P::up(*c)));
        }
    }
    #[inline(always)]
    fn add4(self, to: &mut [P::Element], with: [&[P::Element]; 4]) {
        let [a, b, c, d] = with.map(|with| &with[..to.len()]);
        for i in 0..to.len() {
            let add = |sum: P::Element, x: P::Element| P::down(P::up(sum) + P::up(x));
            to[i] = add(add(add(add(to[i], a[i]), b[i]), c[i]), d[i]);
        }
    }
}

/// Work on elements of any float type.
pub(super) trait Job {
    fn run<L: Lanes>(self, lanes: L);
}

/// Runs `job` with the lanes of `dtype`, in the widest SIMD context of the machine.
pub(super) fn run<J: Job>(dtype: DType, job: J) {
    #[cfg(target_arch = "x86_64")]
    if let Some(avx2) = fearless_simd::Level::new().as_avx2() {
        use super::f16c;
        use fearless_simd::Simd;
        match dtype {
            DType::F32 => avx2.vectorize(
                #[inline(always)]
                || job.run(Single),
            ),
            DType::F16 => avx2.vectorize(
                #[inline(always)]
                || job.run(f16c::Half(avx2)),
            ),
            DType::Bf16 => avx2.vectorize(
                #[inline(always)]
                || job.run(Brain),
            ),
            other => unreachable!("VAL-6: no lanes for {other}"),
        }
        return;
    }
    match dtype {
        DType::F32 => job.run(Single),
        DType::F16 => job.run(Half),
        DType::Bf16 => job.run(Brain),
        other => unreachable!("VAL-6: no lanes for {other}"),
    }
}

#[derive(Clone, Copy)]
struct Single;

impl Plain for Single {
    type Element = f32;
    #[inline(always)]
    fn up(x: f32) -> f32 {
        x
    }
    #[inline(always)]
    fn down(x: f32) -> f32 {
        x
    }
}

#[derive(Clone, Copy)]
struct Brain;

impl Plain for Brain {
    type Element = bf16;
    #[inline(always)]
    fn up(x: bf16) -> f32 {
        f32::from_bits(u32::from(x.to_bits()) << 16)
    }
    /// Rounds to nearest, ties to even, without branches; a NaN stays a NaN.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "shifted to 16 bits")]
    fn down(x: f32) -> bf16 {
        let bits = x.to_bits();
        let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
        let quiet = (bits >> 16) | 0x40;
        let is_nan = bits & 0x7fff_ffff > 0x7f80_0000;
        bf16::from_bits((if is_nan { quiet } else { rounded }) as u16)
    }
}

/// `f16` in software.
#[derive(Clone, Copy)]
struct Half;

impl Plain for Half {
    type Element = f16;
    #[inline(always)]
    fn up(x: f16) -> f32 {
        x.to_f32()
    }
    #[inline(always)]
    fn down(x: f32) -> f16 {
        f16::from_f32(x)
    }
}

/// `to[i] = f32(from[i])`; `from` holds the elements of the float type given to [`run`].
pub(super) struct Widen<'a> {
    pub(super) to: &'a mut [f32],
    pub(super) from: &'a [u8],
}

impl Job for Widen<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        lanes.widen(self.to, cast_slice(self.from));
    }
}

/// `to[i] = round(from[i])`.
pub(super) struct Narrow<'a> {
    pub(super) to: &'a mut [u8],
    pub(super) from: &'a [f32],
}

impl Job for Narrow<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        lanes.narrow(cast_slice_mut(self.to), self.from);
    }
}

/// `to[i] = round(op(to[i]))`.
pub(super) struct Map<'a> {
    pub(super) op: Unary,
    pub(super) to: &'a mut [u8],
}

impl Job for Map<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let to = cast_slice_mut(self.to);
        match self.op {
            Unary::Neg => lanes.map(to, |x| Unary::Neg.apply(x)),
            Unary::Abs => lanes.map(to, |x| Unary::Abs.apply(x)),
            Unary::Recip => lanes.map(to, |x| Unary::Recip.apply(x)),
            Unary::Sqrt => lanes.map(to, |x| Unary::Sqrt.apply(x)),
            Unary::Exp => lanes.map(to, |x| Unary::Exp.apply(x)),
            Unary::Log => lanes.map(to, |x| Unary::Log.apply(x)),
            Unary::Relu => lanes.map(to, |x| Unary::Relu.apply(x)),
            Unary::Tanh => lanes.map(to, |x| Unary::Tanh.apply(x)),
            Unary::Sigmoid => lanes.map(to, |x| Unary::Sigmoid.apply(x)),
            Unary::Gelu => lanes.map(to, |x| Unary::Gelu.apply(x)),
            Unary::Exp2 => lanes.map(to, |x| Unary::Exp2.apply(x)),
            Unary::Log2 => lanes.map(to, |x| Unary::Log2.apply(x)),
            Unary::Rsqrt => lanes.map(to, |x| Unary::Rsqrt.apply(x)),
            Unary::Erf => lanes.map(to, |x| Unary::Erf.apply(x)),
            Unary::Sin => lanes.map(to, |x| Unary::Sin.apply(x)),
            Unary::Cos => lanes.map(to, |x| Unary::Cos.apply(x)),
            Unary::Floor => lanes.map(to, |x| Unary::Floor.apply(x)),
            Unary::Ceil => lanes.map(to, |x| Unary::Ceil.apply(x)),
            Unary::Not => unreachable!("VAL-6: bits of a float"),
        }
    }
}

/// `to[i] = round(to[i] op with[i])`, or `round(with[i] op to[i])` when swapped.
pub(super) struct Zip<'a> {
    pub(super) op: Binary,
    pub(super) to: &'a mut [u8],
    pub(super) with: &'a [u8],
    pub(super) swapped: bool,
}

impl Job for Zip<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let (to, with) = (cast_slice_mut(self.to), cast_slice(self.with));
        match (self.op, self.swapped) {
            // These two give the same bits in either order.
            (Binary::Add, _) => lanes.zip(to, with, |a, b| a + b),
            (Binary::Mul, _) => lanes.zip(to, with, |a, b| a * b),
            (Binary::Sub, false) => lanes.zip(to, with, |a, b| a - b),
            (Binary::Sub, true) => lanes.zip(to, with, |a, b| b - a),
            (Binary::Div, false) => lanes.zip(to, with, |a, b| a / b),
            (Binary::Div, true) => lanes.zip(to, with, |a, b| b / a),
            (Binary::Max, false) => lanes.zip(to, with, |a, b| Binary::Max.apply(a, b)),
            (Binary::Max, true) => lanes.zip(to, with, |a, b| Binary::Max.apply(b, a)),
            (Binary::Min, false) => lanes.zip(to, with, |a, b| Binary::Min.apply(a, b)),
            (Binary::Min, true) => lanes.zip(to, with, |a, b| Binary::Min.apply(b, a)),
            (Binary::MaxNum, false) => lanes.zip(to, with, |a, b| Binary::MaxNum.apply(a, b)),
            (Binary::MinNum, false) => lanes.zip(to, with, |a, b| Binary::MinNum.apply(a, b)),
            (op, false) => lanes.zip(to, with, |a, b| op.apply(a, b)),
            (op, true) => lanes.zip(to, with, |a, b| op.apply(b, a)),
        }
    }
}

/// `to[i] = round(to[i] * with[0][i] + with[1][i])`, with one rounding to `f32`.
pub(super) struct Fma<'a> {
    pub(super) to: &'a mut [u8],
    pub(super) with: [&'a [u8]; 2],
}

impl Job for Fma<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        lanes.zip3(cast_slice_mut(self.to), self.with.map(cast_slice), f32::mul_add);
    }
}

/// `to[i]` plus each of `with[..][i]`, rounded after each.
pub(super) struct Add4<'a> {
    pub(super) to: &'a mut [u8],
    pub(super) with: [&'a [u8]; 4],
}

impl Job for Add4<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        lanes.add4(cast_slice_mut(self.to), self.with.map(cast_slice));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lane_1_hardware_widens_as_software() {
        let all: Vec<u16> = (0..=u16::MAX).collect();
        for dtype in [DType::F16, DType::Bf16] {
            let mut wide = vec![0.0; all.len()];
            run(dtype, Widen { to: &mut wide, from: cast_slice(&all) });
            for (&bits, &got) in all.iter().zip(&wide) {
                let want = match dtype {
                    DType::F16 => f16::from_bits(bits).to_f32(),
                    _ => bf16::from_bits(bits).to_f32(),
                };
                let same = want.to_bits() == got.to_bits() || want.is_nan() && got.is_nan();
                assert!(same, "LANE-1: {dtype} {bits:#x} widens to {got}, not {want}");
            }
        }
    }

    #[test]
    fn lane_1_hardware_narrows_as_software() {
        let all: Vec<f32> = (0..=u32::MAX).step_by(4099).map(f32::from_bits).collect();
        let mut narrow = vec![0_u16; all.len()];
        run(DType::F16, Narrow { to: cast_slice_mut(&mut narrow), from: &all });
        for (&x, &got) in all.iter().zip(&narrow) {
            let (want, got) = (f16::from_f32(x), f16::from_bits(got));
            assert!(
                want.to_bits() == got.to_bits() || want.is_nan() && got.is_nan(),
                "LANE-1: {x}"
            );
        }
        run(DType::Bf16, Narrow { to: cast_slice_mut(&mut narrow), from: &all });
        for (&x, &got) in all.iter().zip(&narrow) {
            let (want, got) = (bf16::from_f32(x), bf16::from_bits(got));
            assert!(
                want.to_bits() == got.to_bits() || want.is_nan() && got.is_nan(),
                "LANE-1: {x}"
            );
        }
    }
}
