//! A worker that has workers: it starts them, runs graphs on them, and ends them.
//!
//! - **WRK-1 (runs in the background).** A run that was submitted goes on also if nobody waits for it.
//! - **WRK-2 (same words).** All waiters of a run are told the same.
//! - **WRK-3 (close).** Closing ends every worker once, in order, and says what it could not do; a closed worker refuses
//!   everything.
//! - **WRK-4 (keeps its time).** A wait with a time limit returns when that is over, whatever tasks do.
//! - **WRK-5 (one's own memory).** A tensor whose memory was given back is neither read nor written: the memory is another
//!   task's.
//! - **WRK-6 (not inside itself).** Waiting for a run where it cannot end, inside the code of a graph or a task of the same
//!   worker, is an error at once.
//! - **WRK-7 (told early).** Waiters are told that a run has failed of a death, a stall or its own code before all its tasks have
//!   ended. Reading and writing a tensor that such a run names waits until they have ended or are proven dead, and succeeds.
//! - **WRK-8 (starts whole).** If one of its workers cannot be had, none is left, no thread and no descriptor stays behind,
//!   and the error says what is missing.

mod budgets;
mod builder;
mod children;
mod handle;
pub(crate) mod settings;
mod tree;

pub use budgets::Budgets;
pub use builder::{Builder, Isolation};
pub use handle::RunHandle;

use children::Children;

use crate::allowance::Allowance;
use crate::call::Call;
use crate::error::Error;
use crate::failure::Failure;
use crate::inside::{self, InGraph};
use crate::memory::Home;
use crate::node::{Core, Finished, Node, ProgressGuard, Remaining};
use crate::orchestrator::{Orchestrator, WorkerIds};
use crate::program::Program;
use crate::runner::discard;
use crate::shm::Segment;
use crate::shm::copying::Copying;
use crate::shm::grant::GrantError;
use crate::tensor::{Buffer, DType, Layout, Tensor};
use crate::timeline::Timeline;
use bytemuck::Pod;
use phalanx_engine::{Begin, RunId, RunSpec};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

/// A worker of level 3 or above.
///
/// ```
/// use phalanx_runtime::*;
///
/// fn double(task: &mut Task<'_>) -> Result<(), Failure> {
///     let [mut data] = task.arguments()?;
///     data.slice_mut::<f32>()?.iter_mut().for_each(|x| *x *= 2.0);
///     Ok(())
/// }
///
/// const DOUBLE: Callable = register!(double);
/// static PROGRAM: Program = Program::new(&[DOUBLE]);
///
/// let worker = Worker::builder(&PROGRAM).threads().sub_workers(2).init()?;
/// let data = worker.tensor(DType::F32, &[1024])?;
/// worker.write(&data, &[1.0f32; 1024])?;
/// worker.run("doubled twice", |graph| {
///     for _ in 0..2 {
///         for row in (0..1024).step_by(256) {
///             graph.submit_sub(&Call::new(&DOUBLE).args([data.rows(row, row + 256)?.in_out()]))?;
///         }
///     }
///     Ok(())
/// })?;
/// assert_eq!(worker.read::<f32>(&data)?, [4.0; 1024]);
/// worker.close()?;
/// # Ok::<(), Error>(())
/// ```
pub struct Worker {
    pub(crate) node: Arc<Node>,
    pub(crate) ids: WorkerIds,
    pub(crate) memory: Segment,
    /// The memories of its parents, the nearest first.
    pub(crate) inherited: Vec<Segment>,
    pub(crate) threads: Vec<JoinHandle<()>>,
    pub(crate) children: Children,
    pub(crate) close: std::time::Duration,
    pub(crate) level: u32,
    /// The workers it is inside of in this process.
    pub(crate) above: Vec<u64>,
}

impl Worker {
    /// Describes a worker that runs callables of `program`.
    pub fn builder(program: &'static Program) -> Builder {
        Builder::new(program)
    }

    /// Returns the number of its level.
    pub fn level(&self) -> u32 {
        self.level
    }

    /// Runs a graph and waits for it.
    pub fn run(
        &self,
        label: &'static str,
        graph: impl FnOnce(&mut Orchestrator<'_>) -> Result<(), Failure>,
    ) -> Result<Finished, Error> {
        let driver = self.node.start_driving();
        let ended = self.submit(label, graph).and_then(|run| run.wait());
        driver.leave(&mut self.node.lock());
        ended
    }

    /// Builds a graph, here and now; its tasks run meanwhile and after.
    ///
    /// If the code of the graph fails, what it has submitted is cancelled, and the error is the code's own. A graph is built
    /// when the one before it is: another thread that submits meanwhile waits, and the code of a graph cannot submit another.
    pub fn submit(
        &self,
        label: &'static str,
        graph: impl FnOnce(&mut Orchestrator<'_>) -> Result<(), Failure>,
    ) -> Result<RunHandle, Error> {
        let run = self.begin(label, None)?.ok_or(Error::Closed)?;
        let handle = RunHandle::new(Arc::clone(&self.node), run);
        let driver = self.node.start_driving();
        let building = Building { node: &self.node, run };
        let inside = InGraph::of(self.node.nonce);
        let result = graph(&mut Orchestrator::new(&self.node, &self.ids, run));
        drop(inside);
        std::mem::forget(building);
        let mut core = self.node.lock();
        core.end_graph(run, result.err().as_ref());
        driver.leave(&mut core);
        drop(core);
        Ok(handle)
    }

    /// Begins a run when there is place for one; `None` if there is none before `deadline`.
    pub(crate) fn begin(
        &self,
        label: &'static str,
        deadline: Option<Instant>,
    ) -> Result<Option<RunId>, Error> {
        self.check_open()?;
        inside::check_run(self.node.nonce)?;
        let spec = RunSpec::new(label);
        Ok(self.node.drive_until(deadline, |core| match core.engine.begin(&spec) {
            Begin::Started(run) => {
                core.runs.begin(run, label);
                Some(run)
            }
            Begin::Blocked { .. } => None,
        }))
    }

    /// Returns the timeline since the last call; empty without [`Builder::recording`].
    pub fn timeline(&self) -> Timeline {
        let mut core = self.node.lock();
        core.pump();
        let workers = core.links.iter().map(|link| link.endpoint.name()).collect();
        core.runs.recorder.as_mut().map(|recorder| recorder.take(workers)).unwrap_or_default()
    }

    /// Runs one task on any sub worker and waits for it.
    pub fn call(&self, call: &Call) -> Result<Finished, Error> {
        self.run(call.name, |graph| {
            graph.submit_sub(call)?;
            Ok(())
        })
    }

    /// Allocates a zeroed buffer that all workers share.
    pub fn buffer(&self, bytes: u64) -> Result<Buffer, Error> {
        self.buffer_at(bytes, Home::Host)
    }

    pub(crate) fn buffer_at(&self, bytes: u64, home: Home) -> Result<Buffer, Error> {
        self.check_open()?;
        self.node.new_buffer(&mut self.node.lock(), bytes, home)
    }

    /// Allocates a zeroed tensor that all workers share.
    pub fn tensor(&self, dtype: DType, shape: &[u64]) -> Result<Tensor, Error> {
        let layout = Layout::dense(dtype, shape)?;
        Ok(self.buffer(layout.extent)?.tensor(0, dtype, shape)?)
    }

    /// Fills a dense tensor that no unfinished run names. If a run names it whose waiters know already that it has failed, waits
    /// until the last task of that run has ended or is proven dead.
    pub fn write<T: Pod>(&self, tensor: &Tensor, elements: &[T]) -> Result<(), Error> {
        let core = self.idle(tensor)?;
        write_to(&core.arena.segment, tensor, elements)
    }

    /// Returns the elements of a dense tensor that no unfinished run names. If a run names it whose waiters know already that it has
    /// failed, waits until the last task of that run has ended or is proven dead.
    pub fn read<T: Pod>(&self, tensor: &Tensor) -> Result<Vec<T>, Error> {
        let core = self.idle(tensor)?;
        read_from(&core.arena.segment, tensor)
    }

    /// Fills a dense tensor that unfinished runs may name, to tell a running task something.
    ///
    /// The task has the tensor as `no_dep`, and copies it. The call is refused while a worker has a task with the
    /// tensor as any other argument: the memory that a task sees in place does not change under it.
    pub fn write_unordered<T: Pod>(&self, tensor: &Tensor, elements: &[T]) -> Result<(), Error> {
        let core = self.known(tensor)?;
        if core.may_be_seen(tensor) {
            return Err(Error::InPlace { wanted: "written" });
        }
        write_to(&core.arena.segment, tensor, elements)
    }

    /// Returns the elements of a dense tensor that unfinished runs may name: each before or after the writes of running
    /// tasks.
    ///
    /// The call is refused while a task on a thread of this process changes them in place.
    pub fn read_unordered<T: Pod>(&self, tensor: &Tensor) -> Result<Vec<T>, Error> {
        let core = self.known(tensor)?;
        read_from(&core.arena.segment, tensor)
    }

    /// Returns the core, if the tensor's memory is still its own; it is, as long as the core is held.
    fn known(&self, tensor: &Tensor) -> Result<ProgressGuard<'_>, Error> {
        self.check_open()?;
        let bytes = &tensor.buffer().0;
        if bytes.owner != self.node.nonce || bytes.memory != 0 {
            return Err(Error::ForeignBuffer(0));
        }
        let mut core = self.node.lock();
        core.pump();
        if core.engine.knows(bytes.id) { Ok(core) } else { Err(Error::Stale) }
    }

    /// Returns the core, once it is sure that nobody writes the tensor.
    fn idle(&self, tensor: &Tensor) -> Result<ProgressGuard<'_>, Error> {
        let id = tensor.buffer().0.id;
        loop {
            let core = self.known(tensor)?;
            if !core.engine.is_in_use(id) {
                return Ok(core);
            }
            if !core.is_soon_idle(id) {
                return Err(Error::InUse);
            }
            drop(core);
            self.node.drive_until(None, |core| (!core.is_soon_idle(id)).then_some(()));
        }
    }

    fn check_open(&self) -> Result<(), Error> {
        if self.node.is_closed() { Err(Error::Closed) } else { Ok(()) }
    }

    /// Ends all workers: runs that are not over are waited for, then everybody leaves.
    pub fn close(mut self) -> Result<(), Error> {
        self.shut()
    }

    /// Does the same, and takes no longer than `within`.
    pub fn close_within(mut self, within: std::time::Duration) -> Result<(), Error> {
        self.close = self.close.min(within);
        self.shut()
    }

    fn shut(&mut self) -> Result<(), Error> {
        if !self.node.close() {
            return Ok(());
        }
        let mut allowance = Allowance::new(self.close);
        let settled = self.drive_within(&mut allowance, |core| core.is_settled());
        let mut core = self.node.lock();
        if !settled {
            core.cancel_all();
            core.carry_out();
        }
        core.stop_all();
        drop(core);
        self.node.announce();
        let have_left = self.drive_within(&mut allowance, Core::have_all_left);
        let outcome = if have_left { Ok(()) } else { self.end_by_force() };
        for thread in self.threads.drain(..) {
            discard(thread.join());
        }
        outcome
    }

    /// Moves everything until something is so; `false` if the time is over before.
    fn drive_within(&self, allowance: &mut Allowance, is_so: impl Fn(&mut Core) -> bool) -> bool {
        loop {
            let is_now = |core: &mut Core| is_so(core).then_some(());
            if self.node.drive_until(Some(allowance.next()), is_now).is_some() {
                return true;
            }
            if !allowance.look() {
                return false;
            }
        }
    }

    /// Kills workers that did not leave.
    fn end_by_force(&mut self) -> Result<(), Error> {
        let Remaining { killed, mut stuck } = self.node.lock().end_all();
        if stuck.is_empty() {
            if !self.drive_within(&mut Allowance::new(KILL_TIMEOUT), Core::have_all_left) {
                stuck.clone_from(&killed);
            }
        } else {
            // A thread that does not return cannot be ended, nor waited for.
            self.threads.clear();
        }
        Err(Error::Close { within: self.close, killed, stuck })
    }
}

/// A graph whose code has not returned; if it panics, its run must not be left open, or no other could begin.
struct Building<'n> {
    node: &'n Node,
    run: RunId,
}

impl Drop for Building<'_> {
    fn drop(&mut self) {
        let failure = Failure::new("the code of the graph panicked");
        self.node.lock().end_graph(self.run, Some(&failure));
    }
}

/// Time for the kernel to end a killed process.
const KILL_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.shut();
    }
}

/// Returns the offset of a dense tensor in its memory, if it has `bytes` bytes.
fn place(tensor: &Tensor, given: usize, bytes: usize) -> Result<usize, Error> {
    if bytes as u64 != tensor.layout().extent || !tensor.layout().is_dense() {
        return Err(Error::Elements { given, wanted: tensor.layout().elements() });
    }
    Ok(usize::try_from(tensor.offset()).unwrap_or(usize::MAX))
}

fn write_to<T: Pod>(memory: &Segment, tensor: &Tensor, elements: &[T]) -> Result<(), Error> {
    let bytes: &[u8] = bytemuck::cast_slice(elements);
    let at = place(tensor, elements.len(), bytes.len())?;
    Copying::new(memory).write(at, bytes).map_err(|error| uncopied(&error, "written"))
}

fn read_from<T: Pod>(memory: &Segment, tensor: &Tensor) -> Result<Vec<T>, Error> {
    let count =
        usize::try_from(tensor.layout().extent).unwrap_or(usize::MAX) / size_of::<T>().max(1);
    let at = place(tensor, count, count.saturating_mul(size_of::<T>()))?;
    let mut elements = vec![T::zeroed(); count];
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut elements);
    Copying::new(memory).read(at, bytes).map_err(|error| uncopied(&error, "read"))?;
    Ok(elements)
}

/// Makes the error of a refused copy.
fn uncopied(error: &GrantError, wanted: &'static str) -> Error {
    match error {
        GrantError::Overlap { .. } => Error::InPlace { wanted },
        other => Error::Setting(other.to_string()),
    }
}
