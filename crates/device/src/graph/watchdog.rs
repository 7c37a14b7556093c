//! The watchdog of a graph, in simulated time. It wakes when a budget may be exceeded, and only if the run goes on anyway
//! (SIM-8).
//!
//! A kernel without activity for its budget is suspect. It is stuck if all of its programs wait for other processes; a
//! program that waits for its own engines, or whose command is on its way, goes on by itself.

use super::drive::{Graph, reading};
use super::failure::TaskError;
use phalanx_engine::{Budgets, Event, Ladder, Stall, Time as Reading, Verdict, watch};
use phalanx_sim::Time;
use phalanx_sim::executor::Waiting;
use phalanx_torch::Error;
use std::rc::Rc;

impl Graph {
    pub(super) fn start_watching(self: &Rc<Self>) -> Result<(), Error> {
        let Some(budget) = self.budget else { return Ok(()) };
        let budgets = budgets(budget).map_err(|_| {
            let text =
                format!("graph `{}`: `budget` is {budget}: use at least 1 ns, or none", self.name);
            Error::Argument(text)
        })?;
        let name = format!("rank{} graph {} watchdog", self.rank.rank(), self.name);
        let watching = self.sim().spawn(name, self.clone().keep_watching(budgets));
        self.state.borrow_mut().watchdog = Some(watching);
        Ok(())
    }

    async fn keep_watching(self: Rc<Self>, budgets: Budgets) {
        loop {
            let now = self.rank.now();
            match self.judge(now, &budgets) {
                Verdict::Idle => self.sim().doze_until(now + span(budgets.ladder().progress)).await,
                Verdict::Busy(until) => {
                    self.sim().doze_until(span(until).max(now + Time::ps(1))).await;
                }
                Verdict::Stalled(stall) => {
                    if self.examine(&stall).await {
                        continue;
                    }
                    return;
                }
            }
        }
    }

    /// Reports the activity of kernels to the engine, and asks for its verdict.
    fn judge(&self, now: Time, budgets: &Budgets) -> Verdict {
        let state = &mut *self.state.borrow_mut();
        for task in state.running.values() {
            for (member, activity) in task.members.iter().zip(task.activities.iter()) {
                if activity.moved.get() > activity.told.replace(activity.moved.get()) {
                    state
                        .engine
                        .step(reading(activity.moved.get()), Event::Progress(member.worker));
                }
            }
        }
        watch(&state.engine, reading(now), budgets)
    }

    /// Examines the waits of a task without activity. True if the graph goes on.
    async fn examine(self: &Rc<Self>, stall: &Stall) -> bool {
        let Some(number) = self.running_task_of(stall) else {
            self.give_up(stall);
            return false;
        };
        let moved = self.activities(number);
        let names = {
            let state = self.state.borrow();
            let entry = &state.tasks[number];
            entry.pes.iter().map(|pe| format!("{}@{pe}", entry.kernel_name)).collect()
        };
        let found: Vec<Waiting> = self.sim().look_at(names).await;
        let now = self.rank.now();
        let is_moving = found.is_empty() || found.iter().any(|one| one.waits.is_empty());
        let mut state = self.state.borrow_mut();
        let Some(task) = state.running.get(&number) else { return true };
        if is_moving {
            let worker = task.members[0].worker;
            state.engine.step(reading(now), Event::Progress(worker));
            return true;
        }
        // The examination itself does not count as activity.
        for (activity, moved) in task.activities.iter().zip(&moved) {
            activity.moved.set(*moved);
        }
        let since = moved.into_iter().max().unwrap_or(now);
        let waits = found.into_iter().flat_map(|Waiting { process, waits, .. }| {
            waits.into_iter().map(move |wait| (process.clone(), wait))
        });
        let error = TaskError::Stalled { since, waits: waits.collect() };
        let pe = state.tasks[number].pes[0];
        drop(state);
        self.ended(number, Err((pe, error)));
        true
    }

    /// The running task of a stall.
    fn running_task_of(&self, stall: &Stall) -> Option<usize> {
        stall.worker?;
        let state = self.state.borrow();
        state.running.keys().copied().find(|number| state.tasks[*number].task == stall.task)
    }

    fn activities(&self, number: usize) -> Vec<Time> {
        let state = self.state.borrow();
        let task = state.running.get(&number);
        task.map_or_else(Vec::new, |task| {
            task.activities.iter().map(|activity| activity.moved.get()).collect()
        })
    }

    /// Gives up the graph: no task runs, and the remaining tasks can never start.
    fn give_up(self: &Rc<Self>, stall: &Stall) {
        let cause = {
            let state = &mut *self.state.borrow_mut();
            let (ready, pending) = (stall.counts.ready, stall.counts.pending);
            let text = format!("nothing runs while {ready} tasks are ready and {pending} wait");
            state.stall = Some(text);
            state.engine.cancel(state.run);
            state.cause
        };
        self.carry_out(cause);
    }
}

/// Budgets for one free parameter, the longest wait of a task; the outer budgets are unused here.
fn budgets(budget: Time) -> Result<Budgets, phalanx_engine::Inverted> {
    let times = |factor: u64| Reading(budget.as_ps().saturating_mul(factor));
    let ladder = Ladder {
        progress: Reading(budget.as_ps() / 2),
        operation: times(1),
        wait: times(2),
        startup: times(3),
        harness: times(4),
        guard: Reading(0),
    };
    ladder.build()
}

fn span(reading: Reading) -> Time {
    Time::ps(reading.0)
}
