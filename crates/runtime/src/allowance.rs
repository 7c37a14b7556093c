//! A budget of time that runs only while the process runs.
//!
//! A process may be stopped together with the workers that it waits for: a paused container, a suspended job, a sleeping host.
//! The clock then shows a long time in which nobody could run. So a waiter looks often, and a look charges no more than the
//! time until it was due.
//!
//! - **ALW-1 (charged awake).** A look charges the time since the last look, and never more than a [`stride`]: time in which
//!   nobody could run is charged to nobody.
//! - **ALW-2 (ends).** A waiter that looks whenever a look is due uses the budget up in that time.

use std::time::{Duration, Instant};

/// The longest and the shortest time between two looks.
const LONGEST: Duration = Duration::from_millis(500);
const SHORTEST: Duration = Duration::from_millis(1);

/// Returns the longest time between two looks at a budget; a look charges at most this much.
pub(crate) fn stride(budget: Duration) -> Duration {
    (budget / 8).clamp(SHORTEST, LONGEST)
}

/// A budget of time, and the rest of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    left: Duration,
    stride: Duration,
    last: Instant,
}

impl Allowance {
    /// Starts a budget of time.
    pub(crate) fn new(budget: Duration) -> Self {
        Self { left: budget, stride: stride(budget), last: Instant::now() }
    }

    /// Charges the time since the last look. Returns true if some time is left.
    pub(crate) fn look(&mut self) -> bool {
        self.look_at(Instant::now())
    }

    fn look_at(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.last);
        self.left = self.left.saturating_sub(passed.min(self.stride));
        self.last = self.last.max(now);
        !self.left.is_zero()
    }

    /// Returns the time of the next look.
    pub(crate) fn next(&self) -> Instant {
        self.last + self.left.min(self.stride)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn alw_1_a_pause_is_charged_to_nobody() {
        let mut allowance = Allowance::new(4 * SECOND);
        let begun = allowance.last;
        assert!(allowance.look_at(begun + SECOND / 4));
        assert_eq!(allowance.left, 15 * SECOND / 4, "what was used is charged");
        assert!(allowance.look_at(begun + 1000 * SECOND), "ALW-1");
        assert_eq!(allowance.left, 13 * SECOND / 4, "ALW-1: a stride at most");
        assert!(allowance.look_at(begun), "a clock that goes back charges nothing");
        assert_eq!(allowance.next(), begun + 1000 * SECOND + SECOND / 2);
    }

    #[test]
    fn alw_2_a_budget_ends_when_it_is_used_up() {
        for budget in [Duration::ZERO, Duration::from_micros(1), SECOND / 100, 3 * SECOND] {
            let mut allowance = Allowance::new(budget);
            let begun = allowance.last;
            let mut looks = 0;
            while allowance.look_at(allowance.next()) {
                looks += 1;
                assert!(looks <= 16, "ALW-2: {allowance:?}");
            }
            assert_eq!(allowance.last, begun + budget, "ALW-2");
        }
        let mut endless = Allowance::new(Duration::MAX);
        assert!(endless.look() && endless.look_at(endless.next()), "ALW-2: nothing overflows");
    }
}
