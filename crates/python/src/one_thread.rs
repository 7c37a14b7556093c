//! Values of one thread: the simulation is made of `Rc`s, and Python objects may travel.

use pyo3::exceptions::PyRuntimeError;
use pyo3::{PyErr, PyResult};
use send_wrapper::SendWrapper;

/// A value that only the thread that made it can use; other threads get a `RuntimeError`.
pub(crate) struct OneThread<T>(Option<SendWrapper<T>>);

impl<T> OneThread<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Some(SendWrapper::new(value)))
    }

    /// Returns the value, on its own thread.
    pub(crate) fn get(&self) -> PyResult<&T> {
        match &self.0 {
            Some(value) if value.valid() => Ok(value),
            _ => Err(elsewhere()),
        }
    }
}

#[cold]
fn elsewhere() -> PyErr {
    PyRuntimeError::new_err(
        "a phalanx context, with its ranks, tensors and kernels, belongs to the thread that made it: \
         make another Context in this thread",
    )
}

impl<T> Drop for OneThread<T> {
    /// Frees the value on its own thread; on another one the value stays, because freeing it there would be a race.
    fn drop(&mut self) {
        if let Some(value) = self.0.take()
            && !value.valid()
        {
            std::mem::forget(value);
        }
    }
}
