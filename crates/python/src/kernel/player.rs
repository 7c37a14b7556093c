//! Plays a list in virtual time.

use super::ongoing::Ongoing;
use super::op::Op;
use super::running::Running;
use phalanx_sim::kernel::KernelError;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// A list that is played.
pub(crate) struct Player {
    running: Rc<Running>,
    list: Rc<Vec<Op>>,
    at: usize,
    ongoing: Option<Ongoing>,
}

/// The operation of a list that failed.
pub(crate) struct Failed {
    pub(crate) list: Rc<Vec<Op>>,
    pub(crate) at: usize,
    pub(crate) error: KernelError,
}

impl Player {
    pub(crate) fn new(running: Rc<Running>, list: Rc<Vec<Op>>) -> Self {
        Self { running, list, at: 0, ongoing: None }
    }

    /// A player of the operations recorded so far.
    pub(crate) fn of_recorded(running: &Rc<Running>) -> Self {
        let list: Rc<Vec<Op>> = running.list.take().into();
        Self::new(running.clone(), list)
    }

    fn step(&mut self, context: &mut Context<'_>) -> Poll<Result<(), KernelError>> {
        let ongoing = match (&mut self.ongoing, &self.list[self.at]) {
            (Some(ongoing), _) => ongoing,
            (None, free @ Op::Free { .. }) => {
                self.running.drop_now(free);
                return Poll::Ready(Ok(()));
            }
            (None, Op::Begin { issued }) => {
                let begun = self.list.get(self.at + 1).map(|op| self.running.begin(*issued, op));
                begun.transpose()?;
                self.at += 1;
                return Poll::Ready(Ok(()));
            }
            (none, op) => none.insert(self.running.issue(op)?),
        };
        let ended = ready!(ongoing.poll(&self.running, context));
        self.ongoing = None;
        Poll::Ready(ended)
    }
}

impl Future for Player {
    type Output = Result<(), Failed>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        while self.at < self.list.len() {
            if let Err(error) = ready!(self.step(context)) {
                let (list, at) = (self.list.clone(), self.at);
                return Poll::Ready(Err(Failed { list, at, error }));
            }
            self.at += 1;
        }
        Poll::Ready(Ok(()))
    }
}
