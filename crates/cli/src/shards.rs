//! `--shards N|auto`: the threads that simulate one run.
//!
//! - **AUT-1 (before the run).** `auto` is decided before a run starts, by the machine and by the cores that are idle at that moment. The
//!   choice changes no byte of a result (XCH-1).

use crate::commands::run::cores;
use std::fs;
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

/// The fewest SIPs of a thread that `auto` uses. A thread should have about 50 events in each window, and a busy SIP has two or more: one
/// arrival, and what follows from it.
const SIPS: u32 = 32;

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
            Self::Auto => that_pay(sips, idle_cores()),
        }
    }
}

/// Returns the number of threads that are likely to pay.
fn that_pay(sips: u32, idle: usize) -> u16 {
    let most = idle.min((sips / SIPS) as usize).min(MOST.into());
    u16::try_from(most).unwrap_or(MOST).max(1)
}

/// Returns the number of cores that nobody uses at this moment, that of this thread included; one where the system does not tell.
fn idle_cores() -> usize {
    let load = fs::read_to_string("/proc/loadavg").ok();
    let running = load.as_deref().and_then(running);
    running.map_or(1, |running| cores().saturating_sub(running - 1).max(1))
}

/// Returns the number of threads that run or want to, at least this one, as Linux tells it: `0.20 0.18 0.12 1/80 11206`.
fn running(load: &str) -> Option<usize> {
    let (running, _) = load.split_whitespace().nth(3)?.split_once('/')?;
    running.parse::<usize>().ok().map(|running| running.max(1))
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

    #[test]
    fn aut_1_threads_have_idle_cores_and_enough_sips() {
        let cases = [(4, 8, 1), (63, 8, 1), (64, 8, 2), (256, 8, 8), (256, 2, 2), (256, 1, 1)];
        for (sips, idle, threads) in cases {
            assert_eq!(that_pay(sips, idle), threads, "AUT-1: {sips} SIPs, {idle} idle cores");
        }
        assert_eq!(that_pay(1 << 20, 1 << 20), MOST, "AUT-1");
    }

    #[test]
    fn aut_1_the_system_tells_who_runs() {
        assert_eq!(running("0.20 0.18 0.12 3/80 11206\n"), Some(3), "AUT-1");
        assert_eq!(running("0.20 0.18 0.12 0/80 11206\n"), Some(1), "AUT-1: this thread runs");
        for wrong in ["", "0.20 0.18", "a b c d e", "1 2 3 4 5"] {
            assert_eq!(running(wrong), None, "AUT-1: {wrong}");
        }
    }
}
