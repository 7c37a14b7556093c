//! A fair queue of waiting processes.
//!
//! - **WQ-1 (fair).** Processes pass in the order in which they joined; no process overtakes a waiting one.
//! - **WQ-2 (no lost turn).** A process that stops waiting (its future is dropped) leaves the queue, and the next
//!   process is woken.

use crate::executor::{Sim, TaskId};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// A FIFO of waiting processes.
#[derive(Default)]
pub(crate) struct WaitQueue {
    waiting: RefCell<VecDeque<(u64, TaskId)>>,
    next: Cell<u64>,
}

/// The position of a future in a [`WaitQueue`]; none before it joins.
#[derive(Default)]
pub(crate) struct Ticket(Option<u64>);

impl WaitQueue {
    /// True if `ticket` is at the front, or the queue is empty.
    pub(crate) fn is_first(&self, ticket: &Ticket) -> bool {
        self.waiting.borrow().front().is_none_or(|(number, _)| Some(*number) == ticket.0)
    }

    /// Joins the end of the queue, unless `ticket` is already in it.
    pub(crate) fn join(&self, ticket: &mut Ticket, task: TaskId) {
        if ticket.0.is_none() {
            let number = self.next.replace(self.next.get() + 1);
            ticket.0 = Some(number);
            self.waiting.borrow_mut().push_back((number, task));
        }
    }

    /// Leaves the queue.
    pub(crate) fn leave(&self, ticket: &mut Ticket) {
        if let Some(number) = ticket.0.take() {
            self.waiting.borrow_mut().retain(|(other, _)| *other != number);
        }
    }

    /// Leaves the queue without having passed, and wakes the next process (WQ-2).
    pub(crate) fn give_up(&self, ticket: &mut Ticket, sim: &Sim) {
        if ticket.0.is_some() {
            self.leave(ticket);
            self.wake_first(sim);
        }
    }

    /// Wakes the first process.
    pub(crate) fn wake_first(&self, sim: &Sim) {
        if let Some((_, task)) = self.waiting.borrow().front() {
            sim.wake(*task);
        }
    }

    /// Wakes all processes.
    pub(crate) fn wake_all(&self, sim: &Sim) {
        self.waiting.borrow().iter().for_each(|(_, task)| sim.wake(*task));
    }
}
