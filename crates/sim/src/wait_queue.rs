//! A waiting line: who may go first, fairly, when several processes want the same thing.
//!
//! - **LINE-1 (fair).** Whoever joined first passes first; nobody overtakes a waiting process.
//! - **LINE-2 (no lost turn).** A process that gives up waiting (its future is dropped) leaves the line, and the
//!   one behind it gets its turn.

use crate::executor::{Sim, TaskId};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// A FIFO of waiting processes.
#[derive(Default)]
pub(crate) struct WaitQueue {
    waiting: RefCell<VecDeque<(u64, TaskId)>>,
    next: Cell<u64>,
}

/// A place in a line.
#[derive(Default)]
pub(crate) struct Ticket(Option<u64>);

impl WaitQueue {
    /// Whether the holder of `ticket` is at the front (or nobody waits at all).
    pub(crate) fn is_first(&self, ticket: &Ticket) -> bool {
        self.waiting.borrow().front().is_none_or(|(number, _)| Some(*number) == ticket.0)
    }

    /// Waits at the end of the line, if not in it already.
    pub(crate) fn join(&self, ticket: &mut Ticket, task: TaskId) {
        if ticket.0.is_none() {
            let number = self.next.replace(self.next.get() + 1);
            ticket.0 = Some(number);
            self.waiting.borrow_mut().push_back((number, task));
        }
    }

    /// Leaves the line.
    pub(crate) fn leave(&self, ticket: &mut Ticket) {
        if let Some(number) = ticket.0.take() {
            self.waiting.borrow_mut().retain(|(other, _)| *other != number);
        }
    }

    /// Leaves the line without having passed: the next one gets the turn (LINE-2).
    pub(crate) fn give_up(&self, ticket: &mut Ticket, sim: &Sim) {
        if ticket.0.is_some() {
            self.leave(ticket);
            self.call(sim);
        }
    }

    /// Lets the first in line look again.
    pub(crate) fn call(&self, sim: &Sim) {
        if let Some((_, task)) = self.waiting.borrow().front() {
            sim.wake(*task);
        }
    }

    /// Lets everybody in line look again.
    pub(crate) fn call_all(&self, sim: &Sim) {
        self.waiting.borrow().iter().for_each(|(_, task)| sim.wake(*task));
    }

    /// The names of those who wait.
    pub(crate) fn names(&self, sim: &Sim) -> Vec<String> {
        self.waiting.borrow().iter().filter_map(|(_, task)| sim.name_of(*task)).collect()
    }
}
