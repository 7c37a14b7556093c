//! Python programs as processes of the simulation.
//!
//! A rank's program, or a kernel, is a greenlet that the Python side makes (`phalanx/_fibers.py`). Here it is a future: `poll`
//! first polls what the program waits for, and touches Python only if that is over. The greenlet then runs until it waits
//! again; it hands its [`Pending`] to the hub, the greenlet that drives the simulation.
//!
//! No Rust frame of this crate stands on a stack that is suspended: an operation that must wait returns a [`Pending`], and the
//! Python side does the switch.

use crate::error::Raised;
use crate::one_thread::OneThread;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The result of an operation, for Python.
pub(crate) type Reply = PyResult<Py<PyAny>>;

/// An operation that is waited for.
pub(crate) enum Wait {
    Running(Pin<Box<dyn Future<Output = Reply>>>),
    Over(Reply),
    /// The result was taken, or the program was cancelled.
    Gone,
}

/// An operation that is shared by the program that waits and the process that polls.
pub(crate) type SharedWait = Rc<RefCell<Wait>>;

/// An operation that is not over: a program hands it to its hub and asks for the result when it is resumed.
#[pyclass(frozen, module = "phalanx._core")]
pub(crate) struct Pending {
    wait: OneThread<SharedWait>,
    /// True if it was polled when it was made. A program hands it to its hub in the same turn.
    is_polled: bool,
}

impl Pending {
    pub(crate) fn wait(&self) -> PyResult<SharedWait> {
        Ok(self.wait.get()?.clone())
    }
}

#[pymethods]
impl Pending {
    /// The result, once; an error before the operation is over.
    fn result(&self, py: Python<'_>) -> Reply {
        let mut state = self.wait.get()?.borrow_mut();
        match std::mem::replace(&mut *state, Wait::Gone) {
            Wait::Over(reply) => reply,
            running @ Wait::Running(_) => {
                *state = running;
                Err(PyRuntimeError::new_err("the operation is not over"))
            }
            Wait::Gone => {
                Err(crate::error::exception(py, "CancelledError", "the operation was cancelled"))
            }
        }
    }
}

thread_local! {
    /// The number of Python programs that this thread is inside of: only they can wait in place.
    static INSIDE: Cell<u32> = const { Cell::new(0) };
}

/// Marks that Python code runs inside a process.
struct Inside;

impl Inside {
    fn enter() -> Self {
        INSIDE.with(|inside| inside.set(inside.get() + 1));
        Self
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.with(|inside| inside.set(inside.get() - 1));
    }
}

/// Waits for `operation`: returns its result if that is there at once, otherwise a [`Pending`].
pub(crate) fn wait(py: Python<'_>, operation: impl Future<Output = Reply> + 'static) -> Reply {
    let mut operation: Pin<Box<dyn Future<Output = Reply>>> = Box::pin(operation);
    let is_polled = INSIDE.with(Cell::get) > 0;
    if is_polled && let Poll::Ready(reply) = poll(operation.as_mut()) {
        return reply;
    }
    make(py, operation, is_polled)
}

/// A [`Pending`] of an operation that was polled in this turn of its program.
pub(crate) fn pending(py: Python<'_>, operation: Pin<Box<dyn Future<Output = Reply>>>) -> Reply {
    make(py, operation, true)
}

fn make(py: Python<'_>, operation: Pin<Box<dyn Future<Output = Reply>>>, is_polled: bool) -> Reply {
    let wait = Rc::new(RefCell::new(Wait::Running(operation)));
    Ok(Py::new(py, Pending { wait: OneThread::new(wait), is_polled })?.into_any())
}

/// Polls with a waker that does nothing: processes are resumed by their numbers.
fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls a shared operation; true if it is over.
pub(crate) fn is_over(wait: &SharedWait) -> bool {
    let mut state = wait.borrow_mut();
    if let Wait::Running(operation) = &mut *state {
        match poll(operation.as_mut()) {
            Poll::Pending => return false,
            Poll::Ready(reply) => *state = Wait::Over(reply),
        }
    }
    true
}

/// A Python program as a future.
pub(crate) struct Program {
    /// Makes the program's greenlet: returns its `switch` and its `throw`.
    begin: Option<Py<PyAny>>,
    fiber: Option<Fiber>,
    waiting: Option<SharedWait>,
}

struct Fiber {
    switch: Py<PyAny>,
    throw: Py<PyAny>,
}

/// The act of a greenlet that was resumed.
enum Step {
    /// The program waits; true if what it waits for was polled in this turn.
    Waits(SharedWait, bool),
    Over(Result<Py<PyAny>, Raised>),
}

impl Program {
    /// A program that `begin`, called in the hub, starts.
    pub(crate) fn new(begin: Py<PyAny>) -> Self {
        Self { begin: Some(begin), fiber: None, waiting: None }
    }

    fn step(&mut self, py: Python<'_>) -> Step {
        match self.try_step(py) {
            Ok(step) => step,
            Err(error) => Step::Over(Err(Raised::new(error))),
        }
    }

    fn try_step(&mut self, py: Python<'_>) -> PyResult<Step> {
        if let Some(begin) = self.begin.take() {
            let (switch, throw) = begin.bind(py).call0()?.extract()?;
            self.fiber = Some(Fiber { switch, throw });
        }
        let Some(fiber) = &self.fiber else {
            return Err(PyRuntimeError::new_err("the program is over"));
        };
        let answer = {
            let _inside = Inside::enter();
            fiber.switch.bind(py).call0()?
        };
        if let Ok(pending) = answer.cast::<Pending>() {
            let pending = pending.get();
            return Ok(Step::Waits(pending.wait()?, pending.is_polled));
        }
        self.fiber = None;
        let ended = answer.cast::<PyList>()?;
        let (value, raised): (Py<PyAny>, Option<Bound<'_, PyAny>>) =
            (ended.get_item(0)?.unbind(), ended.get_item(1)?.extract()?);
        // The idle greenlet still holds the list.
        ended.del_slice(0, 2)?;
        Ok(Step::Over(match raised {
            None => Ok(value),
            Some(raised) => Err(Raised::new(PyErr::from_value(raised))),
        }))
    }
}

impl Future for Program {
    type Output = Result<Py<PyAny>, Raised>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            if let Some(wait) = &self.waiting {
                if !is_over(wait) {
                    return Poll::Pending;
                }
                self.waiting = None;
            }
            match Python::attach(|py| self.step(py)) {
                Step::Waits(wait, is_polled) => {
                    self.waiting = Some(wait);
                    // A second poll in one turn would be taken for a wake-up.
                    if is_polled {
                        return Poll::Pending;
                    }
                }
                Step::Over(result) => return Poll::Ready(result),
            }
        }
    }
}

/// Most waits of a cancelled program's `finally` blocks.
const MOST_WAITS: usize = 1000;

impl Drop for Program {
    /// Cancels the program: `finally` blocks run, and a wait in one is cancelled again.
    fn drop(&mut self) {
        if let Some(wait) = self.waiting.take() {
            wait.replace(Wait::Gone);
        }
        let Some(fiber) = self.fiber.take() else { return };
        let _ = Python::try_attach(|py| {
            let _inside = Inside::enter();
            for _ in 0..MOST_WAITS {
                let Ok(answer) = fiber.throw.bind(py).call0() else { return };
                let Ok(pending) = answer.cast::<Pending>() else { return };
                if let Ok(wait) = pending.get().wait() {
                    wait.replace(Wait::Gone);
                }
            }
        });
    }
}
