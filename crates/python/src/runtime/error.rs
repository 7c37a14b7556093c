//! Errors of the runtime as Python exceptions. The classes are in `phalanx/runtime/_errors.py`.

use phalanx_runtime::{Error, RunError};
use pyo3::prelude::*;
use std::fmt;

/// Makes an exception of a class in `phalanx.runtime._errors`.
pub(crate) fn exception(py: Python<'_>, class: &str, text: impl fmt::Display) -> PyErr {
    let make = || -> PyResult<PyErr> {
        let class = py.import("phalanx.runtime._errors")?.getattr(class)?;
        Ok(PyErr::from_value(class.call1((text.to_string(),))?))
    };
    make().unwrap_or_else(|error| error)
}

/// The exception for `error`.
pub(crate) fn to_python(py: Python<'_>, error: &Error) -> PyErr {
    let class = match error {
        Error::Run(error) | Error::RunFailed(error) => {
            return run_error(py, error).unwrap_or_else(|error| error);
        }
        Error::Start(_) => "StartError",
        Error::Close { .. } => "CloseError",
        Error::Closed => "ClosedError",
        Error::TimedOut(_) => "WaitTimeoutError",
        Error::NoMemory(_) => "SharedMemoryError",
        _ => "WorkerError",
    };
    exception(py, class, error)
}

/// The exception of a run that failed.
fn run_error(py: Python<'_>, error: &RunError) -> PyResult<PyErr> {
    let failures: Vec<_> = error
        .failures()
        .iter()
        .map(|failure| {
            let name = failure.name.as_deref().map(str::to_owned);
            let task = failure.task.to_string();
            let (worker, words) = (failure.worker.clone(), failure.words.to_string());
            (task, failure.member, name, failure.callable, worker, words)
        })
        .collect();
    let report = error.report();
    let stall = error.stall().map(|stall| format!("{:?}", stall.class));
    let counts = (report.tasks, report.completed);
    let class = py.import("phalanx.runtime._errors")?.getattr("RunError")?;
    let made = class.call1((error.to_string(), failures, counts, stall))?;
    Ok(PyErr::from_value(made))
}

/// Maps an error of the runtime to Python.
pub(crate) trait OrRaise<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T, E: Into<Error>> OrRaise<T> for Result<T, E> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| to_python(py, &error.into()))
    }
}
