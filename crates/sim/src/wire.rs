//! Busy-until arithmetic: a wire, an engine or a memory port that serves one user at a time.
//!
//! A wire schedules no events: the user computes the start and the end of its turn, and the wire stores the end of its
//! last turn.
//!
//! - **WIR-1 (FIFO).** Turns begin in the order of requests, and do not overlap.
//! - **WIR-2 (work).** A wire with an unlimited rate delays no user.
//! - **WIR-3 (arrival).** A flight requests a wire when its head arrives at the wire, not before. So wires serve in the
//!   order of arrival; heads that arrive at one instant are served in the order in which their SIP issued the flights.
//! - **WIR-4 (work conserving).** A wire is never idle while a flight that has arrived waits for it.
//! - **WIR-5 (early).** A memory serves a load or a store of its own cube when that starts, before time has moved to its
//!   arrival, if nothing else can arrive before; so does the port out of a SIP for a message of the PE beside it. A recorded run,
//!   whose log has the order of arrival, does neither; all else is the same.
//!
//! `machine/flights.rs` keeps the order of arrival.

use crate::record::{Path, Record, Use};
use crate::spec::WireSpec;
use crate::stall::Kind;
use crate::time::Time;

/// A stage that serves one user at a time, first come, first served.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wire {
    free: Time,
    /// Critical path to `free`, which a waiting user takes over; without the last turn while that is unnoted.
    last: Path,
    unnoted: Option<UnnotedTurn>,
    pub(crate) busy: Time,
    pub(crate) bytes: u64,
    pub(crate) turns: u64,
    pub(crate) first: Time,
}

crate::portable!(struct Wire { free, last, unnoted, busy, bytes, turns, first });

/// A turn until the end of the wire's last one, which is a step of the critical path only if someone waits for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnnotedTurn {
    pub(crate) start: Time,
    /// The stage whose latency came before the turn.
    pub(crate) before: Use,
    pub(crate) what: Use,
}

crate::portable!(struct UnnotedTurn { start, before, what });

/// The use of a wire from `start` to `end`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) start: Time,
    pub(crate) end: Time,
    /// True if the turn occupied the wire; false on an unlimited wire.
    pub(crate) taken: bool,
}

impl Wire {
    /// Makes steps of the last turn, for who waits for its end.
    #[inline]
    pub(crate) fn note_turn(&mut self, record: &mut Record) {
        if let Some(UnnotedTurn { start, before, what }) = self.unnoted.take() {
            if start > self.last.at() {
                record.step_of(&mut self.last, start, before.for_kind(Kind::Latency));
            }
            record.step_of(&mut self.last, self.free, what);
        }
    }

    /// Takes the wire for `span`, not before `ready`. The turn before is noted if it has not ended at `ready`. If the turn waits for the end of another turn, `path` becomes the
    /// critical path of that turn.
    #[inline]
    pub(crate) fn take(&mut self, ready: Time, span: Time, bytes: u64, path: &mut Path) -> Turn {
        let start = if self.free > ready {
            debug_assert!(self.unnoted.is_none(), "REC-1: who waits notes the turn before");
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

    /// Sets the critical path to the end of the last turn, and the end if it is later than computed.
    #[inline]
    pub(crate) fn leave(&mut self, end: Time, path: &Path) {
        if end > self.free {
            self.busy += end - self.free;
            self.free = end;
        }
        self.last = *path;
        self.unnoted = None;
    }

    /// Sets the critical path from `path` before the turn, and returns it: the caller advances it to the end.
    #[inline]
    pub(crate) fn leave_with(&mut self, end: Time, path: &Path) -> &mut Path {
        self.leave(end, path);
        &mut self.last
    }

    /// Sets the critical path from `path` before the last turn, which is noted when someone waits for it.
    #[inline]
    pub(crate) fn leave_unnoted(&mut self, path: &Path, turn: UnnotedTurn) {
        self.last = *path;
        self.unnoted = Some(turn);
    }

    /// Returns the critical path to the end of the last turn, if that is noted.
    pub(crate) fn last(&self) -> &Path {
        &self.last
    }

    /// Returns the end of the last turn.
    pub(crate) fn free(&self) -> Time {
        self.free
    }
}

/// Bytes in flight through several stages, cut-through: the head moves on while the tail still arrives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    pub(crate) bytes: u64,
    pub(crate) head: Time,
    pub(crate) tail: Time,
    /// Critical path of the head, without the latencies since its last wait.
    pub(crate) path: Path,
    /// The stage that the tail waits for.
    pub(crate) slowest: Use,
    /// Time the head has waited at memories, and at meshes.
    pub(crate) waited: Waited,
}

/// Time that the head of a flight has waited for busy stages inside a SIP.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waited {
    pub(crate) hbm: Time,
    pub(crate) mesh: Time,
}

impl Flight {
    /// Creates a flight whose first and last byte are ready at `ready`, after a stage.
    pub(crate) fn new(bytes: u64, ready: Time, path: Path, after: Use) -> Self {
        let waited = Waited::default();
        Self { bytes, head: ready, tail: ready, path, slowest: after, waited }
    }

    /// Returns the arrival of byte `until`.
    #[inline]
    pub(crate) fn arrival_of(&self, until: u64) -> Time {
        if until == self.bytes {
            return self.tail;
        }
        let coming = u128::from((self.tail - self.head).as_ps()) * u128::from(until);
        let span = coming.div_ceil(u128::from(self.bytes.max(1)));
        self.head + Time::ps(u64::try_from(span).unwrap_or(u64::MAX))
    }

    /// Passes a stage that `wire` serves: the head has arrived there.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the path stays in registers")]
    pub(crate) fn pass(
        &mut self,
        record: &mut Record,
        wire: &mut Wire,
        spec: WireSpec,
        stage: Use,
    ) -> Turn {
        if spec.bandwidth.is_unlimited() {
            let turn = Turn { start: self.head, end: self.tail, taken: false };
            self.delay(spec.latency);
            return turn;
        }
        let span = spec.bandwidth.time_for(self.bytes);
        if wire.free > self.head {
            self.note_wait(wire, stage.kind());
            wire.note_turn(record);
        }
        let turn = wire.take(self.head, span, self.bytes, &mut self.path);
        let unnoted = UnnotedTurn { start: turn.start, before: self.slowest, what: stage };
        wire.leave_unnoted(&self.path, unnoted);
        self.head = turn.start;
        if turn.end >= self.tail {
            (self.tail, self.slowest) = (turn.end, stage);
        }
        self.delay(spec.latency);
        turn
    }

    /// Adds the wait for a busy wire.
    fn note_wait(&mut self, wire: &Wire, kind: Kind) {
        let wait = wire.free - self.head;
        match kind {
            Kind::Hbm => self.waited.hbm += wait,
            Kind::Mesh => self.waited.mesh += wait,
            _ => {}
        }
    }

    /// Delays the flight by `latency`.
    #[inline]
    pub(crate) fn delay(&mut self, latency: Time) {
        self.head += latency;
        self.tail += latency;
    }

    /// Waits for another flight of the same bytes: the later head and the later tail count.
    pub(crate) fn join(&mut self, other: &Self) {
        if other.head > self.head {
            (self.head, self.path, self.waited) = (other.head, other.path, other.waited);
        }
        if other.tail > self.tail {
            (self.tail, self.slowest) = (other.tail, other.slowest);
        }
    }

    /// Moves a copy of the flight's critical path on to the arrival of the last byte: latencies of the resource of `stage`,
    /// then the slowest stage.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the path stays in registers")]
    pub(crate) fn finish_path(&self, record: &mut Record, path: &mut Path, stage: Use) {
        if self.head > path.at() {
            record.step_of(path, self.head, stage.for_kind(Kind::Latency));
        }
        if self.tail > path.at() {
            record.step_of(path, self.tail, self.slowest);
        }
    }
}

/// True if a stage takes no time.
pub(crate) fn is_free(spec: &WireSpec) -> bool {
    spec.bandwidth.is_unlimited() && spec.latency == Time::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Entry, Gap, Resource, Sums, stack_of};
    use crate::time::Rate;
    use proptest::prelude::*;

    fn spec(bytes_per_ns: u64, latency: u64) -> WireSpec {
        let bandwidth = Rate::per_second(bytes_per_ns * 1_000_000_000).unwrap();
        WireSpec { bandwidth, latency: Time::ns(latency) }
    }

    fn stage() -> Use {
        Use::new(Resource::Host(0), Kind::Link)
    }

    fn flight(bytes: u64, ready: Time) -> Flight {
        Flight::new(bytes, ready, Path::default(), stage())
    }

    /// The time on a path of one SIP that was never folded.
    fn spent(record: &Record, path: &Path) -> crate::stall::Stack {
        let (mut sums, mut at) = (Sums::default(), path.last());
        while at.sip().is_some() {
            let Some(Entry::Step(step)) = record.steps().get(at) else { panic!("{at:?} is lost") };
            sums.add(step.what, step.to - step.from);
            at = step.parent;
        }
        stack_of(&sums.take(), path.gaps(), path.at())
    }

    fn record() -> Record {
        Record::new(0, 1, false, &std::rc::Rc::new(crate::record::Room::new(1 << 10, 1)))
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
            let mut flight = flight(bytes, Time::ZERO);
            let mut wires = vec![Wire::default(); stages.len()];
            let mut record = record();
            for (wire, (per_ns, latency)) in wires.iter_mut().zip(&stages) {
                flight.pass(&mut record, wire, spec(*per_ns, *latency), stage());
            }
            let latency: u64 = stages.iter().map(|(_, latency)| latency).sum();
            let span = |(per_ns, _): &(u64, u64)| spec(*per_ns, 0).bandwidth.time_for(bytes);
            let slowest = stages.iter().map(span).max().unwrap();
            let mut path = flight.path;
            flight.finish_path(&mut record, &mut path, stage());
            prop_assert_eq!(path.at(), flight.tail, "REC-1");
            prop_assert_eq!(spent(&record, &path).get(Kind::Latency), Time::ns(latency), "REC-1");
            prop_assert_eq!(flight.head, Time::ns(latency));
            prop_assert_eq!(flight.tail, Time::ns(latency) + slowest, "NOC-1");
        }
    }

    #[test]
    fn wir_1_who_waits_takes_over_the_path_of_the_turn_before() {
        let mut wire = Wire::default();
        let mut first = Path::starting(Time::ns(3), Gap::Link);
        let turn = wire.take(Time::ns(3), Time::ns(10), 1, &mut first);
        first.advance(turn.end, Gap::Link);
        wire.leave(turn.end, &first);
        let mut second = Path::starting(Time::ns(5), Gap::Link);
        let turn = wire.take(Time::ns(5), Time::ns(1), 1, &mut second);
        assert_eq!((turn.start, second.at()), (Time::ns(13), Time::ns(13)), "WIR-1");
        assert_eq!(second.gaps(), [13_000], "WIR-1");
        let mut third = Path::starting(Time::ns(20), Gap::Link);
        wire.take(Time::ns(20), Time::ns(1), 1, &mut third);
        assert_eq!(third.at(), Time::ns(20), "who does not wait keeps its own");
    }

    #[test]
    fn wir_2_an_unlimited_wire_never_delays_anybody() {
        let mut wire = Wire::default();
        for bytes in [0, 1, u64::MAX] {
            let mut flight = flight(bytes, Time::ns(7));
            let unlimited = WireSpec { bandwidth: Rate::UNLIMITED, latency: Time::ns(2) };
            flight.pass(&mut record(), &mut wire, unlimited, stage());
            assert_eq!((flight.head, flight.tail), (Time::ns(9), Time::ns(9)), "WIR-2");
        }
        assert_eq!((wire.free(), wire.turns), (Time::ZERO, 0), "WIR-2");
        assert!(is_free(&WireSpec::FREE));
    }
}
