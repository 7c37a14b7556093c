//! Workers: their start, their memory, their reports and their end.

use super::error::{OrRaise, to_python};
use super::function::{Function, label, program};
use super::graph::{RuntimeGraph, seconds};
use super::tensor::{SharedBuffer, SharedTensor, dtype};
use super::{LOOK, aside};
use phalanx_runtime::{Budgets, Builder, Error, Failure, Lost, Worker, start_children_by};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyDict, PyList};
use std::ffi::OsString;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

/// The settings of a worker, as Python gives them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Settings {
    chips: u32,
    sub_workers: u32,
    memory: u64,
    slots: u32,
    slabs: u64,
    runs: usize,
    depth: usize,
    window: u64,
    /// Of the budgets, in the order of [`Budgets`].
    budgets: Option<[f64; 6]>,
    close_within: f64,
    recording: bool,
    restart: bool,
    device_ids: Option<Vec<u32>>,
    level: Option<u32>,
    workers: Vec<Settings>,
}

impl Settings {
    fn apply(&self, py: Python<'_>, builder: Builder) -> PyResult<Builder> {
        let mut builder = builder
            .chips(self.chips)
            .sub_workers(self.sub_workers)
            .memory(self.memory)
            .ring(self.slots, self.slabs)
            .runs(self.runs)
            .depth(self.depth)
            .window(self.window)
            .close_within(seconds(py, self.close_within)?);
        if let Some(limits) = self.budgets {
            let mut times = [Duration::ZERO; 6];
            for (time, limit) in times.iter_mut().zip(limits) {
                *time = seconds(py, limit)?;
            }
            let [progress, operation, wait, startup, harness, guard] = times;
            let budgets = Budgets { progress, operation, wait, startup, harness, guard };
            builder = builder.budgets(budgets);
        }
        if self.recording {
            builder = builder.recording();
        }
        if self.restart {
            builder = builder.restart();
        }
        if let Some(device_ids) = &self.device_ids {
            builder = builder.device_ids(device_ids);
        }
        if let Some(level) = self.level {
            builder = builder.level(level);
        }
        for child in &self.workers {
            let mut refused = None;
            let slot = std::cell::RefCell::new(&mut refused);
            builder = builder.workers(1, |below| match child.apply(py, below.clone()) {
                Ok(made) => made,
                Err(error) => {
                    **slot.borrow_mut() = Some(error);
                    below
                }
            });
            if let Some(error) = refused {
                return Err(error);
            }
        }
        Ok(builder)
    }
}

impl Drop for RuntimeWorker {
    /// Ends the processes of a worker that nobody has closed; other threads of Python go on meanwhile.
    fn drop(&mut self) {
        let worker = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if worker.is_some() {
            Python::attach(|py| py.detach(|| drop(worker)));
        }
    }
}

/// A worker with its processes.
#[pyclass(frozen, module = "phalanx._core")]
pub(crate) struct RuntimeWorker(RwLock<Option<Worker>>);

#[pymethods]
impl RuntimeWorker {
    /// Starts the processes by `command`; each is told `setting`.
    #[new]
    fn new(
        py: Python<'_>,
        settings: Settings,
        functions: Vec<PyRef<'_, Function>>,
        has_bootstrap: bool,
        setting: &[u8],
        command: Vec<OsString>,
    ) -> PyResult<Self> {
        start_children_by(command);
        // This interpreter knows what to do if it is started as a child.
        phalanx_runtime::serve_found([], |_| Err(Failure::new("nobody asks")));
        let callables: Vec<_> = functions.iter().map(|function| function.0).collect();
        let builder = Worker::builder(program(&callables, has_bootstrap));
        let builder = settings.apply(py, builder)?.setting(setting);
        let worker = aside(py, move || builder.init())?.or_raise(py)?;
        Ok(Self(RwLock::new(Some(worker))))
    }

    /// Begins a run.
    fn open(&self, py: Python<'_>, name: &str) -> PyResult<RuntimeGraph> {
        let label = label(name);
        loop {
            match self.with(py, |worker| worker.open(label, LOOK))? {
                Err(Error::TimedOut(_)) => py.check_signals()?,
                other => return other.or_raise(py).map(RuntimeGraph::new),
            }
        }
    }

    fn tensor(&self, py: Python<'_>, name: &str, shape: Vec<u64>) -> PyResult<SharedTensor> {
        let dtype = dtype(py, name)?;
        self.with(py, |worker| worker.tensor(dtype, &shape))?.or_raise(py).map(SharedTensor)
    }

    fn buffer(&self, py: Python<'_>, bytes: u64) -> PyResult<SharedBuffer> {
        self.with(py, |worker| worker.buffer(bytes))?.or_raise(py).map(SharedBuffer)
    }

    /// The bytes of a tensor without gaps.
    fn read<'py>(
        &self,
        py: Python<'py>,
        tensor: &SharedTensor,
        ordered: bool,
    ) -> PyResult<Bound<'py, PyByteArray>> {
        let read = self.with(py, |worker| {
            if ordered { worker.read::<u8>(&tensor.0) } else { worker.read_unordered(&tensor.0) }
        })?;
        Ok(PyByteArray::new(py, &read.or_raise(py)?))
    }

    /// Sets the bytes of a tensor without gaps.
    fn write(
        &self,
        py: Python<'_>,
        tensor: &SharedTensor,
        bytes: &[u8],
        ordered: bool,
    ) -> PyResult<()> {
        let written = self.with(py, |worker| {
            if ordered {
                worker.write(&tensor.0, bytes)
            } else {
                worker.write_unordered(&tensor.0, bytes)
            }
        })?;
        written.or_raise(py)
    }

    /// Ends all processes, within so many seconds if they are fewer than the worker's own limit.
    fn close(&self, py: Python<'_>, within: Option<f64>) -> PyResult<()> {
        let within = within.map_or(Ok(Duration::MAX), |within| seconds(py, within))?;
        let worker = py.detach(|| self.0.write().unwrap_or_else(PoisonError::into_inner).take());
        match worker {
            Some(worker) => aside(py, move || worker.close_within(within))?.or_raise(py),
            None => Ok(()),
        }
    }

    #[getter]
    fn closed(&self) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    #[getter]
    fn level(&self, py: Python<'_>) -> PyResult<u32> {
        self.with(py, Worker::level)
    }

    /// Each child: name, process, when it was spawned, began and was ready, in seconds; and the whole time.
    fn startup<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyList>, f64)> {
        let startup = self.with(py, |worker| worker.startup().clone())?;
        let children = PyList::empty(py);
        for child in startup.children {
            let times = [Some(child.spawned), child.bootstrapping, child.ready];
            let [spawned, began, ready] = times.map(|time| time.map(|time| time.as_secs_f64()));
            let row = (child.name, child.process, spawned, began, ready, child.descendants);
            children.append(row)?;
        }
        Ok((children, startup.total.as_secs_f64()))
    }

    fn lost(&self, py: Python<'_>) -> PyResult<Vec<(String, String)>> {
        Ok(in_words(self.with(py, Worker::lost)?))
    }

    fn replaced(&self, py: Python<'_>) -> PyResult<Vec<(String, String)>> {
        Ok(in_words(self.with(py, Worker::replaced)?))
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.with(py, Worker::stats)?;
        let dict = PyDict::new(py);
        dict.set_item("tasks", stats.tasks)?;
        dict.set_item("free_bytes", stats.free_bytes)?;
        dict.set_item("buffers", stats.buffers)?;
        dict.set_item("running", stats.running)?;
        dict.set_item("queued", stats.queued)?;
        dict.set_item("runs", stats.runs)?;
        Ok(dict)
    }

    /// Each chip: device id, rank, number of ranks, device context, bytes of its window, its buffers by name.
    fn chip_contexts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let contexts = self.with(py, |worker| worker.chip_contexts().to_vec())?;
        let list = PyList::empty(py);
        for chip in contexts {
            let buffers = PyDict::new(py);
            for (name, buffer) in chip.buffers {
                buffers.set_item(name, SharedBuffer(buffer))?;
            }
            let (window, context) = (chip.actual_window_size, chip.device_ctx);
            list.append((chip.device_id, chip.rank, chip.nranks, context, window, buffers))?;
        }
        Ok(list)
    }

    /// Names of workers, runs and tasks since the last call; times in nanoseconds.
    fn timeline<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let timeline = self.with(py, Worker::timeline)?;
        let (runs, tasks) = (PyList::empty(py), PyList::empty(py));
        for run in timeline.runs {
            runs.append((run.run.number(), run.label, run.begun, run.built, run.ended))?;
        }
        for task in timeline.tasks {
            let row = PyDict::new(py);
            row.set_item("run", task.run.number())?;
            row.set_item("task", task.task.to_string())?;
            row.set_item("member", task.member)?;
            row.set_item("name", task.name.as_deref())?;
            row.set_item("worker", task.worker)?;
            row.set_item("function", task.callable)?;
            row.set_item("begun", task.begun)?;
            row.set_item("ended", task.ended)?;
            row.set_item("simulated_ps", task.simulated)?;
            row.set_item("done", task.is_done)?;
            tasks.append(row)?;
        }
        let all = PyDict::new(py);
        all.set_item("workers", timeline.workers)?;
        all.set_item("runs", runs)?;
        all.set_item("tasks", tasks)?;
        Ok(all)
    }
}

fn in_words(lost: Vec<Lost>) -> Vec<(String, String)> {
    lost.into_iter().map(|one| (one.worker, one.words.into())).collect()
}

impl RuntimeWorker {
    fn with<T: Send>(&self, py: Python<'_>, act: impl FnOnce(&Worker) -> T + Send) -> PyResult<T> {
        let done =
            py.detach(|| self.0.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(act));
        done.ok_or_else(|| to_python(py, &Error::Closed))
    }
}
