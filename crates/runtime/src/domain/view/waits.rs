//! Waits of ranks for each other, and their ends.

use super::{DomainError, DomainView, place};
use crate::message::Step;
use crate::shm::SegmentError;
use crate::sync::Ordering;
use std::time::{Duration, Instant};

/// Goal of a wait.
#[derive(Clone, Copy)]
struct Wanted {
    cell: u32,
    value: u64,
    deadline: Instant,
    within: Duration,
}

impl DomainView<'_> {
    /// Waits until a peer's cell in this rank's window holds at least `wanted`, and returns the value of the cell.
    ///
    /// The wait ends at once if the peer is lost, or if one of its tasks has failed in this run; the error names the
    /// rank and the cause. A cell that already holds `wanted` counts in any case.
    pub fn wait(
        &self,
        peer: usize,
        cell: u32,
        wanted: u64,
        timeout: Duration,
    ) -> Result<u64, DomainError> {
        self.check_cell(cell)?;
        let (deadline, within) = (deadline(timeout)?, timeout);
        self.wait_until(peer, Wanted { cell, value: wanted, deadline, within })
    }

    /// Waits until all ranks have come as often as this one.
    ///
    /// The wait ends at once if a rank that has not come is lost, or if one of its tasks has failed in this run; the
    /// error names the rank and the cause. A failed rank takes part in no more barriers of its run. In the next run all
    /// ranks are in step again.
    pub fn barrier(&self, timeout: Duration) -> Result<(), DomainError> {
        let (deadline, cell) = (deadline(timeout)?, self.roster.signals);
        self.come()?;
        let round = self.word(self.rank, self.rank, cell)?.load(Ordering::Relaxed) + 1;
        for peer in 0..self.ranks() {
            self.set(peer, cell, |_| round)?;
        }
        for peer in 0..self.ranks() {
            let within = timeout;
            self.wait_until(peer, Wanted { cell, value: round, deadline, within })?;
        }
        Ok(())
    }

    /// Enters a barrier, unless the others are at another one.
    fn come(&self) -> Result<(), DomainError> {
        let (domain, rank) = (self.roster.name.clone(), self.rank);
        if let Some(words) = self.notices[rank].words(self.identity.run) {
            return Err(DomainError::OutOfStep { domain, rank, words });
        }
        let line =
            place(self.roster.members[rank].window + self.roster.cell(rank, self.roster.signals));
        let wrong = |error: SegmentError| super::memory_error(&self.roster, &error);
        let task = self.memory.word64(line + 8).map_err(wrong)?;
        let process = self.memory.word64(line + 16).map_err(wrong)?;
        // SYNC: only this rank writes these, and a process that takes its place is started after the one before was reaped.
        let was = (task.load(Ordering::Relaxed), process.load(Ordering::Relaxed));
        let now = (self.identity.dispatch, u64::from(self.identity.process));
        if was.0 == now.0 && was.1 != now.1 {
            let words = format!("process {} came to one with this task before it died", was.1);
            return Err(DomainError::OutOfStep { domain, rank, words });
        }
        process.store(now.1, Ordering::Relaxed);
        task.store(now.0, Ordering::Relaxed);
        Ok(())
    }

    fn wait_until(&self, peer: usize, wanted: Wanted) -> Result<u64, DomainError> {
        let word = self.word(self.rank, peer, wanted.cell)?;
        // SYNC: DOM-5: pairs with the store in `set`.
        let seen = word.load(Ordering::Acquire);
        if seen >= wanted.value {
            return Ok(seen);
        }
        self.tell(self.step(peer, wanted.cell));
        let is_over =
            || word.load(Ordering::Acquire) >= wanted.value || self.missing(peer, wanted).is_some();
        let bell = &self.bells[self.rank];
        self.waiting.wait(bell, &[], Some(wanted.deadline), is_over);
        self.tell(Step::Running);
        let missing = self.missing(peer, wanted);
        let seen = word.load(Ordering::Acquire);
        if seen >= wanted.value {
            return Ok(seen);
        }
        Err(missing.map_or_else(
            || self.timed_out(peer, seen, wanted),
            |(peer, words)| self.in_vain(peer, wanted, words),
        ))
    }

    /// Returns a rank that will not write, and why: the peer, or in a barrier the peer or one behind it.
    fn missing(&self, peer: usize, wanted: Wanted) -> Option<(usize, String)> {
        let behind = if wanted.cell == self.roster.signals { self.ranks() } else { peer + 1 };
        (peer..behind).find_map(|peer| {
            let words = self.notices[peer].words(self.identity.run)?;
            // SYNC: DOM-10: after the notice, so that what was written before counts; pairs with the store in `set`.
            let seen = self.word(self.rank, peer, wanted.cell).ok()?.load(Ordering::Acquire);
            (seen < wanted.value).then_some((peer, words))
        })
    }

    fn in_vain(&self, peer: usize, wanted: Wanted, words: String) -> DomainError {
        DomainError::InVain {
            domain: self.roster.name.clone(),
            rank: self.rank,
            what: self.what(wanted.cell),
            peer,
            chip: self.roster.members[peer].chip,
            words,
        }
    }

    fn timed_out(&self, peer: usize, seen: u64, wanted: Wanted) -> DomainError {
        DomainError::TimedOut {
            domain: self.roster.name.clone(),
            rank: self.rank,
            what: self.what(wanted.cell),
            peer,
            chip: self.roster.members[peer].chip,
            seen,
            wanted: wanted.value,
            within: wanted.within,
        }
    }

    fn what(&self, cell: u32) -> String {
        let is_barrier = cell == self.roster.signals;
        if is_barrier { "the barrier".to_owned() } else { format!("cell {cell}") }
    }

    pub(super) fn set(
        &self,
        peer: usize,
        cell: u32,
        change: impl Fn(u64) -> u64,
    ) -> Result<(), DomainError> {
        let word = self.word(peer, self.rank, cell)?;
        let found = word.load(Ordering::Relaxed);
        let value = change(found);
        if value < found {
            let (domain, writer, owner) = (self.roster.name.clone(), self.rank, peer);
            return Err(DomainError::Backwards { domain, cell, writer, owner, found, value });
        }
        // SYNC: DOM-5: all that was put before; pairs with the loads of waiters.
        word.store(value, Ordering::Release);
        self.bells[peer].ring();
        Ok(())
    }

    /// Says to the parent where we are.
    fn tell(&self, step: Step) {
        if let Some(witness) = &self.witness {
            witness.step(step.encode());
        }
    }

    fn step(&self, peer: usize, cell: u32) -> Step {
        let rank = u8::try_from(peer).unwrap_or(u8::MAX);
        Step::Waits { domain: Step::short(self.roster.id), rank, cell }
    }
}

fn deadline(within: Duration) -> Result<Instant, DomainError> {
    Instant::now().checked_add(within).ok_or(DomainError::Endless { within })
}
