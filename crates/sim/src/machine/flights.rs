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

use super::fabric::PacketKind;
use super::noc::{Route, Stage};
use super::transfer::Transfer;
use super::{Engine, Sip, World};
use crate::executor::Key;
use crate::record::{Op, Resource};
use crate::spec::WireSpec;
use crate::stall::Kind;
use crate::time::Time;
use crate::topology::PeId;
use crate::wire::{Flight, StageUse};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

/// A flight with its route and its purpose.
pub(crate) struct Journey {
    pub(crate) flight: Flight,
    pub(crate) route: Route,
    pub(crate) purpose: Purpose,
    /// Name in the log of what it does at a memory or at a wire of the host.
    pub(crate) label: &'static str,
}

/// What happens at the end of a flight.
pub(crate) enum Purpose {
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
    /// The port of the SIP.
    pub(crate) port: usize,
    /// The SIP at the other end of the link.
    pub(crate) next: u32,
    /// The receiver's SIP.
    pub(crate) to: u32,
    /// Size of its chunks; 0 for one piece over one link.
    pub(crate) chunk: u64,
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
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Arrival {
    time: Time,
    /// Position in the order of issue.
    number: u64,
    slot: u32,
}

/// The flights of one SIP.
#[derive(Default)]
pub(crate) struct Flights {
    queue: BinaryHeap<Reverse<Arrival>>,
    list: Vec<Option<Journey>>,
    free: Vec<u32>,
    issued: u64,
}

impl Flights {
    /// Returns the next number in the order of issue.
    pub(crate) fn issue(&mut self) -> u64 {
        self.issued += 1;
        self.issued
    }

    /// Adds a flight that arrives at its next stage at its head.
    pub(super) fn push(&mut self, number: u64, journey: Journey) {
        let time = journey.flight.head;
        let slot = if let Some(slot) = self.free.pop() {
            self.list[slot as usize] = Some(journey);
            slot
        } else {
            self.list.push(Some(journey));
            u32::try_from(self.list.len() - 1).expect("fewer than 2^32 flights")
        };
        self.queue.push(Reverse(Arrival { time, number, slot }));
    }

    /// Returns the time of the first arrival, [`Time::MAX`] if there is none.
    fn first(&self) -> Time {
        self.queue.peek().map_or(Time::MAX, |Reverse(arrival)| arrival.time)
    }

    /// Takes the flight that arrives first, with its number.
    fn pop(&mut self) -> Option<(u64, Journey)> {
        let Reverse(arrival) = self.queue.pop()?;
        self.free.push(arrival.slot);
        let journey = self.list[arrival.slot as usize].take().expect("an arrival has a flight");
        Some((arrival.number, journey))
    }

    /// True if nobody arrives anywhere before a flight with this head and number.
    fn is_first(&self, head: Time, number: u64) -> bool {
        self.queue.peek().is_none_or(|Reverse(other)| (head, number) < (other.time, other.number))
    }
}

impl World {
    /// Starts a flight in the SIP of the current partition.
    pub(crate) fn fly(&self, sip: &mut Sip, number: u64, journey: Journey) {
        sip.flights.push(number, journey);
        self.settle(sip);
    }

    /// Moves the flights of a SIP whose heads are somewhere now.
    pub(super) fn settle(&self, sip: &mut Sip) {
        let now = self.sim.now();
        self.move_until(sip, || now);
    }

    /// Handles the alarm of a SIP: moves its flights until the next event.
    pub(super) fn move_flights(&self, sip: u32) {
        self.move_until(&mut self.sips[sip as usize].borrow_mut(), || self.sim.quiet_until());
    }

    /// Moves flights in the order of arrival, as long as they arrive until the limit.
    fn move_until(&self, sip: &mut Sip, limit: impl Fn() -> Time) {
        loop {
            let limit = limit();
            if sip.flights.first() > limit {
                break;
            }
            let Some((number, journey)) = sip.flights.pop() else { break };
            self.proceed(sip, number, journey, limit);
        }
        self.set_alarm(sip);
    }

    fn set_alarm(&self, sip: &Sip) {
        let device = self.fabric.get().expect("registered when the machine was built");
        let first = sip.flights.first();
        self.sim.set_alarm(first, device);
        if first == Time::MAX && !sip.flights.queue.is_empty() {
            self.sim.overflow();
        }
    }

    /// Moves a flight through the stages that it reaches until `limit`, before all other flights.
    fn proceed(&self, sip: &mut Sip, number: u64, mut journey: Journey, limit: Time) {
        loop {
            if journey.route.is_over() {
                return self.land(sip, journey);
            }
            let head = journey.flight.head;
            if head > limit || !sip.flights.is_first(head, number) {
                return sip.flights.push(number, journey);
            }
            match journey.route.next(&self.spec) {
                Some(Stage::Port) => {
                    let Purpose::Depart(departure) = &journey.purpose else {
                        unreachable!("only messages take a port")
                    };
                    return self.depart(sip, &journey.flight, departure);
                }
                Some(stage) => self.pass(sip, &mut journey, stage),
                None => {}
            }
        }
    }

    /// Moves a flight through a stage at which its head has arrived.
    #[inline]
    fn pass(&self, sip: &mut Sip, journey: &mut Journey, stage: Stage) {
        let (spec, kind) = self.stage_spec(stage);
        let resource = resource_of(sip.number, stage);
        let mut label = journey.label;
        let wire = match stage {
            Stage::PeLink { cube, pe, side } => {
                label = "mesh";
                let index = cube as usize * sip.pes_per_cube as usize + pe as usize;
                &mut sip.pes[index].links[side as usize]
            }
            Stage::CubeLink { cube, side } => {
                label = "mesh";
                &mut sip.cubes[cube as usize].links[side as usize]
            }
            Stage::Hbm(cube) => &mut sip.cubes[cube as usize].hbm,
            Stage::Host => &mut sip.host,
            Stage::Upload | Stage::Port => &mut sip.upload,
        };
        let turn = journey.flight.pass(&mut sip.record, wire, spec, StageUse { resource, kind });
        if turn.taken {
            let bytes = journey.flight.bytes;
            sip.record.op(|| Op::new((turn.start, turn.end), resource, label, bytes));
        }
    }

    fn stage_spec(&self, stage: Stage) -> (WireSpec, Kind) {
        let spec = &self.spec;
        match stage {
            Stage::PeLink { .. } => (spec.pes.link, Kind::Mesh),
            Stage::CubeLink { .. } => (spec.cubes.link, Kind::Mesh),
            Stage::Hbm(_) => {
                let hbm = WireSpec { bandwidth: spec.hbm.bandwidth, latency: spec.hbm.latency };
                (hbm, Kind::Hbm)
            }
            Stage::Port => (spec.sips.link, Kind::Link),
            Stage::Host | Stage::Upload => (spec.host, Kind::Link),
        }
    }

    /// Ends a flight that has passed its last stage.
    fn land(&self, sip: &mut Sip, journey: Journey) {
        match journey.purpose {
            Purpose::Piece(engine, transfer) => {
                let end = transfer.end_piece(&self.spec, sip, &journey.flight, engine);
                if let Some(end) = end {
                    self.free_channel(sip, engine, &transfer, end);
                    self.end_transfer(&transfer, end);
                }
            }
            Purpose::Host(transfer) => {
                let end = transfer.end_request(sip, &journey.flight);
                self.end_transfer(&transfer, end);
            }
            Purpose::Deliver(delivery) => self.deliver_at(sip, &journey.flight, delivery),
            Purpose::Depart(_) => unreachable!("a departure ends at the port"),
        }
    }

    /// Sets the end of a transfer, and resumes who waits for it then.
    fn end_transfer(&self, transfer: &Transfer, end: Time) {
        if let Some((key, task)) = transfer.set_end(end) {
            self.sim.resume_as(key, end, task);
        }
    }
}

/// Returns the name of a stage in reports.
fn resource_of(sip: u32, stage: Stage) -> Resource {
    let gate = |cube| PeId { sip, cube, pe: 0 };
    match stage {
        Stage::PeLink { cube, pe, side } => Resource::PeLink(PeId { sip, cube, pe }, side),
        Stage::CubeLink { cube, side } => Resource::CubeLink(gate(cube), side),
        Stage::Hbm(cube) => Resource::Hbm(gate(cube)),
        Stage::Host | Stage::Port => Resource::Host(sip),
        Stage::Upload => Resource::Upload(sip),
    }
}
