//! The loop of a worker: takes a task, runs it, publishes its ending, sleeps when there is none.
//!
//! The same loop serves in a thread and in a process; they differ in the way to make the parent look.
//!
//! - **SRV-1 (in order).** Tasks are run in the order in which they were sent, one at a time.
//! - **SRV-2 (leaves late).** A worker that is told to leave first runs the tasks that it was sent before.
//! - **SRV-3 (prompt).** An ending is published before the next task begins. The parent is told to look before the worker
//!   sleeps, and before it begins a task that is not known to be short, unless another worker thread has looked since.
//! - **SRV-4 (behind).** A task that was sent behind one that failed or was skipped is skipped.

mod habits;

use crate::message::{Ended, Sent, Step, Verdict};
use crate::node::Asked;
use crate::runner::Runner;
use crate::shm::bell::Look;
use crate::shm::{ChildSide, Corrupt, Phase, PushError, Waiting};
use habits::Habits;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

/// Endings of short tasks that the parent is told of together, at most.
const BATCH: u32 = 8;
/// The parent is told at once of a task that took longer than this.
const LONG_NANOSECONDS: u64 = 2_000;
/// Looks for a task before a worker insists that its parent looks: some microseconds, most of them offered to others.
const LOOKS: u32 = 64;
/// Looks for a task after a request was left to another worker: about a microsecond.
const ATTENDED_LOOKS: u32 = 24;
/// No request is left to a worker whose last task took longer than this.
const SLOW_NANOSECONDS: u64 = 16_000;
/// A task that must not begin any more.
pub(crate) const RECALL: u8 = 1;
/// The most tasks that a worker may have at a time.
pub(crate) const MAX_DEPTH: usize = 1 << 16;

/// The sender of a worker's tasks.
pub(crate) trait Parent {
    /// Gets the parent to look at what the worker at this end of the mailbox has published.
    fn tell(&self, side: &ChildSide);

    /// Does the same unless the parent looks soon anyway. A parent that was not told is told before the worker sleeps or begins a
    /// task that is not known to be short.
    fn tell_in_passing(&self, side: &ChildSide) -> Asked {
        self.tell(side);
        Asked::Now
    }

    /// Tells in passing, or leaves a request to another worker that looks soon.
    fn tell_or_leave(&self, side: &ChildSide) -> Asked {
        self.tell_in_passing(side)
    }

    /// True if some thread looks, or has looked, at what the worker had published when it left a request.
    fn is_answered(&self) -> bool {
        true
    }

    /// Looks at what other workers have published and left to this one.
    fn attend(&self) {}

    /// Leaves nothing to this worker: it sleeps, or its tasks are long.
    fn resign(&self) {}
}

/// A parent in another process.
pub(crate) struct ParentProcess;

impl Parent for ParentProcess {
    fn tell(&self, side: &ChildSide) {
        side.ring();
    }
}

/// The loop of a worker.
pub(crate) struct Server<P: Parent> {
    side: ChildSide,
    parent: P,
    runner: Runner,
    waiting: Waiting,
    bytes: Vec<u8>,
    recalled: Vec<u64>,
    /// Number of tasks that it has ended.
    ended: u64,
    /// Recent tasks that failed or were skipped: the count of endings at that time, and the dispatch.
    failed: VecDeque<(u64, u64)>,
    habits: Habits,
    /// Endings that the parent was not told of, and no request was left for.
    untold: u32,
    /// True if a request was left that may not be answered.
    is_left: bool,
    /// True if the last task was too long for others to wait for this worker.
    is_slow: bool,
    /// True if nobody is left to serve.
    is_orphan: &'static AtomicBool,
}

/// Orphan flag of threads, which are never orphans.
static NO_ORPHAN: AtomicBool = AtomicBool::new(false);

/// The failure of a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ServeError {
    /// The mailbox holds what nobody wrote.
    #[error("the mailbox is damaged: {0}")]
    Corrupt(#[from] Corrupt),
    /// The parent said something that is no message.
    #[error("the parent sent {0} bytes that are no message")]
    NoMessage(usize),
    /// A message that is too long to be sent.
    #[error("an ending cannot be sent: {0}")]
    TooLong(#[from] PushError),
}

impl<P: Parent> Server<P> {
    pub(crate) fn new(side: ChildSide, parent: P, mut runner: Runner, waiting: Waiting) -> Self {
        runner.setting().serve_with(side.witness.clone(), waiting);
        Self {
            side,
            parent,
            runner,
            waiting,
            bytes: Vec::new(),
            recalled: Vec::new(),
            ended: 0,
            failed: VecDeque::new(),
            habits: Habits::default(),
            untold: 0,
            is_left: false,
            is_slow: false,
            is_orphan: &NO_ORPHAN,
        }
    }

    /// Serves only until this is true.
    pub(crate) fn with_orphan(self, is_orphan: &'static AtomicBool) -> Self {
        Self { is_orphan, ..self }
    }

    /// Gives the device back, and says that it goes.
    pub(crate) fn leave(mut self) {
        self.side.enter(Phase::Leaving);
        drop(self.runner);
    }

    /// Serves until told to leave.
    pub(crate) fn serve(&mut self) -> Result<(), ServeError> {
        loop {
            self.listen()?;
            if self.is_orphan.load(Ordering::Acquire) {
                return Ok(());
            }
            if self.side.tasks.next(&mut self.bytes)? {
                self.run_one()?;
                continue;
            }
            self.tell_as(P::tell_in_passing);
            if self.side.events.is_pending() {
                self.finish_saying();
                continue;
            }
            if self.side.is_shut_down() && self.side.tasks.is_empty() {
                return Ok(());
            }
            self.wait();
        }
    }

    /// Waits until there is something to do.
    fn wait(&mut self) {
        let (side, is_orphan, parent) = (&self.side, self.is_orphan, &self.parent);
        let (untold, is_left) = (&mut self.untold, &mut self.is_left);
        // A submitter needs a processor too.
        let waiting = if *untold > 0 { self.waiting.among(usize::MAX) } else { self.waiting };
        let is_there = || {
            !side.tasks.is_empty()
                || !side.controls.is_empty()
                || side.is_shut_down()
                || is_orphan.load(Ordering::Acquire)
        };
        let mut looks = 0;
        waiting.wait_looking(side.bell(), &[], None, |look| {
            looks += 1;
            if look == Look::Last {
                parent.resign();
            } else {
                parent.attend();
            }
            if is_there() {
                return true;
            }
            let most = if *is_left { ATTENDED_LOOKS } else { LOOKS };
            let is_time = (*untold > 0 || *is_left) && (looks >= most || look == Look::Last);
            is_time && {
                let is_heard = std::mem::take(is_left) && parent.is_answered();
                if std::mem::take(untold) > 0 || !is_heard {
                    parent.tell(side);
                }
                is_there()
            }
        });
    }

    /// Takes in what does not wait its turn.
    fn listen(&mut self) -> Result<(), ServeError> {
        if self.side.controls.is_empty() {
            return Ok(());
        }
        while self.side.controls.next(&mut self.bytes)? {
            match self.bytes.split_first() {
                Some((&RECALL, rest)) => {
                    let dispatch = rest.try_into().map(u64::from_le_bytes);
                    let dispatch = dispatch.map_err(|_| ServeError::NoMessage(self.bytes.len()))?;
                    self.recalled.push(dispatch);
                }
                _ => return Err(ServeError::NoMessage(self.bytes.len())),
            }
        }
        self.side.controls.release();
        Ok(())
    }

    /// Runs the task that was just read.
    fn run_one(&mut self) -> Result<(), ServeError> {
        let bytes = std::mem::take(&mut self.bytes);
        let result = match Sent::read(&bytes) {
            Some(sent) => self.run(&sent),
            None => Err(ServeError::NoMessage(bytes.len())),
        };
        self.bytes = bytes;
        result
    }

    #[inline]
    fn run(&mut self, sent: &Sent<'_>) -> Result<(), ServeError> {
        let callable = sent.callable().unwrap_or(u32::MAX);
        if !self.habits.is_short(callable) {
            self.tell();
            if self.is_slow {
                self.parent.resign();
            }
        }
        let dispatch = sent.dispatch;
        let (ended, words) = if self.take_recalled(dispatch) || self.is_in_vain(sent) {
            self.runner.skipped();
            (Ended::skipped(dispatch), None)
        } else {
            self.side.witness.step(Step::Running.encode());
            let tasks = &self.side.tasks;
            let ended = self.runner.run(dispatch, sent.message, || !tasks.is_empty());
            self.habits.note(callable, self.runner.callables(), ended.0.nanoseconds);
            ended
        };
        self.ended += 1;
        if ended.verdict != Verdict::Done {
            self.note_failed(dispatch);
        }
        self.side.witness.step(Step::Idle.encode());
        let head = ended.encode();
        self.say(bytemuck::cast_slice(&head), words.unwrap_or_default().as_bytes())?;
        self.side.events.publish();
        self.untold += 1;
        self.is_slow = ended.nanoseconds > SLOW_NANOSECONDS;
        if ended.nanoseconds > LONG_NANOSECONDS {
            self.tell_as(P::tell_or_leave);
        } else if self.untold.is_multiple_of(BATCH) {
            self.tell_as(P::tell_in_passing);
        }
        Ok(())
    }

    /// True if a task was sent behind one that has not ended well.
    #[inline]
    fn is_in_vain(&self, sent: &Sent<'_>) -> bool {
        let has_failed = |dispatch| self.failed.iter().any(|(_, failed)| *failed == dispatch);
        !self.failed.is_empty() && sent.behind().any(has_failed)
    }

    /// Remembers a task that has not ended well for as long as one may come that was sent behind it.
    #[cold]
    fn note_failed(&mut self, dispatch: u64) {
        let oldest = self.ended.saturating_sub(MAX_DEPTH as u64);
        while self.failed.front().is_some_and(|(when, _)| *when < oldest) {
            self.failed.pop_front();
        }
        self.failed.push_back((self.ended, dispatch));
    }

    /// Says something to the parent; waits for room if it must.
    fn say(&mut self, head: &[u8], body: &[u8]) -> Result<(), ServeError> {
        match self.side.events.push(head, body) {
            Err(PushError::Full { .. }) => self.say_late(head, body),
            other => Ok(other?),
        }
    }

    /// Sleeps until the parent has room for an event, and sends it.
    #[cold]
    fn say_late(&mut self, head: &[u8], body: &[u8]) -> Result<(), ServeError> {
        let (is_orphan, bell) = (self.is_orphan, self.side.bell().clone());
        let (side, parent) = (&mut self.side, &self.parent);
        side.events.publish();
        parent.tell(side);
        let mut result = Ok(());
        self.waiting.wait(&bell, &[], None, || {
            if side.events.publish() {
                parent.tell(side);
            }
            result = side.events.push(head, body);
            !matches!(result, Err(PushError::Full { .. })) || is_orphan.load(Ordering::Acquire)
        });
        match result {
            Err(PushError::Full { .. }) => Ok(()),
            other => Ok(other?),
        }
    }

    /// Sleeps until the rest of what we said is on its way.
    #[cold]
    fn finish_saying(&mut self) {
        let (is_orphan, bell) = (self.is_orphan, self.side.bell().clone());
        let (side, parent) = (&mut self.side, &self.parent);
        self.waiting.wait(&bell, &[], None, || {
            if side.events.publish() {
                parent.tell(side);
            }
            !side.events.is_pending() || is_orphan.load(Ordering::Acquire)
        });
    }

    fn take_recalled(&mut self, dispatch: u64) -> bool {
        if self.recalled.is_empty() {
            return false;
        }
        // Dispatches grow: what is below has ended.
        self.recalled.retain(|recalled| *recalled >= dispatch);
        let at = self.recalled.iter().position(|recalled| *recalled == dispatch);
        at.map(|at| self.recalled.swap_remove(at)).is_some()
    }

    /// Gives the room of what was read back to the parent, and gets it to look at what was said and it may not know.
    fn tell(&mut self) {
        if self.untold == 0 && !self.is_left {
            return;
        }
        let is_unheard = std::mem::take(&mut self.is_left) && !self.parent.is_answered();
        if self.has_something_to_tell() || is_unheard {
            self.parent.tell(&self.side);
        }
    }

    /// Tells the parent in this way, which it may be told of later.
    #[inline]
    fn tell_as(&mut self, way: fn(&P, &ChildSide) -> Asked) {
        let untold = self.untold;
        if !self.has_something_to_tell() {
            return;
        }
        match way(&self.parent, &self.side) {
            Asked::Now => self.is_left = false,
            Asked::Left => self.is_left = true,
            Asked::Not => self.untold = untold.max(1),
        }
    }

    fn has_something_to_tell(&mut self) -> bool {
        let has_room = self.side.tasks.release();
        let has_said = self.side.events.publish();
        std::mem::take(&mut self.untold) > 0 || has_room || has_said
    }
}

#[cfg(test)]
mod tests;
