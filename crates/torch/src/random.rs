//! Random numbers of a rank: the same for the same seed, on every rank and every machine.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// A stream of random numbers.
pub(crate) struct Generator(Pcg64Mcg);

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    /// A number between 0 and 1, 1 excluded: 24 bits, which f32 holds exactly.
    pub(crate) fn uniform(&mut self) -> f32 {
        #[expect(clippy::cast_precision_loss, reason = "24 bits")]
        let bits = (self.0.next_u32() >> 8) as f32;
        bits / 16_777_216.0
    }

    /// A number with mean 0 and variance 1: the sum of twelve uniform numbers less six. It needs no function that hosts round
    /// differently.
    pub(crate) fn normal(&mut self) -> f32 {
        let sum: f64 = (0..12).map(|_| f64::from(self.uniform())).sum();
        #[expect(clippy::cast_possible_truncation, reason = "meant to round")]
        let normal = (sum - 6.0) as f32;
        normal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_the_same_numbers_and_another_gives_others() {
        let draw = |seed| {
            let mut generator = Generator::new(seed);
            (0..8).map(|_| generator.uniform()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert!(draw(7).iter().all(|x| (0.0..1.0).contains(x)));
    }

    #[test]
    fn normal_numbers_have_mean_0_and_variance_1() {
        let mut generator = Generator::new(3);
        let drawn: Vec<f64> = (0..20_000).map(|_| f64::from(generator.normal())).collect();
        let mean = drawn.iter().sum::<f64>() / 20_000.0;
        let variance = drawn.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 20_000.0;
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
    }
}
