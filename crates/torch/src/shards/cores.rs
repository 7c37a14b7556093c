//! The threads that are likely to pay for one run.
//!
//! - **PAY-1 (idle cores).** A thread has a core that is idle when it is asked, and enough SIPs that a window is worth a meeting. The number
//!   changes no byte of a result (XCH-1).

use std::fs;
use std::num::NonZero;

/// The fewest SIPs of a thread. A thread should have about 50 events in each window, and a busy SIP has two or more: one
/// arrival, and what follows from it.
const SIPS: u32 = 32;

/// Returns the number of threads that are likely to pay on a machine of so many SIPs, with so many idle cores.
pub fn that_pay(sips: u32, idle: usize) -> usize {
    idle.min((sips / SIPS) as usize).max(1)
}

/// Returns the number of cores that nobody uses at this moment, that of this thread included; one where the system does not tell.
pub fn idle_cores() -> usize {
    let load = fs::read_to_string("/proc/loadavg").ok();
    let running = load.as_deref().and_then(running);
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    running.map_or(1, |running| cores.saturating_sub(running - 1).max(1))
}

/// Returns the number of threads that run or want to, at least this one, as Linux tells it: `0.20 0.18 0.12 1/80 11206`.
fn running(load: &str) -> Option<usize> {
    let (running, _) = load.split_whitespace().nth(3)?.split_once('/')?;
    running.parse::<usize>().ok().map(|running| running.max(1))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn pay_1_threads_have_idle_cores_and_enough_sips() {
        let cases = [(4, 8, 1), (63, 8, 1), (64, 8, 2), (256, 8, 8), (256, 2, 2), (256, 1, 1)];
        for (sips, idle, threads) in cases {
            assert_eq!(that_pay(sips, idle), threads, "PAY-1: {sips} SIPs, {idle} idle cores");
        }
    }

    #[test]
    fn pay_1_the_system_tells_who_runs() {
        assert_eq!(running("0.20 0.18 0.12 3/80 11206\n"), Some(3), "PAY-1");
        assert_eq!(running("0.20 0.18 0.12 0/80 11206\n"), Some(1), "PAY-1: this thread runs");
        for wrong in ["", "0.20 0.18", "a b c d e", "1 2 3 4 5"] {
            assert_eq!(running(wrong), None, "PAY-1: {wrong}");
        }
    }
}
