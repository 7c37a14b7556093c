//! Searches that end early, because their run is interrupted (TUN-5).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ThreadId};

/// A question whose answer `true` ends a run.
pub(crate) type Question = Arc<dyn Fn() -> bool + Send + Sync>;

/// The interrupt of a tuner's searches. The question is asked on the thread of the tuner alone.
pub(super) struct Interrupt {
    question: Option<Question>,
    asker: ThreadId,
    is_wanted: AtomicBool,
}

impl Default for Interrupt {
    fn default() -> Self {
        Self::new(None)
    }
}

impl Interrupt {
    pub(super) fn new(question: Option<Question>) -> Self {
        Self { question, asker: thread::current().id(), is_wanted: AtomicBool::new(false) }
    }

    /// Begins a search.
    pub(super) fn begin(&self) {
        self.is_wanted.store(false, Ordering::Relaxed);
    }

    /// True if the last search was interrupted.
    pub(super) fn was_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed)
    }

    /// True if the search must end.
    pub(super) fn is_wanted(&self) -> bool {
        let Some(question) = &self.question else { return false };
        if self.was_wanted() {
            return true;
        }
        let is_wanted = self.asker == thread::current().id() && question();
        if is_wanted {
            self.is_wanted.store(true, Ordering::Relaxed);
        }
        is_wanted
    }
}
