//! The place of a task in a domain, without a borrow; see `task/owned.rs`.

use super::{DomainError, DomainView, TaskIdentity};
use crate::failure::Failure;
use crate::message::Membership;
use crate::shm::mailbox::Witness;
use crate::shm::{Segment, Waiting};
use crate::task::Task;

/// A rank of a task in a domain.
pub struct Seat {
    membership: Membership,
    identity: TaskIdentity,
    memory: Segment,
    witness: Option<Witness>,
    waiting: Waiting,
}

impl Seat {
    /// Returns the domain as this rank sees it.
    pub fn view(&self) -> Result<DomainView<'_>, DomainError> {
        let Self { membership, identity, memory, witness, waiting } = self;
        DomainView::open(membership, *identity, memory, witness.as_ref(), *waiting)
    }
}

impl Task<'_> {
    /// Returns its place in one of its domains, in the order of [`Call::domain`](crate::Call::domain).
    pub fn seat(&self, index: usize) -> Result<Seat, Failure> {
        // The same refusals.
        self.domain(index)?;
        let (membership, memory) = self.membership(index)?;
        let waiting = self.waiting.unwrap_or_else(Waiting::calibrate);
        let (membership, memory) = (membership.clone(), memory.clone());
        Ok(Seat { membership, identity: self.identity, memory, witness: self.witness(), waiting })
    }
}
