//! Streams and events.

use crate::error::OrRaise;
use crate::fiber::{Reply, wait};
use crate::one_thread::OneThread;
use crate::rank::Rank;
use pyo3::prelude::*;
use std::cell::RefCell;

/// A queue of requests of one rank, which begin in order.
#[pyclass(frozen, module = "phalanx._core")]
pub(crate) struct Stream(OneThread<State>);

struct State {
    stream: phalanx_torch::Stream,
    /// Entered so many times.
    entered: RefCell<Vec<phalanx_torch::Entered>>,
}

/// A point on a stream, or the end of some requests.
#[pyclass(frozen, module = "phalanx._core")]
pub(crate) struct Event(OneThread<phalanx_torch::Event>);

impl Event {
    pub(crate) fn new(event: phalanx_torch::Event) -> Self {
        Self(OneThread::new(event))
    }
}

#[pymethods]
impl Rank {
    fn stream(&self, name: &str) -> PyResult<Stream> {
        let stream = self.get()?.stream(name);
        Ok(Stream(OneThread::new(State { stream, entered: RefCell::default() })))
    }
}

#[pymethods]
impl Stream {
    fn enter(&self) -> PyResult<()> {
        let state = self.0.get()?;
        let entered = state.stream.enter();
        state.entered.borrow_mut().push(entered);
        Ok(())
    }

    fn leave(&self) -> PyResult<()> {
        let left = self.0.get()?.entered.borrow_mut().pop();
        drop(left);
        Ok(())
    }

    fn record(&self) -> PyResult<Event> {
        Ok(Event::new(self.0.get()?.stream.record()))
    }

    fn wait_event(&self, event: &Event) -> PyResult<()> {
        self.0.get()?.stream.wait(event.0.get()?);
        Ok(())
    }

    fn synchronize(&self, py: Python<'_>) -> Reply {
        let stream = self.0.get()?.stream.clone();
        wait(py, async move {
            let ended = stream.synchronize().await;
            Python::attach(|py| ended.or_raise(py).map(|()| py.None()))
        })
    }
}

#[pymethods]
impl Event {
    /// True if everything that it holds is over.
    fn is_over(&self) -> PyResult<bool> {
        Ok(self.0.get()?.is_over())
    }

    fn wait(&self, py: Python<'_>) -> Reply {
        let event = self.0.get()?.clone();
        wait(py, async move {
            let ended = event.wait().await;
            Python::attach(|py| ended.or_raise(py).map(|()| py.None()))
        })
    }
}
