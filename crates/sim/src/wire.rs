//! Busy-until arithmetic: a wire, an engine or a memory port that serves one thing after another.
//!
//! Nothing here is scheduled: who comes computes when its turn begins and ends, and the wire remembers until when
//! it is taken.
//!
//! - **WIR-1 (FIFO).** Turns begin in order of asking, and do not overlap.
//! - **WIR-2 (work).** A wire with an unlimited rate never delays anybody.

use crate::record::Path;
use crate::spec::WireSpec;
use crate::stall::Kind;
use crate::time::{Rate, Time};

/// One thing at a time, first come first served.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wire {
    free: Time,
    /// What led to `free`: the critical path of whoever has to wait for it.
    last: Path,
    pub(crate) busy: Time,
    pub(crate) bytes: u64,
    pub(crate) turns: u64,
    pub(crate) first: Time,
}

/// When a turn begins and ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) start: Time,
    pub(crate) end: Time,
}

impl Wire {
    /// Takes the wire for `span`, not before `ready`. Where that means waiting for another's turn to end, `path`
    /// becomes the one that led there.
    #[inline]
    pub(crate) fn take(&mut self, ready: Time, span: Time, bytes: u64, path: &mut Path) -> Turn {
        let start = if self.free > ready {
            // A turn cut through may end before the last byte that comes through it: what led to that byte did
            // not lead here.
            if self.last.at() <= self.free {
                *path = self.last;
            }
            self.free
        } else {
            ready
        };
        if self.turns == 0 {
            self.first = start;
        }
        self.turns += 1;
        self.bytes += bytes;
        self.busy += span;
        self.free = start + span;
        Turn { start, end: self.free }
    }

    /// Says what led to the end of the last turn, and when that was if it was later than promised.
    #[inline]
    pub(crate) fn leave(&mut self, end: Time, path: &Path) {
        if end > self.free {
            self.busy += end - self.free;
            self.free = end;
        }
        self.last = *path;
    }

    /// The end of the last turn.
    pub(crate) fn free(&self) -> Time {
        self.free
    }
}

/// Bytes on their way through several stages, cut-through: the head goes on while the tail still comes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    pub(crate) bytes: u64,
    pub(crate) head: Time,
    pub(crate) tail: Time,
    pub(crate) path: Path,
}

impl Flight {
    pub(crate) fn new(bytes: u64, ready: Time, path: Path) -> Self {
        Self { bytes, head: ready, tail: ready, path }
    }

    /// Passes a stage of `rate` and `latency` that `wire` keeps for one at a time.
    pub(crate) fn pass(&mut self, wire: &mut Wire, rate: Rate, latency: Time, kind: Kind) -> Turn {
        if rate.is_unlimited() {
            let turn = Turn { start: self.head, end: self.tail };
            self.delay(latency);
            return turn;
        }
        let turn = wire.take(self.head, rate.time_for(self.bytes), self.bytes, &mut self.path);
        let mut path = self.path;
        path.advance(turn.end, kind);
        wire.leave(turn.end, &path);
        self.head = turn.start;
        self.tail = self.tail.max(turn.end);
        self.delay(latency);
        turn
    }

    /// Arrives `latency` later.
    pub(crate) fn delay(&mut self, latency: Time) {
        self.head += latency;
        self.tail += latency;
    }
}

/// Whether a stage costs nothing at all.
pub(crate) fn is_free(spec: &WireSpec) -> bool {
    spec.bandwidth.is_unlimited() && spec.latency == Time::ZERO
}
