//! The thread of a chip's machine.
//!
//! A machine cannot move between threads, but a worker may make its device on one thread and use it on another. So the
//! machine has a thread of its own. Programs are sent there; meanwhile the task waits and reports progress.

use super::board::{Board, Kept};
use super::transfer::StagedTensor;
use phalanx_runtime::{Access, Failure};
use phalanx_sim::machine::Options;
use phalanx_sim::value::{Buffer, Evaluator, Inline, Value};
use phalanx_sim::{MachineSpec, Time};
use phalanx_torch::Context;
use phalanx_torch::Error;
use phalanx_torch::driver::run_on_sip;
use phalanx_torch::multiprocessing::SpawnError;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval at which a waiting task looks at the progress of its simulation.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A job for the thread.
type Job = Box<dyn FnOnce(&mut ChipState) + Send>;

/// The state that the thread owns.
struct ChipState {
    context: Context,
    sip: usize,
    kept: Kept,
}

/// A handle of the thread.
pub(super) struct ChipThread {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    /// Values computed so far.
    computed: Arc<AtomicU64>,
}

/// The result of a program.
pub(super) struct Completed<T> {
    pub(super) value: T,
    /// The arguments declared as written, by index.
    pub(super) written: Vec<(usize, Buffer)>,
    /// Simulated time of the program, copies included.
    pub(super) took: Time,
}

/// A program that was sent to the thread.
pub(super) struct Pending<T> {
    answer: Receiver<Result<Completed<T>, Failure>>,
    computed: Arc<AtomicU64>,
}

impl ChipThread {
    pub(super) fn start(machine: MachineSpec, sip: u32) -> Result<Self, Failure> {
        let computed = Arc::new(AtomicU64::new(0));
        let evaluator = Arc::new(CountingEvaluator { computed: computed.clone() });
        let (jobs, taken) = channel::<Job>();
        let body = move || {
            let options = Options { evaluator, ..Options::default() };
            let (context, kept) = (Context::new(machine, options), Kept::default());
            let mut chip = ChipState { context, sip: sip as usize, kept };
            while let Ok(job) = taken.recv() {
                job(&mut chip);
            }
        };
        let thread = std::thread::Builder::new().name(format!("phalanx-sip-{sip}")).spawn(body)?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread), computed })
    }

    /// Sends a program; the program runs when the programs before it are over.
    pub(super) fn start_program<T, P>(&self, arguments: Vec<StagedTensor>, program: P) -> Pending<T>
    where
        T: Send + 'static,
        P: AsyncFnOnce(&Board) -> Result<T, Error> + Send + 'static,
    {
        let (say, answer) = channel();
        let job = move |chip: &mut ChipState| {
            let done = Failure::catch(|| chip.run(arguments, program));
            // Sending fails if the task no longer waits; then nobody needs the answer.
            let _ = say.send(done);
        };
        if let Some(jobs) = &self.jobs {
            // If the thread is gone, `Pending::wait` reports that.
            let _ = jobs.send(Box::new(job));
        }
        Pending { answer, computed: self.computed.clone() }
    }
}

impl Drop for ChipThread {
    fn drop(&mut self) {
        self.jobs.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl<T> Pending<T> {
    /// Waits until the program is over; calls `moved` whenever values were computed since the last look (CHP-5).
    pub(super) fn wait(self, mut moved: impl FnMut()) -> Result<Completed<T>, Failure> {
        let mut last = self.computed.load(Ordering::Relaxed);
        loop {
            match self.answer.recv_timeout(POLL_INTERVAL) {
                Ok(done) => return done,
                Err(RecvTimeoutError::Timeout) => {
                    let now = self.computed.load(Ordering::Relaxed);
                    if now != std::mem::replace(&mut last, now) {
                        moved();
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::new("the thread of the simulated chip is gone"));
                }
            }
        }
    }
}

impl ChipState {
    /// Copies the arguments in, runs the program, and copies the outputs back.
    fn run<T, P>(
        &mut self,
        arguments: Vec<StagedTensor>,
        program: P,
    ) -> Result<Completed<T>, Failure>
    where
        T: 'static,
        P: AsyncFnOnce(&Board) -> Result<T, Error> + 'static,
    {
        let before = self.context.now();
        let kept = self.kept.clone();
        let once = RefCell::new(Some((arguments, program)));
        let result = run_on_sip(&mut self.context, self.sip, move |rank| {
            let (once, kept) = (once.take(), kept.clone());
            async move {
                let (arguments, program) = once.ok_or("a program runs once")?;
                let tensors = arguments.into_iter().map(|argument| argument.into_tensor(&rank));
                let tensors = tensors.collect::<Result<Vec<_>, Error>>()?;
                let board = Board::new(rank, tensors, kept);
                let value = program(&board).await?;
                Ok((value, copy_back(&board).await?))
            }
        });
        let took = self.took(before);
        let (value, written) = result.map_err(|error| self.explain(&error))?;
        Ok(Completed { value, written, took })
    }

    fn took(&self, before: Time) -> Time {
        self.context.now().saturating_sub(before)
    }

    /// The failure of a program, with the name of the SIP.
    fn explain(&self, error: &SpawnError) -> Failure {
        let own = error.errors.values().next().filter(|_| error.errors.len() == 1);
        let words = own.map_or_else(|| error.to_string(), ToString::to_string);
        let (sip, machine) = (self.sip, &self.context.spec().name);
        Failure::new(format!("on SIP {sip} of `{machine}`: {words}"))
    }
}

/// Reads the arguments that were declared as written.
async fn copy_back(board: &Board) -> Result<Vec<(usize, Buffer)>, Error> {
    let mut written = Vec::new();
    for (index, (tensor, access)) in board.arguments().enumerate() {
        if matches!(access, Access::Write | Access::ReadWrite) {
            written.push((index, tensor.to_buffer().await?));
        }
    }
    Ok(written)
}

/// An evaluator that computes on the calling thread and counts the values.
struct CountingEvaluator {
    computed: Arc<AtomicU64>,
}

impl Evaluator for CountingEvaluator {
    fn force_while(&self, values: &[Value], goes_on: &dyn Fn() -> bool) -> bool {
        values.iter().all(|value| {
            self.computed.fetch_add(1, Ordering::Relaxed);
            Inline.force_while(std::slice::from_ref(value), goes_on)
        })
    }

    fn start(&self, value: &Value) {
        self.computed.fetch_add(1, Ordering::Relaxed);
        Inline.start(value);
    }
}
