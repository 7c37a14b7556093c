//! Catching panics: a panic of a rank's program, or of its destructors, becomes an error of that rank.

use crate::error::Error;
use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// The record of a panic in a destructor.
#[derive(Clone, Default)]
pub struct DropPanic(Rc<RefCell<Option<String>>>);

impl DropPanic {
    pub(super) fn take(&self) -> Option<String> {
        self.0.take()
    }

    /// Drops a value; records the message of a panic.
    pub(crate) fn drop_catching<T>(&self, dropped: T) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(dropped))) {
            *self.0.borrow_mut() = Some(panic_message(&*panic));
        }
    }
}

/// A future whose panics are caught.
pub(crate) struct CatchPanics<F> {
    inner: Option<Pin<Box<F>>>,
    drop_panic: DropPanic,
}

impl<F> CatchPanics<F> {
    pub(crate) fn new(inner: F, drop_panic: DropPanic) -> Self {
        Self { inner: Some(Box::pin(inner)), drop_panic }
    }
}

impl<T, F: Future<Output = Result<T, Error>>> Future for CatchPanics<F> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(inner) = self.inner.as_mut() else { return Poll::Pending };
        // The future is never polled again, so that nobody sees a broken invariant.
        match catch_unwind(AssertUnwindSafe(|| inner.as_mut().poll(context))) {
            Ok(polled) => polled,
            Err(panic) => Poll::Ready(Err(Error::Panic(panic_message(&*panic)))),
        }
    }
}

impl<F> Drop for CatchPanics<F> {
    fn drop(&mut self) {
        let inner = self.inner.take();
        self.drop_panic.drop_catching(inner);
    }
}

/// The message of a panic.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without words".to_owned())
}
