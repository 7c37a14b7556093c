//! Watching other processes: timers that do not keep a run alive, and questions about waits.
//!
//! - **SIM-8 (watching is not progress).** A dozing process is resumed at its deadline, or at the end of the window that
//!   holds the deadline, if another event fires at that time or later, and never otherwise: a watchdog neither keeps a
//!   run alive nor hides a deadlock.

use super::state::State;
use super::{Executor, Partition, Sim, TaskId, Waiting};
use crate::time::Time;
use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A wait for a point in time that does not keep the run alive; see [`Sim::doze_until`].
#[must_use = "does nothing unless awaited"]
pub struct Doze {
    sim: Sim,
    deadline: Time,
    is_registered: bool,
}

impl Future for Doze {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.sim.now() >= self.deadline {
            return Poll::Ready(());
        }
        self.sim.state().inquiry.has_dozed.set(true);
        if !std::mem::replace(&mut self.is_registered, true) {
            let (time, partition) = (self.deadline.as_ps(), self.sim.partition());
            let process = DozingProcess { time, partition, task: self.sim.task() };
            self.sim.state().watchers.dozing.borrow_mut().push(process);
        }
        Poll::Pending
    }
}

/// A process that dozes until `time`.
pub(super) struct DozingProcess {
    time: u64,
    partition: Partition,
    task: TaskId,
}

/// A question about the waits of processes, which the executor answers after the current action.
pub(super) struct Question {
    partition: Partition,
    asker: TaskId,
    names: Vec<String>,
    answer: RefCell<Option<Vec<Waiting>>>,
}

/// A wait for the answer to [`Sim::look_at`].
#[must_use = "does nothing unless awaited"]
pub struct Look {
    sim: Sim,
    names: Vec<String>,
    question: Option<Rc<Question>>,
}

impl Future for Look {
    type Output = Vec<Waiting>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(question) = &self.question {
            return question.answer.take().map_or(Poll::Pending, Poll::Ready);
        }
        let (partition, asker) = (self.sim.partition(), self.sim.task());
        let names = std::mem::take(&mut self.names);
        let question = Rc::new(Question { partition, asker, names, answer: RefCell::new(None) });
        self.sim.state().inquiry.questions.borrow_mut().push(question.clone());
        self.sim.state().registry.has_changes.set(true);
        self.question = Some(question);
        Poll::Pending
    }
}

impl Sim {
    /// Waits until `deadline` if another event fires at that time or later (SIM-8): for watchdogs.
    pub fn doze_until(&self, deadline: Time) -> Doze {
        Doze { sim: self.clone(), deadline, is_registered: false }
    }

    /// Returns the waits of the named processes of the current partition. A process that is not listed has ended or has
    /// not begun; a process without waits will be resumed by an event of its own.
    pub fn look_at(&self, names: Vec<String>) -> Look {
        Look { sim: self.clone(), names, question: None }
    }
}

impl State {
    /// Returns the earliest deadline of a dozing process, `u64::MAX` if there is none.
    pub(super) fn first_doze(&self) -> u64 {
        let dozing = self.watchers.dozing.borrow();
        dozing.iter().map(|process| process.time).min().unwrap_or(u64::MAX)
    }

    /// Resumes the processes whose deadline lies before the end of the next window. Returns the start of that window:
    /// `due`, the time of the next event, or an earlier deadline, of which `first` is the earliest.
    #[cold]
    pub(super) fn end_dozes(&self, due: u64, first: u64, span: u64) -> u64 {
        if due == u64::MAX {
            return due;
        }
        let mut dozing = self.watchers.dozing.borrow_mut();
        let start = due.min(first.max(self.clock.window_end.get()));
        let end = start.saturating_add(span);
        let mut resumed: Vec<_> = dozing.extract_if(.., |process| process.time < end).collect();
        // Equals keep the order in which they dozed off, which their partition knows alone (PAR-2).
        resumed.sort_by_key(|process| (process.time, process.partition));
        for DozingProcess { time, partition, task } in resumed {
            self.resume_at(time.max(start), partition, task);
        }
        start
    }
}

impl Executor {
    /// Answers a question by polling the named processes: each pending wait describes itself.
    pub(super) fn answer(&mut self, question: &Question) {
        let state = self.sim.share();
        let inquiry = &state.inquiry;
        let mut tasks = state.registry.tasks.borrow().in_order();
        tasks.retain(|(_, name, partition)| {
            *partition == question.partition && question.names.iter().any(|asked| asked == name)
        });
        let mut found = Vec::new();
        for (task, process, partition) in tasks {
            *inquiry.waits.borrow_mut() = Some(Vec::new());
            inquiry.is_quiet.set(false);
            self.resume(&state, task);
            inquiry.is_quiet.set(true);
            let waits = inquiry.waits.take().unwrap_or_default();
            found.push(Waiting { process, partition, waits });
        }
        question.answer.replace(Some(found));
        self.sim.wake(question.asker);
    }
}
