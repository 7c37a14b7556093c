//! Threads that compute values while the simulation goes on.
//!
//! ```text
//!   start ──► backlog (bounded) ──┐
//!                                 ├──► workers
//!   force ──► batch (goes first) ─┘──► and the caller
//! ```
//!
//! - **POOL-1 (same bits).** Results do not depend on the number of threads: values fix the order of operations (VAL-2), and
//!   threads only share the values.
//! - **POOL-2 (bounded).** At most [`Pool::BACKLOG`] started values wait; the caller that starts one more computes it.
//! - **POOL-3 (no hang).** A panic while computing reaches the caller that forces that value; it stops no worker and blocks no
//!   caller. Dropping the pool joins its threads.
//! - **POOL-4 (stops).** When the caller of `force_while` stops, no thread begins another operation of that call; what is left is computed when it
//!   is read.

use phalanx_sim::value::{Evaluator, Inline, Value};
use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// An [`Evaluator`] with threads of its own.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    work: Condvar,
}

#[derive(Default)]
struct Queue {
    batches: VecDeque<Arc<Batch>>,
    backlog: VecDeque<Value>,
    closed: bool,
}

impl Pool {
    /// Most started values that wait.
    pub const BACKLOG: usize = 256;

    /// Starts a pool of `threads` threads, the caller of `force` included: `new(1)` starts none.
    ///
    /// # Panics
    ///
    /// If the system refuses a thread.
    pub fn new(threads: usize) -> Self {
        let shared = Arc::new(Shared::default());
        let worker = |i: usize| {
            let shared = Arc::clone(&shared);
            let name = format!("phalanx-math-{i}");
            thread::Builder::new().name(name).spawn(move || shared.work()).expect("a thread")
        };
        let workers = (1..threads).map(worker).collect();
        Self { shared, workers }
    }

    /// Returns the number of threads, the caller of `force` included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }
}

impl Evaluator for Pool {
    fn force_while(&self, values: &[Value], goes_on: &dyn Fn() -> bool) -> bool {
        let parts: Vec<Value> = values.iter().flat_map(Value::pending_parts).collect();
        if self.workers.is_empty() || parts.len() < 2 {
            return Inline.force_while(values, goes_on);
        }
        let batch = Arc::new(Batch::new(parts));
        self.shared.lock().batches.push_back(Arc::clone(&batch));
        self.shared.work.notify_all();
        let asks = || goes_on() || batch.stop();
        batch.work(&asks);
        let panic = batch.wait(&asks);
        // A batch keeps its values alive: it must not stay in the queue after the call.
        self.shared.lock().batches.retain(|other| !Arc::ptr_eq(other, &batch));
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
        // Only joins of the parts may be left.
        !batch.is_stopped() && Inline.force_while(values, goes_on)
    }

    fn start(&self, value: &Value) {
        if value.is_ready() {
            return;
        }
        let mut queue = self.shared.lock();
        if self.workers.is_empty() || queue.backlog.len() >= Self::BACKLOG {
            drop(queue);
            return Inline.start(value);
        }
        queue.backlog.push_back(value.clone());
        drop(queue);
        self.shared.work.notify_one();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.closed = true;
        // No caller uses this pool any more; a value computes itself when it is read.
        let abandoned = std::mem::take(&mut queue.backlog);
        drop(queue);
        drop(abandoned);
        self.shared.work.notify_all();
        for worker in self.workers.drain(..) {
            // A worker catches every panic of its work.
            worker.join().expect("POOL-3: a worker lives on");
        }
    }
}

enum Job {
    Batch(Arc<Batch>),
    Started(Value),
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Nothing panics while the queue is locked.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some(job) = self.next() {
            match job {
                Job::Batch(batch) => batch.work(&|| !batch.is_stopped()),
                // The panic happens again, and is reported, when the value is read.
                Job::Started(value) => drop(compute(&value, &|| true)),
            }
        }
    }

    /// Waits for the next job; `None` when the pool is dropped.
    fn next(&self) -> Option<Job> {
        let mut queue = self.lock();
        loop {
            if let Some(job) = queue.pop() {
                return Some(job);
            }
            if queue.closed {
                return None;
            }
            queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Queue {
    /// Takes a job, batches first: a caller waits for them.
    fn pop(&mut self) -> Option<Job> {
        while let Some(batch) = self.batches.front() {
            if batch.is_taken() {
                self.batches.pop_front();
            } else {
                return Some(Job::Batch(Arc::clone(batch)));
            }
        }
        self.backlog.pop_front().map(Job::Started)
    }
}

fn compute(value: &Value, goes_on: &dyn Fn() -> bool) -> thread::Result<bool> {
    // A panic leaves a value uncomputed.
    catch_unwind(AssertUnwindSafe(|| Inline.force_while(std::slice::from_ref(value), goes_on)))
}

/// The time between two questions of a caller that waits for other threads.
const ASKING: Duration = Duration::from_millis(20);

/// The values of one call of `force`.
struct Batch {
    values: Vec<Value>,
    next: AtomicUsize,
    state: Mutex<Progress>,
    done: Condvar,
    /// True if the caller does not want the rest.
    stopped: AtomicBool,
}

#[derive(Default)]
struct Progress {
    finished: usize,
    panic: Option<Box<dyn Any + Send>>,
}

impl Batch {
    fn new(values: Vec<Value>) -> Self {
        let (next, state, done) = (AtomicUsize::new(0), Mutex::default(), Condvar::new());
        Self { values, next, state, done, stopped: AtomicBool::new(false) }
    }

    fn is_taken(&self) -> bool {
        // SYNC: a hint; `work` decides by its own fetch_add.
        self.next.load(Ordering::Relaxed) >= self.values.len()
    }

    fn is_stopped(&self) -> bool {
        // SYNC: a hint to stop early; nothing else depends on it.
        self.stopped.load(Ordering::Relaxed)
    }

    /// Stops all threads before their next operation; returns false.
    fn stop(&self) -> bool {
        // SYNC: as above.
        self.stopped.store(true, Ordering::Relaxed);
        false
    }

    /// Computes values until all are taken, as long as `goes_on` says so.
    fn work(&self, goes_on: &dyn Fn() -> bool) {
        loop {
            // SYNC: hands out each index once; the values themselves synchronise.
            let i = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(value) = self.values.get(i) else { return };
            let result = compute(value, goes_on);
            let mut state = self.lock();
            state.finished += 1;
            state.panic = state.panic.take().or(result.err());
            if state.finished == self.values.len() {
                self.done.notify_all();
            }
        }
    }

    /// Waits until all values are computed or given up, and asks `goes_on` meanwhile; returns a panic, if there was one.
    fn wait(&self, goes_on: &dyn Fn() -> bool) -> Option<Box<dyn Any + Send>> {
        let mut state = self.lock();
        while state.finished < self.values.len() {
            let waited = self.done.wait_timeout(state, ASKING);
            let (next, is_late) = waited.unwrap_or_else(PoisonError::into_inner);
            state = next;
            if is_late.timed_out() && !self.is_stopped() {
                drop(state);
                goes_on();
                state = self.lock();
            }
        }
        state.panic.take()
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
