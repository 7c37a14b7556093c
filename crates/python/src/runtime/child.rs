//! The side of a child: an interpreter that serves as a worker, and runs Python functions as tasks.
//!
//! An argument is an array over the shared memory; the map is Python's own, of the same descriptor, so that no pointer is passed to
//! Python. An argument that is used after its task raises an error; a task whose arrays outlive it fails, and the error
//! names them (ADR 29; `python/tests/test_workers.py`).

use super::domain::TaskDomain;
use super::error::{OrRaise, exception};
use super::function::{self, Function};
use super::graph::RuntimeGraph;
use super::tensor::{SharedTensor, dtype_name};
use super::{LOOK, tensor};
use phalanx_runtime::{
    Access, ArgumentSpan, Bootstrap, Copied, Data, Failure, Orchestrator, OwnedDomain, Progress,
    Task, serve_found, start_children_by,
};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyTuple};
use std::any::Any;
use std::ffi::OsString;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The Python side of a child.
struct Interpreter {
    functions: Vec<Py<PyAny>>,
    /// `phalanx.runtime._child`.
    module: Py<PyModule>,
    call: Py<PyAny>,
    /// One bit for each memory that Python has mapped.
    mapped: AtomicU64,
}

static INTERPRETER: OnceLock<Interpreter> = OnceLock::new();
static CURRENT: Mutex<Option<Arc<Running>>> = Mutex::new(None);
static DEVICE: Mutex<Option<Py<PyAny>>> = Mutex::new(None);

/// Serves if this interpreter was started as a worker. `prepare(setting)` returns the functions of the parent, each with the
/// object to call, and whether chips have a bootstrap. Returns the status with which the process is to end.
#[pyfunction]
pub(crate) fn serve_worker(
    py: Python<'_>,
    arguments: Vec<OsString>,
    command: Vec<OsString>,
    prepare: Py<PyAny>,
) -> Option<i32> {
    start_children_by(command);
    py.detach(|| serve_found(arguments, |setting| Python::attach(|py| find(py, &prepare, setting))))
}

/// The functions that a child has found.
type Found<'py> = (Vec<(PyRef<'py, Function>, Py<PyAny>)>, bool);

fn find(
    py: Python<'_>,
    prepare: &Py<PyAny>,
    setting: &[u8],
) -> Result<&'static phalanx_runtime::Program, Failure> {
    let find = || -> PyResult<&'static phalanx_runtime::Program> {
        let found = prepare.bind(py).call1((PyBytes::new(py, setting),))?;
        let (functions, has_bootstrap): Found<'_> = found.extract()?;
        let callables: Vec<_> = functions.iter().map(|(function, _)| function.0).collect();
        let functions = functions.into_iter().map(|(_, object)| object).collect();
        let module = py.import("phalanx.runtime._child")?;
        let call = module.getattr("call")?.unbind();
        let module = module.unbind();
        let mapped = AtomicU64::new(0);
        drop(INTERPRETER.set(Interpreter { functions, module, call, mapped }));
        Ok(function::program(&callables, has_bootstrap))
    };
    find().map_err(|error| failure(py, error))
}

/// The failure of code that raised: the exception and its traceback. `SystemExit` ends the process.
fn failure(py: Python<'_>, error: PyErr) -> Failure {
    let value = error.into_value(py);
    let words = py
        .import("phalanx.runtime._child")
        .and_then(|module| module.call_method1("describe", (value.bind(py),)))
        .and_then(|words| words.extract::<String>());
    Failure::told(words.unwrap_or_else(|error| error.to_string()))
}

fn interpreter() -> Result<&'static Interpreter, Failure> {
    INTERPRETER.get().ok_or_else(|| Failure::new("this process is no worker of Python"))
}

/// A task that runs.
pub(crate) struct Running {
    is_over: AtomicBool,
    member: usize,
    members: usize,
    progress: Progress,
    simulated: AtomicU64,
    domains: Vec<Arc<OwnedDomain>>,
}

impl Running {
    fn of(task: &Task<'_>) -> Result<Self, Failure> {
        let domains = (0..task.domain_count()).map(|index| task.owned_domain(index).map(Arc::new));
        Ok(Self {
            is_over: AtomicBool::new(false),
            member: task.member(),
            members: task.members(),
            progress: task.progress_of(),
            simulated: AtomicU64::new(0),
            domains: domains.collect::<Result<_, _>>()?,
        })
    }

    /// True if the task has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }
}

/// Makes a task the one that runs, and ends it.
struct AsCurrent(Arc<Running>);

impl AsCurrent {
    fn new(running: Running) -> Self {
        let running = Arc::new(running);
        *CURRENT.lock().unwrap_or_else(PoisonError::into_inner) = Some(running.clone());
        Self(running)
    }
}

impl Drop for AsCurrent {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
        *CURRENT.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Runs a Python function as a task.
pub(crate) fn run_task(task: &mut Task<'_>) -> Result<(), Failure> {
    let interpreter = interpreter()?;
    Python::attach(|py| {
        let function = function_of(interpreter, task)?;
        let current = AsCurrent::new(Running::of(task)?);
        let is_plain = task.argument_count() == 0 && task.bytes().is_empty();
        let result = if is_plain {
            function.call0(py).map(drop)
        } else {
            let (positions, data) = positions(py, interpreter, task, &current.0)?;
            let blob = PyBytes::new(py, task.bytes());
            let result = interpreter.call.call1(py, (function, positions, blob)).map(drop);
            drop(data);
            result
        };
        let simulated = current.0.simulated.load(Ordering::Relaxed);
        drop(current);
        task.simulated(simulated);
        result.map_err(|error| {
            let cut = cut_off(py, interpreter, task, &error);
            let failure = failure(py, error);
            cut.map_or_else(|error| self::failure(py, error), |()| failure)
        })
    })
}

/// Cuts the arrays off that outlive their task: they show private memory from here on, and the memory is mapped anew.
fn cut_off(
    py: Python<'_>,
    interpreter: &Interpreter,
    task: &Task<'_>,
    error: &PyErr,
) -> PyResult<()> {
    /// Memory, address of its map, and the ranges that are kept.
    type Kept = Vec<(usize, usize, Vec<(usize, usize)>)>;
    let Some(kept) = error.value(py).getattr_opt("kept")? else { return Ok(()) };
    for (memory, address, ranges) in kept.extract::<Kept>()? {
        let ranges: Vec<_> = ranges.into_iter().map(|(start, end)| start..end).collect();
        task.sever(memory, address, &ranges)?;
        interpreter.mapped.fetch_and(!bit(memory), Ordering::Relaxed);
    }
    Ok(())
}

/// The bit of a memory.
fn bit(memory: usize) -> u64 {
    1 << (memory % 64)
}

fn function_of(
    interpreter: &'static Interpreter,
    task: &Task<'_>,
) -> Result<&'static Py<PyAny>, Failure> {
    let found = interpreter.functions.get(task.callable());
    found.ok_or_else(|| Failure::new("the function of this task is not known here"))
}

/// Returns the arguments for Python (the position of each array, or a handle if it is only copied), and the grants to
/// see them in place.
fn positions<'py, 't>(
    py: Python<'py>,
    interpreter: &Interpreter,
    task: &mut Task<'t>,
    running: &Arc<Running>,
) -> Result<(Bound<'py, PyTuple>, Vec<Data<'t>>), Failure> {
    let count = task.argument_count();
    let (mut positions, mut data) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for index in 0..count {
        let span = task.argument_span(index)?;
        let argument = task.argument(index)?;
        let object = if span.is_in_place {
            map(py, interpreter, task, span.memory).map_err(|error| failure(py, error))?;
            tuple(py, &span)
        } else {
            let (running, copied) = (running.clone(), argument.copied());
            Py::new(py, CopiedArgument { running, copied }).map(|it| it.into_bound(py).into_any())
        };
        positions.push(object.map_err(|error| failure(py, error))?);
        data.push(argument);
    }
    let positions = PyTuple::new(py, positions).map_err(|error| failure(py, error))?;
    Ok((positions, data))
}

/// Lets Python map a memory, if it has not.
fn map(py: Python<'_>, interpreter: &Interpreter, task: &Task<'_>, memory: usize) -> PyResult<()> {
    let bit = bit(memory);
    if interpreter.mapped.load(Ordering::Relaxed) & bit != 0 {
        return Ok(());
    }
    if let Some((descriptor, bytes)) = task.memory(memory) {
        let arguments = (memory, descriptor.as_raw_fd(), bytes);
        interpreter.module.bind(py).call_method1("map_memory", arguments)?;
        interpreter.mapped.fetch_or(bit, Ordering::Relaxed);
    }
    Ok(())
}

/// The memory of an argument: its number, first byte, byte behind the last, type, shape, strides in bytes or `None`, and if it may be
/// written.
fn tuple<'py>(py: Python<'py>, span: &ArgumentSpan) -> PyResult<Bound<'py, PyAny>> {
    let ArgumentSpan { memory, start, layout, access, .. } = span;
    let element = layout.dtype.bytes();
    let shape = PyTuple::new(py, layout.shape())?;
    let strides = if layout.is_dense() {
        None
    } else {
        Some(PyTuple::new(py, layout.strides().iter().map(|stride| stride * element))?)
    };
    let bytes = reach(layout.shape(), layout.strides()) * element;
    let (end, is_written) = (start + bytes, *access != Access::Read);
    let parts = (*memory, *start, end, layout.dtype as u8, shape, strides, is_written);
    Ok(parts.into_pyobject(py)?.into_any())
}

/// The elements from the first to behind the last.
fn reach(shape: &[u64], strides: &[u64]) -> u64 {
    if shape.contains(&0) {
        return 0;
    }
    shape.iter().zip(strides).map(|(count, stride)| (count - 1) * stride).sum::<u64>() + 1
}

/// Runs a Python function as a graph on the workers of this worker.
pub(crate) fn run_graph(graph: &mut Orchestrator<'_>, task: &mut Task<'_>) -> Result<(), Failure> {
    let interpreter = interpreter()?;
    Python::attach(|py| {
        let function = function_of(interpreter, task)?;
        let mut tensors = Vec::with_capacity(task.argument_count());
        for index in 0..task.argument_count() {
            tensors.push(SharedTensor(task.tensor(index)?));
        }
        let current = AsCurrent::new(Running::of(task)?);
        let open = RuntimeGraph::new(graph.to_open(LOOK));
        let result = Py::new(py, open).and_then(|open| {
            let blob = PyBytes::new(py, task.bytes());
            let arguments = (function, open.clone_ref(py), tensors, blob);
            let result = interpreter.module.bind(py).call_method1("call_graph", arguments);
            open.get().leave(py);
            result.map(drop)
        });
        drop(current);
        result.map_err(|error| failure(py, error))
    })
}

/// The buffers that a bootstrap has named: their sizes and first bytes.
type Named = Vec<(String, u64, Option<Vec<u8>>)>;

/// Sets a chip up with the Python function of the parent.
pub(crate) fn bootstrap(chip: &mut Bootstrap<'_>) -> Result<Box<dyn Any + Send>, Failure> {
    let interpreter = interpreter()?;
    let (device, context, buffers) = Python::attach(|py| {
        let known = (chip.device_id(), chip.rank(), chip.nranks(), chip.window_bytes());
        let made = interpreter.module.bind(py).call_method1("bootstrap", known);
        let made = made.and_then(|made| made.extract::<(Py<PyAny>, u64, Named)>());
        made.map_err(|error| failure(py, error))
    })?;
    chip.device_ctx(context);
    for (name, bytes, first) in buffers {
        chip.buffer(&name, bytes)?;
        if let Some(first) = first {
            chip.write(&name, &first)?;
        }
    }
    *DEVICE.lock().unwrap_or_else(PoisonError::into_inner) = Some(device);
    Ok(Box::new(DeviceGuard))
}

/// Gives the device back with its worker.
struct DeviceGuard;

impl Drop for DeviceGuard {
    fn drop(&mut self) {
        let device = DEVICE.lock().unwrap_or_else(PoisonError::into_inner).take();
        Python::attach(|_| drop(device));
    }
}

/// The task that runs in this process, if one does.
#[pyfunction]
pub(crate) fn current_task() -> Option<RunningTask> {
    let current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
    current.as_ref().map(|running| RunningTask(running.clone()))
}

/// A task that runs, for its function.
#[pyclass(frozen, module = "phalanx._core")]
pub(crate) struct RunningTask(Arc<Running>);

#[pymethods]
impl RunningTask {
    #[getter]
    fn member(&self) -> usize {
        self.0.member
    }

    #[getter]
    fn members(&self) -> usize {
        self.0.members
    }

    #[getter]
    fn over(&self) -> bool {
        self.0.is_over()
    }

    #[getter]
    fn device(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let device = DEVICE.lock().unwrap_or_else(PoisonError::into_inner);
        device.as_ref().filter(|_| !self.0.is_over()).map(|device| device.clone_ref(py))
    }

    fn progress(&self) {
        if !self.0.is_over() {
            self.0.progress.report();
        }
    }

    fn simulated(&self, picoseconds: u64) {
        self.0.simulated.fetch_add(picoseconds, Ordering::Relaxed);
    }

    fn domain(&self, py: Python<'_>, index: usize) -> PyResult<TaskDomain> {
        let domains = &self.0.domains;
        let Some(domain) = domains.get(index) else {
            let text = format!("domain {index} is wanted, {} were given", domains.len());
            return Err(exception(py, "WorkerError", text));
        };
        Ok(TaskDomain { running: self.0.clone(), domain: domain.clone() })
    }
}

/// An argument that is only copied: it has no order, or peers can reach it.
#[pyclass(frozen, module = "phalanx._core")]
pub(crate) struct CopiedArgument {
    running: Arc<Running>,
    copied: Copied,
}

#[pymethods]
impl CopiedArgument {
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.copied.layout().shape())
    }

    #[getter]
    fn dtype(&self) -> &'static str {
        dtype_name(self.copied.layout().dtype)
    }

    /// Copies of its elements in row-major order, as bytes.
    fn read<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyByteArray>> {
        self.check(py)?;
        let bytes = tensor::read_bytes(&self.copied);
        bytes.map(|bytes| PyByteArray::new(py, &bytes)).map_err(runtime_error).or_raise(py)
    }

    /// Sets its elements from bytes in row-major order.
    fn write(&self, py: Python<'_>, bytes: &[u8]) -> PyResult<()> {
        self.check(py)?;
        tensor::write_bytes(&self.copied, bytes).map_err(runtime_error).or_raise(py)
    }
}

fn runtime_error(error: phalanx_runtime::DataError) -> phalanx_runtime::Error {
    phalanx_runtime::Error::Setting(error.to_string())
}

impl CopiedArgument {
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        if !self.running.is_over() {
            return Ok(());
        }
        let text = "the task of this argument has ended: its memory is another task's";
        Err(exception(py, "WorkerError", text))
    }
}
