//! One worker, as its node knows it.

use crate::endpoint::Endpoint;
use crate::error::Lost;

/// One worker, as its node knows it.
pub(crate) struct WorkerLink {
    pub(crate) endpoint: Box<dyn Endpoint>,
    /// Last dispatch that was sent; the engine may have decided on more.
    pub(super) sent: u64,
    /// Number of tasks that were sent and not flushed.
    pub(super) unflushed: u32,
    /// Last sign of progress.
    pub(super) progress: u64,
    /// First dispatch of the worker when progress was last looked for.
    pub(super) first: u64,
    /// Cause of its loss, if it is lost.
    pub(crate) lost: Option<Box<str>>,
    /// Reason why it was killed, until its end is proven.
    pub(super) kill_reason: Option<Box<str>>,
}

impl WorkerLink {
    pub(super) fn new(endpoint: Box<dyn Endpoint>) -> Self {
        let (sent, unflushed, progress, first) = (0, 0, 0, 0);
        Self { endpoint, sent, unflushed, progress, first, lost: None, kill_reason: None }
    }

    /// Returns its name and the cause of its loss, if it is lost.
    pub(super) fn loss(&self) -> Option<Lost> {
        let words = self.lost.clone()?;
        Some(Lost { worker: self.endpoint.name(), words })
    }

    /// Returns how the worker ended, behind the reason why it was killed.
    pub(super) fn with_kill_reason(&self, words: &str) -> Box<str> {
        let reason = self.kill_reason.as_ref();
        reason.map_or_else(|| words.into(), |reason| format!("{reason}; {words}").into())
    }
}
