//! Workers for Python: the task runtime of `phalanx-runtime`, whose callables are Python functions.
//!
//! ```text
//!   parent                              child: the interpreter, executed again
//!   Worker ── Call, Argument ──►        find the functions by name ([`child`])
//!   Graph     [`graph`]        ──►      arrays over the shared memory, call, release
//! ```
//!
//! Names, documentation and types are in `python/phalanx/runtime`.

pub(crate) mod child;
pub(crate) mod domain;
mod error;
pub(crate) mod function;
pub(crate) mod graph;
pub(crate) mod tensor;
pub(crate) mod worker;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Time between two looks at Python's signals.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// Runs `act` on a thread of its own, and looks at Python's signals meanwhile. After an exception of a handler nobody waits for it.
fn aside<T: Send + 'static>(
    py: Python<'_>,
    act: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (sender, mut receiver) = mpsc::channel();
    std::thread::Builder::new().name("phalanx-aside".to_owned()).spawn(move || {
        // Nobody listens any more after an interrupt.
        drop(sender.send(act()));
    })?;
    loop {
        let result;
        (result, receiver) = py.detach(move || (receiver.recv_timeout(LOOK), receiver));
        match result {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("a thread of phalanx has panicked"));
            }
        }
    }
}
