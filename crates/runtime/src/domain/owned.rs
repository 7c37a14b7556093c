//! A domain of a task without a borrow; see `task/owned.rs`.

use super::{DomainError, DomainView, TaskIdentity};
use crate::failure::Failure;
use crate::message::Membership;
use crate::shm::mailbox::Witness;
use crate::shm::{Segment, Waiting};
use crate::task::Task;

/// A domain of a task, as [`Task::domain`] without the borrow of the task.
pub struct OwnedDomain {
    membership: Membership,
    identity: TaskIdentity,
    memory: Segment,
    witness: Option<Witness>,
    waiting: Waiting,
}

impl OwnedDomain {
    /// Returns the domain as this rank sees it.
    pub fn view(&self) -> Result<DomainView<'_>, DomainError> {
        let Self { membership, identity, memory, witness, waiting } = self;
        DomainView::open(membership, *identity, memory, witness.as_ref(), *waiting)
    }
}

impl Task<'_> {
    /// Returns one of its domains without a borrow, in the order of [`Call::domain`](crate::Call::domain).
    pub fn owned_domain(&self, index: usize) -> Result<OwnedDomain, Failure> {
        // The same refusals.
        self.domain(index)?;
        let (membership, memory) = self.membership(index)?;
        let waiting = self.waiting.unwrap_or_else(Waiting::calibrate);
        let (membership, memory) = (membership.clone(), memory.clone());
        Ok(OwnedDomain {
            membership,
            identity: self.identity,
            memory,
            witness: self.witness(),
            waiting,
        })
    }
}
