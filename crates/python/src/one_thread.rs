//! Values of one thread: the simulation is made of `Rc`s, and Python objects may travel.

use pyo3::exceptions::PyRuntimeError;
use pyo3::{PyErr, PyResult};
use send_wrapper::SendWrapper;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// A value that only the thread that made it can use; other threads get a `RuntimeError`.
pub(crate) struct OneThread<T> {
    /// The number of its thread: cheaper to look at than the thread that the wrapper keeps.
    thread: u64,
    value: Option<SendWrapper<T>>,
}

thread_local! {
    /// The number of this thread; 0 before it has one.
    static NUMBER: Cell<u64> = const { Cell::new(0) };
}

/// The number of this thread.
pub(crate) fn this_thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}

impl<T> OneThread<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { thread: this_thread(), value: Some(SendWrapper::new(value)) }
    }

    /// Returns the value, on its own thread.
    pub(crate) fn get(&self) -> PyResult<&T> {
        match &self.value {
            Some(value) if self.thread == this_thread() => Ok(value),
            _ => Err(elsewhere()),
        }
    }
}

/// The error of a value of another thread.
#[cold]
pub(crate) fn elsewhere() -> PyErr {
    PyRuntimeError::new_err(
        "a phalanx context, with its ranks, tensors and kernels, belongs to the thread that made it: \
         make another Context in this thread",
    )
}

impl<T> Drop for OneThread<T> {
    /// Frees the value on its own thread; on another one the value stays, because freeing it there would be a race.
    fn drop(&mut self) {
        if self.thread != this_thread() {
            std::mem::forget(self.value.take());
        }
    }
}
