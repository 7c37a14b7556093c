//! The reference: tasks run where they are asked for.

use super::{Endpoint, Evidence, Report};
use crate::message::Ended;
use crate::runner::Runner;
use std::collections::VecDeque;

/// A worker that runs its tasks when it is polled.
pub(crate) struct Inline {
    runner: Runner,
    waiting: VecDeque<(u64, Vec<u8>)>,
    recalled: Vec<u64>,
    is_stopped: bool,
}

impl Inline {
    /// Runs tasks with `runner`.
    pub(crate) fn new(runner: Runner) -> Self {
        Self { runner, waiting: VecDeque::new(), recalled: Vec::new(), is_stopped: false }
    }
}

impl Endpoint for Inline {
    fn name(&self) -> String {
        "the caller".to_owned()
    }

    fn send(&mut self, dispatch: u64, message: &[u8]) {
        self.waiting.push_back((dispatch, message.to_vec()));
    }

    fn recall(&mut self, dispatch: u64) {
        self.recalled.push(dispatch);
    }

    fn flush(&mut self) {}

    fn poll(&mut self, reports: &mut Vec<Report>) {
        while let Some((dispatch, message)) = self.waiting.pop_front() {
            if self.recalled.contains(&dispatch) {
                reports.push(Report::Ended(Ended::skipped(dispatch), None));
                continue;
            }
            let (ended, words) = self.runner.run(dispatch, &message);
            reports.push(Report::Ended(ended, words));
        }
        self.recalled.clear();
    }

    fn evidence(&self) -> Evidence {
        Evidence::default()
    }

    fn stop(&mut self) {
        self.is_stopped = true;
    }

    fn has_left(&mut self) -> bool {
        self.is_stopped && self.waiting.is_empty()
    }
}
