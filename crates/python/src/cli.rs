//! The `phalanx` program, as `python -m phalanx`.

use pyo3::prelude::*;
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the program with these arguments, its name first; `command` starts it again for the children of a node. Returns the exit
/// code.
#[pyfunction]
pub(crate) fn run_cli(py: Python<'_>, arguments: Vec<OsString>, command: Vec<OsString>) -> u8 {
    phalanx_runtime::start_children_by(command);
    let code = py.detach(|| phalanx_cli::main(arguments));
    (0..=u8::MAX).find(|number| ExitCode::from(*number) == code).unwrap_or(1)
}
