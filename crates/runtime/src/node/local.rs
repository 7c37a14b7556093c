//! Short tasks stay with who submits them: handing one over would take longer than running it.
//!
//! What tasks of each callable took is remembered. Once all of the last submissions were of callables whose tasks are short,
//! the other workers of the pool get no more of them, and the submitter runs what is ready between submissions, while
//! everything about those tasks is still in its cache. The first submission that is not known to be short ends that.
//!
//! - **LOC-1 (short ones only).** Tasks stay only if those of their callable were short lately; what is not known is handed
//!   over.
//! - **LOC-3 (to itself).** A task of a pool that is known to take a millisecond or more, or of whose callable nothing is known,
//!   has its worker to itself.
//! - **LOC-2 (not kept back).** When the submitter has submitted its graph, flushes, fails or panics, everybody takes part again; while an
//!   earlier run is unfinished, or once callers were given up as stuck, everybody does anyway.

use super::Core;
use crate::message::Ended;
use crate::runner::SHORT_NANOSECONDS;
use phalanx_engine::{Health, WorkerId};

/// Tasks that take more have a worker to themselves: nobody waits behind one while another worker has nothing to do.
const ALONE_NANOSECONDS: u64 = 1_000_000;
/// How many that end are all looked at after one was submitted of which nothing is known.
const EAGER: u32 = 64;
/// Tasks that take more are all looked at.
const LONG_NANOSECONDS: u64 = 2_000;
/// And count as if they took this.
const LONGEST_NANOSECONDS: u64 = 3_000;
/// So many short submissions in a row, and they stay.
const STREAK: u32 = 16;
/// One of so many tasks is looked at.
const SAMPLE: u32 = 16;

/// What tasks of each callable take, as far as that is known.
#[derive(Default, Clone)]
pub(super) struct Lengths(Vec<Option<Length>>);

/// What tasks of a callable take, in nanoseconds; the last ones count most.
#[derive(Clone, Copy)]
struct Length {
    /// Interruptions count for little.
    usual: u64,
    /// They count for what they took.
    whole: u64,
}

impl Lengths {
    fn of(callables: usize) -> Self {
        Self(vec![None; callables])
    }

    fn get(&self, callable: u32) -> Option<Length> {
        self.0.get(callable as usize).copied().flatten()
    }

    #[inline]
    pub(super) fn is_short(&self, callable: u32) -> bool {
        self.get(callable).is_some_and(|length| length.usual < SHORT_NANOSECONDS)
    }

    /// Whether its tasks are worth a worker of their own, or nobody knows.
    #[inline]
    fn is_worth_a_worker(&self, callable: u32) -> bool {
        self.get(callable).is_none_or(|length| length.whole >= ALONE_NANOSECONDS)
    }

    /// Tasks of this callable are long, whatever most of them take.
    pub(super) fn note_long(&mut self, callable: u32) {
        if let Some(Some(length)) = self.0.get_mut(callable as usize) {
            length.usual = LONGEST_NANOSECONDS;
        }
    }

    pub(super) fn note(&mut self, callable: u32, nanoseconds: u64) {
        let Some(length) = self.0.get_mut(callable as usize) else { return };
        // A single long one may have met with an interruption; two in a row are long.
        let counted = nanoseconds.min(LONGEST_NANOSECONDS);
        let before = length.unwrap_or(Length { usual: counted, whole: nanoseconds });
        let mean = |before: u64, now: u64| (before / 4).saturating_mul(3).saturating_add(now / 4);
        let whole = mean(before.whole, nanoseconds);
        *length = Some(Length { usual: (3 * before.usual + counted) / 4, whole });
    }
}

/// Which tasks stay.
#[derive(Default)]
pub(crate) struct Local {
    /// Whether who submits runs tasks at all.
    is_helping: bool,
    /// Who else could take them.
    others: Vec<WorkerId>,
    pub(super) lengths: Lengths,
    /// How many submissions in a row were short.
    streak: u32,
    /// Whether tasks stay.
    is_on: bool,
    /// How many have ended since one was looked at.
    unseen: u32,
    /// How many of the next to end are looked at.
    eager: u32,
}

impl Local {
    /// With these other workers, and so many callables.
    pub(crate) fn new(others: &[WorkerId], callables: usize) -> Self {
        let (is_helping, lengths) = (true, Lengths::of(callables));
        Self { is_helping, others: others.to_vec(), lengths, ..Self::default() }
    }

    /// Where who submits runs nothing.
    pub(crate) fn elsewhere(callables: usize) -> Self {
        Self { lengths: Lengths::of(callables), ..Self::default() }
    }

    /// Whether a task of this callable is to have a worker to itself.
    #[inline]
    pub(crate) fn is_to_be_alone(&mut self, callable: u32) -> bool {
        if !self.lengths.is_worth_a_worker(callable) {
            return false;
        }
        self.eager = EAGER;
        true
    }

    /// Whether tasks stay with who submits them.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Whether this one of many is to be looked at.
    #[inline]
    pub(super) fn is_sampled(&mut self, nanoseconds: u64) -> bool {
        self.unseen += 1;
        self.unseen >= SAMPLE || nanoseconds >= LONG_NANOSECONDS || self.eager > 0
    }
}

impl Core {
    /// A task of this callable was submitted.
    #[inline]
    pub(crate) fn note_submission(&mut self, callable: u32) {
        if !self.local.is_helping {
            return;
        }
        if !self.local.lengths.is_short(callable) {
            self.spread();
        } else if self.local.streak < STREAK {
            self.local.streak += 1;
            if self.local.streak == STREAK {
                self.stay_if_alone();
            }
        }
    }

    /// The others get no more tasks, unless there are some of an earlier run, which goes on whatever the submitter does, or
    /// callers get none.
    #[cold]
    fn stay_if_alone(&mut self) {
        let caller = self.caller.as_ref().and_then(|(caller, _)| self.engine.health(*caller));
        if self.engine.unfinished_runs() > 1 || caller != Some(Health::Ready) {
            self.local.streak = 0;
            return;
        }
        self.local.is_on = true;
        for worker in &self.local.others {
            self.engine.pause(*worker);
        }
    }

    /// Everybody takes part.
    #[inline]
    pub(crate) fn spread(&mut self) {
        self.local.streak = 0;
        if self.local.is_on {
            self.call_the_others();
        }
    }

    #[cold]
    fn call_the_others(&mut self) {
        self.local.is_on = false;
        for worker in &self.local.others {
            self.engine.resume(*worker);
        }
        self.carry_out();
    }

    /// Remembers what a task took that has just ended and is still known to the engine.
    #[inline(never)]
    pub(super) fn note_length(&mut self, worker: WorkerId, ended: &Ended) {
        let mut flights = self.engine.flights(worker);
        let flight = flights.find(|flight| flight.dispatch == ended.dispatch);
        let Some(task) = flight.map(|flight| flight.task) else { return };
        drop(flights);
        let callable = self.jobs[task.slot()].callable;
        self.local.unseen = 0;
        self.local.eager = self.local.eager.saturating_sub(1);
        self.local.lengths.note(callable, ended.nanoseconds);
        if !self.local.lengths.is_short(callable) {
            self.spread();
        }
    }
}
