//! Exact plain decimal numbers (UNIT-1).

use super::UNLIMITED;
use super::error::Reason;

/// A number and its unit, as text.
pub(super) struct Number<'a> {
    integer: &'a str,
    fraction: &'a str,
    pub(super) unit: &'a str,
}

/// Largest number of decimals for which `fraction * factor` fits 128 bits for every unit.
pub(super) const DECIMALS: usize = 22;

impl<'a> Number<'a> {
    pub(super) fn split(text: &'a str) -> Result<Self, Reason> {
        if text.is_empty() {
            return Err(Reason::Empty);
        }
        if text == UNLIMITED {
            return Err(Reason::Unlimited);
        }
        if let Some(rest) = text.strip_prefix(['-', '\u{2212}']) {
            return Err(if rest.trim_start().starts_with(|c: char| c.is_ascii_digit()) {
                Reason::Negative
            } else {
                Reason::NotANumber
            });
        }
        let (integer, rest) = digits(text);
        if integer.is_empty() {
            return Err(if rest.starts_with(['+', '.']) {
                Reason::NotPlain
            } else {
                Reason::NotANumber
            });
        }
        let (fraction, rest) = match rest.strip_prefix('.') {
            Some(rest) => digits(rest),
            None => ("", rest),
        };
        let number =
            Self { integer, fraction: fraction.trim_end_matches('0'), unit: rest.trim_start() };
        if is_not_plain(rest) { Err(Reason::NotPlain) } else { Ok(number) }
    }

    pub(super) fn times(&self, factor: u64) -> Result<u64, Reason> {
        if self.fraction.len() > DECIMALS {
            return Err(Reason::TooManyDecimals);
        }
        let factor = u128::from(factor);
        let whole =
            value(self.integer).and_then(|n| n.checked_mul(factor)).ok_or(Reason::TooLarge)?;
        let scale = 10_u128.pow(u32::try_from(self.fraction.len()).unwrap_or(u32::MAX));
        let part = value(self.fraction)
            .and_then(|n| n.checked_mul(factor))
            .ok_or(Reason::TooManyDecimals)?;
        if part % scale != 0 {
            return Err(Reason::TooFine);
        }
        let sum = whole.checked_add(part / scale).and_then(|n| u64::try_from(n).ok());
        sum.ok_or(Reason::TooLarge)
    }
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

fn value(digits: &str) -> Option<u128> {
    digits
        .bytes()
        .try_fold(0_u128, |n, digit| n.checked_mul(10)?.checked_add(u128::from(digit - b'0')))
}

/// True for the rest of `0x10`, `1e3`, `1_000`, `1.2.3`, `1,5`: no unit starts like that.
fn is_not_plain(rest: &str) -> bool {
    let mut chars = rest.chars();
    match chars.next() {
        Some('_' | '.' | ',' | '\'') => true,
        Some('e' | 'E') => {
            chars.next().is_some_and(|c| c.is_ascii_digit() || matches!(c, '+' | '-'))
        }
        Some('x' | 'X' | 'o' | 'b') => chars.next().is_some_and(|c| c.is_ascii_hexdigit()),
        _ => false,
    }
}
