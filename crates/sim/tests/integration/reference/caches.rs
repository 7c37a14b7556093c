//! The caches of SIPs.

use super::routes::{Stage, Wire, memory, span};
use super::simulator::{Flight, Goal, Simulator};
use phalanx_sim::Capacity;

/// A block in a cache. All accesses of a script begin at the first byte of their cube's memory, so that a block is its cube
/// and the bytes that the step has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    cube: u16,
    touched: u64,
    bytes: u64,
    is_stored: bool,
    head: u64,
    tail: u64,
}

/// The first and the last byte of a flight behind a stage, without the stage's latency.
struct Passed {
    head: u64,
    tail: u64,
}

impl Simulator<'_> {
    fn pass_stage(&mut self, stage: Stage, flight: &Flight) -> Passed {
        let turn = span(stage.cost.bandwidth, flight.bytes);
        let head = self.take(stage, flight.head, turn);
        Passed { head, tail: flight.tail.max(head + turn) }
    }

    /// Moves a load or a store through the cache of its SIP, and through memory if the cache does not have the block.
    pub(super) fn enter_cache(
        &mut self,
        flight: &mut Flight,
        cache: Stage,
        (sip, cube, touched): (u32, u16, u64),
    ) {
        let latency = cache.cost.latency.as_ps();
        let behind = memory(self.spec, sip, cube);
        let memory_latency = behind.cost.latency.as_ps();
        let capacity = match self.spec.cache.unwrap().capacity {
            Capacity::Limited(bytes) => bytes.0,
            Capacity::Unlimited => u64::MAX,
        };
        if flight.bytes > capacity {
            let Passed { head, tail } = self.pass_stage(behind, flight);
            (flight.head, flight.tail) = (head + memory_latency, tail + memory_latency);
            return;
        }
        let arrived = flight.head;
        // All cubes share the cache.
        let shared = Stage { wire: Wire::Cache { sip, cube: 0, touched: 0 }, ..cache };
        let passed = self.pass_stage(shared, flight);
        let is_store = matches!(flight.goal, Goal::Store { .. });
        let blocks = &mut self.caches[sip as usize];
        let place = blocks.iter().position(|block| (block.cube, block.touched) == (cube, touched));
        let found = place.map(|place| blocks.remove(place));
        if let Some(block) = found.filter(|_| !is_store) {
            blocks.push(block);
            flight.head = (passed.head + latency).max(block.head);
            flight.tail = (passed.tail + latency).max(block.tail);
            return;
        }
        let (mut head, mut tail) = (passed.head, passed.tail);
        if !is_store {
            let read = self.pass_stage(behind, flight);
            head = head.max(read.head + memory_latency);
            tail = tail.max(read.tail + memory_latency);
        }
        (flight.head, flight.tail) = (head + latency, tail + latency);
        let (head, tail) = (flight.head, flight.tail);
        let block = Block { cube, touched, bytes: flight.bytes, is_stored: is_store, head, tail };
        self.keep_block(sip, block, capacity, arrived);
    }

    /// Puts a block into a cache; the blocks that were used least recently leave, and stored ones are written.
    fn keep_block(&mut self, sip: u32, block: Block, capacity: u64, now: u64) {
        let used = |blocks: &[Block]| blocks.iter().map(|block| block.bytes).sum::<u64>();
        while used(&self.caches[sip as usize]) + block.bytes > capacity {
            let left = self.caches[sip as usize].remove(0);
            if left.is_stored {
                let stage = memory(self.spec, sip, left.cube);
                self.take(stage, now, span(stage.cost.bandwidth, left.bytes));
            }
        }
        self.caches[sip as usize].push(block);
    }
}
