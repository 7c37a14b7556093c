//! Tasks that a waiting caller runs itself, so that its core is of use.

use crate::endpoint::{Endpoint, Evidence, Report};
use crate::message::{Ended, Verdict};
use crate::runner::Runner;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Tasks in a row.
#[derive(Default)]
struct Row {
    /// Their messages, one after the other.
    bytes: Vec<u8>,
    /// The number of each, and where its message ends.
    tasks: Vec<(u64, usize)>,
}

impl Row {
    fn push(&mut self, dispatch: u64, message: &[u8]) {
        self.bytes.extend_from_slice(message);
        self.tasks.push((dispatch, self.bytes.len()));
    }

    fn clear(&mut self) {
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

/// What waits for a caller, and what callers have ended.
#[derive(Default)]
struct Baskets {
    waiting: Row,
    /// Those in `waiting` that must not begin any more.
    recalled: Vec<u64>,
    ended: Vec<Report>,
}

/// Who runs errands, and what it uses for that.
struct Errand {
    runner: Runner,
    row: Row,
    recalled: Vec<u64>,
    ended: Vec<Report>,
}

/// An errand that took longer than this lets others look after the node meanwhile, and so does the next.
const LONG_NANOSECONDS: u64 = 10_000;

/// The worker that is whoever waits.
pub(crate) struct Errands {
    errand: Mutex<Errand>,
    baskets: Mutex<Baskets>,
    count: AtomicUsize,
    is_stopped: AtomicBool,
    /// Whether the last errand was a long one.
    is_long: AtomicBool,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Errands {
    pub(crate) fn new(runner: Runner) -> Self {
        let errand =
            Errand { runner, row: Row::default(), recalled: Vec::new(), ended: Vec::new() };
        Self {
            errand: Mutex::new(errand),
            baskets: Mutex::default(),
            count: AtomicUsize::new(0),
            is_stopped: AtomicBool::new(false),
            is_long: AtomicBool::new(false),
        }
    }

    /// Whether a task waits for a caller.
    #[inline]
    pub(crate) fn has_some(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Whether the next errand is thought to be a long one.
    pub(crate) fn are_long(&self) -> bool {
        self.is_long.load(Ordering::Relaxed)
    }

    /// Runs what waits, unless somebody does; `now` is a fresh reading of the clock, and so is what it returns.
    pub(crate) fn run(&self, now: Option<Instant>) -> Option<Instant> {
        let Ok(mut errand) = self.errand.try_lock() else {
            std::thread::yield_now();
            return None;
        };
        let Errand { runner, row, recalled, ended } = &mut *errand;
        let mut baskets = held(&self.baskets);
        std::mem::swap(&mut baskets.waiting, row);
        std::mem::swap(&mut baskets.recalled, recalled);
        self.count.store(0, Ordering::Release);
        drop(baskets);
        runner.resume(now);
        let mut longest = 0;
        for (dispatch, message) in row.iter() {
            if recalled.contains(&dispatch) {
                let verdict = Verdict::Skipped;
                let end = Ended { dispatch, verdict, nanoseconds: 0, picoseconds: 0 };
                ended.push(Report::Ended(end, None));
                continue;
            }
            let (end, words) = runner.run(dispatch, message);
            longest = longest.max(end.nanoseconds);
            ended.push(Report::Ended(end, words));
        }
        row.clear();
        recalled.clear();
        self.is_long.store(longest > LONG_NANOSECONDS, Ordering::Relaxed);
        held(&self.baskets).ended.append(ended);
        runner.last()
    }
}

/// The same worker, as the node sees it.
pub(crate) struct Caller(pub(crate) Arc<Errands>);

impl Endpoint for Caller {
    fn name(&self) -> String {
        "the caller".to_owned()
    }

    fn send(&mut self, dispatch: u64, message: &[u8]) {
        held(&self.0.baskets).waiting.push(dispatch, message);
        self.0.count.fetch_add(1, Ordering::AcqRel);
    }

    fn recall(&mut self, dispatch: u64) {
        let mut baskets = held(&self.0.baskets);
        // What somebody has taken already ends as it ends.
        if baskets.waiting.tasks.iter().any(|(waiting, _)| *waiting == dispatch) {
            baskets.recalled.push(dispatch);
        }
    }

    fn flush(&mut self) {}

    fn poll(&mut self, reports: &mut Vec<Report>) {
        reports.append(&mut held(&self.0.baskets).ended);
    }

    fn evidence(&self) -> Evidence {
        Evidence::default()
    }

    fn stop(&mut self) {
        self.0.is_stopped.store(true, Ordering::Release);
    }

    fn has_left(&mut self) -> bool {
        self.0.is_stopped.load(Ordering::Acquire)
    }
}
