//! Errors of Rust as Python exceptions. The classes are in `phalanx/errors.py`.

use phalanx_sim::Foreign;
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

    /// Returns the exception in words: its type and its text, or the text alone if it is one of this package.
    pub(crate) fn words(&self) -> String {
        Python::attach(|py| {
            let value = self.0.value(py);
            let text = value.str().map_or_else(|_| String::new(), |text| text.to_string());
            let own = py.import("phalanx.errors").and_then(|module| module.getattr("PhalanxError"));
            if !text.is_empty() && own.is_ok_and(|own| value.is_instance(&own).unwrap_or(false)) {
                return text;
            }
            let name = value
                .get_type()
                .qualname()
                .map_or_else(|_| "error".into(), |name| name.to_string());
            if text.is_empty() { name } else { format!("{name}: {text}") }
        })
    }

    /// Returns the exception.
    pub(crate) fn exception(&self, py: Python<'_>) -> PyErr {
        self.0.clone_ref(py)
    }
}

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
    let raised = error.foreign().and_then(Foreign::downcast_ref::<Raised>);
    if let (Error::Foreign(_), Some(raised)) = (error, raised) {
        return raised.exception(py);
    }
    let made = exception(py, class_of(error.root()), error);
    if let Some(cause) = raised {
        made.set_cause(py, Some(cause.exception(py)));
    }
    made
}

/// A Python exception as the error of a rank.
impl From<Raised> for Error {
    fn from(raised: Raised) -> Self {
        Foreign::new(raised.words(), raised).into()
    }
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
        Error::Missing { .. } => "MissingRanksError",
        Error::Desync(_) => "StuckError",
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
