//! Tasks that are run where they are submitted, at once.
//!
//! While no task of a run is unfinished, the next one waits for nothing, whatever it touches: the order in which tasks are
//! submitted is one in which they may run. So when short tasks stay with their submitter (see `local`) and all of them have
//! ended, it runs the next ones at once: nothing is wired, queued or sent, and a task costs little more than its call.
//!
//! - **ONCE-1 (in order).** A task is run at once only while no task of its run is unfinished, and only if the engine would
//!   accept it; all others take the usual way.
//! - **ONCE-2 (short ones only).** They are run at once while their callable's tasks are short; the submitter finds out when
//!   they no longer are.
//! - **ONCE-3 (as elsewhere).** They count in the report of their run, one that fails is its error, and the tensors they
//!   named are in use until it is over.

use super::Core;
use super::core::finished;
use super::local::Lengths;
use super::named::{Named, Touch};
use crate::call::Call;
use crate::clock;
use crate::failure::Failure;
use crate::message::{
    Ended, MAX_SCALARS, Order, Parts, Received, RowBytes, Verdict, decode_task, encode_task,
};
use crate::runner::{Runner, SHORT_NANOSECONDS};
use crate::tensor::Argument;
use phalanx_engine::{Action, BufferId, Place, RunId, Start, Submit, Tag, TaskId, TaskSpec, Time};
use std::sync::Arc;

/// How many pass before the node hears of them.
pub(crate) const TELL_EVERY: u64 = 128;
/// The most arguments of one that is run at once.
const MOST_ARGUMENTS: usize = 8;

/// What tasks are run with at once; who submits has it meanwhile.
pub(crate) struct AtOnce {
    runner: Runner,
    /// What the arguments of a task are made of, used again and again.
    rows: Vec<RowBytes>,
    bytes: Vec<u8>,
    parts: Parts,
    lengths: Lengths,
    named: Arc<Named>,
    stopwatch: Stopwatch,
    /// How many the node has not heard of, and their simulated time.
    untold: u64,
    simulated: u64,
    /// Whose task was the longest of them, if they were timed alone.
    longest: Option<u32>,
    /// How many there were, ever.
    last: u64,
}

impl AtOnce {
    pub(crate) fn new(runner: Runner) -> Self {
        Self {
            runner,
            rows: Vec::new(),
            bytes: Vec::new(),
            parts: Parts::default(),
            lengths: Lengths::default(),
            named: Arc::default(),
            stopwatch: Stopwatch::default(),
            untold: 0,
            simulated: 0,
            longest: None,
            last: 0,
        }
    }

    /// Whether a task can be run at once: the engine would have nothing to say about it.
    #[inline]
    pub(crate) fn takes(&self, callable: u32, call: &Call, owner: u64) -> bool {
        if !self.lengths.is_short(callable) || !call.is_plain() {
            return false;
        }
        let arguments = &call.arguments;
        if arguments.len() > MOST_ARGUMENTS || call.scalars.len() > MAX_SCALARS {
            return false;
        }
        for (at, argument) in arguments.iter().enumerate() {
            let usage = argument.tensor.usage();
            if usage.lasting_for != owner
                || argument.tag == Tag::NoDep
                || arguments[..at].iter().any(|other| may_clash(argument, other))
            {
                return false;
            }
        }
        true
    }

    /// Names the arguments of a task; whether that can be known without the core.
    #[inline]
    pub(crate) fn name(&self, call: &Call) -> bool {
        let places = call.arguments.iter().map(|one| one.tensor.usage().buffer.index());
        let mut unnamed = places.filter(|place| !self.named.has(*place)).peekable();
        unnamed.peek().is_none()
            || unnamed.all(|place| self.named.add(place)) && !self.named.is_touched()
    }

    /// Runs a task.
    #[inline]
    pub(crate) fn run(&mut self, order: &Order, call: &Call) -> Result<TaskId, Failure> {
        let begun = self.stopwatch.begin(clock::now);
        let simulated = self.call(order, call)?;
        self.simulated = self.simulated.saturating_add(simulated);
        if let Some(took) = self.stopwatch.end(begun, clock::now) {
            self.note(order.callable, took);
        }
        self.untold += 1;
        self.last += 1;
        Ok(TaskId::ended(self.last))
    }

    /// Calls what a task orders, as if it had been sent; simulated time that passed.
    #[inline]
    fn call(&mut self, order: &Order, call: &Call) -> Result<u64, Failure> {
        let heads = call.arguments.iter().map(Argument::head);
        let Some(received) = Received::of_rows(*order, heads, &call.scalars, &mut self.rows) else {
            return self.send_to_itself(order, call);
        };
        self.runner.call_at_once(&received)
    }

    #[inline(never)]
    fn send_to_itself(&mut self, order: &Order, call: &Call) -> Result<u64, Failure> {
        self.bytes.clear();
        encode_task(&mut self.bytes, order, call.arguments.iter(), &call.scalars, &[], &[]);
        let received = decode_task(&self.bytes, &mut self.parts)?;
        self.runner.call_at_once(&received)
    }

    /// A task was timed alone.
    #[inline(never)]
    fn note(&mut self, callable: u32, took: u64) {
        self.lengths.note(callable, took);
        if took == self.stopwatch.longest {
            self.longest = Some(callable);
        }
    }

    /// Whether the node is to hear of what was run.
    #[inline]
    pub(crate) fn is_to_tell(&self) -> bool {
        self.untold >= TELL_EVERY
    }
}

/// Whether two arguments of one task may not be in it together.
#[inline]
fn may_clash(one: &Argument, other: &Argument) -> bool {
    let (one_is, other_is) = (one.tensor.usage(), other.tensor.usage());
    if one_is.buffer != other_is.buffer || one.tag == Tag::Input && other.tag == Tag::Input {
        return false;
    }
    let (a, b) = (&one_is.view, &other_is.view);
    a.start() < b.end() && b.start() < a.end()
}

/// Tells how long tasks take without a look at the clock before and after each.
///
/// Tasks and what is between them are timed together. If that is short, so are the tasks; if it is not, the next ones are
/// timed alone.
#[derive(Default)]
struct Stopwatch {
    /// When it was last looked at.
    base: u64,
    /// How many have ended since.
    ended: u64,
    /// How many are timed alone from now on.
    alone: u32,
    /// What those took that the node has not heard of.
    work: u64,
    longest: u64,
}

/// How many are timed together.
const TOGETHER: u64 = 16;
/// How many are timed alone after some that were not short.
const ALONE: u32 = 1024;

impl Stopwatch {
    fn restart(&mut self, now: u64) {
        (self.base, self.ended) = (now, 0);
    }

    #[inline]
    fn begin(&self, now: impl FnOnce() -> u64) -> u64 {
        if self.alone > 0 { now() } else { 0 }
    }

    /// A task has ended; what it took, if it was timed alone.
    #[inline]
    fn end(&mut self, begun: u64, now: impl FnOnce() -> u64) -> Option<u64> {
        if self.alone > 0 {
            let now = now();
            return Some(self.end_alone(now, now.saturating_sub(begun)));
        }
        self.ended += 1;
        if self.ended == TOGETHER {
            self.end_together(now());
        }
        None
    }

    #[inline(never)]
    fn end_alone(&mut self, now: u64, took: u64) -> u64 {
        self.alone = if took < SHORT_NANOSECONDS { self.alone - 1 } else { ALONE };
        self.base = now;
        self.work += took;
        self.longest = self.longest.max(took);
        took
    }

    #[inline(never)]
    fn end_together(&mut self, now: u64) {
        let (took, ended) = (now.saturating_sub(self.base), self.ended);
        let mean = took / ended;
        if mean < SHORT_NANOSECONDS {
            self.work += took;
            self.longest = self.longest.max(mean);
        } else {
            // Nobody knows what of it were tasks.
            self.work += ended * self.longest.min(SHORT_NANOSECONDS);
            self.alone = ALONE;
        }
        (self.base, self.ended) = (now, 0);
    }

    /// What is not counted yet; those that were to be timed with others are timed now.
    fn take(&mut self, now: u64) -> (u64, u64) {
        if self.ended > 0 {
            self.end_together(now);
        }
        (std::mem::take(&mut self.work), std::mem::take(&mut self.longest))
    }
}

impl Core {
    /// What tasks of `run` are run with at once, if they may be.
    pub(crate) fn lend_at_once(&mut self, run: RunId) -> Option<Box<AtOnce>> {
        if !self.may_run_at_once(run) {
            return None;
        }
        let mut lent = self.at_once.take()?;
        lent.lengths.clone_from(&self.local.lengths);
        self.named = Named::renew(&self.named, run, self.engine.buffer_places());
        lent.named = Arc::clone(&self.named);
        lent.stopwatch.restart(clock::now());
        Some(lent)
    }

    fn may_run_at_once(&self, run: RunId) -> bool {
        self.local.is_on() && self.recorder.is_none() && self.engine.is_caught_up(run)
    }

    /// Hears of what was run at once since it last did; whether it may go on.
    pub(crate) fn hear_at_once(&mut self, run: RunId, lent: &mut AtOnce) -> bool {
        let now = clock::now();
        let (work, longest) = lent.stopwatch.take(now);
        let tasks = std::mem::take(&mut lent.untold);
        if let Some(callable) = lent.longest.take().filter(|_| work >= tasks * SHORT_NANOSECONDS) {
            // Most may be short, and yet together they are not.
            lent.lengths.note_long(callable);
        }
        self.engine.count_ended(run, tasks, work, longest);
        self.note_simulated_of(run, std::mem::take(&mut lent.simulated));
        lent.stopwatch.restart(now);
        self.may_run_at_once(run)
    }

    /// Takes back what tasks were run with.
    pub(crate) fn end_at_once(&mut self, run: RunId, mut lent: Box<AtOnce>) {
        self.hear_at_once(run, &mut lent);
        self.local.lengths.clone_from(&lent.lengths);
        self.at_once = Some(lent);
    }

    /// Names the arguments of a task that will be run at once. Who touches one of them is over with it, since it held the core.
    #[inline(never)]
    pub(crate) fn name(&mut self, run: RunId, lent: &mut AtOnce, call: &Call) {
        self.named = Named::renew(&self.named, run, self.engine.buffer_places());
        lent.named = Arc::clone(&self.named);
        lent.name(call);
    }

    /// A buffer is new: nobody has named it, whatever had its place before.
    pub(crate) fn forget_name(&self, buffer: BufferId) {
        self.named.forget(buffer.index());
    }

    /// Lets somebody touch a buffer that no unfinished run names, while it holds the core.
    pub(crate) fn touch(&self, buffer: BufferId) -> Option<Touch> {
        let touch = Named::touch(&self.named);
        (!self.is_in_use(buffer)).then_some(touch)
    }

    /// Whether an unfinished run names a buffer.
    fn is_in_use(&self, buffer: BufferId) -> bool {
        self.engine.is_in_use(buffer) || self.named.has(buffer.index())
    }

    /// A run is over, and names nothing.
    pub(super) fn forget_named(&mut self, run: RunId) {
        if self.named.run == Some(run) {
            self.named = Arc::default();
        }
    }

    /// A task that was run at once has failed: it is submitted after all, as one that the caller has run.
    pub(crate) fn fail_at_once(
        &mut self,
        run: RunId,
        spec: &TaskSpec<'_>,
        callable: u32,
        failure: &Failure,
    ) -> TaskId {
        let Place::Worker(worker) = spec.place else { unreachable!("ONCE-3: it was the caller") };
        self.engine.resume(worker);
        let submit = self.engine.submit(run, spec);
        let start = self.carry_out_but(|start| start.worker == worker);
        if self.waiters == 0 {
            self.engine.pause(worker);
        }
        let Ok(Submit::Accepted { task, .. }) = submit else {
            // All slots hold memory of scopes, or the caller is lost: the run fails of it without a task.
            self.cancel_graph(run, failure);
            self.carry_out();
            return TaskId::ended(0);
        };
        let job = self.job(task);
        (job.run, job.callable) = (Some(run), callable);
        if let Some(Start { dispatch, .. }) = start {
            let (begun, verdict) = (clock::now(), Verdict::Failed);
            let ended = Ended { dispatch, verdict, begun, nanoseconds: 0, picoseconds: 0 };
            self.look_at(worker, &ended, &mut Some(failure.words().into()));
            self.engine.step(Time(begun), finished(worker, &ended));
            self.carry_out();
        }
        task
    }

    /// Does what the engine says, but for a start that is meant.
    fn carry_out_but(&mut self, is_meant: impl Fn(&Start) -> bool) -> Option<Start> {
        let actions: Vec<Action> = self.engine.actions().collect();
        let mut meant = None;
        for action in actions {
            match action {
                Action::Start(start) if is_meant(&start) => meant = Some(start),
                other => self.act(&other),
            }
        }
        meant
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times tasks that take so long, with so much code before each: what is noted of them, and what they are said to have
    /// taken together.
    fn timed(lengths: &[u64], between: u64) -> (Vec<u64>, u64) {
        let (mut stopwatch, mut now, mut noted) = (Stopwatch::default(), 1_000, Vec::new());
        stopwatch.restart(now);
        for length in lengths {
            now += between;
            let begun = stopwatch.begin(|| now);
            now += length;
            noted.extend(stopwatch.end(begun, || now));
        }
        (noted, stopwatch.take(now).0)
    }

    #[test]
    fn once_2_short_tasks_are_timed_together_and_others_alone() {
        assert_eq!(timed(&[100; 64], 50), (vec![], 64 * 150), "ONCE-2");
        let (noted, work) = timed(&[5_000; 64], 50);
        assert_eq!(noted, [5_000; 48], "ONCE-2: the first show that it is worth a look");
        assert!(work >= 48 * 5_000, "ONCE-2: {work}");
    }

    #[test]
    fn once_2_a_few_that_are_not_short_are_found_out_when_the_node_hears_of_them() {
        let mut stopwatch = Stopwatch::default();
        stopwatch.restart(1_000);
        for _ in 1..TOGETHER {
            assert_eq!(stopwatch.end(0, || unreachable!("ONCE-2: too few")), None);
        }
        stopwatch.take(1_000 + TOGETHER * 500_000);
        assert_eq!(stopwatch.alone, ALONE, "ONCE-2: the next ones are worth a look");
    }

    #[test]
    fn once_2_code_between_tasks_is_not_taken_for_them() {
        let (noted, work) = timed(&[100; 64], 20_000);
        assert_eq!(noted, [100; 48], "ONCE-2");
        assert!(work <= 64 * SHORT_NANOSECONDS, "ONCE-2: {work}");
    }
}
