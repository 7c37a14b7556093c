//! Watching others: waking up only if the run goes on anyway, and asking what processes wait for.
//!
//! - **SIM-8 (watching is not doing).** A process that dozes is resumed at its instant (or when the window ends in which
//!   that lies) if anything else happens then or later, and never otherwise: a watchdog neither keeps a run alive nor
//!   hides a deadlock.

use super::{Core, Executor, Partition, Sim, TaskId, Waiting};
use crate::executor::action::Action;
use crate::executor::agenda::Entry;
use crate::time::Time;
use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Waits for a point in time without keeping the run alive; see [`Sim::doze_until`].
#[must_use = "does nothing unless awaited"]
pub struct Doze {
    sim: Sim,
    deadline: Time,
    is_registered: bool,
}

impl Future for Doze {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let core = self.sim.0.clone();
        if self.sim.now() >= self.deadline {
            return Poll::Ready(());
        }
        core.has_dozed.set(true);
        if !std::mem::replace(&mut self.is_registered, true) {
            let time = self.deadline.as_ps();
            core.dozing.borrow_mut().push((time, self.sim.partition(), self.sim.task()));
        }
        Poll::Pending
    }
}

/// A question that the executor answers when the asker waits.
pub(super) struct Question {
    partition: Partition,
    asker: TaskId,
    names: Vec<String>,
    answer: RefCell<Option<Vec<Waiting>>>,
}

/// Waits for the answer to [`Sim::look_at`].
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
        self.sim.0.questions.borrow_mut().push(question.clone());
        self.sim.0.chores.set(true);
        self.question = Some(question);
        Poll::Pending
    }
}

impl Sim {
    /// Waits until `deadline` if anything else happens then or later (SIM-8): for those who only watch.
    pub fn doze_until(&self, deadline: Time) -> Doze {
        Doze { sim: self.clone(), deadline, is_registered: false }
    }

    /// What the processes of the current partition with these names wait for, now. One that is not listed is over or has not
    /// begun; one without waits will be resumed by an event of its own.
    pub fn look_at(&self, names: Vec<String>) -> Look {
        Look { sim: self.clone(), names, question: None }
    }
}

impl Core {
    /// Resumes those who doze until before the end of the window that begins at `due`, which may begin earlier for them.
    #[cold]
    pub(super) fn end_dozes(&self, due: u64, span: u64) -> u64 {
        if due == u64::MAX {
            return due;
        }
        let mut dozing = self.dozing.borrow_mut();
        let first = dozing.iter().map(|(time, ..)| *time).min().unwrap_or(due);
        let start = due.min(first.max(self.horizon.get()));
        let end = start.saturating_add(span);
        let mut resumed: Vec<_> = dozing.extract_if(.., |(time, ..)| *time < end).collect();
        resumed.sort_unstable();
        let mut agendas = self.agendas.borrow_mut();
        for (time, partition, task) in resumed {
            let time = time.max(start);
            let (key, action) = (agendas.next_key(time, partition), Action::resume(task.pack()));
            agendas.push(partition, Entry { time, key, action });
        }
        start
    }
}

impl Executor {
    /// Answers a question by polling the processes it is about: whoever still waits says what for.
    pub(super) fn answer(&mut self, question: &Question) {
        let core = self.sim.0.clone();
        let mut tasks: Vec<_> = core.tasks.borrow().iter().collect();
        tasks.retain(|(_, name, partition)| {
            *partition == question.partition && question.names.iter().any(|asked| asked == name)
        });
        let mut found = Vec::new();
        for (task, process, partition) in tasks {
            *core.explained.borrow_mut() = Some(Vec::new());
            core.is_quiet.set(false);
            self.resume(&core, task);
            core.is_quiet.set(true);
            let waits = core.explained.take().unwrap_or_default();
            found.push(Waiting { process, partition, waits });
        }
        question.answer.replace(Some(found));
        self.sim.wake(question.asker);
    }
}
