//! Restart of a lost worker.
//!
//! ```text
//!   Over ── lost ──► Starting ── ready ──► Over: another process has taken over
//!             ▲         └── dies, fails, is late ──► Ending ── its end is proven ──┐
//!             │  no process could be made: Pausing ── a while later ──────────────►│
//!             └───────────────────────── attempts are left ────────────────────────┘
//! ```

use crate::allowance::Allowance;
use crate::bootstrap::BootReport;
use crate::failure::cut;
use crate::process::handoff::Role;
use crate::process::spawn::{Child, Spawner};
use crate::process::startup::Starting;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Restarts of a worker without a task that ended between them.
const ATTEMPTS: u32 = 3;
/// Pause after a process could not be started.
const PAUSE: Duration = Duration::from_millis(100);
/// Most bytes of each cause that are kept.
const CAUSE_BYTES: usize = 8 << 10;

/// A restart: what it needs, and its state.
pub(crate) struct Restart {
    /// The worker's own; it goes when the worker does.
    spawner: Weak<Spawner>,
    role: Role,
    /// Its report when it was first ready.
    report: BootReport,
    /// Time until it must be ready.
    budget: Duration,
    /// Restarts that are left.
    left: u32,
    /// Causes of its losses since it last ended a task, the first one first.
    causes: Vec<String>,
    state: State,
    /// Tasks to send to the process that takes over.
    deferred: Vec<DeferredTask>,
    /// Dispatches of deferred tasks that were recalled.
    pub(super) skipped: Vec<u64>,
    /// A process that starts makes progress in its own way.
    looks: AtomicU64,
}

/// A task that waits for a process to take over.
pub(super) struct DeferredTask {
    pub(super) dispatch: u64,
    /// The dispatches that the task is behind.
    pub(super) behind: Vec<u64>,
    pub(super) message: Vec<u8>,
}

/// State of the restart.
enum State {
    /// Nothing is under way.
    Over,
    /// A process is to take over.
    Starting(Box<Starting>, Allowance),
    /// A process cannot take over, and why; it may still touch memory.
    Ending(Box<Starting>, String),
    /// No process could be made.
    Pausing(Instant),
}

/// Progress of a restart.
pub(super) enum News {
    /// Nothing yet.
    None,
    /// This process takes over.
    Ready(Box<Starting>),
    /// This process could not take over and is gone, says why, and the next one is tried.
    Again(Child, String),
    /// It is lost for good; the last process, if there was one, and why.
    Lost(Option<Child>, String),
}

impl Restart {
    pub(crate) fn new(
        spawner: &Arc<Spawner>,
        role: Role,
        report: BootReport,
        budget: Duration,
    ) -> Self {
        Self {
            spawner: Arc::downgrade(spawner),
            role,
            report,
            budget,
            left: ATTEMPTS,
            causes: Vec::new(),
            state: State::Over,
            deferred: Vec::new(),
            skipped: Vec::new(),
            looks: AtomicU64::new(0),
        }
    }

    /// True if something is under way.
    pub(super) fn is_on(&self) -> bool {
        !matches!(self.state, State::Over)
    }

    /// True if another process would be started.
    pub(super) fn has_attempts(&self) -> bool {
        self.left > 0
    }

    /// Notes that it has ended a task, and is worth being started again.
    pub(super) fn has_worked(&mut self) {
        self.left = ATTEMPTS;
        self.causes.clear();
    }

    /// Returns a number that grows whenever it is asked for.
    pub(super) fn progress(&self) -> u64 {
        // SYNC: only that it differs counts; it orders nothing.
        self.looks.fetch_add(1, Ordering::Relaxed)
    }

    /// Keeps a task for the process that takes over.
    pub(super) fn defer(&mut self, dispatch: u64, behind: &[u64], message: &[u8]) {
        if behind.iter().any(|one| self.skipped.contains(one)) {
            return self.skipped.push(dispatch);
        }
        let (behind, message) = (behind.to_vec(), message.to_vec());
        self.deferred.push(DeferredTask { dispatch, behind, message });
    }

    /// Skips a kept task, and the tasks that were sent behind it (EP-7).
    pub(super) fn recall(&mut self, dispatch: u64) {
        let Self { deferred, skipped, .. } = self;
        deferred.retain(|task| {
            let is_behind = task.behind.iter().any(|other| skipped.contains(other));
            let is_skipped = task.dispatch == dispatch || is_behind;
            if is_skipped {
                skipped.push(task.dispatch);
            }
            !is_skipped
        });
    }

    /// Returns the time of the next look that is needed without an event.
    pub(super) fn look_again(&self) -> Option<Instant> {
        match &self.state {
            State::Over | State::Ending(..) => None,
            State::Starting(_, allowance) => Some(allowance.next()),
            State::Pausing(until) => Some(*until),
        }
    }

    /// Takes the tasks for the process that takes over.
    pub(super) fn take_deferred(&mut self) -> Vec<DeferredTask> {
        std::mem::take(&mut self.deferred)
    }

    /// Ends the process that starts, if there is one.
    pub(super) fn kill(&self) {
        if let State::Starting(next, _) | State::Ending(next, _) = &self.state {
            next.child.kill();
        }
    }

    /// Starts another process in the place of one that was lost like this; or says why not.
    pub(super) fn begin(&mut self, cause: &str) -> Result<(), String> {
        self.causes.push(cut(cause, CAUSE_BYTES).into_owned());
        if self.left == 0 {
            return Err(self.story());
        }
        self.left -= 1;
        let closed = || format!("{cause}; the worker is closed");
        let spawner = self.spawner.upgrade().ok_or_else(closed)?;
        match Starting::new(&spawner, self.role, Instant::now()) {
            Ok(next) => self.state = State::Starting(Box::new(next), Allowance::new(self.budget)),
            Err(error) if self.left == 0 => return self.begin(&error.to_string()),
            Err(error) => {
                self.causes.push(cut(&error.to_string(), CAUSE_BYTES).into_owned());
                self.state = State::Pausing(Instant::now() + PAUSE);
            }
        }
        Ok(())
    }

    /// Looks how far it is; nothing new is begun if `is_stopped`.
    pub(super) fn look(&mut self, is_stopped: bool) -> News {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Over => News::None,
            State::Starting(mut next, mut allowance) => match self.check(&mut next, &mut allowance)
            {
                Ok(true) => News::Ready(next),
                Ok(false) => {
                    self.state = State::Starting(next, allowance);
                    News::None
                }
                Err(why) => {
                    next.child.kill();
                    self.end(next, why, is_stopped)
                }
            },
            State::Ending(next, why) => self.end(next, why, is_stopped),
            State::Pausing(until) if Instant::now() < until && !is_stopped => {
                self.state = State::Pausing(until);
                News::None
            }
            State::Pausing(_) => {
                let why = self.causes.pop().unwrap_or_default();
                match self.again(&why, is_stopped) {
                    Ok(()) => News::None,
                    Err(words) => News::Lost(None, words),
                }
            }
        }
    }

    /// True if a process is ready to take over.
    fn check(&self, next: &mut Starting, allowance: &mut Allowance) -> Result<bool, String> {
        let is_ready = next.look().map_err(|error| error.to_string())?;
        let wrong = |words: String| Err(format!("{}: {words}", next.child.name()));
        if is_ready && !next.report.as_ref().is_some_and(|report| report.agrees(&self.report)) {
            return wrong("its bootstrap reports other buffers than at first".to_owned());
        }
        if !is_ready && !allowance.look() {
            return wrong(format!("it was not ready again within {:.1?}", self.budget));
        }
        Ok(is_ready)
    }

    /// Tries the next process after one that could not take over, once its end is proven.
    fn end(&mut self, next: Box<Starting>, why: String, is_stopped: bool) -> News {
        if next.child.exit().is_none() {
            self.state = State::Ending(next, why);
            return News::None;
        }
        match self.again(&why, is_stopped) {
            Ok(()) => News::Again(next.child, why),
            Err(words) => News::Lost(Some(next.child), words),
        }
    }

    fn again(&mut self, why: &str, is_stopped: bool) -> Result<(), String> {
        if is_stopped { Err(why.to_owned()) } else { self.begin(why) }
    }

    /// Describes all its losses.
    fn story(&self) -> String {
        let mut causes = self.causes.iter();
        let mut words = causes.next().cloned().unwrap_or_default();
        let _ =
            write!(words, "; it was started again {ATTEMPTS} times without having done anything:");
        for (number, cause) in (1..).zip(causes) {
            let _ = write!(words, "\n  {number}. {cause}");
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn restart() -> Restart {
        Restart {
            spawner: Weak::new(),
            role: Role::Sub { number: 0 },
            report: BootReport::default(),
            budget: Duration::from_secs(1),
            left: ATTEMPTS,
            causes: Vec::new(),
            state: State::Over,
            deferred: Vec::new(),
            skipped: Vec::new(),
            looks: AtomicU64::new(0),
        }
    }

    #[test]
    fn ep_4_ep_7_what_is_kept_behind_a_recalled_task_is_skipped_too() {
        let mut restart = restart();
        for (dispatch, behind) in [(1, vec![]), (2, vec![1]), (3, vec![]), (4, vec![3, 2])] {
            restart.defer(dispatch, &behind, b"a task");
        }
        restart.recall(7);
        assert!(restart.skipped.is_empty(), "EP-4: nobody knows it");
        restart.recall(1);
        assert_eq!(restart.skipped, [1, 2, 4], "EP-7");
        restart.defer(5, &[4], b"a task");
        restart.defer(6, &[3], b"a task");
        assert_eq!(restart.skipped, [1, 2, 4, 5], "EP-7: also what comes later");
        let deferred = restart.take_deferred().into_iter().map(|task| task.dispatch);
        assert_eq!(deferred.collect::<Vec<u64>>(), [3, 6], "EP-4: the others stay");
    }

    #[test]
    fn prc_9_a_story_names_every_cause_and_is_not_endless() {
        let mut restart = restart();
        let long = "x".repeat(1 << 20);
        restart.causes = ["it was killed", "it failed", &long].map(str::to_owned).to_vec();
        restart.left = 0;
        let words = restart.begin(&long).expect_err("PRC-9: no attempt is left");
        assert!(words.starts_with("it was killed; it was started again 3 times"), "PRC-9");
        assert!(words.contains("1. it failed") && words.ends_with("bytes more"), "PRC-9");
        restart.has_worked();
        let words = restart.begin("it was killed").expect_err("PRC-9: nobody could start it");
        assert_eq!(words, "it was killed; the worker is closed", "PRC-9");
    }
}
