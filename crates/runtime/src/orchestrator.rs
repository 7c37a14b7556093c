//! The side of a graph's code: tasks, scopes, memory. Dependencies follow from the tensors.
//!
//! - **ORC-1 (refusals leave nothing).** A submission that is refused has changed nothing, and says which argument and why.
//! - **ORC-2 (waits, never fails).** A full ring makes the submitter wait while tasks end; memory that only the submitter can
//!   free is an error at once.
//! - **ORC-4 (only submits).** A submission runs no task: whatever the tasks do, the code of the graph goes on.
//! - **ORC-3 (homes).** A buffer of one chip goes to that chip only.

use crate::call::Call;
use crate::error::Error;
use crate::memory::Home;
use crate::message::{MAX_ARGUMENTS, MAX_SCALARS, Membership, Order, encode_task};
use crate::node::{Core, Node, Submitting};
use crate::shm::mailbox::Witness;
use crate::tensor::{Access, Argument, Buffer, Bytes, DType, Layout, Tensor};
use phalanx_engine::{
    Arg, Mode, Placement, PoolId, RunId, Scope, Slab, Submit, TaskId, TaskSpec, WorkerId,
};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Workers of a node, as the engine knows them.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkerIds {
    /// Chips, or child workers.
    pub(crate) next_level: Vec<WorkerId>,
    pub(crate) next_level_pool: Option<PoolId>,
    pub(crate) subs: Vec<WorkerId>,
    pub(crate) sub_pool: Option<PoolId>,
}

/// Target of a task among the workers of the next level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The chip with this number, counted from 0.
    Chip(u32),
    /// The child worker with this number, counted from 0.
    Worker(u32),
    /// Any that is free.
    Any,
}

/// Number of submissions between two pumps.
const LISTEN_EVERY: u32 = 16;
/// Longest wait of a submitter for more room than one task needs.
const ROOM_PATIENCE: Duration = Duration::from_millis(10);
/// The most bytes a task carries itself.
pub(crate) const MAX_BYTES: usize = 1 << 20;

/// Builds the graph of one run.
pub struct Orchestrator<'n> {
    pub(crate) node: &'n Arc<Node>,
    pub(crate) ids: &'n WorkerIds,
    pub(crate) run: RunId,
    pub(crate) args: Vec<Arg>,
    /// Memory for the message of the next task.
    bytes: Vec<u8>,
    pub(crate) since: u32,
    submitting: Submitting<'n, Core>,
    /// Witness of progress for a parent.
    pub(crate) witness: Option<Witness>,
    /// Domains that are kept for the run.
    pub(crate) held: Vec<u64>,
    /// Longest wait for room; for ever if there is none.
    pub(crate) patience: Option<Duration>,
}

impl<'n> Orchestrator<'n> {
    pub(crate) fn new(node: &'n Arc<Node>, ids: &'n WorkerIds, run: RunId) -> Self {
        let (args, bytes, held) = (Vec::new(), Vec::new(), Vec::new());
        let submitting = node.start_submitting();
        let (witness, patience) = (None, None);
        Self { node, ids, run, args, bytes, since: 0, submitting, witness, held, patience }
    }

    /// Returns the number of workers of the next level.
    pub fn chips(&self) -> u32 {
        u32::try_from(self.ids.next_level.len()).unwrap_or(u32::MAX)
    }

    /// Sends a task to a worker of the next level.
    pub fn submit_next_level(&mut self, target: Target, call: &Call) -> Result<TaskId, Error> {
        let placement = match target {
            Target::Chip(at) | Target::Worker(at) => Placement::Worker(self.chip(at)?),
            Target::Any => {
                Placement::Pool(self.ids.next_level_pool.ok_or(Error::NoWorkers("chips"))?)
            }
        };
        let home = match target {
            Target::Chip(at) | Target::Worker(at) => Some(Home::Chip(at)),
            Target::Any => None,
        };
        self.submit(placement, home, call)
    }

    /// Sends a task to any sub worker.
    pub fn submit_sub(&mut self, call: &Call) -> Result<TaskId, Error> {
        let pool = self.ids.sub_pool.ok_or(Error::NoWorkers("sub workers"))?;
        self.submit(Placement::Pool(pool), None, call)
    }

    /// Starts one call on each of these chips, all at once; it ends when all have ended.
    pub fn submit_next_level_group(&mut self, calls: &[(u32, Call)]) -> Result<TaskId, Error> {
        let mut members = Vec::with_capacity(calls.len());
        for (chip, call) in calls {
            members.push((self.chip(*chip)?, Some(Home::Chip(*chip)), call));
        }
        self.submit_group(None, &members)
    }

    /// Starts each call on another sub worker, all at once; it ends when all have ended.
    pub fn submit_sub_group(&mut self, calls: &[Call]) -> Result<TaskId, Error> {
        let pool = self.ids.sub_pool.ok_or(Error::NoWorkers("sub workers"))?;
        let members: Vec<_> = calls.iter().map(|call| (self.ids.subs[0], None, call)).collect();
        self.submit_group(Some(pool), &members)
    }

    /// Allocates a tensor that is freed when its scope is closed and nobody names it.
    pub fn alloc(&mut self, dtype: DType, shape: &[u64]) -> Result<Tensor, Error> {
        let layout = Layout::dense(dtype, shape)?;
        let run = self.run;
        let slab = self.with_room(|core| {
            let submit = core.engine.allocate(run, layout.extent);
            let submit =
                submit.map_err(|refused| core.refusal(run, &Placement::Group(&[]), refused))?;
            let Submit::Accepted { slab: Some(slab), .. } = submit else { return Ok(None) };
            Ok(Some(slab))
        })?;
        let buffer = self.slab_buffer(slab);
        Ok(Tensor::new(buffer, 0, layout)?)
    }

    /// Runs `body` in a scope: its allocations are freed when it has returned and no task names them.
    pub fn scope<T, E: From<Error>>(
        &mut self,
        label: &'static str,
        body: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        self.scope_with(label, Mode::Automatic, body)
    }

    /// Runs `body` in a scope without inferred dependencies: tasks wait only for [`Call::after`].
    pub fn manual_scope<T, E: From<Error>>(
        &mut self,
        label: &'static str,
        body: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        self.scope_with(label, Mode::Manual, body)
    }

    fn scope_with<T, E: From<Error>>(
        &mut self,
        label: &'static str,
        mode: Mode,
        body: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let scope = self.open_scope(label, mode)?;
        let result = body(self);
        let closed = self.close_scope(scope);
        let value = result?;
        closed?;
        Ok(value)
    }

    pub(crate) fn open_scope(&mut self, label: &'static str, mode: Mode) -> Result<Scope, Error> {
        Ok(self.node.lock().engine.open(self.run, label, mode)?)
    }

    pub(crate) fn close_scope(&mut self, scope: Scope) -> Result<(), Error> {
        let mut core = self.node.lock();
        let closed = core.engine.close(scope);
        core.carry_out();
        Ok(closed?)
    }

    /// Shows workers all that was submitted, before a graph's code waits for something itself.
    pub fn flush(&mut self) {
        self.node.lock().pump();
    }

    pub(crate) fn chip(&self, chip: u32) -> Result<WorkerId, Error> {
        let found = self.ids.next_level.get(chip as usize).copied();
        found.ok_or(Error::NoChip { chip, chips: self.chips() })
    }

    fn submit(
        &mut self,
        placement: Placement<'_>,
        home: Option<Home>,
        call: &Call,
    ) -> Result<TaskId, Error> {
        let order = self.order(call)?;
        self.check(call, home)?;
        let memberships = self.memberships(call, home)?;
        let mut args = std::mem::take(&mut self.args);
        args.clear();
        args.extend(call.arguments.iter().map(Argument::engine));
        // Before the lock is taken.
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        encode_call(&mut bytes, &order, call, &memberships);
        let run = self.run;
        let result = self.with_room(|core| {
            let is_alone = matches!(placement, Placement::Pool(_))
                && core.lengths.is_to_be_alone(order.callable);
            let spec = spec(placement, call, &args).alone(is_alone).work(order.callable.into());
            let submit = core.engine.submit(run, &spec);
            let submit = submit.map_err(|refused| core.refusal(run, &placement, refused))?;
            let Submit::Accepted { task, .. } = submit else { return Ok(None) };
            let job = core.job(task);
            (job.run, job.callable) = (Some(run), order.callable);
            job.is_idempotent = call.is_idempotent;
            if let Some(name) = &call.rare().name {
                job.set_names(vec![Some(Arc::clone(name))]);
            }
            std::mem::swap(&mut job.bytes, &mut bytes);
            core.carry_out();
            Ok(Some(task))
        });
        (self.args, self.bytes) = (args, bytes);
        result
    }

    fn submit_group(
        &mut self,
        pool: Option<PoolId>,
        members: &[(WorkerId, Option<Home>, &Call)],
    ) -> Result<TaskId, Error> {
        let Some((_, _, first)) = members.first() else {
            return Err(phalanx_engine::SubmitError::BadGroup.into());
        };
        let mut args = Vec::with_capacity(members.len());
        let mut bytes = Vec::new();
        let mut ends = Vec::with_capacity(members.len());
        for (number, (_, home, call)) in members.iter().enumerate() {
            self.check(call, *home)?;
            let count = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
            let (member, all) = (count(number), count(members.len()));
            let order = Order { member, members: all, ..self.order(call)? };
            let memberships = self.memberships(call, *home)?;
            encode_call(&mut bytes, &order, call, &memberships);
            ends.push(bytes.len());
            args.push(call.arguments.iter().map(Argument::engine).collect::<Vec<Arg>>());
        }
        let directed: Vec<(WorkerId, &[Arg])> =
            members.iter().zip(&args).map(|((worker, ..), args)| (*worker, &args[..])).collect();
        let anywhere: Vec<&[Arg]> = args.iter().map(Vec::as_slice).collect();
        let placement = match pool {
            Some(pool) => Placement::PoolGroup(pool, &anywhere),
            None => Placement::Group(&directed),
        };
        let (run, callable) = (self.run, self.order(first)?.callable);
        self.with_room(|core| {
            let spec = spec(placement, first, &[]).work(callable.into());
            let submit = core.engine.submit(run, &spec);
            let submit = submit.map_err(|refused| core.refusal(run, &placement, refused))?;
            let Submit::Accepted { task, .. } = submit else { return Ok(None) };
            let job = core.job(task);
            (job.run, job.callable) = (Some(run), callable);
            job.is_idempotent = members.iter().all(|(.., call)| call.is_idempotent);
            if members.iter().any(|(.., call)| call.rare().name.is_some()) {
                job.set_names(members.iter().map(|(.., call)| call.rare().name.clone()).collect());
            }
            job.bytes.extend_from_slice(&bytes);
            job.set_ends(ends.clone());
            core.carry_out();
            Ok(Some(task))
        })
    }

    /// Does what needs room in the ring, and waits for room as often as there is none.
    #[inline]
    fn with_room<T>(
        &mut self,
        mut submit: impl FnMut(&mut Core) -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        self.since += 1;
        let mut core = self.node.lock();
        if self.since >= LISTEN_EVERY {
            // Hears what workers have to say.
            self.since = 0;
            self.move_on();
            core.pump();
        }
        if let Some(accepted) = submit(&mut core)? {
            return Ok(accepted);
        }
        core.news.room_wanted = self.node.some_room;
        drop(core);
        self.submitting.pause(|| self.wait_for_room(submit))
    }

    /// Tells the parent of progress (LVL-8): the workers of this graph run, or have budgets of their own.
    #[inline]
    fn move_on(&self) {
        if let Some(witness) = &self.witness {
            witness.advance();
        }
    }

    /// Waits for room: for some more than is needed now, as long as workers have enough to do meanwhile.
    #[inline(never)]
    fn wait_for_room<T>(
        &self,
        mut submit: impl FnMut(&mut Core) -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        let some = self.node.some_room;
        let soon = Instant::now().checked_add(ROOM_PATIENCE);
        let accepted = self.node.drive_as(self.node.room_policy(), soon, |core| {
            self.move_on();
            core.news.room_wanted = if core.has_room(some) { 0 } else { some };
            if core.news.room_wanted > 0 { None } else { submit(core).transpose() }
        });
        let late = self.patience.and_then(|patience| Instant::now().checked_add(patience));
        let accepted = accepted.or_else(|| {
            self.node.drive_until(late, |core| {
                self.move_on();
                core.news.room_wanted = 0;
                submit(core).transpose()
            })
        });
        accepted.unwrap_or_else(|| Err(self.patience.map_or(Error::Closed, Error::TimedOut)))
    }

    #[inline]
    fn order(&self, call: &Call) -> Result<Order, Error> {
        let program = self.node.program;
        let callable = program.position(call.name)?;
        let digest = self.node.prefixes[callable as usize];
        Ok(Order { callable, digest, run: self.run.number(), member: 0, members: 1 })
    }

    /// Checks what the engine does not check.
    #[inline]
    fn check(&self, call: &Call, home: Option<Home>) -> Result<(), Error> {
        let is_within = call.arguments.len() <= MAX_ARGUMENTS
            && call.scalars.len() <= MAX_SCALARS
            && call.rare().blob.len() <= MAX_BYTES;
        if !is_within {
            return Err(too_many(call));
        }
        for (at, argument) in call.arguments.iter().enumerate() {
            if argument.tensor.usage().free_for != self.node.nonce {
                self.check_use(at, argument, home)?;
            }
        }
        Ok(())
    }

    /// Refuses an argument that a worker at `home` cannot use.
    #[inline(never)]
    fn check_use(&self, at: usize, argument: &Argument, home: Option<Home>) -> Result<(), Error> {
        let Bytes { owner, access, home: its, .. } = *argument.tensor.buffer().0;
        if owner != self.node.nonce {
            return Err(Error::ForeignBuffer(at));
        }
        if !access.allows(argument.tag) {
            return Err(Error::NotGranted { argument: at, granted: access });
        }
        if its == Home::Host || Some(its) == home {
            return Ok(());
        }
        let target = home.map_or_else(
            || "a worker that is not that chip".to_owned(),
            |home| match home {
                Home::Chip(chip) => format!("chip {chip}"),
                Home::Host => "a sub worker".to_owned(),
            },
        );
        Err(Error::WrongHome { argument: at, home: its, target })
    }

    fn slab_buffer(&self, slab: Slab) -> Buffer {
        Buffer(Arc::new(Bytes {
            id: slab.buffer,
            owner: self.node.nonce,
            number: u64::MAX,
            generation: 0,
            memory: 0,
            offset: slab.offset,
            bytes: slab.bytes,
            base: 0,
            access: Access::ReadWrite,
            home: Home::Host,
            dropped: None,
        }))
    }
}

/// Appends the message of a call.
#[inline]
fn encode_call(bytes: &mut Vec<u8>, order: &Order, call: &Call, memberships: &[Membership]) {
    let (arguments, blob) = (call.arguments.iter(), &call.rare().blob);
    encode_task(bytes, order, arguments, &call.scalars, memberships, blob);
}

/// Makes the error of a call that exceeds a limit.
#[cold]
fn too_many(call: &Call) -> Error {
    let limits = [
        ("arguments", MAX_ARGUMENTS, call.arguments.len()),
        ("scalars", MAX_SCALARS, call.scalars.len()),
        ("bytes of its own", MAX_BYTES, call.rare().blob.len()),
    ];
    let beyond = limits.into_iter().find(|(_, limit, count)| count > limit);
    let (what, limit, count) = beyond.unwrap_or(limits[0]);
    Error::TooMany { what, limit, count }
}

fn spec<'a>(placement: Placement<'a>, call: &'a Call, args: &'a [Arg]) -> TaskSpec<'a> {
    let rare = call.rare();
    let spec = TaskSpec::new(placement).args(args).after(&rare.after).priority(call.priority);
    TaskSpec {
        is_unordered: call.is_unordered,
        is_collective: call.is_collective,
        expected: rare.expected,
        ..spec
    }
}
