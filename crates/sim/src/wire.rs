//! Busy-until arithmetic: a wire, an engine or a memory port that serves one user at a time.
//!
//! A wire schedules no events: the user computes the start and the end of its turn, and the wire stores the end of its
//! last turn.
//!
//! - **WIR-1 (FIFO).** Turns begin in the order of requests, and do not overlap.
//! - **WIR-3 (not idle).** A load or store that needs a stage only later leaves a gap before its turn. Other loads and
//!   stores that fit fill the gap. Messages do not, because the messages of one edge must stay in order.
//! - **WIR-2 (work).** A wire with an unlimited rate delays no user.

use crate::record::Path;
use crate::spec::WireSpec;
use crate::stall::Kind;
use crate::time::{Rate, Time};

/// A stage that serves one user at a time, first come, first served.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wire {
    free: Time,
    /// Critical path to `free`, which a waiting user takes over.
    last: Path,
    pub(crate) busy: Time,
    pub(crate) bytes: u64,
    pub(crate) turns: u64,
    pub(crate) first: Time,
    /// Unused spans before `free`, left by turns that were taken ahead of time.
    gaps: Vec<Turn>,
}

/// The use of a wire from `start` to `end`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) start: Time,
    pub(crate) end: Time,
    /// True if the turn occupied the wire; false on an unlimited wire.
    pub(crate) taken: bool,
}

impl Wire {
    /// Takes the wire for `span`, not before `ready`. If the turn waits for the end of another turn, `path` becomes the
    /// critical path of that turn.
    #[inline]
    pub(crate) fn take(&mut self, ready: Time, span: Time, bytes: u64, path: &mut Path) -> Turn {
        let start = if self.free > ready {
            // A cut-through turn may end before its last byte arrives: the path of that byte is not the path to here.
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
        Turn { start, end: self.free, taken: true }
    }

    /// Takes a part of a gap, if `span` fits into one from `ready` on.
    fn fill_gap(&mut self, ready: Time, span: Time, bytes: u64) -> Option<Turn> {
        let fits = |gap: &Turn| gap.start.max(ready) + span <= gap.end;
        let index = self.gaps.iter().position(fits)?;
        let gap = self.gaps.swap_remove(index);
        let start = gap.start.max(ready);
        let turn = Turn { start, end: start + span, taken: true };
        self.leave_gap(gap.start, turn.start);
        self.leave_gap(turn.end, gap.end);
        self.turns += 1;
        self.bytes += bytes;
        self.busy += span;
        self.first = self.first.min(start);
        Some(turn)
    }

    /// Stores a gap, unless there are too many.
    fn leave_gap(&mut self, start: Time, end: Time) {
        if start < end && self.gaps.len() < GAPS {
            self.gaps.push(Turn { start, end, taken: false });
        }
    }

    /// Removes the gaps that have passed.
    fn forget_gaps(&mut self, now: Time) {
        self.gaps.retain(|gap| gap.end > now);
    }

    /// Sets the critical path to the end of the last turn, and the end if it is later than computed.
    #[inline]
    pub(crate) fn leave(&mut self, end: Time, path: &Path) {
        if end > self.free {
            self.busy += end - self.free;
            self.free = end;
        }
        self.last = *path;
    }

    /// Sets the critical path from `path` before the turn, and returns it: the caller advances it to the end.
    ///
    /// The copy comes before the change because a wide read after a narrow write stalls the processor.
    #[inline]
    pub(crate) fn leave_with(&mut self, end: Time, path: &Path) -> &mut Path {
        if end > self.free {
            self.busy += end - self.free;
            self.free = end;
        }
        self.last = *path;
        &mut self.last
    }

    /// Returns the critical path to the end of the last turn.
    pub(crate) fn last(&self) -> &Path {
        &self.last
    }

    /// Returns the end of the last turn.
    pub(crate) fn free(&self) -> Time {
        self.free
    }
}

/// Largest number of gaps that a wire stores.
const GAPS: usize = 64;

/// Bytes in flight through several stages, cut-through: the head moves on while the tail still arrives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    pub(crate) bytes: u64,
    pub(crate) head: Time,
    pub(crate) tail: Time,
    pub(crate) path: Path,
    /// Time of the request, if the flight may fill gaps.
    asked: Option<Time>,
}

impl Flight {
    pub(crate) fn new(bytes: u64, ready: Time, path: Path) -> Self {
        Self { bytes, head: ready, tail: ready, path, asked: None }
    }

    /// Creates a flight that is requested now, ready later, and may overtake others (WIR-3).
    pub(crate) fn ahead(bytes: u64, now: Time, ready: Time, path: Path) -> Self {
        Self { asked: Some(now), ..Self::new(bytes, ready, path) }
    }

    /// Returns the part of the flight that ends with byte `until` of `whole`, with the tail at the arrival of that byte.
    pub(crate) fn part(&self, bytes: u64, until: u64, whole: u64) -> Self {
        let coming = u128::from((self.tail - self.head).as_ps()) * u128::from(until);
        let tail = u64::try_from(coming.div_ceil(u128::from(whole.max(1)))).unwrap_or(u64::MAX);
        Self { bytes, tail: self.head + Time::ps(tail), ..*self }
    }

    /// Passes a stage of `rate` and `latency` that `wire` serves.
    pub(crate) fn pass(&mut self, wire: &mut Wire, rate: Rate, latency: Time, kind: Kind) -> Turn {
        if rate.is_unlimited() {
            let turn = Turn { start: self.head, end: self.tail, taken: false };
            self.delay(latency);
            return turn;
        }
        let span = rate.time_for(self.bytes);
        let turn = match self.in_gap(wire, span) {
            Some(turn) => turn,
            None => self.after_all(wire, span, kind),
        };
        self.head = turn.start;
        self.tail = self.tail.max(turn.end);
        self.delay(latency);
        turn
    }

    /// Takes a turn in a gap, if the flight may; otherwise leaves a gap before its own turn.
    fn in_gap(&self, wire: &mut Wire, span: Time) -> Option<Turn> {
        let now = self.asked?;
        wire.forget_gaps(now);
        let turn = wire.fill_gap(self.head, span, self.bytes);
        if turn.is_none() {
            wire.leave_gap(wire.free.max(now), self.head);
        }
        turn
    }

    /// Takes a turn after all others.
    fn after_all(&mut self, wire: &mut Wire, span: Time, kind: Kind) -> Turn {
        let turn = wire.take(self.head, span, self.bytes, &mut self.path);
        let mut path = self.path;
        path.advance(turn.end, kind);
        wire.leave(turn.end, &path);
        turn
    }

    /// Delays the flight by `latency`.
    pub(crate) fn delay(&mut self, latency: Time) {
        self.head += latency;
        self.tail += latency;
    }
}

/// True if a stage takes no time.
pub(crate) fn is_free(spec: &WireSpec) -> bool {
    spec.bandwidth.is_unlimited() && spec.latency == Time::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rate(bytes_per_ns: u64) -> Rate {
        Rate::per_second(bytes_per_ns * 1_000_000_000).unwrap()
    }

    #[test]
    fn wir_3_a_turn_ahead_of_time_leaves_room_for_others() {
        let (mut wire, ns) = (Wire::default(), Time::ns);
        let mut pass = |now, ready, bytes| {
            let mut flight = Flight::ahead(bytes, now, ready, Path::default());
            flight.pass(&mut wire, rate(1), Time::ZERO, Kind::Dma).start
        };
        assert_eq!(pass(ns(0), ns(100), 10), ns(100));
        assert_eq!(pass(ns(0), ns(0), 60), ns(0), "WIR-3: before the first");
        assert_eq!(pass(ns(0), ns(0), 60), ns(110), "WIR-1: it does not fit, so behind it");
        assert_eq!(pass(ns(0), ns(20), 40), ns(60), "WIR-3: what is left of the gap");
        assert_eq!(pass(ns(0), ns(0), 1), ns(170), "WIR-1: no gap is left");
    }

    proptest! {
        #[test]
        fn wir_1_turns_begin_in_order_of_asking_and_do_not_overlap(
            asks in prop::collection::vec((0..50u64, 0..20u64), 1..60),
        ) {
            let mut wire = Wire::default();
            let (mut now, mut before, mut busy) = (0, Time::ZERO, Time::ZERO);
            for (wait, span) in asks {
                now += wait;
                let (ready, span) = (Time::ns(now), Time::ns(span));
                let turn = wire.take(ready, span, 1, &mut Path::default());
                prop_assert_eq!(turn.start, ready.max(before), "WIR-1: at once, or when the last turn ends");
                prop_assert_eq!(turn.end, turn.start + span, "WIR-1");
                (before, busy) = (turn.end, busy + span);
            }
            prop_assert_eq!((wire.free(), wire.busy), (before, busy));
        }

        #[test]
        fn wir_1_a_flight_comes_out_no_sooner_than_its_bytes_allow(
            stages in prop::collection::vec((1..32u64, 0..9u64), 1..6), bytes in 0..5_000u64,
        ) {
            let mut flight = Flight::new(bytes, Time::ZERO, Path::default());
            let mut wires = vec![Wire::default(); stages.len()];
            for (wire, (per_ns, latency)) in wires.iter_mut().zip(&stages) {
                flight.pass(wire, rate(*per_ns), Time::ns(*latency), Kind::Link);
            }
            let latency: u64 = stages.iter().map(|(_, latency)| latency).sum();
            let slowest = stages.iter().map(|(per_ns, _)| rate(*per_ns).time_for(bytes)).max().unwrap();
            prop_assert_eq!(flight.head, Time::ns(latency));
            prop_assert_eq!(flight.tail, Time::ns(latency) + slowest, "NOC-1");
        }
    }

    #[test]
    fn wir_1_who_waits_takes_over_the_path_of_the_turn_before() {
        let mut wire = Wire::default();
        let mut first = Path::starting(Time::ns(3), Kind::Compute);
        let turn = wire.take(Time::ns(3), Time::ns(10), 1, &mut first);
        first.advance(turn.end, Kind::Link);
        wire.leave(turn.end, &first);
        let mut second = Path::starting(Time::ns(5), Kind::Dma);
        let turn = wire.take(Time::ns(5), Time::ns(1), 1, &mut second);
        assert_eq!((turn.start, second.at()), (Time::ns(13), Time::ns(13)), "WIR-1");
        assert_eq!(second.spent().get(Kind::Dma), Time::ZERO);
        let mut third = Path::starting(Time::ns(20), Kind::Dma);
        wire.take(Time::ns(20), Time::ns(1), 1, &mut third);
        assert_eq!(third.at(), Time::ns(20), "who does not wait keeps its own");
    }

    #[test]
    fn wir_2_an_unlimited_wire_never_delays_anybody() {
        let mut wire = Wire::default();
        for bytes in [0, 1, u64::MAX] {
            let mut flight = Flight::new(bytes, Time::ns(7), Path::default());
            flight.pass(&mut wire, Rate::UNLIMITED, Time::ns(2), Kind::Link);
            assert_eq!((flight.head, flight.tail), (Time::ns(9), Time::ns(9)), "WIR-2");
        }
        assert_eq!((wire.free(), wire.turns), (Time::ZERO, 0), "WIR-2");
        assert!(is_free(&WireSpec::FREE));
    }
}
