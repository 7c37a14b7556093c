//! The flights inside a SIP, in the order in which their heads arrive at wires.
//!
//! A flight requests a wire when its head is there (WIR-3). Each SIP has a queue of its flights by the next arrival. An
//! alarm of the executor comes before the events of an instant; the SIP then moves every flight that arrives somewhere
//! before the next event, so that a flight that meets nobody passes all its stages in one go.
//!
//! ```text
//!   issue ──► queue ──(head arrives)──► wire ──► queue ──► ... ──► last stage: the end is known
//!                                                                   └─► an event for who waits
//! ```
//!
//! - **FLT-1 (order).** Arrivals at one instant are handled in the order of issue, before the events of that instant.
//! - **FLT-2 (keys).** The event at the end of a flight has the key of the moment at which somebody began to wait for the
//!   flight, so that the order of events does not depend on how early the end was computed.

use super::fabric::PortSide;
use super::noc::{Leg, Route, Stage};
use super::packet::PacketKind;
use super::sip::Pe;
use super::transfer::Transfer;
use super::{Engine, Sip, World};
use crate::executor::Key;
use crate::record::{Op, Path, Record, Resource, Use};
use crate::spec::WireSpec;
use crate::stall::Kind;
use crate::time::Time;
use crate::topology::PeId;
use crate::wire::{Flight, Wire};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

/// A flight with its route and its purpose.
pub(crate) struct Journey {
    pub(crate) flight: Flight,
    pub(crate) route: Route,
    pub(crate) purpose: Purpose,
    /// Name of its turns at a memory and at the wires of the host, for the log.
    pub(crate) label: &'static str,
}

impl Journey {
    /// Passes a stage that `wire` serves, and logs it by `label`.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a memory and a mesh are passed in their own code")]
    fn pass(
        &mut self,
        record: &mut Record,
        (wire, spec): (&mut Wire, &WireSpec),
        what: Use,
        label: &'static str,
    ) {
        let turn = self.flight.pass(record, wire, *spec, what);
        if turn.taken {
            let bytes = self.flight.bytes;
            record.op(|| Op::new((turn.start, turn.end), what.resource(), label, bytes));
        }
    }
}

/// The purpose of a flight: the effect of its end.
#[derive(Clone)]
pub(crate) enum Purpose {
    /// Nothing: the place of a flight that is over.
    None,
    /// A piece of a load or of a store is done.
    Piece(Engine, Rc<Transfer>),
    /// A message leaves the SIP.
    Depart(Departure),
    /// A message is in its slot.
    Deliver(Delivery),
    /// A request of the host is done.
    Host(Rc<Transfer>),
}

/// A message on its way out of its SIP.
#[derive(Clone, Copy)]
pub(crate) struct Departure {
    pub(crate) edge: u32,
    /// Number of the message in traces.
    pub(crate) flow: u64,
    pub(crate) key: Key,
}

/// A message on its way to its slot.
#[derive(Clone, Copy)]
pub(crate) struct Delivery {
    pub(crate) edge: u32,
    /// The sender's SIP: the same or another.
    pub(super) kind: PacketKind,
    pub(crate) key: Key,
}

/// The next arrival of a flight at a wire.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Arrival {
    time: Time,
    /// Position in the order of issue.
    number: u64,
    slot: u32,
}

impl Arrival {
    /// No arrival.
    const NONE: Self = Self { time: Time::MAX, number: u64::MAX, slot: u32::MAX };
}

/// Arrivals by time, and at one instant by the order of issue.
///
/// Most SIPs have few flights: the first arrival has a place of its own.
struct Arrivals {
    /// The first arrival, [`Arrival::NONE`] if there is none.
    first: Arrival,
    /// The other arrivals; empty if there is no first.
    others: BinaryHeap<Reverse<Arrival>>,
}

impl Default for Arrivals {
    fn default() -> Self {
        Self { first: Arrival::NONE, others: BinaryHeap::new() }
    }
}

impl Arrivals {
    #[inline]
    fn is_empty(&self) -> bool {
        self.first.slot == Arrival::NONE.slot
    }

    #[inline]
    fn push(&mut self, arrival: Arrival) {
        if self.is_empty() {
            self.first = arrival;
            return;
        }
        let is_first = arrival < self.first;
        let later = if is_first { std::mem::replace(&mut self.first, arrival) } else { arrival };
        self.others.push(Reverse(later));
    }

    /// Takes the first arrival; there is one.
    #[inline]
    fn pop(&mut self) -> Arrival {
        let first = self.first;
        self.first = Arrival::NONE;
        // It is read where it is: a copy of what the heap returns would wait for its parts.
        if let Some(Reverse(next)) = self.others.peek() {
            self.first = *next;
            self.others.pop();
        }
        first
    }
}

/// The flights of one SIP.
pub(crate) struct Flights {
    queue: Arrivals,
    pub(super) list: Vec<Journey>,
    free: Vec<u32>,
    issued: u64,
    /// Number of flights that pass more than the port out of the SIP.
    inside: u32,
    /// The time of the alarm that is set, [`Time::MAX`] if none is set.
    alarm: Time,
}

impl Default for Flights {
    fn default() -> Self {
        let (list, free, queue) = (Vec::new(), Vec::new(), Arrivals::default());
        Self { queue, list, free, issued: 0, inside: 0, alarm: Time::MAX }
    }
}

impl Flights {
    /// Returns the next number in the order of issue, for a request of some flights.
    #[inline]
    pub(crate) fn issue(&mut self, flights: u8) -> u64 {
        let first = self.issued + 1;
        self.issued += u64::from(flights);
        first
    }

    /// Adds a flight that arrives at its next stage at its head.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a flight is built where it stays")]
    pub(super) fn push(&mut self, number: u64, journey: Journey) {
        let time = journey.flight.head;
        self.inside += u32::from(!journey.route.is_port());
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => self.grow(),
        };
        // Part by part: a whole journey would be built elsewhere and copied.
        let place = &mut self.list[slot as usize];
        place.flight = journey.flight;
        place.route = journey.route;
        place.purpose = journey.purpose;
        place.label = journey.label;
        self.queue.push(Arrival { time, number, slot });
    }

    /// Adds a place for a flight.
    #[cold]
    fn grow(&mut self) -> u32 {
        let nothing = Use::new(Resource::Host(0), Kind::Link);
        let flight = Flight::new(0, Time::ZERO, Path::default(), nothing);
        let (route, purpose) = (Route::default(), Purpose::None);
        self.list.push(Journey { flight, route, purpose, label: "" });
        u32::try_from(self.list.len() - 1).expect("fewer than 2^32 flights")
    }

    /// Returns the paths of all flights, and of the transfers that they belong to.
    pub(super) fn live_paths(&self) -> impl Iterator<Item = Path> {
        let under_way =
            self.list.iter().filter(|journey| !matches!(journey.purpose, Purpose::None));
        under_way.flat_map(|journey| {
            let transfer = match &journey.purpose {
                Purpose::Piece(_, transfer) | Purpose::Host(transfer) => Some(transfer),
                Purpose::Depart(_) | Purpose::Deliver(_) | Purpose::None => None,
            };
            let others = transfer.into_iter().flat_map(|transfer| transfer.live_paths());
            std::iter::once(journey.flight.path).chain(others)
        })
    }

    /// Returns the time of the first arrival, [`Time::MAX`] if there is none.
    #[inline]
    fn first(&self) -> Time {
        self.queue.first.time
    }

    /// Forgets a flight; returns its purpose.
    #[inline]
    fn remove(&mut self, slot: u32) -> Purpose {
        self.free.push(slot);
        let journey = &mut self.list[slot as usize];
        self.inside -= u32::from(!journey.route.is_port());
        std::mem::replace(&mut journey.purpose, Purpose::None)
    }
}

impl World {
    /// Starts a flight in the SIP of the current partition.
    pub(crate) fn fly(&self, sip: &mut Sip, number: u64, journey: Journey) {
        sip.flights.push(number, journey);
        self.settle(sip);
    }

    /// Moves the flights of a SIP whose heads arrive now.
    #[inline]
    pub(super) fn settle(&self, sip: &mut Sip) {
        let now = self.sim.now();
        if sip.flights.first() <= now {
            return self.move_until(sip, now, || now);
        }
        self.set_alarm(sip);
    }

    /// Handles the alarm of a SIP: moves its flights until the next event, which is at `until` or later.
    #[inline]
    pub(super) fn move_flights(&self, sip: u32, until: Time) {
        let sip = &mut *self.sips[sip as usize].borrow_mut();
        sip.flights.alarm = Time::MAX;
        self.move_until(sip, until, || self.sim.quiet_until());
    }

    /// Moves the flights that arrive until the limit, in the order of arrival.
    #[inline]
    fn move_until(&self, sip: &mut Sip, mut until: Time, limit: impl Fn() -> Time) {
        while sip.flights.first() <= until && !sip.flights.queue.is_empty() {
            let arrival = sip.flights.queue.pop();
            if self.proceed(sip, arrival, until) && !sip.flights.queue.is_empty() {
                until = limit();
            }
        }
        self.set_alarm(sip);
    }

    #[inline]
    fn set_alarm(&self, sip: &mut Sip) {
        let first = sip.flights.first();
        if sip.flights.alarm != first {
            sip.flights.alarm = first;
            let device = self.fabric.get().expect("registered when the machine was built");
            self.sim.set_alarm(first, device);
        }
        if first == Time::MAX && !sip.flights.queue.is_empty() {
            self.sim.overflow();
        }
    }

    /// Moves a flight through the stages that it reaches until `limit`, before all other flights; true if it is over.
    #[inline]
    fn proceed(&self, sip: &mut Sip, arrival: Arrival, limit: Time) -> bool {
        let Arrival { number, slot, .. } = arrival;
        loop {
            let Sip { flights, record, cubes, number: here, .. } = &mut *sip;
            let journey = &mut flights.list[slot as usize];
            match journey.route.leg() {
                Leg::Port => {
                    self.leave_sip(sip, slot);
                    return true;
                }
                Leg::Hbm(cube) => {
                    journey.route.end_leg();
                    let gate = PeId { sip: *here, cube, pe: 0 };
                    let what = Use::new(Resource::Hbm(gate), Kind::Hbm);
                    let (wire, label) = (&mut cubes[cube as usize].hbm, journey.label);
                    journey.pass(record, (wire, &self.costs.hbm), what, label);
                }
                Leg::Cached { cube, block } => {
                    journey.route.end_leg();
                    self.pass_cache(sip, slot, cube, block);
                }
                _ => {
                    if let Some(stage) = journey.route.next(&self.spec) {
                        self.pass(sip, slot, stage);
                    }
                }
            }
            let Flights { list, queue, .. } = &mut sip.flights;
            let journey = &list[slot as usize];
            if journey.route.is_over() {
                self.land(sip, slot);
                return true;
            }
            let next = Arrival { time: journey.flight.head, number, slot };
            if next.time > limit || queue.first < next {
                queue.push(next);
                return false;
            }
        }
    }

    /// Moves a flight through a stage at which its head has arrived: a mesh, or a wire of the host.
    #[inline(never)]
    fn pass(&self, sip: &mut Sip, slot: u32, stage: Stage) {
        let Sip { flights, record, pes, cubes, number, .. } = sip;
        let journey = &mut flights.list[slot as usize];
        let (wire, spec, what, label) = match stage {
            Stage::PeLink { cube, pe, side } => {
                let index = cube as usize * sip.pes_per_cube as usize + pe as usize;
                let resource = Resource::PeLink(PeId { sip: *number, cube, pe }, side);
                let wire = &mut pes[index].links[side as usize];
                (wire, &self.spec.pes.link, Use::new(resource, Kind::Mesh), "mesh")
            }
            Stage::CubeLink { cube, side } => {
                let gate = PeId { sip: *number, cube, pe: 0 };
                let what = Use::new(Resource::CubeLink(gate, side), Kind::Mesh);
                let wire = &mut cubes[cube as usize].links[side as usize];
                (wire, &self.spec.cubes.link, what, "mesh")
            }
            Stage::Host => {
                let what = Use::new(Resource::Host(*number), Kind::Link);
                (&mut sip.host, &self.spec.host, what, journey.label)
            }
            Stage::Upload => {
                let what = Use::new(Resource::Upload(*number), Kind::Link);
                (&mut sip.upload, &self.spec.host, what, journey.label)
            }
            Stage::Hbm(_) | Stage::Port | Stage::Cached { .. } => {
                unreachable!("`proceed` handles memories and ports")
            }
        };
        journey.pass(record, (wire, spec), what, label);
    }

    /// Sends a message whose head is at the port of its SIP.
    fn leave_sip(&self, sip: &mut Sip, slot: u32) {
        let Journey { flight, purpose, .. } = &sip.flights.list[slot as usize];
        let Purpose::Depart(departure) = purpose else { unreachable!("only messages take a port") };
        let hardware =
            PortSide { number: sip.number, ports: &mut sip.ports, record: &mut sip.record };
        self.depart(hardware, flight, departure);
        sip.flights.remove(slot);
    }

    /// Ends a flight that has passed its last stage.
    fn land(&self, sip: &mut Sip, slot: u32) {
        let end = sip.flights.list[slot as usize].flight.tail;
        match &sip.flights.list[slot as usize].purpose {
            Purpose::Piece(..) => return self.land_piece(sip, slot),
            Purpose::Host(transfer) => {
                let flight = &sip.flights.list[slot as usize].flight;
                let mut path = flight.path;
                flight.finish_path(&mut sip.record, &mut path, flight.slowest);
                sip.record.cause(&path);
                transfer.path().set(path);
                self.end_transfer(transfer, end);
                sip.host_until = sip.host_until.max(end);
            }
            Purpose::Deliver(delivery) => {
                let flight = &sip.flights.list[slot as usize].flight;
                self.deliver_at(sip.number, &mut sip.record, flight, *delivery);
            }
            Purpose::Depart(_) | Purpose::None => unreachable!("a departure ends at the port"),
        }
        sip.flights.remove(slot);
    }

    /// Ends a piece of a load or of a store that has passed its last stage.
    fn land_piece(&self, sip: &mut Sip, slot: u32) {
        let Sip { flights, record, pes, pes_per_cube, .. } = sip;
        flights.free.push(slot);
        flights.inside -= 1;
        let Journey { flight, purpose, .. } = &mut flights.list[slot as usize];
        let purpose = std::mem::replace(purpose, Purpose::None);
        let Purpose::Piece(engine, transfer) = purpose else { return };
        let index = transfer.pe().index(*pes_per_cube);
        // The flight is read where it is: a copy would wait for what was written last.
        if self.end_piece(record, &mut pes[index], engine, flight, &transfer) {
            self.free_channel(sip, engine, index);
        }
    }

    /// Ends a piece of a load or of a store, and the transfer with its last piece; true for the last.
    #[inline]
    fn end_piece(
        &self,
        record: &mut Record,
        pe: &mut Pe,
        engine: Engine,
        flight: &Flight,
        transfer: &Transfer,
    ) -> bool {
        let mut other = None;
        let Some(flight) = transfer.end_piece(flight, &mut other) else { return false };
        let (end, id) = (flight.tail, transfer.pe());
        let mut path = flight.path;
        flight.finish_path(record, &mut path, engine.used(id));
        transfer.path().set(path);
        if self.spec.dma.outstanding == 1 {
            pe.engine(engine).leave(end, &path);
        }
        record.op(|| {
            let label = if engine == Engine::Load { "load" } else { "store" };
            Op::new((transfer.start(), end), engine.resource(id), label, transfer.bytes())
        });
        self.end_transfer(transfer, end);
        true
    }

    /// Moves a load or a store of one piece through the memory of its cube and to its end, before time has moved to its
    /// arrival there (WIR-5).
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the flight stays in registers")]
    pub(super) fn serve_early(
        &self,
        sip: &mut Sip,
        (engine, cube): (Engine, u16),
        mut flight: Flight,
        transfer: &Transfer,
    ) {
        let Sip { record, pes, cubes, number, pes_per_cube, .. } = sip;
        let index = transfer.pe().index(*pes_per_cube);
        let gate = PeId { sip: *number, cube, pe: 0 };
        let what = Use::new(Resource::Hbm(gate), Kind::Hbm);
        flight.pass(record, &mut cubes[cube as usize].hbm, self.costs.hbm, what);
        if self.end_piece(record, &mut pes[index], engine, &flight, transfer) {
            self.free_channel(sip, engine, index);
        }
    }

    /// True if a flight of a DMA channel that starts at `start`, and whose head will be at a memory at `head`, is the next one
    /// there (WIR-5). No flight under way gets there before, and no host, which would have sent its command by now. What a
    /// channel or a host starts from now on comes later, as a DMA and a host link take that long.
    #[inline]
    pub(super) fn is_next_at_memory(&self, sip: &Sip, start: Time, head: Time) -> bool {
        let now = self.sim.now();
        self.early.serves.get()
            && start == now
            && (sip.flights.inside == 0 || sip.flights.first() > head)
            && sip.host_until < now
            && self.sim.is_in_window(head)
    }

    /// Lets a message leave the SIP that the port is the only stage for, before time has moved to its arrival there; false if
    /// another could be there before (WIR-5).
    #[inline]
    pub(super) fn leave_early(
        &self,
        sip: &mut Sip,
        start: Time,
        flight: &Flight,
        departure: &Departure,
    ) -> bool {
        let now = self.sim.now();
        let is_next = self.early.departs.get()
            && start == now
            && sip.flights.first() > flight.head
            && self.sim.is_in_window(flight.head);
        if !is_next {
            return false;
        }
        let port = self.exits.borrow()[departure.edge as usize].port;
        if !sip.ports[port].take_early(now, flight.head) {
            return false;
        }
        let Sip { number, ports, record, .. } = sip;
        self.depart(PortSide { number: *number, ports, record }, flight, departure);
        true
    }

    /// Sets the end of a transfer, and resumes who waits for it then.
    #[inline]
    fn end_transfer(&self, transfer: &Transfer, end: Time) {
        if let Some((key, task)) = transfer.set_end(end) {
            self.sim.resume_as(key, end, task);
        }
    }
}
