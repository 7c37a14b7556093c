//! The future of an issued operation.

use super::program::Program;
use super::{KernelError, Tile};
use crate::machine::{Engine, Transfer};
use crate::time::Time;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// An operation in progress: await it for its result.
#[must_use = "the operation runs, but its result is lost unless awaited"]
pub struct Issued<T> {
    program: Rc<Program>,
    result: Option<Result<T, Box<KernelError>>>,
    end: End,
    engine: Engine,
    scheduled: bool,
}

/// The end of an operation.
pub(super) enum End {
    /// A known end; zero if the operation takes no time.
    At(Time),
    /// The end of a transfer, which may not be known yet.
    Of(Rc<Transfer>),
}

/// The result of an operation that was issued, and its end; or the error of one that could not be issued.
pub(super) type Started<T> = Result<(T, End), Box<KernelError>>;

/// A load in progress.
pub type Loading<T> = Issued<T>;
/// A computation in progress.
pub type Computing = Issued<Tile>;

impl<T> Issued<T> {
    /// Creates the future of an operation of `engine` that ends at `end`.
    #[inline]
    pub(super) fn new(program: Rc<Program>, engine: Engine, result: T, end: End) -> Self {
        Self { program, result: Some(Ok(result)), end, engine, scheduled: false }
    }

    /// Creates the future of an operation that could not be issued.
    #[cold]
    pub(super) fn failed(program: Rc<Program>, error: Box<KernelError>) -> Self {
        let result = Some(Err(error));
        Self { program, result, end: End::At(Time::ZERO), engine: Engine::Vector, scheduled: false }
    }

    /// Creates the future of an operation of `engine`, from its result and its end. It is made where it stays: a copy of what was just
    /// written in narrow parts would stall the processor.
    #[inline]
    pub(super) fn of(program: &Rc<Program>, engine: Engine, started: Started<T>) -> Self {
        match started {
            Ok((result, end)) => Self::new(program.clone(), engine, result, end),
            Err(error) => Self::failed(program.clone(), error),
        }
    }

    /// Returns the operation with another form of its result.
    pub(super) fn map<U>(mut self, turn: impl FnOnce(T) -> U) -> Issued<U> {
        let result = self.result.take().map(|result| result.map(turn));
        let Self { program, end, engine, scheduled, .. } = self;
        Issued { program, result, end, engine, scheduled }
    }

    /// Returns the error of an operation that could not be issued.
    pub(super) fn error(&self) -> Option<&KernelError> {
        self.result.as_ref().and_then(|result| result.as_ref().err()).map(|error| &**error)
    }

    /// True if the operation has ended; otherwise the program is resumed at the end.
    #[inline]
    fn is_over(&mut self) -> bool {
        let sim = self.program.sim();
        let end = match &self.end {
            End::At(end) => *end,
            End::Of(transfer) => return transfer.is_over(sim, &mut self.scheduled),
        };
        if sim.now() >= end {
            return true;
        }
        if !std::mem::replace(&mut self.scheduled, true) {
            sim.resume_at(end);
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
        match &self.end {
            End::At(end) => self.program.waited_on(self.engine, *end),
            End::Of(transfer) => self.program.waited_for_transfer(transfer),
        }
        let result = self.result.take().expect("polled again after it was ready");
        Poll::Ready(result.map_err(|error| *error))
    }
}
