//! Work under way: what an asynchronous operation gives back.

use crate::error::Error;
use crate::rank::Rank;
use crate::request::Handle;
use phalanx_sim::executor::Wait;

/// An operation under way.
#[must_use = "an operation that nobody waits for is waited for when the rank ends"]
pub struct Work {
    rank: Rank,
    /// `None` if there is nothing to do.
    handle: Option<Handle>,
    /// Whom the data came from, for a receive.
    source: Option<usize>,
}

impl Work {
    pub(super) fn new(rank: &Rank, handle: Handle) -> Self {
        Self { rank: rank.clone(), handle: Some(handle), source: None }
    }

    /// Work of a rank that has no part in it.
    pub(super) fn nothing(rank: &Rank) -> Self {
        Self { rank: rank.clone(), handle: None, source: None }
    }

    pub(super) fn from_source(mut self, source: usize) -> Self {
        self.source = Some(source);
        self
    }

    /// Waits until it is over.
    pub async fn wait(&self) -> Result<(), Error> {
        match &self.handle {
            Some(handle) => handle.wait().await,
            None => Ok(()),
        }
    }

    /// Whether it is over. Lets others go on before it says no, so that a loop that only looks does not stand still.
    pub async fn is_completed(&self) -> bool {
        let Some(handle) = &self.handle else { return true };
        if handle.is_over() {
            return true;
        }
        let describe = || Wait {
            what: format!("`{}` to be completed", handle.name()),
            providers: vec![format!(
                "rank{} #{} {}",
                self.rank.rank(),
                handle.number(),
                handle.name()
            )],
        };
        self.rank.host().sim().pause(describe).await;
        handle.is_over()
    }

    /// Whom the data came from, for a receive.
    pub fn source_rank(&self) -> Option<usize> {
        self.source
    }
}
