//! An operation that was issued and takes its time: what `.await` waits for.

use super::program::Program;
use super::{KernelError, Tile};
use crate::machine::Engine;
use crate::time::Time;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// An operation under way: await it for its result.
#[must_use = "the operation runs, but its result is lost unless awaited"]
pub struct Issued<T> {
    program: Rc<Program>,
    result: Option<Result<T, Box<KernelError>>>,
    /// When it is over; zero if it takes no time.
    end: Time,
    engine: Engine,
    scheduled: bool,
}

/// A load under way.
pub type Loading<T> = Issued<T>;
/// A computation under way.
pub type Computing = Issued<Tile>;

impl<T> Issued<T> {
    /// An operation of `engine` that ends at `end`.
    #[inline]
    pub(super) fn new(program: Rc<Program>, engine: Engine, result: T, end: Time) -> Self {
        Self { program, result: Some(Ok(result)), end, engine, scheduled: false }
    }

    /// One that could not be issued.
    #[cold]
    pub(super) fn failed(program: Rc<Program>, error: Box<KernelError>) -> Self {
        let result = Some(Err(error));
        Self { program, result, end: Time::ZERO, engine: Engine::Vector, scheduled: false }
    }

    /// Whether its end has come; otherwise makes sure the program is resumed then.
    #[inline]
    fn is_over(&mut self) -> bool {
        let sim = self.program.sim();
        if sim.now() >= self.end {
            return true;
        }
        if !std::mem::replace(&mut self.scheduled, true) {
            sim.resume_at(self.end);
        }
        false
    }
}

impl<T> Unpin for Issued<T> {}

impl<T> Future for Issued<T> {
    type Output = Result<T, KernelError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        if !self.is_over() {
            return Poll::Pending;
        }
        self.program.waited_on(self.engine, self.end);
        let result = self.result.take().expect("polled again after it was ready");
        Poll::Ready(result.map_err(|error| *error))
    }
}
