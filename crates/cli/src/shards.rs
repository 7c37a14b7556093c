//! `--shards N|auto`: the threads that simulate one run.
//!
//! - **AUT-1 (before the run).** `auto` is decided before a run starts, by the machine and by the cores that are idle at that moment (PAY-1). The
//!   choice changes no byte of a result (XCH-1).

use phalanx_torch::shards::{idle_cores, that_pay};
use std::str::FromStr;

/// The threads that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shards {
    /// So many.
    Number(u16),
    /// As many as are likely to pay.
    Auto,
}

/// Most threads.
const MOST: u16 = 256;

impl FromStr for Shards {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let number = text.parse().ok().filter(|number| (1..=MOST).contains(number));
        number.map(Self::Number).ok_or_else(|| format!("allowed: 1 to {MOST}, or `auto`"))
    }
}

impl Shards {
    /// Returns the number of threads for a run on a machine of so many SIPs, in one of several processes or in the only one.
    pub(crate) fn threads(self, sips: u32, is_alone: bool) -> u16 {
        match self {
            Self::Number(number) => number,
            // Processes are already as many as the user wants; each would find the cores of its host idle.
            Self::Auto if !is_alone => 1,
            Self::Auto => {
                let threads = that_pay(sips, idle_cores()).min(MOST.into());
                u16::try_from(threads).unwrap_or(MOST)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aut_1_a_number_or_auto() {
        assert_eq!("auto".parse(), Ok(Shards::Auto), "AUT-1");
        assert_eq!("256".parse(), Ok(Shards::Number(256)), "AUT-1");
        for wrong in ["0", "257", "Auto", "", "-1"] {
            assert!(wrong.parse::<Shards>().is_err(), "AUT-1: {wrong}");
        }
        assert_eq!(Shards::Number(7).threads(2, false), 7, "AUT-1: as asked");
        assert_eq!(Shards::Auto.threads(1 << 14, false), 1, "AUT-1: several processes");
    }
}
