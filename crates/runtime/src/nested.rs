//! A worker that is the child of a worker: it runs graphs for its parent on workers of its own.
//!
//! ```text
//!   level 5 ── task: graph, arguments ──► level 4 ── task: graph ──► level 3 ── task: function ──► chips, sub workers
//!              memory 0                   its own memory 0,
//!                                         the parent's is 1
//! ```
//!
//! All levels are the same code: a child worker is a process (or thread) that serves a mailbox like a chip, and holds a
//! [`Worker`] of its own. It maps the memories of all its ancestors and hands them on to its children, so a buffer of the
//! topmost worker is seen at the bottom without a copy.
//!
//! - **LVL-1 (own run).** A graph that a parent sends runs on the child's own engine, in a run of its own; the parent's task
//!   ends when that run is over, and not before, however it ends.
//! - **LVL-2 (same memory).** Arguments are passed down by identity, not copied. An argument that was given for reading
//!   cannot be passed on for writing, and no argument can be used after its task.
//! - **LVL-3 (inferred).** In the child's run, dependencies follow from the bytes, also those of its ancestors.
//! - **LVL-4 (whole subtree).** A worker is ready when its whole subtree is, and has left when its whole subtree is gone.
//! - **LVL-5 (words).** A failure at the bottom arrives at the top with each level and worker on its way.
//! - **LVL-6 (a label).** Nothing but names depends on the number of a level.
//! - **LVL-7 (gone with all).** A child worker that died counts as lost when all its descendants are gone too.
//! - **LVL-8 (judged where it runs).** A worker whose children move or are within their budgets moves: its parent does not
//!   take it for stuck.

use crate::error::Error;
use crate::failure::Failure;
use crate::memory::Home;
use crate::message::{ArgumentDescriptor, ArgumentDescriptors};
use crate::node::Finished;
use crate::orchestrator::Orchestrator;
use crate::runner::caught;
use crate::shm::mailbox::Witness;
use crate::tensor::{Buffer, Bytes, Tensor};
use crate::worker::Worker;
use phalanx_engine::{BufferId, Grant, Identity};
use std::sync::Arc;

/// Memories of ancestors, as the engine of a child knows them for one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Foreign {
    /// Nonce of the engine's node.
    owner: u64,
    /// The engine's buffer for each memory, if the task has an argument in it.
    ids: Vec<Option<BufferId>>,
}

impl Foreign {
    /// Returns an argument as a tensor of the child's graph.
    pub(crate) fn tensor(&self, argument: &ArgumentDescriptor) -> Option<Tensor> {
        let id = (*self.ids.get(usize::from(argument.memory))?)?;
        let (number, generation) = argument.buffer;
        let bytes = Bytes {
            id,
            owner: self.owner,
            number,
            generation,
            // The child's own memory comes first.
            memory: argument.memory.checked_add(1)?,
            offset: argument.offset,
            bytes: argument.layout.extent,
            base: argument.offset,
            access: argument.access,
            home: Home::Host,
            dropped: None,
        };
        Tensor::new(Buffer(Arc::new(bytes)), 0, argument.layout).ok()
    }
}

impl Worker {
    /// Runs a graph for the parent; `graph` is the code that builds it.
    pub(crate) fn run_for_parent(
        &self,
        label: &'static str,
        arguments: ArgumentDescriptors<'_>,
        witness: Option<&Witness>,
        graph: impl FnOnce(&mut Orchestrator<'_>, Foreign) -> Result<(), Failure>,
    ) -> Result<Finished, Failure> {
        let mut foreign = Foreign::default();
        let handle = self.submit(label, |orchestrator| {
            foreign = self.adopt(arguments, orchestrator.run.number())?;
            let given = foreign.clone();
            orchestrator.witness = witness.cloned();
            caught(|| graph(orchestrator, given))
        })?;
        let run = handle.id();
        // LVL-1: waiters may be told of a failure before the last task has ended; the parent is not.
        self.node.drive_until(None, |core| {
            if let Some(witness) = witness {
                witness.advance();
            }
            core.engine.outcome(run).map(drop)
        });
        let ended = handle.wait();
        let mut core = self.node.lock();
        for id in foreign.ids.iter().flatten() {
            // LVL-2: nobody can name it from here on.
            let _ = core.engine.release(*id);
        }
        Ok(ended?)
    }

    /// Registers the memories of a task's arguments with the engine for one run. Whole memories are registered, so that
    /// overlapping bytes make dependencies.
    fn adopt(&self, arguments: ArgumentDescriptors<'_>, run: u64) -> Result<Foreign, Error> {
        let mut ids = vec![None; self.inherited.len()];
        let mut core = self.node.lock();
        for argument in arguments.iter() {
            let at = usize::from(argument.memory);
            let (Some(memory), Some(None)) = (self.inherited.get(at), ids.get(at)) else {
                continue;
            };
            // No buffer of ours has such an owner: the number of a memory is no random number.
            let identity = Identity { owner: at as u64, number: run, generation: 1 };
            let id = core.engine.register(identity, memory.len() as u64, Grant::ReadWrite);
            ids[at] = Some(id.map_err(|error| Error::Setting(error.to_string()))?);
        }
        Ok(Foreign { owner: self.node.nonce, ids })
    }
}
