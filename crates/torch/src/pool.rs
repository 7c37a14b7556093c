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

use phalanx_sim::value::{Evaluator, Inline, Value};
use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

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

    /// A pool of `threads` threads, the caller of `force` included: `new(1)` starts none.
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

    /// The number of threads, the caller of `force` included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }
}

impl Evaluator for Pool {
    fn force(&self, values: &[Value]) {
        let parts: Vec<Value> = values.iter().flat_map(Value::pending_parts).collect();
        if self.workers.is_empty() || parts.len() < 2 {
            return Inline.force(values);
        }
        let batch = Arc::new(Batch::new(parts));
        self.shared.lock().batches.push_back(Arc::clone(&batch));
        self.shared.work.notify_all();
        batch.work();
        let panic = batch.wait();
        // A batch keeps its values alive: it must not stay in the queue after the call.
        self.shared.lock().batches.retain(|other| !Arc::ptr_eq(other, &batch));
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
        // Only joins of the parts may be left.
        Inline.force(values);
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
                Job::Batch(batch) => batch.work(),
                // The panic happens again, and is reported, when the value is read.
                Job::Started(value) => drop(compute(&value)),
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

fn compute(value: &Value) -> thread::Result<()> {
    // A panic leaves a value uncomputed.
    catch_unwind(AssertUnwindSafe(|| Inline.force(std::slice::from_ref(value))))
}

/// The values of one call of `force`.
struct Batch {
    values: Vec<Value>,
    next: AtomicUsize,
    state: Mutex<Progress>,
    done: Condvar,
}

#[derive(Default)]
struct Progress {
    finished: usize,
    panic: Option<Box<dyn Any + Send>>,
}

impl Batch {
    fn new(values: Vec<Value>) -> Self {
        let (next, state, done) = (AtomicUsize::new(0), Mutex::default(), Condvar::new());
        Self { values, next, state, done }
    }

    fn is_taken(&self) -> bool {
        // SYNC: a hint; `work` decides by its own fetch_add.
        self.next.load(Ordering::Relaxed) >= self.values.len()
    }

    /// Computes values until all are taken.
    fn work(&self) {
        loop {
            // SYNC: hands out each index once; the values themselves synchronise.
            let i = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(value) = self.values.get(i) else { return };
            let result = compute(value);
            let mut state = self.lock();
            state.finished += 1;
            state.panic = state.panic.take().or(result.err());
            if state.finished == self.values.len() {
                self.done.notify_all();
            }
        }
    }

    /// Waits until all values are computed; returns a panic, if there was one.
    fn wait(&self) -> Option<Box<dyn Any + Send>> {
        let mut state = self.lock();
        while state.finished < self.values.len() {
            state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.panic.take()
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
