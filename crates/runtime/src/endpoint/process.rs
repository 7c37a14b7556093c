//! A worker that is a process of its own.

use super::mailbox::Mailed;
use super::{DeathWord, Endpoint, Evidence, Report};
use crate::bootstrap;
use crate::message::{Ended, Verdict};
use crate::process::reaper::Exit;
use crate::process::spawn::{Child, Nursery};
use crate::process::startup::Starting;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How long the proof of a death may take before waiters are told without it.
const PATIENCE: Duration = Duration::from_millis(2);
/// How often a worker is started again that has done nothing since it was started.
const ATTEMPTS: u32 = 3;

/// The node's end of a process.
pub(crate) struct Process {
    mail: Mailed,
    child: Child,
    /// Why it was given up, if that was before it died.
    broken: Option<Box<str>>,
    /// Since when its death is known and not proven.
    dying: Option<Instant>,
    is_warned: bool,
    is_told: bool,
    is_stopped: bool,
    /// How it is started again, if it is.
    again: Option<Rebirth>,
}

/// How a worker that is lost is started again.
pub(crate) struct Rebirth {
    /// The worker's own; it goes when the worker does.
    nursery: Weak<Nursery>,
    /// What it reported when it was first ready.
    report: bootstrap::Report,
    /// How long it may take to be ready.
    budget: Duration,
    /// How often it may still be lost without having done anything.
    left: u32,
    /// The process that is to take its place, and until when it must be ready.
    next: Option<(Starting, Instant)>,
    /// What it is sent meanwhile.
    held: Vec<Held>,
    /// What was recalled of that.
    skipped: Vec<u64>,
    /// A process that starts makes progress in its own way.
    looks: AtomicU64,
}

/// A task that waits for a process to take over: its dispatch, what it is behind, its message.
type Held = (u64, Vec<u64>, Vec<u8>);

impl Rebirth {
    pub(crate) fn new(nursery: &Arc<Nursery>, report: bootstrap::Report, budget: Duration) -> Self {
        let (nursery, looks) = (Arc::downgrade(nursery), AtomicU64::new(0));
        let (left, next, held, skipped) = (ATTEMPTS, None, Vec::new(), Vec::new());
        Self { nursery, report, budget, left, next, held, skipped, looks }
    }

    /// Starts another process in the place of `child`.
    fn begin(&mut self, child: &Child) -> Result<(), String> {
        if self.left == 0 {
            return Err(format!("it was lost {ATTEMPTS} times without having done anything"));
        }
        self.left -= 1;
        let now = Instant::now();
        let nursery = self.nursery.upgrade().ok_or("the worker is closed")?;
        let next = Starting::new(&nursery, child.role, now);
        let next = next.map_err(|error| format!("it cannot be started again: {error}"))?;
        self.next = Some((next, now + self.budget));
        Ok(())
    }

    /// The process that takes over, as soon as it is ready.
    fn look(&mut self) -> Result<Option<Starting>, String> {
        let Some((next, until)) = &mut self.next else { return Ok(None) };
        let is_ready = next.look().map_err(|error| error.to_string())?;
        if is_ready && !next.report.as_ref().is_some_and(|report| report.agrees(&self.report)) {
            return Err("its bootstrap reports other buffers than at first".to_owned());
        }
        if !is_ready && Instant::now() >= *until {
            return Err(format!("it was not ready again within {:.1?}", self.budget));
        }
        Ok(if is_ready { self.next.take().map(|(next, _)| next) } else { None })
    }
}

impl Process {
    pub(crate) fn new(mail: Mailed, child: Child, again: Option<Rebirth>) -> Self {
        let (broken, dying) = (None, None);
        let (is_warned, is_told, is_stopped) = (false, false, false);
        Self { mail, child, broken, dying, is_warned, is_told, is_stopped, again }
    }

    /// What it says cannot be believed any more: it is ended, and its end is proven before anything else.
    fn give_up(&mut self, words: Box<str>) {
        self.broken.get_or_insert(words);
        self.child.kill();
    }

    /// The process is gone: all that it published counts, and then it is lost, or replaced.
    fn bury(&mut self, reports: &mut Vec<Report>) {
        let Some(exit) = self.child.exit() else { return };
        self.is_told = true;
        // What was published before the death can be seen now, also if it was not a moment ago.
        let damaged = if self.broken.is_none() { self.mail.poll(reports).err() } else { None };
        if self.is_stopped && exit == Exit::Status(0) {
            return reports.push(Report::Left);
        }
        let end = self.child.obituary(exit);
        let broken = self.broken.take().or(damaged);
        let words = broken.map_or_else(|| end.clone(), |broken| format!("{broken}; {end}"));
        self.note_work(reports);
        let again = self.again.as_mut().filter(|_| !self.is_stopped);
        reports.push(match again.map(|again| again.begin(&self.child)) {
            None => Report::Lost(words.into()),
            Some(Ok(())) => Report::Replaced(words.into()),
            Some(Err(why)) => Report::Lost(format!("{words}; {why}").into()),
        });
    }

    /// Lets the process that takes over take over, if it can.
    fn look_after_next(&mut self, reports: &mut Vec<Report>) {
        let Some(again) = self.again.as_mut().filter(|again| again.next.is_some()) else { return };
        for dispatch in again.skipped.drain(..) {
            let verdict = Verdict::Skipped;
            let ended = Ended { dispatch, verdict, begun: 0, nanoseconds: 0, picoseconds: 0 };
            reports.push(Report::Ended(ended, None));
        }
        match again.look() {
            Ok(None) => {}
            Ok(Some(next)) => {
                let held = std::mem::take(&mut again.held);
                next.side.open();
                (self.mail, self.child) = (Mailed::new(next.side), next.child);
                (self.dying, self.is_warned, self.is_told) = (None, false, false);
                for (dispatch, behind, message) in held {
                    self.send(dispatch, &behind, &message);
                }
                self.flush();
                if self.is_stopped {
                    self.mail.stop();
                }
            }
            Err(why) => {
                if let Some((next, _)) = again.next.take() {
                    next.child.kill();
                    self.child = next.child;
                }
                reports.push(Report::Lost(why.into()));
                self.again = None;
            }
        }
    }

    /// The kernel says that it dies, but it is not gone yet.
    fn notice_dying(&mut self, reports: &mut Vec<Report>) {
        if !self.mail.side.is_dead() {
            return;
        }
        let since = *self.dying.get_or_insert_with(Instant::now);
        if !self.is_warned && since.elapsed() >= PATIENCE {
            self.is_warned = true;
            reports.push(Report::Dying(self.child.notice().into()));
        }
    }

    /// Who has ended a task is worth being started again.
    fn note_work(&mut self, reports: &[Report]) {
        if let Some(again) = &mut self.again
            && reports.iter().any(|report| matches!(report, Report::Ended(..)))
        {
            again.left = ATTEMPTS;
        }
    }

    /// The process that starts in its place.
    fn next(&self) -> Option<&(Starting, Instant)> {
        self.again.as_ref().and_then(|again| again.next.as_ref())
    }
}

impl Endpoint for Process {
    fn name(&self) -> String {
        self.child.name()
    }

    fn send(&mut self, dispatch: u64, behind: &[u64], message: &[u8]) {
        if let Some(again) = self.again.as_mut().filter(|again| again.next.is_some()) {
            return again.held.push((dispatch, behind.to_vec(), message.to_vec()));
        }
        if self.broken.is_none()
            && let Err(words) = self.mail.send(dispatch, behind, message)
        {
            self.give_up(words);
        }
    }

    fn recall(&mut self, dispatch: u64) {
        if let Some(again) = self.again.as_mut().filter(|again| again.next.is_some()) {
            let at = again.held.iter().position(|(held, ..)| *held == dispatch);
            again.skipped.extend(at.map(|at| again.held.remove(at).0));
            return;
        }
        self.mail.recall(dispatch);
    }

    fn flush(&mut self) {
        self.mail.flush();
    }

    fn poll(&mut self, reports: &mut Vec<Report>) {
        if self.is_told {
            return self.look_after_next(reports);
        }
        if self.broken.is_none()
            && let Err(words) = self.mail.poll(reports)
        {
            self.give_up(words);
        }
        self.note_work(reports);
        self.bury(reports);
        if !self.is_told {
            self.notice_dying(reports);
        }
    }

    fn evidence(&self) -> Evidence {
        match (self.next(), &self.again) {
            (Some(_), Some(again)) => {
                let progress = again.looks.fetch_add(1, Ordering::Relaxed);
                Evidence { progress, ..Evidence::default() }
            }
            _ => self.mail.evidence(),
        }
    }

    fn stop(&mut self) {
        self.is_stopped = true;
        if self.next().is_none() {
            self.mail.stop();
        }
    }

    fn has_left(&mut self) -> bool {
        self.next().is_none() && self.child.exit().is_some()
    }

    fn death_word(&self) -> Option<DeathWord> {
        if self.is_told || self.dying.is_some() {
            return None;
        }
        let segment = self.mail.side.segment().clone();
        Some(DeathWord { segment, offset: self.mail.side.robust_offset() })
    }

    fn is_replaced(&self) -> bool {
        self.again.as_ref().is_some_and(|again| again.left > 0) && !self.is_stopped
    }

    fn look_again(&self) -> Option<Instant> {
        if let Some((_, until)) = self.next() {
            return Some(*until);
        }
        let is_waiting = !self.is_told && !self.is_warned;
        self.dying.filter(|_| is_waiting).map(|dying| dying + PATIENCE)
    }

    fn kill(&mut self) -> bool {
        match self.next() {
            Some((next, _)) => next.child.kill(),
            None => self.child.kill(),
        }
        true
    }
}
