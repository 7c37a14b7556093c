//! Tasks that a waiting caller runs itself, so that its core is of use.

use crate::endpoint::{Endpoint, Evidence, Report};
use crate::message::Ended;
use crate::runner::Runner;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

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

    fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let mut from = 0;
        self.tasks.iter().map(move |(dispatch, end)| {
            let message = &self.bytes[from..*end];
            from = *end;
            (*dispatch, message)
        })
    }
}

/// Who runs errands, and what it uses for that.
pub(crate) struct Errand {
    runner: Runner,
    pub(crate) row: Row,
    /// Those of the row that must not begin any more.
    pub(crate) recalled: Vec<u64>,
    pub(crate) ended: Vec<Report>,
}

/// An errand that took longer than this lets others look after the node meanwhile, and so does the next.
const LONG_NANOSECONDS: u64 = 10_000;

impl Errand {
    /// Runs the row; `now` is a fresh reading of the clock, and so is what it returns.
    fn run(&mut self, now: Option<u64>) -> Option<u64> {
        let Self { runner, row, recalled, ended } = self;
        runner.resume(now);
        for (dispatch, message) in row.iter() {
            if recalled.contains(&dispatch) {
                ended.push(Report::Ended(Ended::skipped(dispatch), None));
                continue;
            }
            let (end, words) = runner.run(dispatch, message);
            ended.push(Report::Ended(end, words));
        }
        row.clear();
        recalled.clear();
        runner.last()
    }

    fn longest(&self) -> u64 {
        let times = self.ended.iter().map(|report| match report {
            Report::Ended(ended, _) => ended.nanoseconds,
            _ => 0,
        });
        times.max().unwrap_or(0)
    }
}

/// The worker that is whoever waits.
pub(crate) struct Errands {
    errand: Mutex<Errand>,
    /// How many wait and nobody runs.
    count: AtomicUsize,
    is_running: AtomicBool,
    /// Whether the last errand was a long one.
    is_long: AtomicBool,
}

impl Errands {
    pub(crate) fn new(runner: Runner) -> Self {
        let (recalled, ended) = (Vec::new(), Vec::new());
        let errand = Errand { runner, row: Row::default(), recalled, ended };
        Self {
            errand: Mutex::new(errand),
            count: AtomicUsize::new(0),
            is_running: AtomicBool::new(false),
            is_long: AtomicBool::new(false),
        }
    }

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

    /// The right to run errands, unless somebody has it.
    pub(crate) fn take(&self) -> Option<Taken<'_>> {
        let errand = match self.errand.try_lock() {
            Ok(errand) => errand,
            Err(TryLockError::Poisoned(errand)) => errand.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        self.is_running.store(true, Ordering::Release);
        Some(Taken { errands: self, errand })
    }
}

/// The right to run errands.
pub(crate) struct Taken<'a> {
    errands: &'a Errands,
    pub(crate) errand: MutexGuard<'a, Errand>,
}

impl Taken<'_> {
    /// Runs what was taken over; `now` is a fresh reading of the clock, and so is what it returns.
    pub(crate) fn run(&mut self, now: Option<u64>) -> Option<u64> {
        let last = self.errand.run(now);
        let is_long = self.errand.longest() > LONG_NANOSECONDS;
        self.errands.is_long.store(is_long, Ordering::Relaxed);
        last
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.errands.is_running.store(false, Ordering::Release);
    }
}

/// The name of that worker among the others; its tasks wait in the core.
pub(crate) struct Caller {
    pub(crate) is_stopped: bool,
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
        Evidence::default()
    }

    fn stop(&mut self) {
        self.is_stopped = true;
    }

    fn has_left(&mut self) -> bool {
        self.is_stopped
    }
}
