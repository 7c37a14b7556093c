//! The life of a worker that is not the caller: take a task, run it, say how it ended, sleep when there is none.
//!
//! The same loop serves in a thread and in a process of its own.
//!
//! - **SRV-1 (in order).** Tasks are run in the order in which they were sent, one at a time.
//! - **SRV-2 (leaves late).** A worker that is told to leave runs what it was sent before.
//! - **SRV-3 (prompt).** Nothing that has ended is kept back while the worker sleeps or runs something long.

use crate::message::{Ended, Step};
use crate::runner::Runner;
use crate::shm::bell::Look;
use crate::shm::{ChildSide, Corrupt, Phase, PushError, Waiting};
use std::sync::atomic::{AtomicBool, Ordering};

/// Endings that are published together, at most.
const BATCH: u32 = 8;
/// A task that took longer than this is reported at once.
const LONG_NANOSECONDS: u64 = 2_000;
/// After one that took longer than this its worker looks what follows from it.
const SO_LONG_NANOSECONDS: u64 = 20_000;
/// A task that must not begin any more.
pub(crate) const RECALL: u8 = 1;

/// A worker, from the inside.
pub(crate) struct Server {
    side: ChildSide,
    runner: Runner,
    waiting: Waiting,
    bytes: Vec<u8>,
    recalled: Vec<u64>,
    unpublished: u32,
    /// Whether nobody is left to serve.
    is_orphan: &'static AtomicBool,
}

/// What threads are never.
static NO_ORPHAN: AtomicBool = AtomicBool::new(false);

/// Why a worker stopped serving before it was told to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ServeError {
    /// The mailbox holds what nobody wrote.
    #[error("the mailbox is damaged: {0}")]
    Corrupt(#[from] Corrupt),
    /// The parent said something that is no message.
    #[error("the parent sent {0} bytes that are no message")]
    NoMessage(usize),
    /// What was to be said is too long to be said at all.
    #[error("an ending cannot be sent: {0}")]
    TooLong(#[from] PushError),
}

impl Server {
    pub(crate) fn new(side: ChildSide, mut runner: Runner, waiting: Waiting) -> Self {
        runner.setting().serve_with(side.witness.clone(), waiting);
        let (bytes, recalled) = (Vec::new(), Vec::new());
        let is_orphan = &NO_ORPHAN;
        Self { side, runner, waiting, bytes, recalled, unpublished: 0, is_orphan }
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

    /// Serves until told to leave; `idle` is asked while there is nothing to do, or nothing was done for long, and says whether
    /// it did something.
    pub(crate) fn serve(&mut self, mut idle: impl FnMut(Look) -> bool) -> Result<(), ServeError> {
        loop {
            self.listen()?;
            if self.is_orphan.load(Ordering::Acquire) {
                return Ok(());
            }
            if self.side.tasks.next(&mut self.bytes)? {
                if self.run_one()? > SO_LONG_NANOSECONDS {
                    // Others may wait for what follows from it, and nobody else may be there to find out.
                    idle(Look::Last);
                    self.runner.paused();
                }
                continue;
            }
            self.release();
            self.publish();
            if self.side.events.is_pending() {
                self.finish_saying();
                continue;
            }
            if self.side.is_shut_down() && self.side.tasks.is_empty() {
                return Ok(());
            }
            self.runner.paused();
            let (side, is_orphan) = (&self.side, self.is_orphan);
            let is_there = |look| {
                !side.tasks.is_empty()
                    || !side.controls.is_empty()
                    || side.is_shut_down()
                    || is_orphan.load(Ordering::Acquire)
                    || idle(look)
            };
            self.waiting.wait_looking(side.bell(), &[], None, is_there);
        }
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

    /// Runs the task that was just read; how long it took.
    fn run_one(&mut self) -> Result<u64, ServeError> {
        let Some(dispatch) = self.bytes.first_chunk::<8>() else {
            return Err(ServeError::NoMessage(self.bytes.len()));
        };
        let dispatch = u64::from_le_bytes(*dispatch);
        let (ended, words) = if self.take_recalled(dispatch) {
            (Ended::skipped(dispatch), None)
        } else {
            self.side.witness.begin(dispatch, Step::Running.encode());
            self.runner.run(dispatch, &self.bytes[8..])
        };
        self.side.witness.begin(0, Step::Idle.encode());
        self.say(&ended.encode(), words.unwrap_or_default().as_bytes())?;
        self.unpublished += 1;
        if self.unpublished >= BATCH || ended.nanoseconds > LONG_NANOSECONDS {
            self.release();
            self.publish();
        }
        Ok(ended.nanoseconds)
    }

    /// Says something to the parent; waits for room if it must.
    fn say(&mut self, head: &[u8], body: &[u8]) -> Result<(), ServeError> {
        match self.side.events.push(head, body) {
            Err(PushError::Full { .. }) => self.say_late(head, body),
            other => Ok(other?),
        }
    }

    /// The parent has no room for what we have to say: sleeps until it has made some.
    #[cold]
    fn say_late(&mut self, head: &[u8], body: &[u8]) -> Result<(), ServeError> {
        let (is_orphan, bell) = (self.is_orphan, self.side.bell().clone());
        let side = &mut self.side;
        let mut result = Ok(());
        self.waiting.wait(&bell, &[], None, || {
            if side.events.publish() {
                side.ring();
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
        let side = &mut self.side;
        self.waiting.wait(&bell, &[], None, || {
            if side.events.publish() {
                side.ring();
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

    /// Gives the room of what was read back to the parent.
    fn release(&mut self) {
        if self.side.tasks.release() {
            self.side.ring();
        }
    }

    fn publish(&mut self) {
        self.unpublished = 0;
        if self.side.events.publish() {
            self.side.ring();
        }
    }
}
