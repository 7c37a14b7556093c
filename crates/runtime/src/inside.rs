//! The graphs and tasks that a thread is inside of.
//!
//! A run of a worker takes effect when the run before it is over, and the next one is built when the one before is built. So
//! inside the code of a graph, or inside a task, nothing later of the same worker ever happens, and waiting for it would be for
//! ever. Threads that such code starts are not known to be inside.

use crate::error::Error;
use std::cell::RefCell;

thread_local! {
    /// The workers whose graphs' code this thread is in, the innermost last.
    static GRAPHS: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    /// The workers whose tasks this thread runs: its own worker and all ancestors.
    static SERVED: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// A thread is inside the code of a graph, until this is gone.
pub(crate) struct InGraph(());

impl InGraph {
    /// Marks this thread as inside the code of a graph of `worker`.
    pub(crate) fn of(worker: u64) -> Self {
        GRAPHS.with_borrow_mut(|graphs| graphs.push(worker));
        Self(())
    }
}

impl Drop for InGraph {
    fn drop(&mut self) {
        GRAPHS.with_borrow_mut(Vec::pop);
    }
}

/// Marks this thread as one that runs tasks of these workers.
pub(crate) fn serve(workers: Vec<u64>) {
    SERVED.set(workers);
}

/// Refuses to wait for a new run of `worker` where it could not begin.
pub(crate) fn check_run(worker: u64) -> Result<(), Error> {
    if GRAPHS.with_borrow(|graphs| graphs.contains(&worker)) {
        return Err(Error::InsideGraph);
    }
    check_wait(worker)
}

/// Refuses to wait for a run of `worker` that is not over where it could not end.
pub(crate) fn check_wait(worker: u64) -> Result<(), Error> {
    let is_inside = SERVED.with_borrow(|served| served.contains(&worker));
    if is_inside { Err(Error::InsideTask) } else { Ok(()) }
}
