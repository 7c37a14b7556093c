//! The thread that a chip's machine lives on.
//!
//! A machine is single-threaded and stays where it was made, while the device of a worker may be made on one thread and
//! used on another. So it has a thread of its own, programs are sent there, and the task waits and says that it moves.

use super::Took;
use super::board::{Board, Kept};
use super::transfer::Copied;
use phalanx_runtime::{Access, Failure};
use phalanx_sim::machine::Options;
use phalanx_sim::value::{Buffer, Evaluator, Inline, Value};
use phalanx_sim::{MachineSpec, Time};
use phalanx_torch::Context;
use phalanx_torch::Error;
use phalanx_torch::driver::alone;
use phalanx_torch::multiprocessing::SpawnError;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often a task that waits looks whether its simulation gets on.
const LOOK: Duration = Duration::from_millis(100);

/// What the thread is asked to do.
type Order = Box<dyn FnOnce(&mut Site) + Send>;

/// What lives on the thread.
struct Site {
    context: Context,
    sip: usize,
    kept: Kept,
}

/// The thread, from outside.
pub(super) struct Home {
    orders: Option<Sender<Order>>,
    thread: Option<JoinHandle<()>>,
    /// Grows while something is computed.
    beat: Arc<AtomicU64>,
}

/// What a program left: its value, the arguments it has written, and how long it took.
type Done<T> = (T, Vec<(usize, Buffer)>, Took);

/// A program that was sent to the thread.
pub(super) struct Pending<T> {
    answer: Receiver<Result<Done<T>, Failure>>,
    beat: Arc<AtomicU64>,
}

impl Home {
    pub(super) fn start(machine: MachineSpec, sip: u32) -> Result<Self, Failure> {
        let beat = Arc::new(AtomicU64::new(0));
        let evaluator = Arc::new(Beating { beat: beat.clone() });
        let (orders, taken) = channel::<Order>();
        let body = move || {
            let options = Options { evaluator, ..Options::default() };
            let (context, kept) = (Context::new(machine, options), Kept::default());
            let mut site = Site { context, sip: sip as usize, kept };
            while let Ok(order) = taken.recv() {
                order(&mut site);
            }
        };
        let thread = std::thread::Builder::new().name(format!("phalanx-sip-{sip}")).spawn(body)?;
        Ok(Self { orders: Some(orders), thread: Some(thread), beat })
    }

    /// Sends a program; it runs when those before it are over.
    pub(super) fn start_program<T, P>(&self, arguments: Vec<Copied>, program: P) -> Pending<T>
    where
        T: Send + 'static,
        P: AsyncFnOnce(&Board) -> Result<T, Error> + Send + 'static,
    {
        let (say, answer) = channel();
        let order = move |site: &mut Site| {
            let done = Failure::catch(|| site.run(arguments, program));
            // Nobody waits for it any more if this fails.
            let _ = say.send(done);
        };
        if let Some(orders) = &self.orders {
            // If the thread is gone, whoever waits is told so.
            let _ = orders.send(Box::new(order));
        }
        Pending { answer, beat: self.beat.clone() }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.orders.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl<T> Pending<T> {
    /// Waits until the program is over; `moved` is called now and then while it gets on (CHP-5).
    pub(super) fn wait(self, mut moved: impl FnMut()) -> Result<Done<T>, Failure> {
        let mut last = self.beat.load(Ordering::Relaxed);
        loop {
            match self.answer.recv_timeout(LOOK) {
                Ok(done) => return done,
                Err(RecvTimeoutError::Timeout) => {
                    let now = self.beat.load(Ordering::Relaxed);
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

impl Site {
    /// Copies the arguments in, runs the program, and copies back what was written.
    fn run<T, P>(&mut self, arguments: Vec<Copied>, program: P) -> Result<Done<T>, Failure>
    where
        T: 'static,
        P: AsyncFnOnce(&Board) -> Result<T, Error> + 'static,
    {
        let before = self.context.now();
        let kept = self.kept.clone();
        let once = RefCell::new(Some((arguments, program)));
        let result = alone(&mut self.context, self.sip, move |rank| {
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
        Ok((value, written, took))
    }

    fn took(&self, before: Time) -> Took {
        self.context.now().saturating_sub(before)
    }

    /// Why a program failed, in the words of the chip.
    fn explain(&self, error: &SpawnError) -> Failure {
        let own = error.errors.values().next().filter(|_| error.errors.len() == 1);
        let words = own.map_or_else(|| error.to_string(), ToString::to_string);
        let (sip, machine) = (self.sip, &self.context.spec().name);
        Failure::new(format!("on SIP {sip} of `{machine}`: {words}"))
    }
}

/// What the arguments hold that were declared as written.
async fn copy_back(board: &Board) -> Result<Vec<(usize, Buffer)>, Error> {
    let mut written = Vec::new();
    for (index, (tensor, access)) in board.arguments().enumerate() {
        if matches!(access, Access::Write | Access::ReadWrite) {
            written.push((index, tensor.to_buffer().await?));
        }
    }
    Ok(written)
}

/// Computes where it is asked to, and counts.
struct Beating {
    beat: Arc<AtomicU64>,
}

impl Evaluator for Beating {
    fn force(&self, values: &[Value]) {
        for value in values {
            self.beat.fetch_add(1, Ordering::Relaxed);
            Inline.force(std::slice::from_ref(value));
        }
    }

    fn start(&self, value: &Value) {
        self.beat.fetch_add(1, Ordering::Relaxed);
        Inline.start(value);
    }
}
