//! Beginning, sealing and finishing runs, and their scopes.

use super::{Action, Engine};
use crate::arena::{NONE, number};
use crate::error::Begin;
use crate::run::{Cause, Outcome, Reason, Resources, Run, RunId, RunReport, RunSpec};
use crate::scope::{MAX_DEPTH, Mode, OpenScope, Scope, ScopeError};
use crate::task::Time;

impl Engine {
    /// Begins a run, unless `depth` runs are unfinished or one that shares a worker is still building.
    pub fn begin(&mut self, spec: &RunSpec<'_>) -> Begin {
        let resources = self.resources(spec.resources);
        let is_building = |at: &&u32| {
            let run = &self.runs[**at as usize];
            !run.is_sealed && run.shares(&resources)
        };
        let first = self
            .lists
            .unfinished
            .first()
            .filter(|_| self.lists.unfinished.len() >= self.config.depth.max(1));
        if let Some(&behind) = first.or_else(|| self.lists.unfinished.iter().find(is_building)) {
            self.wants.admission = true;
            return Begin::Blocked { behind: self.runs[behind as usize].id };
        }
        self.counts.last_run += 1;
        let index = self.lists.free.pop().unwrap_or_else(|| number(self.runs.len()));
        let id = RunId { number: self.counts.last_run, index };
        let mut run = Run::new(id, spec.label, resources, spec.deadline);
        run.scopes.push(OpenScope::new(0, spec.label, Mode::Automatic));
        run.is_active = self.is_next(&run.resources, self.lists.unfinished.len());
        run.pools = self.pools_of(&run);
        if self.runs.len() == index as usize {
            self.runs.push(run);
        } else {
            self.runs[index as usize] = run;
        }
        self.lists.unfinished.push(index);
        self.clock.next_deadline =
            self.clock.next_deadline.min(spec.deadline.unwrap_or(Time(u64::MAX)));
        self.clock.progress = self.clock.now;
        Begin::Started(id)
    }

    /// Opens a scope inside the innermost one of a run.
    pub fn open(
        &mut self,
        run: RunId,
        label: &'static str,
        mode: Mode,
    ) -> Result<Scope, ScopeError> {
        let at = self
            .run_index(run)
            .filter(|at| !self.runs[*at].is_sealed)
            .ok_or(ScopeError::NotBuilding)?;
        let scopes = &mut self.runs[at].scopes;
        if scopes.len() >= MAX_DEPTH {
            return Err(ScopeError::TooDeep);
        }
        if let Some(outer) =
            scopes.last().filter(|outer| outer.mode == Mode::Manual && mode == Mode::Automatic)
        {
            return Err(ScopeError::AutomaticInManual(outer.label));
        }
        self.counts.last_scope += 1;
        scopes.push(OpenScope::new(self.counts.last_scope, label, mode));
        Ok(Scope { run, number: self.counts.last_scope })
    }

    /// Closes a scope: slabs made in it go when nobody names them any more. Scopes still open inside are closed and named.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a scope is closed once: its guard is consumed"
    )]
    pub fn close(&mut self, scope: Scope) -> Result<(), ScopeError> {
        let at = self.run_index(scope.run).ok_or(ScopeError::NotOpen)?;
        let run = &mut self.runs[at];
        let depth = run
            .scopes
            .iter()
            .position(|open| open.number == scope.number)
            .ok_or(ScopeError::NotOpen)?;
        run.is_blocked = false;
        let inside = run.scopes.get(depth + 1).map(|open| open.label);
        self.close_down_to(at, depth);
        self.settle();
        inside.map_or(Ok(()), |label| Err(ScopeError::OpenInside(label)))
    }

    /// Says that nothing more comes. A scope that is still open is closed and named, here and in the outcome.
    pub fn seal(&mut self, run: RunId) -> Result<(), ScopeError> {
        let at = self
            .run_index(run)
            .filter(|at| !self.runs[*at].is_sealed)
            .ok_or(ScopeError::NotBuilding)?;
        let open = self.runs[at].scopes.get(1).map(|open| open.label);
        if let Some(label) = open {
            self.runs[at].fail(Cause::of_run(Reason::ScopeOpen(label)));
        }
        self.seal_at(at);
        self.settle();
        open.map_or(Ok(()), |label| Err(ScopeError::OpenInside(label)))
    }

    pub(super) fn seal_at(&mut self, at: usize) {
        self.close_down_to(at, 0);
        self.runs[at].is_sealed = true;
        self.runs[at].is_blocked = false;
        if self.runs[at].live == 0 {
            self.lists.ending.push(number(at));
        }
        self.free_admission();
    }

    fn close_down_to(&mut self, run: usize, depth: usize) {
        while self.runs[run].scopes.len() > depth {
            let Some(scope) = self.runs[run].scopes.pop() else { return };
            for reference in scope.refs {
                let slot = crate::refs::Reference::slot(&reference);
                self.ring.extra_mut(slot).is_scoped = false;
                self.runs[run].scoped -= 1;
                self.drop_reference(reference);
            }
        }
        self.clock.progress = self.clock.now;
    }

    /// Returns the outcome of a run; `None` while it has none. Every waiter is told the same.
    pub fn outcome(&self, run: RunId) -> Option<Outcome> {
        let run = &self.runs[self.run_index(run)?];
        run.is_finished.then_some(Outcome { report: run.report, error: run.error })
    }

    /// Returns the report of a run so far, finished or not.
    pub fn report(&self, run: RunId) -> Option<RunReport> {
        Some(self.runs[self.run_index(run)?].report)
    }

    /// True if nothing more can be submitted to a run: it is sealed, or not known.
    pub fn is_sealed(&self, run: RunId) -> bool {
        self.run_index(run).is_none_or(|at| self.runs[at].is_sealed)
    }

    /// Returns the first error of a run so far.
    pub fn error(&self, run: RunId) -> Option<Cause> {
        self.runs[self.run_index(run)?].error
    }

    /// Forgets a finished run; `false` if it is not finished or not known.
    pub fn forget(&mut self, run: RunId) -> bool {
        let Some(at) = self.run_index(run).filter(|at| self.runs[*at].is_finished) else {
            return false;
        };
        self.runs[at] = Run::new(RunId { number: 0, index: NONE }, "", Vec::new(), None);
        self.lists.free.push(number(at));
        true
    }

    fn free_admission(&mut self) {
        if std::mem::take(&mut self.wants.admission) {
            self.actions.push_back(Action::AdmissionFreed);
        }
    }

    /// One bit for each worker.
    fn resources(&self, resources: Resources<'_>) -> Vec<u64> {
        let mut bits = vec![0u64; self.workers.len().div_ceil(64)];
        let mut add = |worker: usize| {
            if let Some(bits) = bits.get_mut(worker / 64) {
                *bits |= 1 << (worker % 64);
            }
        };
        match resources {
            Resources::All => {
                for worker in 0..self.workers.len() {
                    add(worker);
                }
            }
            Resources::Only(workers, pools) => {
                for worker in workers {
                    add(worker.index());
                }
                let pools = pools.iter().filter_map(|pool| self.pools.get(pool.0 as usize));
                pools.flat_map(|pool| &pool.workers).for_each(|worker| add(*worker as usize));
            }
        }
        bits
    }

    /// One bit for each pool of which a run uses all workers.
    fn pools_of(&self, run: &Run) -> Vec<u64> {
        let mut bits = vec![0u64; self.pools.len().div_ceil(64)];
        for (at, pool) in self.pools.iter().enumerate() {
            if pool.workers.iter().all(|worker| run.uses(*worker)) {
                bits[at / 64] |= 1 << (at % 64);
            }
        }
        bits
    }

    /// True if no run among the first `count` shares a worker.
    fn is_next(&self, resources: &[u64], count: usize) -> bool {
        !self.lists.unfinished[..count].iter().any(|at| self.runs[*at as usize].shares(resources))
    }

    /// Finishes runs that are sealed and empty, and starts those that waited for them.
    pub(super) fn end_runs(&mut self) {
        while let Some(at) = self.lists.ending.pop() {
            let run = &mut self.runs[at as usize];
            if run.is_finished {
                continue;
            }
            run.is_finished = true;
            let id = run.id;
            self.lists.unfinished.retain(|other| *other != at);
            self.clock.progress = self.clock.now;
            self.actions.push_back(Action::RunFinished(id));
            self.free_admission();
            self.activate();
            self.settle_failures();
        }
        self.find_deadline();
    }

    fn activate(&mut self) {
        for count in 0..self.lists.unfinished.len() {
            let at = self.lists.unfinished[count] as usize;
            if self.runs[at].is_active || !self.is_next(&self.runs[at].resources, count) {
                continue;
            }
            self.runs[at].is_active = true;
            while let Some(slot) = self.runs[at].waiting.pop_front() {
                self.route(slot);
            }
        }
    }

    pub(super) fn find_deadline(&mut self) {
        let deadlines =
            self.lists.unfinished.iter().filter_map(|at| self.runs[*at as usize].deadline);
        self.clock.next_deadline = deadlines.min().unwrap_or(Time(u64::MAX));
    }
}
