//! Work: the handle of an asynchronous operation.

use crate::error::Error;
use crate::request::Handle;
use crate::stream::Event;
use std::cell::Cell;
use std::rc::Rc;

/// An asynchronous operation.
#[must_use = "an operation that nobody waits for is waited for when the rank ends"]
pub struct Work {
    /// Its requests; empty if this rank has no part in it.
    handles: Vec<Handle>,
    /// The sending rank, for a receive.
    source: Rc<Cell<Option<usize>>>,
}

impl Work {
    pub(super) fn new(handle: Handle) -> Self {
        Self::of_all(vec![handle])
    }

    pub(super) fn of_all(handles: Vec<Handle>) -> Self {
        Self { handles, source: Rc::default() }
    }

    /// The work of a rank outside the group.
    pub(super) fn nothing() -> Self {
        Self::of_all(Vec::new())
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.handles.is_empty()
    }

    pub(super) fn whose_source_is(self, source: usize) -> Self {
        self.source.set(Some(source));
        self
    }

    /// The work of a receive whose sender is known when the message is there.
    pub(super) fn whose_source_is_in(self, source: Rc<Cell<Option<usize>>>) -> Self {
        Self { source, ..self }
    }

    /// Returns an event that is over when the work is.
    pub fn event(&self) -> Event {
        Event::of(&self.handles)
    }

    /// Adds requests.
    pub(super) fn and(mut self, more: Vec<Handle>) -> Self {
        self.handles.extend(more);
        self
    }

    /// Waits until it is over.
    pub async fn wait(&self) -> Result<(), Error> {
        let mut ended = Ok(());
        for handle in &self.handles {
            // All requests are waited for; the first failure is the cause of the others.
            ended = ended.and(handle.wait().await);
        }
        ended
    }

    /// True if it is over. Before it returns false, other processes run, so that a polling loop does not hang.
    pub async fn is_completed(&self) -> bool {
        let open = || self.handles.iter().find(|handle| !handle.is_over());
        let Some(handle) = open() else { return true };
        handle.is_completed().await && open().is_none()
    }

    /// Returns the sending rank, for a receive; for a receive from any rank, after the message has come.
    pub fn source_rank(&self) -> Option<usize> {
        self.source.get()
    }
}
