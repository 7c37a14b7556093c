//! From a submission to a task in the ring. All checks come first, so a refused submission has changed nothing.

use super::Engine;
use crate::error::{Knob, Submit, SubmitError};
use crate::region::rounded;
use crate::run::RunId;
use crate::task::{Arg, Placement, Route, Tag, TaskId, TaskSpec};
use crate::worker::{Health, Pool, WorkerId};

impl Engine {
    /// Submits a task to a run that is building. A refusal has changed nothing; a full ring is no refusal.
    pub fn submit(&mut self, run: RunId, spec: &TaskSpec<'_>) -> Result<Submit, SubmitError> {
        let at = self.building(run)?;
        let single = match spec.placement {
            Placement::Pool(pool) if self.is_plain(at, pool.0, spec) => Some(Route::Pool(pool.0)),
            _ => self.check_place(at, spec)?,
        };
        if single.is_some() {
            self.check_member(0, spec.args)?;
        } else {
            self.check_members(spec)?;
        }
        if !spec.after.is_empty() {
            self.check_after(run, spec.after)?;
        }
        if (self.ring.is_full() || spec.bytes > 0)
            && let Some(blocked) = self.check_room(at, spec.bytes)?
        {
            return Ok(blocked);
        }
        let route = single.unwrap_or_else(|| self.open_group(spec));
        let task = self.enter(run, spec, route);
        let slab = if spec.bytes == 0 { None } else { self.ring.rare(task.place()).slab };
        self.settle();
        Ok(Submit::Accepted { task, slab })
    }

    /// Returns the reason why a task cannot enter the ring now.
    fn check_room(&mut self, run: usize, bytes: u64) -> Result<Option<Submit>, SubmitError> {
        let capacity = self.ring.bytes.capacity();
        if bytes > capacity {
            return Err(SubmitError::TooLarge { bytes, capacity });
        }
        if self.ring.is_full() || !self.ring.bytes.fits(bytes) {
            return self.block(run, bytes).map(Some);
        }
        Ok(None)
    }

    /// Allocates a slab without a task: it belongs to the innermost scope and is there at once. It takes a slot, and is
    /// no task in reports.
    pub fn allocate(&mut self, run: RunId, bytes: u64) -> Result<Submit, SubmitError> {
        let bytes = bytes.max(1);
        let at = self.building(run)?;
        if let Some(blocked) = self.check_room(at, bytes)? {
            return Ok(blocked);
        }
        let slot = self.open_slot(run, Route::NOWHERE);
        let slab = self.give_slab(slot, at, bytes);
        let task = self.ring.id(slot);
        if self.config.is_recording {
            self.record(slot, None);
        }
        self.end(slot, 0);
        Ok(Submit::Accepted { task, slab })
    }

    #[inline]
    fn building(&mut self, run: RunId) -> Result<usize, SubmitError> {
        let at = self.run_index(run).ok_or(SubmitError::NotBuilding(run))?;
        let entry = &mut self.runs[at];
        if let Some(cause) = entry.error {
            return Err(SubmitError::RunFailed(cause));
        }
        if entry.is_sealed {
            return Err(SubmitError::NotBuilding(run));
        }
        entry.is_blocked = false;
        Ok(at)
    }

    /// The usual case: a single task for a pool of which the run uses all workers.
    #[inline]
    fn is_plain(&self, run: usize, pool: u32, spec: &TaskSpec<'_>) -> bool {
        let is_alive = self.pools.get(pool as usize).is_some_and(|pool| pool.living > 0);
        !spec.is_collective && is_alive && self.runs[run].has_pool(pool)
    }

    /// The way of a single task; none for a group.
    #[inline(never)]
    fn check_place(&self, run: usize, spec: &TaskSpec<'_>) -> Result<Option<Route>, SubmitError> {
        let is_single = matches!(spec.placement, Placement::Worker(_) | Placement::Pool(_));
        if is_single && spec.is_collective {
            return Err(SubmitError::CollectiveAlone);
        }
        match spec.placement {
            Placement::Worker(worker) => {
                self.check_worker(run, worker)?;
                return Ok(Some(Route::Worker(worker.0)));
            }
            Placement::Pool(pool) => {
                self.check_pool(run, pool.0, 1)?;
                return Ok(Some(Route::Pool(pool.0)));
            }
            Placement::Group(members) => {
                if members.is_empty() || !spec.args.is_empty() {
                    return Err(SubmitError::BadGroup);
                }
                let mut workers: Vec<WorkerId> =
                    members.iter().map(|(worker, _)| *worker).collect();
                workers.sort_unstable();
                if let Some(pair) = workers.windows(2).find(|pair| pair[0] == pair[1]) {
                    return Err(SubmitError::SameWorker(pair[0]));
                }
                workers.into_iter().try_for_each(|worker| self.check_worker(run, worker))?;
            }
            Placement::PoolGroup(pool, members) => {
                if members.is_empty() || !spec.args.is_empty() {
                    return Err(SubmitError::BadGroup);
                }
                self.check_pool(run, pool.0, members.len())?;
            }
        }
        Ok(None)
    }

    fn check_worker(&self, run: usize, worker: WorkerId) -> Result<(), SubmitError> {
        match self.workers.get(worker.index()) {
            Some(state) if self.runs[run].uses(worker.0) => match state.health {
                Health::Lost => Err(SubmitError::WorkerLost(worker)),
                Health::Starting | Health::Ready => Ok(()),
            },
            _ => Err(SubmitError::NotMine(worker)),
        }
    }

    fn check_pool(&self, run: usize, pool: u32, members: usize) -> Result<(), SubmitError> {
        let entry = self.pools.get(pool as usize);
        let is_mine = |pool: &&Pool| pool.workers.iter().all(|worker| self.runs[run].uses(*worker));
        let Some(entry) = entry.filter(is_mine) else {
            return Err(SubmitError::PoolNotMine(crate::worker::PoolId(pool)));
        };
        if members <= entry.living {
            return Ok(());
        }
        Err(SubmitError::GroupTooLarge { members, workers: entry.living })
    }

    /// The arguments of a group.
    fn check_members(&mut self, spec: &TaskSpec<'_>) -> Result<(), SubmitError> {
        match spec.placement {
            Placement::Worker(_) | Placement::Pool(_) => self.check_member(0, spec.args),
            Placement::Group(members) => {
                check_count(members.len())?;
                (0..)
                    .zip(members)
                    .try_for_each(|(member, (_, args))| self.check_member(member, args))
            }
            Placement::PoolGroup(_, members) => {
                check_count(members.len())?;
                (0..).zip(members).try_for_each(|(member, args)| self.check_member(member, args))
            }
        }
    }

    #[inline]
    fn check_member(&mut self, member: usize, args: &[Arg]) -> Result<(), SubmitError> {
        check_count(args.len())?;
        self.counts.checks = self.counts.checks.wrapping_add(1);
        for (argument, arg) in args.iter().enumerate() {
            let Some(buffer) = self.buffers.get_mut(arg.view.buffer) else {
                return Err(SubmitError::StaleBuffer(arg.view.buffer));
            };
            if arg.view.region.end > buffer.bytes {
                let (end, bytes) = (arg.view.end(), buffer.bytes.unsigned_abs());
                return Err(SubmitError::OutOfBounds { member, argument, end, bytes });
            }
            if buffer.grant == crate::buffer::Grant::Read && arg.tag.writes() {
                return Err(SubmitError::ReadOnly { member, argument });
            }
            // Only arguments of the same buffer can be aliases.
            if std::mem::replace(&mut buffer.mark, self.counts.checks) == self.counts.checks {
                check_aliasing(member, args, argument)?;
            }
        }
        Ok(())
    }

    fn check_after(&self, run: RunId, after: &[TaskId]) -> Result<(), SubmitError> {
        let foreign = |task: &&TaskId| {
            self.ring.find(**task).is_some_and(|slot| self.ring[slot].run != run.index)
        };
        after.iter().find(foreign).map_or(Ok(()), |task| Err(SubmitError::OtherRun(*task)))
    }

    /// The ring is full: is it worth waiting?
    fn block(&mut self, run: usize, bytes: u64) -> Result<Submit, SubmitError> {
        self.runs[run].is_blocked = true;
        if let Some(error) = self.pinned(run, bytes) {
            self.runs[run].is_blocked = false;
            return Err(error);
        }
        self.wants.room = true;
        let slots = self.ring.capacity() - self.ring.live();
        Ok(Submit::Blocked {
            slots,
            bytes: self.ring.bytes.free(),
            longest: self.ring.bytes.longest(),
        })
    }

    /// Returns the error of a submission that can never fit: the ring would still be full if all tasks ended and every
    /// submitter that is not itself blocked let go.
    fn pinned(&self, run: usize, bytes: u64) -> Option<SubmitError> {
        let stuck =
            |at: u32| self.runs[at as usize].is_blocked && self.runs[at as usize].scoped > 0;
        if !self.lists.unfinished.iter().any(|at| stuck(*at)) {
            return None;
        }
        let held = self
            .ring
            .tasks()
            .filter(|(_, slot, extra)| extra.is_scoped && stuck(slot.run))
            .map(|(at, _, _)| self.ring.rare(at));
        let mut slabs: Vec<(u64, u64)> = Vec::new();
        let mut tasks = 0;
        for slot in held {
            tasks += 1;
            slabs.extend(slot.slab.and_then(|slab| Some((slab.offset, rounded(slab.bytes)?))));
        }
        let knob = if tasks >= self.ring.capacity() {
            Knob::Slots
        } else if widest_gap(slabs, self.ring.bytes.capacity()) < rounded(bytes).unwrap_or(u64::MAX)
        {
            Knob::Bytes
        } else {
            return None;
        };
        let scopes = self.runs[run].scopes.iter().rev();
        let scope = scopes.max_by_key(|scope| (scope.bytes, scope.refs.len()))?;
        Some(SubmitError::ScopePinned { scope: scope.label, bytes: scope.bytes, tasks, knob })
    }

    /// There is room and nothing to object: this cannot fail.
    #[inline]
    fn enter(&mut self, run: RunId, spec: &TaskSpec<'_>, route: Route) -> TaskId {
        let at = run.index as usize;
        let slot = self.open_slot(run, route);
        let entry = &mut self.ring[slot];
        (entry.work, entry.priority) = (spec.work, spec.priority);
        entry.is_alone = spec.is_alone;
        let task = TaskId::new(slot, entry.generation);
        self.ring.extra_mut(slot).expected = spec.expected.0;
        self.runs[at].report.tasks += 1;
        self.clock.progress = self.clock.now;
        if let Route::Group(_) = route {
            self.wire_members(slot, spec);
        } else {
            self.wire(slot, 0, spec.args, spec.is_unordered);
        }
        for task in spec.after {
            self.wire_after(slot, *task);
        }
        if spec.bytes > 0 {
            self.give_slab(slot, at, spec.bytes);
        }
        if self.config.is_recording {
            self.record(slot, Some(spec));
        }
        if self.ring[slot].waits == 0 {
            self.make_ready(slot);
        } else {
            self.counts.pending += 1;
            if self.has_order {
                self.send_behind(slot);
            }
        }
        task
    }

    fn open_group(&mut self, spec: &TaskSpec<'_>) -> Route {
        let (pool, targets, members) = match spec.placement {
            Placement::Worker(_) | Placement::Pool(_) => (None, Vec::new(), 1),
            Placement::Group(members) => {
                (None, members.iter().map(|(worker, _)| worker.0).collect(), members.len())
            }
            Placement::PoolGroup(pool, members) => (Some(pool.0), Vec::new(), members.len()),
        };
        Route::Group(self.add_group(pool, targets, members))
    }

    fn wire_members(&mut self, slot: u32, spec: &TaskSpec<'_>) {
        match spec.placement {
            Placement::Worker(_) | Placement::Pool(_) => {}
            Placement::Group(members) => {
                for (member, (_, args)) in (0..).zip(members) {
                    self.wire(slot, member, args, spec.is_unordered);
                }
            }
            Placement::PoolGroup(_, members) => {
                for (member, args) in (0..).zip(members) {
                    self.wire(slot, member, args, spec.is_unordered);
                }
            }
        }
    }
}

fn check_count(count: usize) -> Result<(), SubmitError> {
    if count < usize::from(u16::MAX) { Ok(()) } else { Err(SubmitError::TooMany) }
}

/// Refuses an argument that shares bytes with an earlier one, if either of the two writes them.
fn check_aliasing(member: usize, args: &[Arg], argument: usize) -> Result<(), SubmitError> {
    let is_aliasing = |other: &Arg| {
        let counts = args[argument].tag != Tag::NoDep && other.tag != Tag::NoDep;
        let writes = args[argument].tag.writes() || other.tag.writes();
        counts && writes && args[argument].view.overlaps(&other.view)
    };
    match args[..argument].iter().position(is_aliasing) {
        Some(other) => Err(SubmitError::Aliasing { member, arguments: (other, argument) }),
        None => Ok(()),
    }
}

/// The longest piece of `capacity` bytes that none of `slabs` touches.
fn widest_gap(mut slabs: Vec<(u64, u64)>, capacity: u64) -> u64 {
    slabs.sort_unstable();
    let (mut widest, mut at) = (0, 0);
    for (offset, bytes) in slabs {
        widest = widest.max(offset - at);
        at = offset + bytes;
    }
    widest.max(capacity - at)
}
