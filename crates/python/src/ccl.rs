//! The settings of collectives, for programs that run them in Python.

use crate::error::exception;
use phalanx_sim::ipcq::{Backpressure, BufferKind, EdgeSpec};
use phalanx_torch::ccl::{Algorithm, CclConfig, Choice};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// Reads a `ccl.yaml` whose algorithms may be these modules of Python: the chosen algorithm, the settings of the defaults, and
/// those of each algorithm.
#[pyfunction]
pub(crate) fn read_ccl(
    py: Python<'_>,
    file: &str,
    text: &str,
    modules: Vec<String>,
) -> PyResult<Py<PyDict>> {
    let mut names = Algorithm::names();
    names.extend(modules.iter().map(String::as_str));
    let refused = |error| exception(py, "MachineError", format!("{error}").trim_end());
    let config = CclConfig::parse(file, text, &names).map_err(refused)?;
    let read = PyDict::new(py);
    let chosen = match config.default_choice() {
        Choice::Auto => "auto".to_owned(),
        Choice::Named(name) => name,
    };
    read.set_item("algorithm", chosen)?;
    read.set_item("defaults", edge(py, &config.edge())?)?;
    let algorithms = PyList::empty(py);
    for plan in config.plans(&names) {
        let settings = edge(py, &plan.edge)?;
        settings.set_item("name", &plan.name)?;
        settings.set_item("module", &plan.module)?;
        settings.set_item("n_elem", plan.n_elem)?;
        settings.set_item("topology", plan.topology.map(|kind| kind.name()))?;
        algorithms.append(settings)?;
    }
    read.set_item("algorithms", algorithms)?;
    Ok(read.unbind())
}

/// The settings of a queue.
fn edge<'py>(py: Python<'py>, edge: &EdgeSpec) -> PyResult<Bound<'py, PyDict>> {
    let settings = PyDict::new(py);
    settings.set_item("n_slots", edge.n_slots)?;
    settings.set_item("slot_size", edge.slot_size)?;
    settings.set_item("vc_chunk_size", edge.vc_chunk_size)?;
    settings.set_item("ipcq_credit_size_bytes", edge.ipcq_credit_size_bytes)?;
    let kind = if edge.buffer_kind == BufferKind::Hbm { "hbm" } else { "tcm" };
    settings.set_item("buffer_kind", kind)?;
    let polls = matches!(edge.backpressure, Backpressure::Poll(_));
    let pressure = if polls { "poll" } else { "sleep" };
    settings.set_item("backpressure", pressure)?;
    Ok(settings)
}
