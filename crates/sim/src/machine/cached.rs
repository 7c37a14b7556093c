//! Flights at the cache of their SIP.

use super::cache::{Arrived, BlockNumber, Cache, WriteBack};
use super::flights::{Journey, Purpose};
use super::sip::Cube;
use super::{Engine, Sip, World};
use crate::record::{Op, Record, Resource, Use};
use crate::spec::{CacheSpec, WireSpec};
use crate::stall::Kind;
use crate::time::Time;
use crate::topology::PeId;
use crate::wire::{Flight, Wire};

/// The cache of one SIP.
pub(crate) struct SipCache {
    pub(crate) blocks: Cache,
    pub(crate) wire: Wire,
    /// Room for the blocks that leave at once.
    leaving: Vec<WriteBack>,
}

impl SipCache {
    pub(crate) fn new(spec: &CacheSpec) -> Self {
        Self { blocks: Cache::new(spec.capacity), wire: Wire::default(), leaving: Vec::new() }
    }
}

/// The memories of a SIP and the record of their turns.
struct Memories<'a> {
    sip: u32,
    cubes: &'a mut [Cube],
    record: &'a mut Record,
    spec: WireSpec,
    label: &'static str,
}

impl World {
    /// Moves a load or a store through the cache, and through the memory of a cube if the cache does not have the block.
    pub(super) fn pass_cache(&self, sip: &mut Sip, slot: u32, cube: u16, block: BlockNumber) {
        let (Some(spec), Some(cache)) = (&self.spec.cache, &mut sip.cache) else { return };
        let Journey { flight, purpose, label, .. } = &mut sip.flights.list[slot as usize];
        let (number, record) = (sip.number, &mut sip.record);
        let mut memories =
            Memories { sip: number, cubes: &mut sip.cubes, record, spec: self.costs.hbm, label };
        if !cache.blocks.fits(block) {
            return memories.pass(flight, cube);
        }
        let arriving = *flight;
        let resource = Resource::Cache(number);
        let wire = WireSpec { latency: Time::ZERO, ..spec.wire() };
        let stage = Use::new(resource, Kind::Hbm);
        let turn = flight.pass(memories.record, &mut cache.wire, wire, stage);
        if turn.taken {
            let bytes = flight.bytes;
            memories.record.op(|| Op::new((turn.start, turn.end), resource, label, bytes));
        }
        let is_store = matches!(purpose, Purpose::Piece(Engine::Store, _));
        let there = if is_store { None } else { cache.blocks.find(block) };
        if let Some(Arrived { head, tail }) = there {
            flight.delay(spec.latency);
            flight.head = flight.head.max(head);
            flight.tail = flight.tail.max(tail);
            return;
        }
        if !is_store {
            let mut read = arriving;
            memories.pass(&mut read, cube);
            flight.join(&read);
        }
        flight.delay(spec.latency);
        let arrived = Arrived { head: flight.head, tail: flight.tail };
        let leaving = &mut cache.leaving;
        cache.blocks.put(block, arrived, is_store, |block| leaving.push(block));
        for WriteBack { cube, bytes } in leaving.drain(..) {
            memories.label = "write back";
            memories.pass(&mut Flight { bytes, tail: arriving.head, ..arriving }, cube);
        }
    }
}

impl Memories<'_> {
    /// Moves a flight through the memory of a cube.
    fn pass(&mut self, flight: &mut Flight, cube: u16) {
        let resource = Resource::Hbm(PeId { sip: self.sip, cube, pe: 0 });
        let stage = Use::new(resource, Kind::Hbm);
        let wire = &mut self.cubes[cube as usize].hbm;
        let turn = flight.pass(self.record, wire, self.spec, stage);
        if turn.taken {
            let (bytes, label) = (flight.bytes, self.label);
            self.record.op(|| Op::new((turn.start, turn.end), resource, label, bytes));
        }
    }
}
