//! Sixteen elements at a time: how each float type becomes `f32` and back.
//!
//! Everything here is ordinary safe code that the compiler vectorises; on x86-64 it runs inside an
//! AVX2 context where there is one, and `f16` converts by the F16C instructions.
//!
//! - **LANE-1 (same bits).** Hardware and software conversions agree on every number.
#![expect(clippy::inline_always, reason = "vectorised only inside the AVX2 context")]

use super::{Binary, DType, Element, Unary};
use bytemuck::cast_slice_mut;
use half::{bf16, f16};

/// How many elements are converted together.
pub(super) const LANES: usize = 16;

/// Conversion between one float type and `f32`.
pub(super) trait Lanes: Copy {
    type Element: Element;
    fn widen(self, from: &[Self::Element; LANES]) -> [f32; LANES];
    fn narrow(self, from: &[f32; LANES]) -> [Self::Element; LANES];
}

/// Work on elements of whatever float type.
pub(super) trait Job {
    fn run<L: Lanes>(self, lanes: L);
}

/// Runs `job` with the lanes of `dtype`, in the widest context the machine has.
pub(super) fn run<J: Job>(dtype: DType, job: J) {
    #[cfg(target_arch = "x86_64")]
    if let Some(avx2) = fearless_simd::Level::new().as_avx2() {
        use fearless_simd::Simd;
        match dtype {
            DType::F32 => avx2.vectorize(|| job.run(Single)),
            DType::F16 => avx2.vectorize(|| job.run(hardware::Half(avx2))),
            DType::Bf16 => avx2.vectorize(|| job.run(Brain)),
            DType::I32 => unreachable!("VAL-6: no lanes for i32"),
        }
        return;
    }
    match dtype {
        DType::F32 => job.run(Single),
        DType::F16 => job.run(Half),
        DType::Bf16 => job.run(Brain),
        DType::I32 => unreachable!("VAL-6: no lanes for i32"),
    }
}

#[derive(Clone, Copy)]
struct Single;

impl Lanes for Single {
    type Element = f32;
    #[inline(always)]
    fn widen(self, from: &[f32; LANES]) -> [f32; LANES] {
        *from
    }
    #[inline(always)]
    fn narrow(self, from: &[f32; LANES]) -> [f32; LANES] {
        *from
    }
}

#[derive(Clone, Copy)]
struct Brain;

impl Lanes for Brain {
    type Element = bf16;
    #[inline(always)]
    fn widen(self, from: &[bf16; LANES]) -> [f32; LANES] {
        from.map(|x| f32::from_bits(u32::from(x.to_bits()) << 16))
    }
    #[inline(always)]
    fn narrow(self, from: &[f32; LANES]) -> [bf16; LANES] {
        from.map(|x| bf16::from_bits(round_bf16(x.to_bits())))
    }
}

/// To nearest, ties to even, without branches; a NaN stays one.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "shifted to 16 bits")]
fn round_bf16(bits: u32) -> u16 {
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    let quiet = (bits >> 16) | 0x40;
    (if bits & 0x7fff_ffff > 0x7f80_0000 { quiet } else { rounded }) as u16
}

/// `f16` in software.
#[derive(Clone, Copy)]
struct Half;

impl Lanes for Half {
    type Element = f16;
    #[inline(always)]
    fn widen(self, from: &[f16; LANES]) -> [f32; LANES] {
        from.map(f16::to_f32)
    }
    #[inline(always)]
    fn narrow(self, from: &[f32; LANES]) -> [f16; LANES] {
        from.map(f16::from_f32)
    }
}

/// `f16` by F16C.
#[cfg(target_arch = "x86_64")]
mod hardware {
    use super::LANES;
    use fearless_simd::{Avx2, f32x8, prelude::*, u16x8};
    use half::f16;
    use std::arch::x86_64::{_MM_FROUND_TO_NEAREST_INT, _mm256_cvtph_ps, _mm256_cvtps_ph};

    #[derive(Clone, Copy)]
    pub(super) struct Half(pub(super) Avx2);

    fearless_simd::kernel!(
        #[inline]
        fn widen(avx2: Avx2, from: &[u16; 16]) -> [f32; 16] {
            let mut to = [0.0; 16];
            for (from, to) in from.chunks_exact(8).zip(to.chunks_exact_mut(8)) {
                let wide = _mm256_cvtph_ps(u16x8::from_slice(avx2, from).into());
                let wide: f32x8<_> = wide.simd_into(avx2);
                wide.store_slice(to);
            }
            to
        }
    );

    fearless_simd::kernel!(
        #[inline]
        fn narrow(avx2: Avx2, from: &[f32; 16]) -> [u16; 16] {
            let mut to = [0; 16];
            for (from, to) in from.chunks_exact(8).zip(to.chunks_exact_mut(8)) {
                let wide = f32x8::from_slice(avx2, from).into();
                let half = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(wide);
                let half: u16x8<_> = half.simd_into(avx2);
                half.store_slice(to);
            }
            to
        }
    );

    impl super::Lanes for Half {
        type Element = f16;
        #[inline(always)]
        fn widen(self, from: &[f16; LANES]) -> [f32; LANES] {
            widen(self.0, bytemuck::cast_ref(from))
        }
        #[inline(always)]
        fn narrow(self, from: &[f32; LANES]) -> [f16; LANES] {
            bytemuck::cast(narrow(self.0, from))
        }
    }
}

/// Applies `f` to every sixteen elements of `to` and `from`; the last are padded with zeros.
#[inline(always)]
fn in_chunks<A: Element, B: Element>(
    to: &mut [A],
    from: &[B],
    f: impl Fn(&mut [A; LANES], &[B; LANES]),
) {
    let (tos, to_rest) = to.as_chunks_mut();
    let (froms, from_rest) = from.as_chunks();
    for (to, from) in tos.iter_mut().zip(froms) {
        f(to, from);
    }
    let n = to_rest.len();
    if n > 0 {
        let (mut to, mut from) = ([A::zeroed(); LANES], [B::zeroed(); LANES]);
        to[..n].copy_from_slice(to_rest);
        from[..n].copy_from_slice(from_rest);
        f(&mut to, &from);
        to_rest.copy_from_slice(&to[..n]);
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
        in_chunks(self.to, bytemuck::cast_slice(self.from), |to, from| *to = lanes.widen(from));
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
        in_chunks(cast_slice_mut(self.to), self.from, |to, from| *to = lanes.narrow(from));
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
            Unary::Neg => map(lanes, to, |x| Unary::Neg.apply(x)),
            Unary::Abs => map(lanes, to, |x| Unary::Abs.apply(x)),
            Unary::Recip => map(lanes, to, |x| Unary::Recip.apply(x)),
            Unary::Sqrt => map(lanes, to, |x| Unary::Sqrt.apply(x)),
            Unary::Exp => map(lanes, to, |x| Unary::Exp.apply(x)),
            Unary::Log => map(lanes, to, |x| Unary::Log.apply(x)),
            Unary::Relu => map(lanes, to, |x| Unary::Relu.apply(x)),
            Unary::Tanh => map(lanes, to, |x| Unary::Tanh.apply(x)),
            Unary::Sigmoid => map(lanes, to, |x| Unary::Sigmoid.apply(x)),
            Unary::Gelu => map(lanes, to, |x| Unary::Gelu.apply(x)),
        }
    }
}

#[inline(always)]
fn map<L: Lanes>(lanes: L, to: &mut [L::Element], f: impl Fn(f32) -> f32) {
    let (tos, rest) = to.as_chunks_mut();
    let step = |x: &[L::Element; LANES]| {
        let mut wide = lanes.widen(x);
        for x in &mut wide {
            *x = f(*x);
        }
        lanes.narrow(&wide)
    };
    for to in tos {
        *to = step(to);
    }
    let n = rest.len();
    if n > 0 {
        let mut last = [bytemuck::Zeroable::zeroed(); LANES];
        last[..n].copy_from_slice(rest);
        rest.copy_from_slice(&step(&last)[..n]);
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
        let (to, with) = (cast_slice_mut(self.to), bytemuck::cast_slice(self.with));
        match (self.op, self.swapped) {
            // These two give the same bits either way round.
            (Binary::Add, _) => zip(lanes, to, with, |a, b| a + b),
            (Binary::Mul, _) => zip(lanes, to, with, |a, b| a * b),
            (Binary::Sub, false) => zip(lanes, to, with, |a, b| a - b),
            (Binary::Sub, true) => zip(lanes, to, with, |a, b| b - a),
            (Binary::Div, false) => zip(lanes, to, with, |a, b| a / b),
            (Binary::Div, true) => zip(lanes, to, with, |a, b| b / a),
            (Binary::Max, false) => zip(lanes, to, with, |a, b| Binary::Max.apply(a, b)),
            (Binary::Max, true) => zip(lanes, to, with, |a, b| Binary::Max.apply(b, a)),
            (Binary::Min, false) => zip(lanes, to, with, |a, b| Binary::Min.apply(a, b)),
            (Binary::Min, true) => zip(lanes, to, with, |a, b| Binary::Min.apply(b, a)),
        }
    }
}

#[inline(always)]
fn zip<L: Lanes>(
    lanes: L,
    to: &mut [L::Element],
    with: &[L::Element],
    f: impl Fn(f32, f32) -> f32,
) {
    in_chunks(to, with, |to, with| {
        let (mut a, b) = (lanes.widen(to), lanes.widen(with));
        for (a, b) in a.iter_mut().zip(b) {
            *a = f(*a, b);
        }
        *to = lanes.narrow(&a);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lane_1_hardware_widens_as_software() {
        let all: Vec<u16> = (0..=u16::MAX).collect();
        for dtype in [DType::F16, DType::Bf16] {
            let mut wide = vec![0.0; all.len()];
            run(dtype, Widen { to: &mut wide, from: bytemuck::cast_slice(&all) });
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
