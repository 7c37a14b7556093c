//! Sweeps for Python: a workload at many points.

use crate::error::exception;
use crate::machine::MachineSpec;
use phalanx_sim::config;
use phalanx_torch::ccl::tuner::use_threads;
use phalanx_workloads::sweep::{Axis, MachineText, Sweep, sample};
use phalanx_workloads::{find, suggestion};
use pyo3::prelude::*;
use std::num::NonZero;

/// Names and values, the simulated time in picoseconds, and the error.
type PointRow = (Vec<(String, String)>, Option<u64>, Option<String>);

/// Runs a workload at all combinations of machines and of the values of `axes` (or at `count` of them), on `jobs` threads.
#[pyfunction]
#[pyo3(signature = (workload, machines, axes, count, seed, data, jobs))]
#[expect(clippy::too_many_arguments, reason = "the keywords of the Python function")]
pub(crate) fn run_sweep(
    py: Python<'_>,
    workload: &str,
    machines: Vec<PyRef<'_, MachineSpec>>,
    axes: Vec<(String, Vec<String>)>,
    count: Option<usize>,
    seed: u64,
    data: bool,
    jobs: Option<NonZero<usize>>,
) -> PyResult<Vec<PointRow>> {
    let workload = find(workload).ok_or_else(|| {
        let near = suggestion(workload)
            .map_or_else(String::new, |near| format!(": did you mean `{near}`?"));
        exception(py, "ArgumentError", format!("no workload named `{workload}`{near}"))
    })?;
    let text = |machine: &PyRef<'_, MachineSpec>| MachineText {
        file: machine.0.name.clone(),
        text: config::to_yaml(&machine.0),
    };
    let mut sweep = Sweep::new(workload, machines.iter().map(text).collect());
    sweep.axes = axes.into_iter().map(|(name, values)| Axis { name, values }).collect();
    sweep.data = data;
    let wrong = |error: &dyn std::fmt::Display| exception(py, "ArgumentError", error.to_string());
    let points = sweep.grid().map_err(|error| wrong(&error))?;
    let points = count.map_or(points.clone(), |count| sample(points, count, seed));
    sweep.check(&points).map_err(|error| wrong(&error))?;
    let cores = || std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    let jobs = jobs.unwrap_or_else(cores);
    use_threads(NonZero::<usize>::MIN);
    let rows = py.detach(|| sweep.run(&points, jobs.get()));
    let rows = rows.into_iter().map(|row| {
        let machine =
            sweep.machine_name(&row.point).map(|name| ("machine".to_owned(), name.to_owned()));
        let settings = machine.into_iter().chain(row.point.settings.clone()).collect();
        (settings, row.time().map(phalanx_sim::Time::as_ps), row.outcome.err())
    });
    Ok(rows.collect())
}
