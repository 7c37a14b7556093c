//! A run that is on its way.

use crate::error::Error;
use crate::inside;
use crate::node::{Finished, Node};
use phalanx_engine::RunId;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A run that was submitted; dropping it lets the run go on.
pub struct RunHandle {
    node: Arc<Node>,
    run: RunId,
}

impl RunHandle {
    pub(crate) fn new(node: Arc<Node>, run: RunId) -> Self {
        Self { node, run }
    }

    /// Returns the run.
    pub fn id(&self) -> RunId {
        self.run
    }

    /// Waits until it is over, or until it is known to have failed of a death, a stall or its own code. In that case some of
    /// its tasks may still be ending; [`Worker::read`](crate::Worker::read) of its tensors waits for them.
    pub fn wait(&self) -> Result<Finished, Error> {
        self.check_wait()?;
        let ended = self.node.drive_until(None, |core| core.outcome(self.run));
        Ok(ended.ok_or(Error::Closed)??)
    }

    /// Waits until it is over, but not longer than `timeout`; a run that is not over goes on. The timeout is by the clock,
    /// also while this process is stopped.
    pub fn wait_for(&self, timeout: Duration) -> Result<Finished, Error> {
        self.check_wait()?;
        let deadline = Instant::now().checked_add(timeout);
        let ended = self.node.drive_until(deadline, |core| core.outcome(self.run));
        Ok(ended.ok_or(Error::TimedOut(timeout))??)
    }

    /// Refuses to wait inside a task of the same worker, unless the run is over (WRK-6).
    fn check_wait(&self) -> Result<(), Error> {
        let inside = inside::check_wait(self.node.nonce);
        if inside.is_err() && self.is_done() { Ok(()) } else { inside }
    }

    /// True if [`RunHandle::wait`] would return at once.
    pub fn is_done(&self) -> bool {
        let mut core = self.node.lock();
        core.pump();
        core.outcome(self.run).is_some()
    }

    /// Cancels the run: tasks that have not begun never begin, tasks that have begun run to their end.
    pub fn cancel(&self) {
        let mut core = self.node.lock();
        core.engine.cancel(self.run);
        core.carry_out();
        core.pump();
    }
}

impl Drop for RunHandle {
    fn drop(&mut self) {
        let mut core = self.node.lock();
        core.abandon(self.run);
    }
}
