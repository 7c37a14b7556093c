//! Waiting for several operations at once, for main programs that drive time in slices.

use crate::fiber::{Pending, is_over};
use crate::one_thread::OneThread;
use crate::rank::Rank;
use phalanx_sim::executor::JoinHandle;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::future::poll_fn;
use std::task::Poll;

/// A watch of an operation: the slice of time in which it ends stops at its end.
#[pyclass(frozen, module = "phalanx._core")]
pub(crate) struct Watch(OneThread<RefCell<Option<JoinHandle<()>>>>);

#[pymethods]
impl Watch {
    /// True if the operation is over.
    fn is_over(&self) -> PyResult<bool> {
        Ok(self.0.get()?.borrow().as_ref().is_none_or(JoinHandle::is_finished))
    }

    /// Ends the watch; the operation goes on.
    fn close(&self) -> PyResult<()> {
        drop(self.0.get()?.take());
        Ok(())
    }
}

#[pymethods]
impl Rank {
    /// Stops slices of time at the end of an operation of this rank.
    fn watch(&self, pending: &Pending) -> PyResult<Watch> {
        let wait = pending.wait()?;
        let over = poll_fn(move |_| if is_over(&wait) { Poll::Ready(()) } else { Poll::Pending });
        Ok(Watch(OneThread::new(RefCell::new(Some(self.get()?.watch(over))))))
    }
}
