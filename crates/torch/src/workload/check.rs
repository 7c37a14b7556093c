//! Comparing a result with a reference, and the numbers that workloads run on.
//!
//! Inputs are small whole numbers, so that every sum is exact in any order and a result is either right or wrong.

/// How a result compares with its reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Check {
    /// Whether every element is what it should be.
    pub correct: bool,
    /// The largest difference.
    pub max_abs_error: f64,
}

impl Check {
    /// Nothing compared yet.
    pub(super) const EMPTY: Self = Self { correct: true, max_abs_error: 0.0 };

    /// Takes in one more pair of results and references.
    #[must_use]
    pub(super) fn and(self, got: &[f32], expected: impl IntoIterator<Item = f32>) -> Self {
        let mut worst = self.max_abs_error;
        let mut count = 0;
        for (got, expected) in got.iter().zip(expected) {
            count += 1;
            let error = f64::from((got - expected).abs());
            worst = if error.is_nan() { f64::INFINITY } else { worst.max(error) };
        }
        Self { correct: self.correct && worst == 0.0 && count == got.len(), max_abs_error: worst }
    }
}

/// A small whole number in `-span..=span`, a function of its arguments alone.
pub(super) fn number(seed: u64, stream: u64, index: u64, span: u16) -> f32 {
    let mut x = seed.wrapping_mul(0xD6E8_FEB8_6659_FD93)
        ^ stream.wrapping_mul(0x9E37_79B9_7F4A_7C15)
        ^ index;
    x = (x ^ (x >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    x = (x ^ (x >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    let spread = (x >> 33) % (2 * u64::from(span) + 1);
    f32::from(u16::try_from(spread).expect("a span of at most 32 767")) - f32::from(span)
}

/// `len` such numbers from `first` on.
pub(super) fn numbers(seed: u64, stream: u64, first: usize, len: usize, span: u16) -> Vec<f32> {
    (first..first + len).map(|index| number(seed, stream, index as u64, span)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrk_2_every_difference_shows() {
        let check = |got: &[f32], expected: &[f32]| Check::EMPTY.and(got, expected.iter().copied());
        assert_eq!(check(&[1.0, 2.0], &[1.0, 2.0]), Check::EMPTY);
        let wrong = check(&[1.0, 2.0, 3.0], &[1.0, 4.0, 3.5]);
        assert_eq!(wrong, Check { correct: false, max_abs_error: 2.0 });
        assert_eq!(wrong.and(&[1.0], [1.0]), wrong, "once wrong, wrong");
        assert!(!check(&[1.0, 2.0], &[1.0]).correct, "nothing to compare with");
        let unknown = check(&[f32::NAN, 1.0], &[1.0, 1.0]);
        assert_eq!(unknown, Check { correct: false, max_abs_error: f64::INFINITY });
    }

    #[test]
    fn numbers_are_whole_and_within_their_span() {
        let drawn = numbers(7, 1, 5, 1000, 3);
        assert!(drawn.iter().all(|x| x.fract() == 0.0 && x.abs() <= 3.0));
        assert!((-3..=3_i16).all(|x| drawn.contains(&f32::from(x))), "each of them");
        assert_eq!(drawn[10..20], numbers(7, 1, 15, 10, 3), "by index alone");
        assert_ne!(drawn, numbers(8, 1, 5, 1000, 3));
    }
}
