//! The search for a better number.

use super::gains;
use crate::report::Report;
use crate::time::{Bytes, Time};
use std::ops::RangeInclusive;

/// Factors by which a number is made larger, and then smaller.
const FACTORS: [u64; 3] = [2, 4, 8];

/// A number that the user of a program sets.
#[derive(Clone, Debug)]
pub struct Number<'a> {
    pub(super) name: &'a str,
    pub(super) value: u64,
    unit: Unit,
    trials: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Count,
    Bytes,
}

impl<'a> Number<'a> {
    /// Returns a count with its present value; values outside of `range` are not tried.
    pub fn count(name: &'a str, value: u64, range: RangeInclusive<u64>) -> Self {
        Self { name, value, unit: Unit::Count, trials: around(value, &range) }
    }

    /// Returns a number of bytes with its present value; values outside of `range` are not tried.
    pub fn bytes(name: &'a str, value: u64, range: RangeInclusive<u64>) -> Self {
        Self { name, value, unit: Unit::Bytes, trials: around(value, &range) }
    }

    /// Returns a number of bytes in which 0 means all of `whole`.
    pub fn part(name: &'a str, value: u64, whole: u64, range: RangeInclusive<u64>) -> Self {
        let base = if value == 0 { whole } else { value };
        Self { name, value, unit: Unit::Bytes, trials: around(base, &range) }
    }

    pub(super) fn show(&self, value: u64) -> String {
        match self.unit {
            Unit::Count => value.to_string(),
            Unit::Bytes => Bytes(value).to_string(),
        }
    }

    /// Returns the value with the shortest run, and that run; `None` if no run is shorter than `before`.
    ///
    /// Of larger counts the least one is taken that is within 1 % of the shortest run.
    pub(super) fn best(
        &self,
        before: Time,
        mut run: impl FnMut(u64) -> Option<Report>,
    ) -> Option<(u64, Report)> {
        let tried = self.trials.iter().filter_map(|value| Some((*value, run(*value)?)));
        let (value, report) = tried.min_by_key(|(_, report)| report.simulated)?;
        if !gains(before, report.simulated) {
            return None;
        }
        if self.unit == Unit::Bytes || value < self.value {
            return Some((value, report));
        }
        Some(self.least((value, report), run))
    }

    /// Returns the least count above the present one that a search by halves finds, with a run within 1 % of `best`.
    fn least(
        &self,
        best: (u64, Report),
        mut run: impl FnMut(u64) -> Option<Report>,
    ) -> (u64, Report) {
        let limit = u128::from(best.1.simulated.as_ps()) * 101;
        let (mut low, mut found) = (self.value, best);
        while found.0 - low > 1 {
            let middle = low + (found.0 - low) / 2;
            match run(middle) {
                Some(report) if u128::from(report.simulated.as_ps()) * 100 <= limit => {
                    found = (middle, report);
                }
                _ => low = middle,
            }
        }
        found
    }
}

/// Returns the numbers of `range` that are a power of two, up to 8, times as large or as small as `value`.
fn around(value: u64, range: &RangeInclusive<u64>) -> Vec<u64> {
    let larger = FACTORS.iter().filter_map(|factor| value.checked_mul(*factor));
    let smaller =
        FACTORS.iter().filter(|factor| value.is_multiple_of(**factor)).map(|factor| value / factor);
    larger.chain(smaller).filter(|other| *other != value && range.contains(other)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_around_a_value_stay_in_their_range() {
        assert_eq!(around(4, &(1..=64)), [8, 16, 32, 2, 1]);
        assert_eq!(around(3, &(1..=11)), [6]);
        assert_eq!(around(0, &(0..=9)), [0; 0]);
        assert_eq!(around(u64::MAX, &(1..=u64::MAX)), [0; 0]);
    }
}
