//! Contexts: a machine and the programs that run on it.

mod native;

use crate::error::{OrRaise, Raised, exception, to_python};
use crate::fiber::{Pending, Program, is_over};
use crate::interrupt::Interrupt;
use crate::kernel::Algorithm;
use crate::machine::MachineSpec;
use crate::one_thread::OneThread;
use crate::rank::Rank;
use crate::report::Report;
use phalanx_sim::executor::Sim;
use phalanx_sim::machine::Options;
use phalanx_sim::{Evaluator, Time};
use phalanx_torch::ccl::{Algorithm as BuiltIn, CclConfig};
use phalanx_torch::multiprocessing::{SpawnError, spawn};
use phalanx_torch::{Error, Pool};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::task::Poll;

/// A machine with its ranks.
#[pyclass(frozen, module = "phalanx._core")]
pub(crate) struct Context(OneThread<State>);

struct State {
    /// The object is on the heap, as all of Python's: a greenlet may copy the stack of the hub aside.
    context: RefCell<Option<phalanx_torch::Context>>,
    sim: Sim,
    interrupt: Arc<Interrupt>,
}

/// The settings of a context, as Python gives them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
struct Settings {
    data: bool,
    strict: bool,
    record: bool,
    critical_path: bool,
    /// That compute numbers: a pool that all contexts share, unless told.
    threads: Option<usize>,
    /// The name and the text of a `ccl.yaml`.
    ccl: Option<(String, String)>,
}

impl Settings {
    fn options(&self) -> Options {
        let Self { data, strict, record, critical_path, .. } = *self;
        let mut options = Options { data, strict, record, critical_path, ..Options::default() };
        match self.threads {
            Some(0 | 1) => {}
            Some(threads) => options.evaluator = Arc::new(Pool::new(threads)),
            None => options.evaluator = pool(),
        }
        options
    }
}

/// The results of all ranks, or their failure.
type SpawnResult = (Option<Vec<Py<PyAny>>>, Option<Py<PyDict>>);

/// The threads that compute numbers for all contexts.
fn pool() -> Arc<dyn Evaluator> {
    static POOL: OnceLock<Arc<Pool>> = OnceLock::new();
    let threads = || std::thread::available_parallelism().map_or(1, |count| count.get().min(8));
    POOL.get_or_init(|| Arc::new(Pool::new(threads()))).clone()
}

#[pymethods]
impl Context {
    #[new]
    fn new(
        py: Python<'_>,
        machine: &MachineSpec,
        settings: Settings,
        algorithms: Vec<Py<Algorithm>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let mut options = settings.options();
        let interrupt = Arc::new(Interrupt::new(progress));
        let asked = interrupt.clone();
        options.interrupt = Some(Arc::new(move || asked.is_wanted()));
        let mut context = phalanx_torch::Context::new(machine.0.clone(), options);
        for algorithm in &algorithms {
            context = context.with_algorithm(algorithm.get().in_python());
        }
        if let Some((file, text)) = settings.ccl {
            let mut names = BuiltIn::names();
            names.extend(algorithms.iter().map(|algorithm| algorithm.get().name()));
            let config = CclConfig::parse(&file, &text, &names);
            let refused = |error| exception(py, "MachineError", format!("{error}").trim_end());
            context = context.with_ccl(config.map_err(refused)?);
        }
        let sim = context.machine().host(0).sim().clone();
        interrupt.watch(sim.clone());
        let context = RefCell::new(Some(context));
        Ok(Self(OneThread::new(State { context, sim, interrupt })))
    }

    /// Runs programs of so many ranks. `begin(rank)`, called in this greenlet, starts the program of a rank. Returns the results and
    /// `None`, or `None` and the failure.
    fn spawn(&self, py: Python<'_>, ranks: usize, begin: Py<PyAny>) -> PyResult<SpawnResult> {
        let ended = self.with(py, |context| {
            let begin = Rc::new(begin);
            spawn(context, ranks, move |_, cx| {
                let program = Python::attach(|py| bind(py, &begin, cx));
                async move {
                    let program = program.map_err(|error| Error::from(Raised::new(error)))?;
                    program.await.map_err(Error::from)
                }
            })
        })?;
        if let Some(error) = self.0.get()?.interrupt.end(py) {
            return Err(error);
        }
        match ended {
            Ok(results) => Ok((Some(results), None)),
            Err(error) => Ok((None, Some(failure(py, &error)?))),
        }
    }

    /// The ranks of a main program.
    fn ranks(&self, py: Python<'_>, count: usize) -> PyResult<Vec<Rank>> {
        let ranks = self.with(py, |context| context.ranks(count))?.or_raise(py)?;
        Ok(ranks.into_iter().map(Rank::new).collect())
    }

    /// Drives time until an operation of a rank is over.
    fn drive(&self, py: Python<'_>, rank: &Rank, pending: &Pending) -> PyResult<()> {
        let (rank, wait) = (rank.get()?.clone(), pending.wait()?);
        let over =
            poll_fn(move |_| if is_over(&wait) { Poll::Ready(Ok(())) } else { Poll::Pending });
        let ended = self.with(py, |context| context.block_on(&rank, over))?;
        self.finish(py, ended)
    }

    /// Drives time until `picoseconds`; false if nothing is left to do before.
    fn drive_to(&self, py: Python<'_>, picoseconds: u64) -> PyResult<bool> {
        let ended = self.with(py, |context| context.drive_to(Time::ps(picoseconds)))?;
        self.finish(py, ended)
    }

    /// Drives time until nothing is left to do.
    fn drain(&self, py: Python<'_>) -> PyResult<()> {
        let ended = self.with(py, phalanx_torch::Context::drain)?;
        self.finish(py, ended)
    }

    /// Cancels everything that is under way. Tensors and time stay.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, phalanx_torch::Context::clear)
    }

    /// The simulated time, in picoseconds.
    fn now(&self) -> PyResult<u64> {
        Ok(self.0.get()?.sim.now().as_ps())
    }

    /// A report of the run so far.
    fn report(&self, py: Python<'_>) -> PyResult<Report> {
        self.with(py, |context| Report::new(context.report()))
    }

    /// Ends the context and all that is left of its programs.
    fn close(&self) -> PyResult<()> {
        let context =
            self.0.get()?.context.try_borrow_mut().ok().and_then(|mut context| context.take());
        drop(context);
        Ok(())
    }

    #[getter]
    fn closed(&self) -> PyResult<bool> {
        Ok(self.0.get()?.context.try_borrow().is_ok_and(|context| context.is_none()))
    }
}

impl Context {
    /// The result of driving time, or the exception that interrupted it.
    pub(crate) fn finish<T>(&self, py: Python<'_>, ended: Result<T, Error>) -> PyResult<T> {
        match self.0.get()?.interrupt.end(py) {
            Some(error) => Err(error),
            None => ended.or_raise(py),
        }
    }

    pub(crate) fn with<T>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&mut phalanx_torch::Context) -> T,
    ) -> PyResult<T> {
        let state = self.0.get()?;
        let Ok(mut context) = state.context.try_borrow_mut() else {
            let text = "the context is running: only its main program can run it, spawn and report";
            return Err(exception(py, "PhalanxError", text));
        };
        match &mut *context {
            Some(context) => Ok(act(context)),
            None => Err(exception(py, "PhalanxError", "the context is closed")),
        }
    }
}

/// The program that `begin(rank)` starts.
fn bind(py: Python<'_>, begin: &Py<PyAny>, cx: phalanx_torch::Rank) -> PyResult<Program> {
    let rank = Py::new(py, Rank::new(cx))?;
    let begin = begin.bind(py).call1((rank,))?;
    Ok(Program::new(begin.unbind()))
}

/// The failure of a spawn, for `phalanx/multiprocessing.py`.
fn failure(py: Python<'_>, error: &SpawnError) -> PyResult<Py<PyDict>> {
    let failure = PyDict::new(py);
    let errors = PyDict::new(py);
    for (rank, error) in &error.errors {
        errors.set_item(rank, to_python(py, error).into_value(py))?;
    }
    failure.set_item("errors", errors)?;
    failure.set_item("cancelled", PyList::new(py, &error.cancelled)?)?;
    failure.set_item("desync", error.desync.as_ref().map(ToString::to_string))?;
    failure.set_item("text", error.to_string())?;
    Ok(failure.unbind())
}
