//! Who asks the watchdog, and how often.
//!
//! Whoever attends to the node asks while tasks are with workers, and the keeper does while nobody attends. They ask at least
//! every [`stride`], an eighth of the shortest budget: who comes later could not run meanwhile, since it was stopped, or did
//! not look, and then nobody knows whether the workers could run.
//!
//! - **WCH-1 (charged to nobody).** Time in which nobody looked, beyond a stride, is part of no budget. Whoever is stopped
//!   together with its workers, however long, takes none of them for stuck when it goes on; a worker that is stopped alone, or
//!   stuck, is found out when its budget is over.
//! - **WCH-2 (counted while watched).** So budgets run while somebody looks. Where workers are threads, there is no keeper: a
//!   worker that is stuck while no caller waits is found out by a caller that waits, when it has looked for a whole budget.

use super::{Core, Node};
use crate::allowance::stride;
use crate::clock;
use phalanx_engine::{Time, Verdict, watch};
use std::time::{Duration, Instant};

impl Node {
    /// Lets the watchdog look, if it is time; when it wants to look again.
    pub(super) fn watch(&self, core: &mut Core) -> Option<Instant> {
        let now = Time(clock::now());
        if now >= core.next_look {
            let stride = self.stride();
            core.forgive_pause(now, stride);
            core.look_for_progress();
            let soon = Time(now.0.saturating_add(stride.0));
            core.next_look = match watch(&core.engine, now, &self.budgets) {
                Verdict::Idle => soon,
                Verdict::Busy(until) => until.clamp(Time(now.0 + 1), soon),
                Verdict::Stalled(stall) => {
                    core.stalled(&stall);
                    soon
                }
            };
        }
        clock::instant(core.next_look.0)
    }

    /// How long it is from one look to the next, at most: work may stop running at any time, and then the shortest budget
    /// counts.
    fn stride(&self) -> Time {
        let shortest = Duration::from_nanos(self.budgets.ladder().progress.0);
        Time(u64::try_from(stride(shortest).as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Core {
    /// Takes the time in which nobody looked out of all budgets.
    fn forgive_pause(&mut self, now: Time, stride: Time) {
        let last = std::mem::replace(&mut self.last_look, now);
        let pause = now.0.saturating_sub(last.0).saturating_sub(stride.0);
        if pause > 0 {
            self.engine.forgive(now, Time(pause));
        }
    }
}
