//! Looks of the watchdog: the threads that ask it, and the times between two looks.
//!
//! Drivers ask the watchdog while workers have tasks; without drivers the progress thread does. They ask at least every
//! [`stride`], an eighth of the shortest budget. A look that comes later than that proves nothing: the thread was stopped or
//! did not look, and the workers may have been stopped too.
//!
//! - **WCH-1 (charged to nobody).** Time in which no thread looked, beyond a stride, is part of no budget. A process that is
//!   stopped together with its workers, for any time, reports none of them as stuck when it goes on; a worker that is stopped
//!   alone, or stuck, is reported when its budget is over.
//! - **WCH-2 (always watched).** Budgets run also while no caller waits: a run whose worker is stuck ends although nobody waits
//!   for it.

use super::{Core, Node};
use crate::allowance::stride;
use crate::clock;
use phalanx_engine::{Time, Verdict, watch};
use std::time::{Duration, Instant};

/// Times of the watchdog's looks.
pub(super) struct LookTimes {
    last: Time,
    next: Time,
}

impl Default for LookTimes {
    fn default() -> Self {
        Self { last: Time(0), next: Time(0) }
    }
}

impl Node {
    /// Lets the watchdog look, if it is time; returns the time of the next look.
    pub(super) fn watch(&self, core: &mut Core) -> Option<Instant> {
        let now = Time(clock::now());
        if now >= core.looks.next {
            let stride = self.stride();
            core.forgive_pause(now, stride);
            core.look_for_progress();
            let soon = Time(now.0.saturating_add(stride.0));
            core.looks.next = match watch(&core.engine, now, &self.budgets) {
                Verdict::Idle => soon,
                Verdict::Busy(until) => until.clamp(Time(now.0 + 1), soon),
                Verdict::Stalled(stall) => {
                    core.stalled(&stall);
                    soon
                }
            };
        }
        clock::instant(core.looks.next.0)
    }

    /// Returns the longest time between two looks. The shortest budget counts, since a task may stop at any time.
    fn stride(&self) -> Time {
        let shortest = Duration::from_nanos(self.budgets.ladder().progress.0);
        Time(u64::try_from(stride(shortest).as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Core {
    /// Takes the time in which no thread looked out of all budgets.
    fn forgive_pause(&mut self, now: Time, stride: Time) {
        let last = std::mem::replace(&mut self.looks.last, now);
        let pause = now.0.saturating_sub(last.0).saturating_sub(stride.0);
        if pause > 0 {
            self.engine.forgive(now, Time(pause));
        }
    }
}
