//! The comparison of a result with a reference, and the input numbers of workloads.
//!
//! Inputs are small whole numbers, so that every sum is exact in any order and a result is either right or wrong.
//! A workload whose results are rounded on the way gives a tolerance.

/// The comparison of a result with its reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Check {
    /// True if every element is right.
    pub correct: bool,
    /// The largest difference.
    pub max_abs_error: f64,
}

impl Check {
    /// Nothing compared yet.
    pub(super) const EMPTY: Self = Self { correct: true, max_abs_error: 0.0 };

    /// Adds a comparison of results with references.
    #[must_use]
    pub(super) fn and(self, got: &[f32], expected: impl IntoIterator<Item = f32>) -> Self {
        self.and_within(got, expected, 0.0)
    }

    /// Adds a comparison that accepts differences up to `tolerance`.
    #[must_use]
    pub(super) fn and_within(
        self,
        got: &[f32],
        expected: impl IntoIterator<Item = f32>,
        tolerance: f64,
    ) -> Self {
        let mut worst = self.max_abs_error;
        let mut own = 0.0_f64;
        let mut count = 0;
        for (got, expected) in got.iter().zip(expected) {
            count += 1;
            let error = f64::from((got - expected).abs());
            own = if error.is_nan() { f64::INFINITY } else { own.max(error) };
        }
        worst = worst.max(own);
        let correct = self.correct && own <= tolerance && count == got.len();
        Self { correct, max_abs_error: worst }
    }
}

/// A small whole number in `-span..=span`, a function of its arguments alone.
pub(crate) fn number(seed: u64, stream: u64, index: u64, span: u16) -> f32 {
    let mut x = seed.wrapping_mul(0xD6E8_FEB8_6659_FD93)
        ^ stream.wrapping_mul(0x9E37_79B9_7F4A_7C15)
        ^ index;
    x = (x ^ (x >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    x = (x ^ (x >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    let spread = (x >> 33) % (2 * u64::from(span) + 1);
    f32::from(u16::try_from(spread).expect("a span of at most 32 767")) - f32::from(span)
}

/// `len` such numbers from `first` on.
pub(crate) fn numbers(seed: u64, stream: u64, first: usize, len: usize, span: u16) -> Vec<f32> {
    (first..first + len).map(|index| number(seed, stream, index as u64, span)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wkl_2_one_wrong_element_makes_a_result_wrong() {
        let right = Check::EMPTY.and(&[1.0, 2.0], [1.0, 2.0]);
        assert_eq!(right, Check { correct: true, max_abs_error: 0.0 }, "WKL-2");
        assert!(!right.and(&[3.0], [3.5]).correct, "WKL-2");
        let wrong = Check { correct: false, max_abs_error: 0.5 };
        assert_eq!(right.and(&[3.0, 9.0], [3.5, 9.0]), wrong);
        assert!(
            !right.and(&[3.0], [3.5]).and(&[1.0], [1.0]).correct,
            "WKL-2: once wrong, always wrong"
        );
    }

    #[test]
    fn wkl_2_a_result_may_be_off_by_the_tolerance_and_no_more() {
        let near = Check::EMPTY.and_within(&[1.0, 2.0], [1.25, 2.0], 0.25);
        assert_eq!(near, Check { correct: true, max_abs_error: 0.25 }, "WKL-2");
        assert!(!near.and(&[1.0], [1.25]).correct, "WKL-2");
        assert!(!Check::EMPTY.and_within(&[1.0], [1.5], 0.25).correct, "WKL-2");
        assert!(!Check::EMPTY.and_within(&[f32::NAN], [1.5], 0.25).correct, "WKL-2");
        assert!(near.and(&[1.0], [1.0]).correct, "WKL-2: each part by its own tolerance");
    }

    #[test]
    fn wkl_2_nan_and_missing_references_are_wrong() {
        assert!(!Check::EMPTY.and(&[f32::NAN], [1.0]).correct, "WKL-2");
        assert!(!Check::EMPTY.and(&[f32::NAN, 1.0], [1.0, 1.0]).correct, "WKL-2");
        assert!(!Check::EMPTY.and(&[1.0, 1.0], [1.0]).correct, "WKL-2");
    }

    #[test]
    fn numbers_depend_on_seed_stream_and_place_alone() {
        assert_eq!(numbers(1, 2, 3, 9, 8), numbers(1, 2, 0, 12, 8)[3..]);
        assert_ne!(numbers(1, 2, 0, 32, 8), numbers(1, 3, 0, 32, 8));
        assert_ne!(numbers(1, 2, 0, 32, 8), numbers(2, 2, 0, 32, 8));
        assert!(numbers(7, 7, 0, 1000, 3).iter().all(|x| x.abs() <= 3.0 && x.fract() == 0.0));
    }
}
