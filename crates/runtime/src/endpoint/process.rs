//! A worker that is a process of its own.

use super::mailbox::Mailed;
use super::{DeathWord, Endpoint, Evidence, Report};
use crate::process::spawn::Child;
use std::time::{Duration, Instant};

/// How long the proof of a death may take before waiters are told without it.
const PATIENCE: Duration = Duration::from_millis(2);

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
}

impl Process {
    pub(crate) fn new(mail: Mailed, child: Child) -> Self {
        let (broken, dying) = (None, None);
        Self { mail, child, broken, dying, is_warned: false, is_told: false, is_stopped: false }
    }

    /// What it says cannot be believed any more: it is ended, and its end is proven before anything else.
    fn give_up(&mut self, words: Box<str>) {
        self.broken.get_or_insert(words);
        self.child.kill();
    }

    /// The process is gone: all that it published counts, and then it is lost.
    fn bury(&mut self, reports: &mut Vec<Report>) {
        let Some(exit) = self.child.exit() else { return };
        self.is_told = true;
        // What was published before the death can be seen now, also if it was not a moment ago.
        let damaged = if self.broken.is_none() { self.mail.poll(reports).err() } else { None };
        if self.is_stopped && exit == crate::process::reaper::Exit::Status(0) {
            return reports.push(Report::Left);
        }
        let end = self.child.obituary(exit);
        let broken = self.broken.take().or(damaged);
        let words = broken.map_or_else(|| end.clone(), |broken| format!("{broken}; {end}"));
        reports.push(Report::Lost(words.into()));
    }

    /// The kernel says that it dies, but it is not gone yet.
    fn notice_dying(&mut self, reports: &mut Vec<Report>) {
        if !self.mail.side.is_dead() {
            return;
        }
        let since = *self.dying.get_or_insert_with(Instant::now);
        if !self.is_warned && since.elapsed() >= PATIENCE {
            self.is_warned = true;
            let said = self.child.last_words();
            let said = if said.is_empty() { said } else { format!("; its last words: {said}") };
            let words = format!("the process has died and is being torn down{said}");
            reports.push(Report::Dying(words.into()));
        }
    }
}

impl Endpoint for Process {
    fn name(&self) -> String {
        self.child.name()
    }

    fn send(&mut self, dispatch: u64, message: &[u8]) {
        if self.broken.is_none()
            && let Err(words) = self.mail.send(dispatch, message)
        {
            self.give_up(words);
        }
    }

    fn recall(&mut self, dispatch: u64) {
        self.mail.recall(dispatch);
    }

    fn flush(&mut self) {
        self.mail.flush();
    }

    fn poll(&mut self, reports: &mut Vec<Report>) {
        if self.is_told {
            return;
        }
        if self.broken.is_none()
            && let Err(words) = self.mail.poll(reports)
        {
            self.give_up(words);
        }
        self.bury(reports);
        if !self.is_told {
            self.notice_dying(reports);
        }
    }

    fn evidence(&self) -> Evidence {
        self.mail.evidence()
    }

    fn stop(&mut self) {
        self.is_stopped = true;
        self.mail.stop();
    }

    fn has_left(&mut self) -> bool {
        self.child.exit().is_some()
    }

    fn death_word(&self) -> Option<DeathWord> {
        if self.is_told || self.dying.is_some() {
            return None;
        }
        let segment = self.mail.side.segment().clone();
        Some(DeathWord { segment, offset: self.mail.side.robust_offset() })
    }

    fn look_again(&self) -> Option<Instant> {
        let is_waiting = !self.is_told && !self.is_warned;
        self.dying.filter(|_| is_waiting).map(|dying| dying + PATIENCE)
    }

    fn kill(&mut self) -> bool {
        self.child.kill();
        true
    }
}
