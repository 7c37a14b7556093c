//! Tasks that a waiting caller runs itself, so that its core is of use.
//!
//! - **ERR-1 (not left behind).** A caller that goes gives back what it has not begun, and others run it.
//! - **ERR-2 (not for long).** A caller that has run tasks for some microseconds tells of them, looks after the other
//!   workers, and whether to go on.
//! - **ERR-3 (does its share).** A submitter that waits for room runs what it was given before it submits more.

use super::Core;
use super::core::finished;
use crate::clock;
use crate::endpoint::{Endpoint, Evidence, Report};
use crate::message::Ended;
use crate::runner::Runner;
use phalanx_engine::{Time, WorkerId};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Tasks in a row.
#[derive(Default)]
pub(crate) struct Row {
    /// Their messages, one after the other.
    bytes: Vec<u8>,
    /// The number of each, and where its message ends.
    tasks: Vec<(u64, usize)>,
}

impl Row {
    pub(crate) fn push(&mut self, dispatch: u64, message: &[u8]) {
        self.bytes.extend_from_slice(message);
        self.tasks.push((dispatch, self.bytes.len()));
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether this one is among them.
    pub(crate) fn has(&self, dispatch: u64) -> bool {
        self.tasks.iter().any(|(waiting, _)| *waiting == dispatch)
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.tasks.clear();
    }

    /// The first `count` are over with.
    fn drop_first(&mut self, count: usize) {
        if count >= self.tasks.len() {
            return self.clear();
        }
        let Some((_, from)) = count.checked_sub(1).map(|last| self.tasks[last]) else { return };
        self.bytes.drain(..from);
        self.tasks.drain(..count);
        for (_, end) in &mut self.tasks {
            *end -= from;
        }
    }

    /// Puts those of `other` behind its own.
    fn append(&mut self, other: &mut Self) {
        for (dispatch, message) in other.iter() {
            self.push(dispatch, message);
        }
        other.clear();
    }

    fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let mut from = 0;
        self.tasks.iter().map(move |(dispatch, end)| {
            let message = &self.bytes[from..*end];
            from = *end;
            (*dispatch, message)
        })
    }
}

/// What errands are run with; who has it runs them.
pub(crate) struct Errand {
    runner: Runner,
    /// Where to say that one more has ended.
    errands: Arc<Errands>,
    pub(crate) row: Row,
    /// Those of the row that must not begin any more.
    pub(crate) recalled: Vec<u64>,
    pub(crate) ended: Vec<(Ended, Option<Box<str>>)>,
}

/// Errands are run for so long before somebody looks at the others. One that took longer lets others look after the node
/// meanwhile, and so does the next.
pub(super) const LONG_NANOSECONDS: u64 = 10_000;

impl Errand {
    pub(crate) fn new(runner: Runner, errands: Arc<Errands>) -> Self {
        Self { runner, errands, row: Row::default(), recalled: Vec::new(), ended: Vec::new() }
    }

    /// Runs the row, but not for long; `now` is a fresh reading of the clock, and so is what it returns.
    pub(crate) fn run(&mut self, now: Option<u64>) -> Option<u64> {
        let Self { runner, errands, row, recalled, ended } = self;
        let mut begun = None;
        runner.resume(now);
        for (dispatch, message) in row.iter() {
            if !recalled.is_empty() && recalled.contains(&dispatch) {
                ended.push((Ended::skipped(dispatch), None));
                continue;
            }
            let end = runner.run_short(dispatch, message);
            // Tasks that were timed together may be said to have begun after the next.
            let until = end.0.begun.saturating_add(end.0.nanoseconds);
            let took = until.saturating_sub(*begun.get_or_insert(end.0.begun));
            ended.push(end);
            errands.last.store(dispatch, Ordering::Relaxed);
            if took > LONG_NANOSECONDS {
                break;
            }
        }
        row.drop_first(ended.len());
        runner.last()
    }

    /// Whether one of those that have ended was long.
    fn was_long(&self) -> bool {
        self.ended.iter().any(|(ended, _)| ended.nanoseconds > LONG_NANOSECONDS)
    }
}

/// What everybody can see of the errands without holding the core.
#[derive(Default)]
pub(crate) struct Errands {
    /// How many wait and nobody runs.
    count: AtomicUsize,
    is_running: AtomicBool,
    /// Whether the last errand was a long one.
    is_long: AtomicBool,
    /// The task that ended last; the engine is told of it only with the rest of its row.
    last: AtomicU64,
}

impl Errands {
    /// Says how many wait.
    #[inline]
    pub(crate) fn wait(&self, count: usize) {
        self.count.store(count, Ordering::Release);
    }

    /// Whether a task waits for a caller, and nobody runs any.
    #[inline]
    pub(crate) fn has_some(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0 && !self.is_running.load(Ordering::Acquire)
    }

    /// Whether the next errand is thought to be a long one.
    pub(crate) fn are_long(&self) -> bool {
        self.is_long.load(Ordering::Relaxed)
    }

    /// Somebody runs what waited.
    pub(crate) fn begin(&self) {
        self.is_running.store(true, Ordering::Release);
        self.wait(0);
    }

    /// It is done.
    pub(crate) fn end(&self, errand: &Errand) {
        self.is_long.store(errand.was_long(), Ordering::Relaxed);
        self.is_running.store(false, Ordering::Release);
    }
}

impl Core {
    /// The tasks of the caller, for who will run them; nothing if there are none or somebody runs some.
    pub(crate) fn hand_over(&mut self) -> Option<Box<Errand>> {
        if self.row.len() == 0 {
            return None;
        }
        let mut errand = self.errand.take()?;
        std::mem::swap(&mut self.row, &mut errand.row);
        std::mem::swap(&mut self.recalled, &mut errand.recalled);
        if let Some((_, errands)) = &self.caller {
            errands.begin();
        }
        Some(errand)
    }

    /// Whether there are some that whoever waits would run.
    #[inline]
    pub(crate) fn has_errand(&self) -> bool {
        self.row.len() > 0 && self.errand.is_some()
    }

    /// Takes back what they ended as.
    pub(crate) fn take_back(&mut self, mut errand: Box<Errand>, clock: &mut Option<u64>) {
        let Some((worker, errands)) = &self.caller else { return };
        let (worker, now) = (*worker, Time(*clock.get_or_insert_with(clock::now)));
        errands.end(&errand);
        if errand.row.len() > 0 {
            self.put_back(&mut errand);
        } else if self.row.len() == 0 {
            self.recalled.clear();
        }
        errand.recalled.clear();
        for (ended, words) in &mut errand.ended {
            self.look_at(worker, ended, words);
        }
        let events = errand.ended.drain(..).map(|(ended, _)| finished(worker, &ended));
        self.engine.step_all(now, events);
        self.errand = Some(errand);
        self.carry_out();
        self.has_ended_errands = true;
        self.has_news |= std::mem::take(&mut self.is_awaited);
    }

    /// What was not begun waits again, before what came meanwhile.
    #[cold]
    fn put_back(&mut self, errand: &mut Errand) {
        errand.row.append(&mut self.row);
        std::mem::swap(&mut errand.row, &mut self.row);
        self.recalled.append(&mut errand.recalled);
        if let Some((_, errands)) = &self.caller {
            errands.wait(self.row.len());
        }
    }

    /// One caller more or less waits; while any does, tasks are given to it.
    pub(crate) fn caller_waits(&mut self, more: isize) {
        let Some((worker, _)) = &self.caller else { return };
        let worker = *worker;
        self.waiters = self.waiters.saturating_add_signed(more);
        if self.waiters == 0 {
            self.engine.pause(worker);
            self.give_back(worker);
        } else if more == 1 && self.waiters == 1 {
            self.engine.resume(worker);
            self.carry_out();
        }
    }

    /// Nobody is there to run what the caller was given: others may.
    fn give_back(&mut self, caller: WorkerId) {
        if self.row.len() == 0 || self.errand.is_none() {
            return;
        }
        self.carry_out();
        let now = Time(clock::now());
        let mut recalled = std::mem::take(&mut self.recalled);
        recalled.retain(|dispatch| self.row.has(*dispatch));
        for dispatch in recalled {
            let event = finished(caller, &Ended::skipped(dispatch));
            self.engine.step(now, event);
        }
        self.row.clear();
        if let Some((_, errands)) = &self.caller {
            errands.wait(0);
        }
        self.engine.give_back(caller);
        self.carry_out();
    }
}

/// The name of that worker among the others; its tasks wait in the core.
pub(crate) struct Caller {
    errands: Arc<Errands>,
    is_stopped: bool,
}

impl Caller {
    pub(crate) fn new(errands: Arc<Errands>) -> Self {
        Self { errands, is_stopped: false }
    }
}

impl Endpoint for Caller {
    fn name(&self) -> String {
        "the caller".to_owned()
    }

    fn send(&mut self, _: u64, _: &[u8]) {}

    fn recall(&mut self, _: u64) {}

    fn flush(&mut self) {}

    fn poll(&mut self, _: &mut Vec<Report>) {}

    fn evidence(&self) -> Evidence {
        let progress = self.errands.last.load(Ordering::Relaxed);
        Evidence { progress, ..Evidence::default() }
    }

    fn stop(&mut self) {
        self.is_stopped = true;
    }

    fn has_left(&mut self) -> bool {
        self.is_stopped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Callable;
    use crate::failure::Failure;
    use crate::message::{Order, Place, encode_task};
    use crate::program::Program;
    use crate::task::Task;
    use std::time::{Duration, Instant};

    #[expect(clippy::unnecessary_wraps, reason = "a callable may fail")]
    fn some_time(_: &mut Task<'_>) -> Result<(), Failure> {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_micros(3) {
            std::hint::spin_loop();
        }
        Ok(())
    }

    static PROGRAM: Program = Program::new(&[Callable::new("some_time", some_time)]);

    #[test]
    fn err_2_a_row_is_not_run_for_long() {
        let digest = PROGRAM.callables()[0].digest().prefix();
        let order = Order { callable: 0, digest, run: 1, member: 0, members: 1 };
        let mut message = Vec::new();
        encode_task(&mut message, &order, std::iter::empty::<Place>(), &[], &[], &[]);
        let mut errand = Errand::new(Runner::new(&PROGRAM, Vec::new(), None), Arc::default());
        (1..=16).for_each(|dispatch| errand.row.push(dispatch, &message));
        let mut ended = 0;
        while errand.row.len() > 0 {
            errand.run(None);
            let now = errand.ended.drain(..).count();
            assert!((1..=4).contains(&now), "ERR-2: {now} of three microseconds each in a row");
            ended += now;
        }
        assert_eq!(ended, 16, "ERR-2: none is lost");
    }
}
