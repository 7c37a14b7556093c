//! A domain from the side of its node: its memory, and the node's own accesses to it.

use super::notice::{Notice, Until};
use super::roster::Roster;
use crate::shm::{Bell, Segment, SegmentError};
use crate::sync::{Ordering, shared::AtomicU64};
use crate::tensor::Buffer;
use std::sync::Arc;

/// Contents of a [`Domain`](super::Domain).
pub(crate) struct Allocated {
    pub(crate) roster: Arc<Roster>,
    /// Index of each rank's worker.
    pub(crate) links: Vec<usize>,
    /// Owner of its memory.
    pub(super) owner: u64,
    /// The memory of the notices, which nobody is given, and then the windows; the last goes first.
    buffers: Vec<Buffer>,
    /// Notice of each rank.
    notices: Vec<Notice>,
    /// The bell of each window.
    bells: Vec<Bell>,
    memory: Segment,
}

impl Drop for Allocated {
    fn drop(&mut self) {
        while self.buffers.pop().is_some() {}
    }
}

impl Allocated {
    /// Creates a domain in `memory`; `buffers` are the notices and the windows of the roster.
    pub(super) fn new(
        roster: Roster,
        links: Vec<usize>,
        owner: u64,
        buffers: Vec<Buffer>,
        memory: &Segment,
    ) -> Result<Self, SegmentError> {
        let notice = |rank| Notice::at(memory, roster.notice(rank).unwrap_or(u64::MAX));
        let notices = (0..roster.members.len()).map(notice).collect::<Result<_, _>>()?;
        let bell = |window: u64| Bell::at(memory, place(window + roster.bell()));
        let bells = roster.members.iter().map(|member| bell(member.window));
        let bells = bells.collect::<Result<_, _>>()?;
        let (roster, memory) = (Arc::new(roster), memory.clone());
        Ok(Self { roster, links, owner, buffers, notices, bells, memory })
    }

    /// Returns the window of a rank.
    pub(super) fn window(&self, rank: usize) -> Option<&Buffer> {
        self.buffers.get(rank.checked_add(1)?)
    }

    /// Tells all ranks that nobody waits for `rank` any more, and why.
    pub(crate) fn tell(&self, rank: usize, until: Until, words: &str) {
        self.notices[rank].post(until, words);
        for bell in &self.bells {
            bell.ring();
        }
    }

    /// True if all were told that nobody waits for `rank` in this run.
    pub(crate) fn is_told(&self, rank: usize, run: u64) -> bool {
        self.notices[rank].is_posted(run)
    }

    /// Makes it as if every rank had come to as many barriers as the one that came to the most; nobody may be at one.
    pub(crate) fn realign_barriers(&self) {
        let ranks = 0..self.roster.members.len();
        let cells =
            ranks.clone().flat_map(|owner| ranks.clone().map(move |writer| (owner, writer)));
        let words = cells.filter_map(|(owner, writer)| self.barrier_cell(owner, writer));
        let words: Vec<&AtomicU64> = words.collect();
        // SYNC: their writers have ended, and their next readers are sent a task after this.
        let most = words.iter().map(|word| word.load(Ordering::Acquire)).max().unwrap_or(0);
        for word in words {
            word.store(most, Ordering::Release);
        }
    }

    fn barrier_cell(&self, owner: usize, writer: usize) -> Option<&AtomicU64> {
        let window = self.roster.members.get(owner)?.window;
        let at = window.checked_add(self.roster.cell(writer, self.roster.signals))?;
        self.memory.word64(place(at)).ok()
    }
}

/// Converts an offset for a memory that checks it.
fn place(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}
