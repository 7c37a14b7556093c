//! The comparison of a node's results with a plain reference; names the first element that differs.

use phalanx_sim::value::bf16;
use std::fmt;

/// The comparison of results with their references.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Check {
    /// Number of compared elements.
    pub compared: u64,
    /// The largest difference; infinite if an element is NaN.
    pub max_abs_error: f64,
    /// The first element outside the tolerance, in the order of comparison.
    pub first: Option<Difference>,
}

/// An element that differs from its reference.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The result that it belongs to.
    pub what: String,
    /// Its index, from 0.
    pub index: u64,
    /// The element.
    pub got: f64,
    /// The reference.
    pub expected: f64,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, index, got, expected } = self;
        write!(f, "element {index} of {what} is {got} and should be {expected}")
    }
}

impl Check {
    /// True if no element differs.
    pub fn is_correct(&self) -> bool {
        self.first.is_none()
    }

    /// Compares elements with a tolerance.
    pub(super) fn within(
        &mut self,
        what: &str,
        got: &[f32],
        expected: impl IntoIterator<Item = f64>,
        tolerance: f64,
    ) {
        let mut expected = expected.into_iter();
        for (index, got) in (0..).zip(got) {
            let wanted = expected.next().unwrap_or(f64::NAN);
            let pair = Pair { index, got: f64::from(*got), expected: wanted };
            self.take(what, pair, pair.error() <= tolerance);
        }
    }

    /// Compares elements with a tolerance in steps of their type; 0 steps compare bit for bit.
    pub(super) fn steps(
        &mut self,
        what: &str,
        got: &[bf16],
        expected: impl IntoIterator<Item = bf16>,
        steps: u32,
    ) {
        let mut expected = expected.into_iter();
        for (index, got) in (0..).zip(got) {
            let wanted = expected.next().unwrap_or(bf16::NAN);
            let is_right = got.to_bits() == wanted.to_bits()
                || steps > 0 && distance(*got, wanted).is_some_and(|apart| apart <= steps);
            let pair = Pair { index, got: f64::from(*got), expected: f64::from(wanted) };
            self.take(what, pair, is_right);
        }
    }

    fn take(&mut self, what: &str, pair: Pair, is_right: bool) {
        self.compared += 1;
        let error = if pair.error().is_nan() { f64::INFINITY } else { pair.error() };
        self.max_abs_error = self.max_abs_error.max(error);
        if !is_right && self.first.is_none() {
            let Pair { index, got, expected } = pair;
            self.first = Some(Difference { what: what.to_owned(), index, got, expected });
        }
    }
}

/// An element and its reference.
#[derive(Clone, Copy)]
struct Pair {
    index: u64,
    got: f64,
    expected: f64,
}

impl Pair {
    fn error(self) -> f64 {
        (self.got - self.expected).abs()
    }
}

/// The distance of two numbers in steps of the type; `None` if one is NaN.
fn distance(one: bf16, other: bf16) -> Option<u32> {
    // The order of numbers is the order of their bits, if the bits of negative numbers are negated.
    let place = |number: bf16| {
        let bits = i32::from(number.to_bits() & 0x7fff);
        if number.is_sign_negative() { -bits } else { bits }
    };
    (!one.is_nan() && !other.is_nan()).then(|| place(one).abs_diff(place(other)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nde_2_the_first_element_that_differs_is_named() {
        let mut check = Check::default();
        check.within("the sum", &[1.0, 2.0], [1.0, 2.00001], 1e-4);
        assert!(check.is_correct(), "NDE-2: {check:?}");
        check.within("the sum of chip 1", &[1.0, 2.5, 7.0], [1.0, 2.0, 3.0], 1e-4);
        check.within("more", &[9.0], [8.0], 0.0);
        assert_eq!((check.compared, check.max_abs_error), (6, 4.0), "NDE-2");
        let first = check.first.expect("NDE-2").to_string();
        assert_eq!(first, "element 1 of the sum of chip 1 is 2.5 and should be 2", "NDE-2");
    }

    #[test]
    fn nde_2_what_is_no_number_or_has_no_reference_is_wrong() {
        let mut check = Check::default();
        check.within("it", &[f32::NAN], [1.0], 1.0);
        assert!(!check.is_correct() && check.max_abs_error.is_infinite(), "NDE-2");
        let mut check = Check::default();
        check.within("it", &[1.0], [], 1.0);
        assert!(!check.is_correct(), "NDE-2");
    }

    #[test]
    fn nde_2_steps_of_bf16_count_across_zero() {
        let one = bf16::from_bits(1);
        assert_eq!(distance(one, -one), Some(2));
        assert_eq!(distance(bf16::ZERO, bf16::NEG_ZERO), Some(0));
        assert_eq!(distance(bf16::ONE, bf16::from_bits(bf16::ONE.to_bits() + 3)), Some(3));
        assert_eq!(distance(bf16::NAN, bf16::ONE), None);
        let mut check = Check::default();
        let near = bf16::from_bits(bf16::ONE.to_bits() + 2);
        check.steps("y", &[near], [bf16::ONE], 2);
        assert!(check.is_correct(), "NDE-2");
        check.steps("y", &[near], [bf16::ONE], 1);
        assert!(!check.is_correct(), "NDE-2");
    }
}
