//! Work: the handle of an asynchronous operation.

use crate::error::Error;
use crate::rank::Rank;
use crate::request::Handle;
use phalanx_sim::executor::Wait;

/// An asynchronous operation.
#[must_use = "an operation that nobody waits for is waited for when the rank ends"]
pub struct Work {
    rank: Rank,
    /// Its requests; empty if this rank has no part in it.
    handles: Vec<Handle>,
    /// The sending rank, for a receive.
    source: Option<usize>,
}

impl Work {
    pub(super) fn new(rank: &Rank, handle: Handle) -> Self {
        Self::of_all(rank, vec![handle])
    }

    pub(super) fn of_all(rank: &Rank, handles: Vec<Handle>) -> Self {
        Self { rank: rank.clone(), handles, source: None }
    }

    /// The work of a rank outside the group.
    pub(super) fn nothing(rank: &Rank) -> Self {
        Self::of_all(rank, Vec::new())
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.handles.is_empty()
    }

    pub(super) fn whose_source_is(mut self, source: usize) -> Self {
        self.source = Some(source);
        self
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
        let describe = || Wait {
            what: format!("`{}` to be completed, looking again and again", handle.name()),
            providers: vec![handle.process()],
        };
        self.rank.host().sim().pause(describe).await;
        open().is_none()
    }

    /// The sending rank, for a receive.
    pub fn source_rank(&self) -> Option<usize> {
        self.source
    }
}
