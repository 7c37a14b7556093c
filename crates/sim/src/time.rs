//! Quantities with units: simulated time, bytes and rates, all integers.
//!
//! - **TIME-1 (exact).** Time is a whole number of picoseconds; no float ever takes part.
//! - **TIME-2 (never early).** A duration computed from a rate is rounded up, so no transfer or computation ends before
//!   its last byte or operation.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A point in simulated time, or a span of it, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

crate::portable!(tuple Time);

impl Time {
    /// The start of every run; also the empty span.
    pub const ZERO: Self = Self(0);
    /// Later than anything that can happen.
    pub const MAX: Self = Self(u64::MAX);

    /// Returns `n` picoseconds.
    pub const fn ps(n: u64) -> Self {
        Self(n)
    }

    /// Returns `n` nanoseconds.
    pub const fn ns(n: u64) -> Self {
        Self(n * 1_000)
    }

    /// Returns `n` microseconds.
    pub const fn us(n: u64) -> Self {
        Self(n * 1_000_000)
    }

    /// Returns the number of picoseconds.
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// Returns `self - other`, or zero if `other` is later.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Returns `self + other`, at most [`Time::MAX`].
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// Saturates at [`Time::MAX`]: a run that reaches it ends with an error instead of wrapping around.
impl Add for Time {
    type Output = Self;
    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Time {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Time {
    type Output = Self;
    #[inline]
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl std::iter::Sum for Time {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

/// Prints nanoseconds with as many decimals as there are picoseconds left over: `1012 ns`, `0.125 ns`.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ns, ps) = (self.0 / 1_000, self.0 % 1_000);
        if ps == 0 {
            return write!(f, "{ns} ns");
        }
        let decimals = format!("{ps:03}");
        write!(f, "{ns}.{} ns", decimals.trim_end_matches('0'))
    }
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

crate::portable!(tuple Bytes);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, shift) in [("GiB", 30), ("MiB", 20), ("KiB", 10)] {
            if self.0 != 0 && self.0.trailing_zeros() >= shift {
                return write!(f, "{} {unit}", self.0 >> shift);
            }
        }
        write!(f, "{} B", self.0)
    }
}

/// The size of a memory: a number of bytes, or no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// No limit.
    Unlimited,
    /// A limit in bytes.
    Limited(Bytes),
}

/// A rate: units (bytes, operations) per second, stored as a reduced fraction of picoseconds per unit.
///
/// ```
/// use phalanx_sim::{Rate, Time};
/// let link = Rate::per_second(128_000_000_000).unwrap();
/// assert_eq!(link.time_for(65_536), Time::ns(512));
/// assert_eq!(Rate::UNLIMITED.time_for(u64::MAX), Time::ZERO);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Picoseconds per `den` units; 0 for unlimited.
    num: u64,
    den: u64,
    /// Binary logarithm of `den`, if `den` is a power of two: then no division is needed.
    shift: Option<u32>,
}

impl crate::portable::Portable for Rate {
    fn put(&self, to: &mut Vec<u8>) {
        (self.num, self.den).put(to);
    }

    fn take(from: &mut crate::portable::Reader<'_>) -> Result<Self, crate::portable::Malformed> {
        let (num, den) = <(u64, u64)>::take(from)?;
        if den == 0 {
            return Err(crate::portable::Malformed("a rate of nothing"));
        }
        let shift = den.is_power_of_two().then_some(den.trailing_zeros());
        Ok(Self { num, den, shift })
    }
}

/// Bytes per second.
pub type Bandwidth = Rate;

const PS_PER_SECOND: u64 = 1_000_000_000_000;

impl Rate {
    /// A rate without limit: every amount takes no time.
    pub const UNLIMITED: Self = Self { num: 0, den: 1, shift: Some(0) };

    /// Returns the rate of `n` units per second; `None` for zero.
    pub const fn per_second(n: u64) -> Option<Self> {
        if n == 0 {
            return None;
        }
        let divisor = gcd(PS_PER_SECOND, n);
        let den = n / divisor;
        let shift = if den.is_power_of_two() { Some(den.trailing_zeros()) } else { None };
        Some(Self { num: PS_PER_SECOND / divisor, den, shift })
    }

    /// Returns the units per second; `None` if unlimited.
    pub fn as_per_second(self) -> Option<u64> {
        let scale = PS_PER_SECOND.checked_div(self.num)?;
        Some(scale * self.den)
    }

    /// Returns the rate times `by / of`, in whole units a second, at least one.
    #[must_use]
    pub fn scaled(self, by: u64, of: u64) -> Self {
        let Some(rate) = self.as_per_second() else { return self };
        let exact = u128::from(rate) * u128::from(by) / u128::from(of.max(1));
        let rate = u64::try_from(exact).unwrap_or(u64::MAX).max(1);
        Self::per_second(rate).unwrap_or(self)
    }

    /// Returns the slower of two rates.
    #[must_use]
    pub fn least(self, other: Self) -> Self {
        match (self.as_per_second(), other.as_per_second()) {
            (Some(one), Some(two)) if two < one => other,
            (None, _) => other,
            _ => self,
        }
    }

    /// True if the rate has no limit.
    pub const fn is_unlimited(self) -> bool {
        self.num == 0
    }

    /// Returns the time of `n` units, rounded up (TIME-2), at most [`Time::MAX`].
    #[inline]
    pub fn time_for(self, n: u64) -> Time {
        match (n.checked_mul(self.num), self.shift) {
            (Some(product), Some(shift)) => {
                Time((product >> shift) + u64::from(product & (self.den - 1) != 0))
            }
            (Some(product), None) => Time(product.div_ceil(self.den)),
            (None, _) => self.time_for_many(n),
        }
    }

    /// Returns the time of units whose product with the rate does not fit a word.
    #[cold]
    #[inline(never)]
    fn time_for_many(self, n: u64) -> Time {
        let exact = (u128::from(n) * u128::from(self.num)).div_ceil(u128::from(self.den));
        Time(u64::try_from(exact).unwrap_or(u64::MAX))
    }
}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_1_a_rate_keeps_its_exact_value() {
        for n in [1, 3, 7, 1_000, 64_000_000_000, 128_000_000_000, 8_192_000_000_000, u64::MAX] {
            assert_eq!(Rate::per_second(n).unwrap().as_per_second(), Some(n), "TIME-1: {n}");
        }
    }

    #[test]
    fn time_2_durations_round_up() {
        let third = Rate::per_second(3_000_000_000_000).unwrap();
        assert_eq!(third.time_for(1), Time::ps(1), "TIME-2");
        assert_eq!(third.time_for(3), Time::ps(1));
        assert_eq!(third.time_for(4), Time::ps(2));
        assert_eq!(Rate::per_second(1).unwrap().time_for(u64::MAX), Time::MAX);
    }

    #[test]
    fn quantities_print_with_their_unit() {
        assert_eq!(Time::ns(1_012).to_string(), "1012 ns");
        assert_eq!(Time::ps(125).to_string(), "0.125 ns");
        assert_eq!(Bytes(2 << 20).to_string(), "2 MiB");
        assert_eq!(Bytes(1_000).to_string(), "1000 B");
    }
}
