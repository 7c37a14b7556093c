//! A run whose graph is built step by step, not by one closure: for code of other languages.
//!
//! [`Worker::submit`] lends an [`Orchestrator`] to a closure. A binding cannot have its user's code inside of such a loan, so an
//! [`OpenRun`] owns what an orchestrator borrows, and makes one for each step.
//!
//! - **OPN-1 (same run).** A graph that is built step by step is the same run as one of a closure: the same order of tasks, the
//!   same refusals, and no other run inside of it.
//! - **OPN-2 (patience).** A step and a beginning that find no room in the given time return; nothing of them remains, and they
//!   can be tried again.
//! - **OPN-3 (never left open).** A run that is dropped before its end is cancelled, and others can begin.

use crate::error::Error;
use crate::failure::Failure;
use crate::inside::InGraph;
use crate::node::Node;
use crate::orchestrator::{Orchestrator, WorkerIds};
use crate::shm::mailbox::Witness;
use crate::worker::{RunHandle, Worker};
use phalanx_engine::{Arg, Mode, RunId, Scope};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A run whose graph is being built. Built, and ended, on one thread.
pub struct OpenRun {
    node: Arc<Node>,
    ids: WorkerIds,
    run: RunId,
    patience: Duration,
    /// Of the orchestrator, between two steps.
    args: Vec<Arg>,
    since: u32,
    held: Vec<u64>,
    witness: Option<Witness>,
    scopes: Vec<Scope>,
    /// Present if the run ends with this; a graph that a parent sent ends elsewhere.
    own: Option<Own>,
}

/// The state that a run of its own holds until its graph is built.
struct Own {
    handle: RunHandle,
    _inside: InGraph,
}

impl Worker {
    /// Begins a run whose graph is built step by step; each step, and the beginning, waits no longer than `patience` for room.
    pub fn open(&self, label: &'static str, patience: Duration) -> Result<OpenRun, Error> {
        let run = self.begin(label, Instant::now().checked_add(patience))?;
        let run = run.ok_or(Error::TimedOut(patience))?;
        let handle = RunHandle::new(Arc::clone(&self.node), run);
        self.node.begin_driving();
        let mut open = OpenRun::of(&self.node, &self.ids, run, patience);
        open.own = Some(Own { handle, _inside: InGraph::of(self.node.nonce) });
        Ok(open)
    }
}

impl Orchestrator<'_> {
    /// Returns the same graph without a borrow; it is of use until the code of the graph returns.
    pub fn to_open(&self, patience: Duration) -> OpenRun {
        let mut open = OpenRun::of(self.node, self.ids, self.run, patience);
        open.witness.clone_from(&self.witness);
        open
    }
}

impl OpenRun {
    fn of(node: &Arc<Node>, ids: &WorkerIds, run: RunId, patience: Duration) -> Self {
        Self {
            node: Arc::clone(node),
            ids: ids.clone(),
            run,
            patience,
            args: Vec::new(),
            since: 0,
            held: Vec::new(),
            witness: None,
            scopes: Vec::new(),
            own: None,
        }
    }

    /// Does one step. [`Error::TimedOut`] if there was no room for it.
    pub fn step<T>(
        &mut self,
        act: impl FnOnce(&mut Orchestrator<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut graph = Orchestrator::new(&self.node, &self.ids, self.run);
        (graph.since, graph.patience) = (self.since, Some(self.patience));
        graph.args = std::mem::take(&mut self.args);
        graph.held = std::mem::take(&mut self.held);
        graph.witness.clone_from(&self.witness);
        let result = act(&mut graph);
        self.since = graph.since;
        (self.args, self.held) = (graph.args, graph.held);
        result
    }

    /// Opens a scope: what is allocated from here on goes when it is closed and nobody names it. In a `manual` scope no
    /// dependencies are inferred.
    pub fn open_scope(&mut self, label: &'static str, manual: bool) -> Result<(), Error> {
        let mode = if manual { Mode::Manual } else { Mode::Automatic };
        let scope = self.step(|graph| graph.open_scope(label, mode))?;
        self.scopes.push(scope);
        Ok(())
    }

    /// Closes the innermost scope.
    pub fn close_scope(&mut self) -> Result<(), Error> {
        match self.scopes.pop() {
            Some(scope) => self.step(|graph| graph.close_scope(scope)),
            None => Ok(()),
        }
    }

    /// Ends the graph; with a failure its tasks are cancelled, and the failure is the run's. Returns the run, if it is one of its
    /// own and no graph that a parent sent.
    pub fn finish(mut self, failure: Option<&Failure>) -> Option<RunHandle> {
        self.end(failure)
    }

    fn end(&mut self, failure: Option<&Failure>) -> Option<RunHandle> {
        let own = self.own.take()?;
        while !self.scopes.is_empty() {
            // A scope that cannot be closed goes with the run.
            let _ = self.close_scope();
        }
        let driver = self.node.resume_driving();
        let mut core = self.node.lock();
        core.end_graph(self.run, failure);
        driver.leave(&mut core);
        drop(core);
        Some(own.handle)
    }
}

impl Drop for OpenRun {
    fn drop(&mut self) {
        let failure = Failure::new("the graph was dropped before it was built");
        drop(self.end(Some(&failure)));
    }
}
