//! One run on several threads or processes: shards, and the seam between them.
//!
//! A *shard* is a machine that has a contiguous block of the SIPs of a run. Every shard runs the same program: it builds the same machine
//! and makes the same calls in the same order, but starts the kernels and the ranks of its own SIPs alone. The shards meet between
//! windows of simulated time; nothing else passes between them.
//!
//! - **XCH-1 (same bits).** Whatever can be observed of a run does not depend on the number of shards: times, numbers, reports,
//!   logs, failures and deadlocks.
//! - **XCH-2 (one meeting).** Shards meet once a window: they swap what crosses and agree on the next window. They meet again only where a
//!   credit on its way may be the next event.
//! - **XCH-3 (by bytes).** Shards of other processes get bytes, and the run is the same.

mod mirror;

pub use mirror::{Mirror, Symmetry};

use std::any::Any;
use std::sync::Arc;

/// The facts that a shard knows between two windows, and, joined, those of all shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Time of the next event in picoseconds, `u64::MAX` if there is none.
    pub due: u64,
    /// Time of the first event that may turn out to be none.
    pub unsure: u64,
    /// Earliest deadline of a dozing process.
    pub doze: u64,
    /// Number of paused processes.
    pub paused: u64,
    /// Number of events so far.
    pub events: u64,
    /// Latest instant that was reached.
    pub latest: u64,
    /// Number of unfinished processes.
    pub live: u64,
    /// Steps of the critical path since they were folded last.
    pub steps: u64,
    /// True if a process ended the run.
    pub is_stopped: bool,
    /// True if the caller ended the run.
    pub is_interrupted: bool,
}

crate::portable!(struct Standing {
    due, unsure, doze, paused, events, latest, live, steps, is_stopped, is_interrupted,
});

impl Standing {
    /// Returns what two shards, or two groups of shards, know together.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        Self {
            due: self.due.min(other.due),
            unsure: self.unsure.min(other.unsure),
            doze: self.doze.min(other.doze),
            paused: self.paused + other.paused,
            events: self.events + other.events,
            latest: self.latest.max(other.latest),
            live: self.live + other.live,
            steps: self.steps + other.steps,
            is_stopped: self.is_stopped || other.is_stopped,
            is_interrupted: self.is_interrupted || other.is_interrupted,
        }
    }
}

/// Something that crosses from one shard to another: a message, a credit, a packet.
pub struct Parcel(pub(crate) crate::machine::Crossing);

crate::portable!(tuple Parcel);

/// Notes of a shard for all others.
pub type Notes = Arc<dyn Any + Send + Sync>;

/// The way between the shards of a run, as one of them sees it.
///
/// Every shard makes the same calls in the same order; a call returns when all shards have made it.
pub trait Exchange: Send + Sync {
    /// Returns the number of this shard.
    fn shard(&self) -> usize;

    /// Returns the number of shards.
    fn shards(&self) -> usize;

    /// Agrees on a standing, and swaps parcels: `out[s]` holds the parcels for shard `s`, and `into[s]` receives the
    /// parcels of shard `s`, in the order of sending.
    fn meet(&self, own: Standing, out: &mut [Vec<Parcel>], into: &mut [Vec<Parcel>]) -> Standing;

    /// Gathers the notes of all shards, in the order of their numbers.
    fn gather(&self, own: Notes) -> Vec<Notes>;

    /// Gathers the notes of all shards in shard 0; others may get nothing.
    fn gather_first(&self, own: Notes) -> Vec<Notes> {
        self.gather(own)
    }

    /// True if some shards are in other processes. Notes are then a `Vec<u8>`, their [portable
    /// form](mod@crate::portable).
    fn takes_bytes(&self) -> bool {
        false
    }

    /// Does some work while no other shard of this process does its own such work.
    fn by_turns(&self, work: &mut dyn FnMut());

    /// True if this shard stands for all others, which nobody simulates (MIR-1).
    fn is_mirror(&self) -> bool {
        false
    }
}
