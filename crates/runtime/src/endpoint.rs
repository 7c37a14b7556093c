//! One worker as its node sees it: messages to it, events from it.
//!
//! An endpoint is state, not a thread: nothing here waits. The node that owns it sends tasks, asks now and then what
//! happened, and tells its engine.
//!
//! - **EP-1 (exactly once).** Each dispatch ends exactly once: by its own ending, or by the loss of the worker.
//! - **EP-2 (in order).** A worker runs its tasks in the order in which they were sent.
//! - **EP-3 (whole).** The words of a failure arrive as they were, up to a mebibyte; of longer ones the beginning, and
//!   the number of bytes that were cut.
//! - **EP-4 (recall).** A task that was recalled before it began ends as skipped; one that had begun ends as it ends.
//! - **EP-5 (survives).** A task that fails or panics costs itself, not its worker, whatever it says and panics with.
//! - **EP-6 (stop).** A worker that is told to stop runs what it was sent before, and then leaves.
//! - **EP-7 (behind).** A task that was sent behind one that failed or was skipped ends as skipped.
//! - **EP-8 (gone).** A worker that is gone and was not told to leave is lost at once, with the known cause.

pub(crate) mod mailbox;
pub(crate) mod process;
pub(crate) mod restart;
pub(crate) mod thread;

use crate::message::Ended;
use crate::shm::mailbox::Evidence;
use crate::shm::{Segment, is_dead};
use crate::sync::{Ordering, shared::AtomicU32};

/// Event of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WorkerEvent {
    /// A task has ended; if it failed, these are its words.
    Ended(Ended, Option<Box<str>>),
    /// The worker has died, but may still touch memory for a moment: why. Waiters need not wait for it.
    Dying(Box<str>),
    /// The worker is gone, and another has taken its place, with nothing to do: why it is gone.
    Replaced(Box<str>),
    /// The process that was to take its place is gone before it did, says why, and the next one is tried.
    Again(Box<str>),
    /// The worker has left, as it was told to.
    Left,
    /// The worker is gone, and nothing it had will end: why.
    Lost(Box<str>),
}

/// A word of shared memory that the kernel marks when a worker dies.
#[derive(Clone, Debug)]
pub(crate) struct DeathWord {
    pub(crate) segment: Segment,
    pub(crate) offset: usize,
}

impl DeathWord {
    /// Returns the word and its value, if its worker lives.
    pub(crate) fn alive(&self) -> Option<(&AtomicU32, u32)> {
        let word = self.segment.word32(self.offset).ok()?;
        let value = word.load(Ordering::Acquire);
        (value != 0 && !is_dead(value)).then_some((word, value))
    }

    /// True if its worker has died.
    pub(crate) fn is_dead(&self) -> bool {
        let word = self.segment.word32(self.offset);
        word.is_ok_and(|word| is_dead(word.load(Ordering::Acquire)))
    }
}

/// One worker, seen from its node; see the [module](self) for the promises of all kinds.
pub(crate) trait Endpoint: Send {
    /// Returns its name: `chip 2 (process 4711)`.
    fn name(&self) -> String;

    /// Takes a task that was sent behind other dispatches. The worker may see it only after [`Endpoint::flush`].
    fn send(&mut self, dispatch: u64, behind: &[u64], message: &[u8]);

    /// Asks that a task not begin any more.
    fn recall(&mut self, dispatch: u64);

    /// Makes the worker see what was sent.
    fn flush(&mut self);

    /// Adds what has happened to `events`.
    fn poll(&mut self, events: &mut Vec<WorkerEvent>);

    /// Returns signs of its progress.
    fn evidence(&self) -> Evidence;

    /// Asks the worker to leave when it has run what it was sent.
    fn stop(&mut self);

    /// True if it has left, for good; its thread or process is gone.
    fn has_left(&mut self) -> bool;

    /// Returns a word that changes when the worker dies, if it has one and has not been seen to die.
    fn death_word(&self) -> Option<DeathWord> {
        None
    }

    /// True if another would take its place if it were lost.
    fn is_replaced(&self) -> bool {
        false
    }

    /// Returns the time of the next poll that is needed without an event.
    fn look_again(&self) -> Option<std::time::Instant> {
        None
    }

    /// Ends the worker whatever it does; `false` if that cannot be done. Its loss is reported when it is proven.
    fn kill(&mut self) -> bool {
        false
    }
}
