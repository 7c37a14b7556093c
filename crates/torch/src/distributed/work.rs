//! Work under way: what an asynchronous operation gives back.

use crate::error::Error;
use crate::rank::Rank;
use crate::request::Handle;
use phalanx_sim::executor::Wait;

/// An operation under way.
#[must_use = "an operation that nobody waits for is waited for when the rank ends"]
pub struct Work {
    rank: Rank,
    /// None if there is nothing to do.
    handles: Vec<Handle>,
    /// Whom the data came from, for a receive.
    source: Option<usize>,
}

impl Work {
    pub(super) fn new(rank: &Rank, handle: Handle) -> Self {
        Self::of_all(rank, vec![handle])
    }

    pub(super) fn of_all(rank: &Rank, handles: Vec<Handle>) -> Self {
        Self { rank: rank.clone(), handles, source: None }
    }

    /// Work of a rank that has no part in it.
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

    /// This, and more.
    pub(super) fn and(mut self, more: Vec<Handle>) -> Self {
        self.handles.extend(more);
        self
    }

    /// Waits until it is over.
    pub async fn wait(&self) -> Result<(), Error> {
        let mut ended = Ok(());
        for handle in &self.handles {
            // All are looked at; the first that failed is why the others did.
            ended = ended.and(handle.wait().await);
        }
        ended
    }

    /// Whether it is over. Lets others go on before it says no, so that a loop that only looks does not stand still.
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

    /// Whom the data came from, for a receive.
    pub fn source_rank(&self) -> Option<usize> {
        self.source
    }
}
