//! Links, and levels of groups: nodes of SIPs, pods of nodes.
//!
//! Level 0 is the group of SIPs that `system.sips` describes; level `n` connects the groups of level `n - 1`.

use crate::time::Rate;

/// A part of what hardware could do, in millionths: `0.85` is 850 000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Efficiency(u32);

impl Efficiency {
    /// Everything.
    pub const FULL: Self = Self(Self::UNITS);
    /// Units of everything.
    pub const UNITS: u32 = 1_000_000;

    /// Returns the efficiency of some millionths; `None` for zero or more than everything.
    pub const fn millionths(millionths: u32) -> Option<Self> {
        if millionths == 0 || millionths > Self::UNITS { None } else { Some(Self(millionths)) }
    }

    /// Returns the millionths.
    pub const fn as_millionths(self) -> u32 {
        self.0
    }

    /// Returns what is left of a rate.
    #[must_use]
    pub fn of(self, rate: Rate) -> Rate {
        if self == Self::FULL { rate } else { rate.scaled(self.0.into(), Self::UNITS.into()) }
    }
}
