//! Work: operations that were asked for, and their ends.

use crate::error::OrRaise;
use crate::fiber::{Reply, wait};
use crate::one_thread::OneThread;
use crate::stream::Event;
use phalanx_torch::{Error, Handle, distributed};
use pyo3::prelude::*;
use std::rc::Rc;

/// An operation that was asked for.
#[pyclass(frozen, module = "phalanx._core")]
pub(crate) struct Work(OneThread<Kind>);

#[derive(Clone)]
enum Kind {
    Handle(Handle),
    Work(Rc<distributed::Work>),
}

impl Kind {
    async fn wait(&self) -> Result<(), Error> {
        match self {
            Self::Handle(handle) => handle.wait().await,
            Self::Work(work) => work.wait().await,
        }
    }
}

impl Work {
    pub(crate) fn of_handle(handle: Handle) -> Self {
        Self(OneThread::new(Kind::Handle(handle)))
    }

    pub(crate) fn new(work: distributed::Work) -> Self {
        Self(OneThread::new(Kind::Work(Rc::new(work))))
    }
}

#[pymethods]
impl Work {
    fn wait(&self, py: Python<'_>) -> Reply {
        let kind = self.0.get()?.clone();
        wait(py, async move {
            let ended = kind.wait().await;
            Python::attach(|py| ended.or_raise(py).map(|()| py.None()))
        })
    }

    /// Replies true if it is over; other processes run before it replies false.
    fn is_completed(&self, py: Python<'_>) -> Reply {
        let kind = self.0.get()?.clone();
        wait(py, async move {
            let over = match &kind {
                Kind::Handle(handle) => handle.is_completed().await,
                Kind::Work(work) => work.is_completed().await,
            };
            Python::attach(|py| Ok(over.into_pyobject(py)?.to_owned().into_any().unbind()))
        })
    }

    /// The end of the operation, for streams to wait for.
    fn event(&self) -> PyResult<Event> {
        Ok(Event::new(match self.0.get()? {
            Kind::Handle(handle) => handle.event(),
            Kind::Work(work) => work.event(),
        }))
    }

    /// The sending rank, for a receive.
    fn source_rank(&self) -> PyResult<Option<usize>> {
        Ok(match self.0.get()? {
            Kind::Handle(_) => None,
            Kind::Work(work) => work.source_rank(),
        })
    }
}
