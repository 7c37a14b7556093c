//! Tasks that a waiting caller runs itself, so that its core is of use.

use crate::endpoint::{Endpoint, Evidence, Report};
use crate::message::Ended;
use crate::runner::Runner;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What waits for a caller, and what callers have ended.
#[derive(Default)]
struct Baskets {
    /// Messages of tasks, one after the other: dispatch, and where the message lies in `bytes`.
    waiting: VecDeque<(u64, Vec<u8>)>,
    ended: Vec<Report>,
    spare: Vec<Vec<u8>>,
}

/// The worker that is whoever waits.
pub(crate) struct Errands {
    runner: Mutex<Runner>,
    baskets: Mutex<Baskets>,
    count: AtomicUsize,
    is_stopped: AtomicBool,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Errands {
    pub(crate) fn new(runner: Runner) -> Self {
        let (count, is_stopped) = (AtomicUsize::new(0), AtomicBool::new(false));
        Self { runner: Mutex::new(runner), baskets: Mutex::default(), count, is_stopped }
    }

    /// Whether a task waits for a caller.
    pub(crate) fn has_some(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Runs what waits, unless somebody does.
    pub(crate) fn run(&self) {
        let Ok(mut runner) = self.runner.try_lock() else {
            std::thread::yield_now();
            return;
        };
        let mut taken = std::mem::take(&mut held(&self.baskets).waiting);
        self.count.fetch_sub(taken.len(), Ordering::AcqRel);
        let mut ended = Vec::new();
        runner.paused();
        for (dispatch, message) in &taken {
            let (end, words) = runner.run(*dispatch, message);
            ended.push(Report::Ended(end, words));
        }
        let mut baskets = held(&self.baskets);
        baskets.ended.append(&mut ended);
        baskets.spare.extend(taken.drain(..).map(|(_, message)| message));
    }
}

/// The same worker, as the node sees it.
pub(crate) struct Caller(pub(crate) Arc<Errands>);

impl Endpoint for Caller {
    fn name(&self) -> String {
        "the caller".to_owned()
    }

    fn send(&mut self, dispatch: u64, message: &[u8]) {
        let mut baskets = held(&self.0.baskets);
        let mut copy = baskets.spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(message);
        baskets.waiting.push_back((dispatch, copy));
        self.0.count.fetch_add(1, Ordering::AcqRel);
    }

    fn recall(&mut self, dispatch: u64) {
        let mut baskets = held(&self.0.baskets);
        let before = baskets.waiting.len();
        baskets.waiting.retain(|(waiting, _)| *waiting != dispatch);
        if baskets.waiting.len() < before {
            self.0.count.fetch_sub(1, Ordering::AcqRel);
            baskets.ended.push(Report::Ended(Ended::skipped(dispatch), None));
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
