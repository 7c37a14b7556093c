//! A worker that is a process of its own.

use super::mailbox::MailboxClient;
use super::restart::{News, Restart};
use super::{DeathWord, Endpoint, WorkerEvent};
use crate::message::Ended;
use crate::process::reaper::Exit;
use crate::process::spawn::Child;
use crate::process::startup::Starting;
use crate::shm::mailbox::Evidence;
use std::time::{Duration, Instant};

/// Time for the proof of a death, before waiters are told without it.
const PATIENCE: Duration = Duration::from_millis(2);

/// The node's end of a process.
pub(crate) struct Process {
    mail: MailboxClient,
    child: Child,
    /// Reason why it was killed, if it was.
    broken: Option<Box<str>>,
    /// Since when its death is known and not proven.
    dying: Option<Instant>,
    is_warned: bool,
    is_told: bool,
    is_stopped: bool,
    /// Its restart, if the builder asked for that.
    again: Option<Restart>,
}

impl Process {
    pub(crate) fn new(mail: MailboxClient, child: Child, again: Option<Restart>) -> Self {
        let (broken, dying) = (None, None);
        let (is_warned, is_told, is_stopped) = (false, false, false);
        Self { mail, child, broken, dying, is_warned, is_told, is_stopped, again }
    }

    /// Kills the process, since its messages cannot be trusted; its end is proven before anything else.
    fn give_up(&mut self, words: Box<str>) {
        self.broken.get_or_insert(words);
        self.child.kill();
    }

    /// Takes in the end of the process: all that it published counts, and then it is lost, or replaced.
    fn reap(&mut self, events: &mut Vec<WorkerEvent>) {
        let Some(exit) = self.child.exit() else { return };
        self.is_told = true;
        // The endings that the child published before its death are visible now, even if they were not a moment ago.
        let damaged = if self.broken.is_none() { self.mail.poll(events).err() } else { None };
        if self.is_stopped && exit == Exit::Status(0) {
            return events.push(WorkerEvent::Left);
        }
        let end = self.child.describe_exit(exit);
        let broken = self.broken.take().or(damaged);
        let words = broken.map_or_else(|| end.clone(), |broken| format!("{broken}; {end}"));
        self.note_work(events);
        let again = self.again.as_mut().filter(|_| !self.is_stopped);
        events.push(match again.map(|again| again.begin(&words)) {
            None => WorkerEvent::Lost(words.into()),
            Some(Ok(())) => WorkerEvent::Replaced(words.into()),
            Some(Err(story)) => WorkerEvent::Lost(story.into()),
        });
    }

    /// Lets the next process take over, if it is ready.
    fn look_after_next(&mut self, events: &mut Vec<WorkerEvent>) {
        let Some(again) = self.again.as_mut().filter(|again| again.is_on()) else { return };
        for dispatch in again.skipped.drain(..) {
            events.push(WorkerEvent::Ended(Ended::skipped(dispatch), None));
        }
        match again.look(self.is_stopped) {
            News::None => {}
            News::Ready(next) => self.take_over(*next),
            News::Again(child, words) => {
                self.child = child;
                events.push(WorkerEvent::Again(words.into()));
            }
            News::Lost(child, words) => {
                if let Some(child) = child {
                    self.child = child;
                }
                self.again = None;
                events.push(WorkerEvent::Lost(words.into()));
            }
        }
    }

    /// Lets another process take the place of the lost one, and sends it the deferred tasks.
    fn take_over(&mut self, next: Starting) {
        let deferred = self.again.as_mut().map(Restart::take_deferred);
        next.side.open();
        (self.mail, self.child) = (MailboxClient::new(next.side), next.child);
        (self.dying, self.is_warned, self.is_told) = (None, false, false);
        for task in deferred.into_iter().flatten() {
            self.send(task.dispatch, &task.behind, &task.message);
        }
        self.flush();
        if self.is_stopped {
            self.mail.stop();
        }
    }

    /// Takes in the kernel's notice of a death that is not proven yet.
    fn notice_dying(&mut self, events: &mut Vec<WorkerEvent>) {
        if !self.mail.side.is_dead() {
            return;
        }
        let since = *self.dying.get_or_insert_with(Instant::now);
        if !self.is_warned && since.elapsed() >= PATIENCE {
            self.is_warned = true;
            events.push(WorkerEvent::Dying(self.child.notice().into()));
        }
    }

    /// Notes that the process has ended a task: it is worth being started again.
    fn note_work(&mut self, events: &[WorkerEvent]) {
        if let Some(again) = &mut self.again
            && events.iter().any(|event| matches!(event, WorkerEvent::Ended(..)))
        {
            again.has_worked();
        }
    }

    /// Returns the restart, if one is under way.
    fn next(&self) -> Option<&Restart> {
        self.again.as_ref().filter(|again| again.is_on())
    }

    fn next_mut(&mut self) -> Option<&mut Restart> {
        self.again.as_mut().filter(|again| again.is_on())
    }
}

impl Endpoint for Process {
    fn name(&self) -> String {
        self.child.name()
    }

    fn send(&mut self, dispatch: u64, behind: &[u64], message: &[u8]) {
        if let Some(again) = self.next_mut() {
            return again.defer(dispatch, behind, message);
        }
        if self.broken.is_none()
            && let Err(words) = self.mail.send(dispatch, behind, message)
        {
            self.give_up(words);
        }
    }

    fn recall(&mut self, dispatch: u64) {
        if let Some(again) = self.next_mut() {
            return again.recall(dispatch);
        }
        self.mail.recall(dispatch);
    }

    fn flush(&mut self) {
        self.mail.flush();
    }

    fn poll(&mut self, events: &mut Vec<WorkerEvent>) {
        if self.is_told {
            return self.look_after_next(events);
        }
        if self.broken.is_none()
            && let Err(words) = self.mail.poll(events)
        {
            self.give_up(words);
        }
        self.note_work(events);
        self.reap(events);
        if !self.is_told {
            self.notice_dying(events);
        }
    }

    fn evidence(&self) -> Evidence {
        match self.next() {
            Some(again) => Evidence { progress: again.progress(), ..Evidence::default() },
            None => self.mail.evidence(),
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
        self.again.as_ref().is_some_and(Restart::has_attempts) && !self.is_stopped
    }

    fn look_again(&self) -> Option<Instant> {
        if let Some(again) = self.next() {
            return again.look_again();
        }
        let is_waiting = !self.is_told && !self.is_warned;
        self.dying.filter(|_| is_waiting).map(|dying| dying + PATIENCE)
    }

    fn kill(&mut self) -> bool {
        match self.next() {
            Some(again) => again.kill(),
            None => self.child.kill(),
        }
        true
    }
}
