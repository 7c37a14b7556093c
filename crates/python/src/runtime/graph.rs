//! Graphs that Python code builds, and their runs.

use super::LOOK;
use super::domain::Domain;
use super::error::{OrRaise, exception, to_python};
use super::function::{Function, label};
use super::tensor::{SharedArgument, SharedTensor, dtype};
use phalanx_runtime::{
    Call, DType, DomainSpec, Error, Failure, Finished, OpenRun, Orchestrator, RunHandle, Target,
    TaskId,
};
use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Number of a target: any sub worker.
const SUB: i64 = -1;
/// Number of a target: any worker of the next level.
const ANY: i64 = -2;

/// A task that was submitted.
#[pyclass(frozen, module = "phalanx._core")]
pub(crate) struct SubmittedTask(TaskId);

#[pymethods]
impl SubmittedTask {
    fn __repr__(&self) -> String {
        self.0.to_string()
    }
}

/// A call with everything that a submission needs.
#[pyclass(frozen, module = "phalanx._core")]
pub(crate) struct RuntimeCall(Call);

/// The order and the manners of a call, as Python gives them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Manners<'py> {
    after: Vec<PyRef<'py, SubmittedTask>>,
    domains: Vec<PyRef<'py, Domain>>,
    priority: u8,
    name: Option<String>,
    expected: Option<f64>,
    unordered: bool,
    idempotent: bool,
}

#[pymethods]
impl RuntimeCall {
    #[new]
    fn new(
        py: Python<'_>,
        function: &Function,
        arguments: Vec<PyRef<'_, SharedArgument>>,
        blob: Option<&[u8]>,
        manners: Option<Manners<'_>>,
    ) -> PyResult<Self> {
        let mut call = call(function, &arguments, blob);
        let Some(manners) = manners else { return Ok(Self(call)) };
        let after: Vec<TaskId> = manners.after.iter().map(|task| task.0).collect();
        call = call.after(&after).priority(manners.priority);
        for domain in &manners.domains {
            call = call.domain(&domain.0);
        }
        if let Some(name) = manners.name {
            call = call.named(name);
        }
        if let Some(expected) = manners.expected {
            call = call.expected(seconds(py, expected)?);
        }
        if manners.unordered {
            call = call.unordered();
        }
        Ok(Self(if manners.idempotent { call.idempotent() } else { call }))
    }
}

fn call(function: &Function, arguments: &[PyRef<'_, SharedArgument>], blob: Option<&[u8]>) -> Call {
    let call = Call::new(&function.0).args(arguments.iter().map(|argument| argument.0.clone()));
    match blob {
        Some(blob) => call.bytes(blob),
        None => call,
    }
}

/// A number of seconds as a time; refuses numbers that are none.
pub(crate) fn seconds(py: Python<'_>, number: f64) -> PyResult<Duration> {
    if number.is_infinite() && number > 0.0 {
        return Ok(Duration::MAX);
    }
    Duration::try_from_secs_f64(number).map_err(|_| {
        exception(py, "WorkerError", format!("a time is a number of seconds, at least 0: {number}"))
    })
}

/// A graph while it is built.
#[pyclass(frozen, module = "phalanx._core")]
pub(crate) struct RuntimeGraph(Mutex<Option<OpenRun>>);

#[pymethods]
impl RuntimeGraph {
    /// Submits a call of a function: to chip `target`, to any sub worker (-1), or to any of the next level (-2).
    #[pyo3(signature = (target, function, arguments, blob=None))]
    fn submit(
        &self,
        py: Python<'_>,
        target: i64,
        function: &Function,
        arguments: Vec<PyRef<'_, SharedArgument>>,
        blob: Option<&[u8]>,
    ) -> PyResult<SubmittedTask> {
        let call = call(function, &arguments, blob);
        self.step(py, |graph| submit(graph, target, &call)).map(SubmittedTask)
    }

    fn submit_call(
        &self,
        py: Python<'_>,
        target: i64,
        call: &RuntimeCall,
    ) -> PyResult<SubmittedTask> {
        self.step(py, |graph| submit(graph, target, &call.0)).map(SubmittedTask)
    }

    /// Submits one call to each of these chips, or to any sub workers if there are no chips.
    fn submit_group(
        &self,
        py: Python<'_>,
        chips: Option<Vec<u32>>,
        calls: Vec<PyRef<'_, RuntimeCall>>,
    ) -> PyResult<SubmittedTask> {
        let calls: Vec<Call> = calls.iter().map(|call| call.0.clone()).collect();
        let task = match chips {
            None => self.step(py, |graph| graph.submit_sub_group(&calls)),
            Some(chips) => {
                let calls: Vec<(u32, Call)> = chips.into_iter().zip(calls).collect();
                self.step(py, |graph| graph.submit_next_level_group(&calls))
            }
        };
        task.map(SubmittedTask)
    }

    #[pyo3(name = "alloc")]
    fn allocate(&self, py: Python<'_>, name: &str, shape: Vec<u64>) -> PyResult<SharedTensor> {
        let dtype = dtype(py, name)?;
        self.step(py, |graph| graph.alloc(dtype, &shape)).map(SharedTensor)
    }

    fn open_scope(&self, py: Python<'_>, name: &str, manual: bool) -> PyResult<()> {
        self.with(py, |run| run.open_scope(label(name), manual))?.or_raise(py)
    }

    fn close_scope(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, OpenRun::close_scope)?.or_raise(py)
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.step(py, |graph| {
            graph.flush();
            Ok(())
        })
    }

    #[getter]
    fn chips(&self, py: Python<'_>) -> PyResult<u32> {
        self.step(py, |graph| Ok(graph.chips()))
    }

    fn allocate_domain(
        &self,
        py: Python<'_>,
        name: &str,
        chips: Vec<u32>,
        window: u64,
        buffers: Vec<(String, String, Vec<u64>)>,
        signals: u32,
    ) -> PyResult<Domain> {
        let mut parts: Vec<(&str, DType, &[u64])> = Vec::with_capacity(buffers.len());
        for (name, its, shape) in &buffers {
            parts.push((name, dtype(py, its)?, shape));
        }
        let spec = DomainSpec { name, chips: &chips, window, buffers: &parts, signals };
        self.step(py, |graph| graph.allocate_domain(&spec)).map(Domain)
    }

    /// Ends the graph. With words its code has failed, and its tasks are cancelled.
    fn finish(&self, py: Python<'_>, failure: Option<String>) -> PyResult<Option<Run>> {
        let run = self.lock().take();
        let run = run.ok_or_else(|| built(py))?;
        let failure = failure.map(Failure::told);
        Ok(py.detach(|| run.finish(failure.as_ref())).map(Run))
    }
}

fn submit(graph: &mut Orchestrator<'_>, target: i64, call: &Call) -> Result<TaskId, Error> {
    match (target, u32::try_from(target)) {
        (SUB, _) => graph.submit_sub(call),
        (ANY, _) => graph.submit_next_level(Target::Any, call),
        (_, Ok(chip)) => graph.submit_next_level(Target::Chip(chip), call),
        (_, Err(_)) => Err(Error::NoChip { chip: u32::MAX, chips: graph.chips() }),
    }
}

fn built(py: Python<'_>) -> PyErr {
    exception(py, "WorkerError", "the code of this graph has returned: submit to a new run")
}

impl RuntimeGraph {
    pub(crate) fn new(run: OpenRun) -> Self {
        Self(Mutex::new(Some(run)))
    }

    /// Ends a graph that is not of this process: what is submitted from here on is refused.
    pub(crate) fn leave(&self, py: Python<'_>) {
        let run = self.lock().take();
        py.detach(|| drop(run));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<OpenRun>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&mut OpenRun) -> T + Send,
    ) -> PyResult<T> {
        py.detach(|| self.lock().as_mut().map(act)).ok_or_else(|| built(py))
    }

    /// Does one step as often as there is no room for it, and looks at Python's signals in between.
    fn step<T: Send>(
        &self,
        py: Python<'_>,
        act: impl Fn(&mut Orchestrator<'_>) -> Result<T, Error> + Send + Sync,
    ) -> PyResult<T> {
        loop {
            match self.with(py, |run| run.step(&act))? {
                Err(Error::TimedOut(_)) => py.check_signals()?,
                other => return other.or_raise(py),
            }
        }
    }
}

/// A run that was submitted.
#[pyclass(frozen, module = "phalanx._core", name = "RuntimeRun")]
pub(crate) struct Run(RunHandle);

/// Counts and durations of a run: tasks, completed, work and critical path in nanoseconds, unordered, simulated picoseconds.
type Figures = (u64, u64, u64, u64, u64, u64);

fn figures(finished: &Finished) -> Figures {
    let report = finished.report;
    let counts = (report.tasks, report.completed, report.work, report.critical);
    (counts.0, counts.1, counts.2, counts.3, report.unordered, finished.simulated)
}

#[pymethods]
impl Run {
    /// Waits for its end, at most `timeout` seconds.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Figures> {
        let limit = timeout.map(|timeout| seconds(py, timeout)).transpose()?;
        let begun = std::time::Instant::now();
        loop {
            let left = limit.map(|limit| limit.saturating_sub(begun.elapsed()));
            let slice = left.map_or(LOOK, |left| left.min(LOOK));
            match py.detach(|| self.0.wait_for(slice)) {
                Ok(finished) => return Ok(figures(&finished)),
                Err(Error::TimedOut(_)) if left.is_none_or(|left| left > slice) => {}
                Err(Error::TimedOut(_)) => {
                    let timed_out = Error::TimedOut(limit.unwrap_or(slice));
                    return Err(to_python(py, &timed_out));
                }
                Err(error) => return Err(to_python(py, &error)),
            }
            py.check_signals()?;
        }
    }

    #[getter]
    fn done(&self, py: Python<'_>) -> bool {
        py.detach(|| self.0.is_done())
    }

    fn cancel(&self, py: Python<'_>) {
        py.detach(|| self.0.cancel());
    }
}
