//! `f16` by the F16C instructions of x86-64.
#![expect(clippy::inline_always, reason = "vectorised only inside the AVX2 context")]

use super::Element;
use super::lanes::Lanes;
use fearless_simd::{Avx2, f32x8, prelude::*, u16x8};
use half::f16;
use std::arch::x86_64::{_MM_FROUND_TO_NEAREST_INT, _mm256_cvtph_ps, _mm256_cvtps_ph};

/// `f16` converted eight at a time; the token proves that the processor supports it.
#[derive(Clone, Copy)]
pub(super) struct Half(pub(super) Avx2);

fearless_simd::kernel!(
    #[inline]
    fn widen(avx2: Avx2, from: &[u16; 8]) -> [f32; 8] {
        let wide = _mm256_cvtph_ps(u16x8::from_slice(avx2, from).into());
        let wide: f32x8<_> = wide.simd_into(avx2);
        wide.into()
    }
);

fearless_simd::kernel!(
    #[inline]
    fn narrow(avx2: Avx2, from: &[f32; 8]) -> [u16; 8] {
        let wide = f32x8::from_slice(avx2, from).into();
        let half = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(wide);
        let half: u16x8<_> = half.simd_into(avx2);
        half.into()
    }
);

/// Returns up to eight elements of `x`, padded with zeros.
#[inline(always)]
fn padded<T: Element>(x: &[T]) -> [T; 8] {
    let mut padded = [T::zeroed(); 8];
    padded[..x.len()].copy_from_slice(x);
    padded
}

impl Half {
    #[inline(always)]
    fn up(self, from: &[f16; 8]) -> [f32; 8] {
        widen(self.0, bytemuck::cast_ref(from))
    }
    #[inline(always)]
    fn down(self, from: &[f32; 8]) -> [f16; 8] {
        bytemuck::cast(narrow(self.0, from))
    }
    #[inline(always)]
    fn map8(self, x: &[f16; 8], f: impl Fn(f32) -> f32) -> [f16; 8] {
        let mut x = self.up(x);
        for x in &mut x {
            *x = f(*x);
        }
        self.down(&x)
    }
    #[inline(always)]
    fn zip8(self, a: &[f16; 8], b: &[f16; 8], f: impl Fn(f32, f32) -> f32) -> [f16; 8] {
        let (mut a, b) = (self.up(a), self.up(b));
        for (a, b) in a.iter_mut().zip(b) {
            *a = f(*a, b);
        }
        self.down(&a)
    }
}

impl Lanes for Half {
    type Element = f16;
    #[inline(always)]
    fn widen(self, to: &mut [f32], from: &[f16]) {
        let (tos, to_rest) = to.as_chunks_mut();
        let (froms, from_rest) = from.as_chunks();
        for (to, from) in tos.iter_mut().zip(froms) {
            *to = self.up(from);
        }
        to_rest.copy_from_slice(&self.up(&padded(from_rest))[..from_rest.len()]);
    }
    #[inline(always)]
    fn narrow(self, to: &mut [f16], from: &[f32]) {
        let (tos, to_rest) = to.as_chunks_mut();
        let (froms, from_rest) = from.as_chunks();
        for (to, from) in tos.iter_mut().zip(froms) {
            *to = self.down(from);
        }
        to_rest.copy_from_slice(&self.down(&padded(from_rest))[..from_rest.len()]);
    }
    #[inline(always)]
    fn map(self, to: &mut [f16], f: impl Fn(f32) -> f32) {
        let (tos, rest) = to.as_chunks_mut();
        for to in tos {
            *to = self.map8(to, &f);
        }
        rest.copy_from_slice(&self.map8(&padded(rest), &f)[..rest.len()]);
    }
    #[inline(always)]
    fn zip(self, to: &mut [f16], with: &[f16], f: impl Fn(f32, f32) -> f32) {
        let (tos, rest) = to.as_chunks_mut();
        let (withs, with_rest) = with.as_chunks();
        for (to, with) in tos.iter_mut().zip(withs) {
            *to = self.zip8(to, with, &f);
        }
        let last = self.zip8(&padded(rest), &padded(with_rest), &f);
        rest.copy_from_slice(&last[..rest.len()]);
    }
    #[inline(always)]
    fn zip3(self, to: &mut [f16], [b, c]: [&[f16]; 2], f: impl Fn(f32, f32, f32) -> f32) {
        for (to, (b, c)) in to.chunks_mut(8).zip(b.chunks(8).zip(c.chunks(8))) {
            let [mut x, b, c] = [&*to, b, c].map(|eight| self.up(&padded(eight)));
            for (x, (b, c)) in x.iter_mut().zip(b.into_iter().zip(c)) {
                *x = f(*x, b, c);
            }
            to.copy_from_slice(&self.down(&x)[..to.len()]);
        }
    }
    #[inline(always)]
    fn add4(self, to: &mut [f16], with: [&[f16]; 4]) {
        let whole = to.len() / 8 * 8;
        let (tos, rest) = to.as_chunks_mut();
        let [a, b, c, d] = with.map(|with| &with.as_chunks().0[..tos.len()]);
        let add = |x: f32, y: f32| x + y;
        for (i, to) in tos.iter_mut().enumerate() {
            let two = self.zip8(&self.zip8(to, &a[i], add), &b[i], add);
            *to = self.zip8(&self.zip8(&two, &c[i], add), &d[i], add);
        }
        for with in with {
            self.zip(rest, &with[whole..], add);
        }
    }
}
