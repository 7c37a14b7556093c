//! Errors of Rust as Python exceptions. The classes are in `phalanx/errors.py`.

use phalanx_sim::machine::RunError;
use phalanx_torch::Error;
use pyo3::prelude::*;
use std::fmt;

/// A Python exception as the error of a rank or a kernel: the same object comes back.
pub(crate) struct Raised(PyErr);

impl Raised {
    pub(crate) fn new(error: PyErr) -> Self {
        Self(error)
    }

    /// Returns the exception.
    pub(crate) fn exception(&self, py: Python<'_>) -> PyErr {
        self.0.clone_ref(py)
    }
}

impl fmt::Debug for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Python::attach(|py| {
            let value = self.0.value(py);
            let name = value.get_type().qualname().map_or_else(|_| "error".into(), |name| name.to_string());
            match value.str() {
                Ok(text) if !text.to_string().is_empty() => write!(f, "{name}: {text}"),
                _ => write!(f, "{name}"),
            }
        })
    }
}

impl std::error::Error for Raised {}

/// Makes an exception of a class in `phalanx.errors`.
pub(crate) fn exception(py: Python<'_>, class: &str, text: impl fmt::Display) -> PyErr {
    let make = || -> PyResult<PyErr> {
        let class = py.import("phalanx.errors")?.getattr(class)?;
        Ok(PyErr::from_value(class.call1((text.to_string(),))?))
    };
    make().unwrap_or_else(|error| error)
}

/// The exception that a rank's program gets for `error`.
pub(crate) fn to_python(py: Python<'_>, error: &Error) -> PyErr {
    if let Some(raised) = error.downcast_ref::<Raised>() {
        return raised.exception(py);
    }
    let made = exception(py, class_of(error.root()), error);
    if let Some(cause) = cause_of(error.root()) {
        made.set_cause(py, Some(cause.exception(py)));
    }
    made
}

/// The user's exception at the root of an error.
fn cause_of(error: &Error) -> Option<&Raised> {
    error.downcast_ref::<Raised>()
}

fn class_of(error: &Error) -> &'static str {
    match error {
        Error::Memory(_) => "DeviceMemoryError",
        Error::Run(RunError::Kernel { .. }) => "KernelError",
        Error::Argument(_) => "ArgumentError",
        Error::Mismatch(_) => "MismatchError",
        Error::Unreceived { .. } => "UnreceivedError",
        Error::ReplicasDiffer { .. } => "ReplicasDifferError",
        Error::NoData(_) => "NoDataError",
        Error::Panic(_) => "InternalError",
        _ => "PhalanxError",
    }
}

/// Maps the error of a rank's operation to Python.
pub(crate) trait OrRaise<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for Result<T, Error> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| to_python(py, &error))
    }
}
