//! Everything that happens at one instant, place by place.

use super::{DeviceId, Place, PlaceOrder};

/// What happens: an action of a device, or a process that goes on. One word: eight bits of device, the rest payload.
#[derive(Clone, Copy)]
pub(super) struct Action(u64);

const PAYLOAD_BITS: u32 = 56;

impl Action {
    pub(super) fn resume(task: u64) -> Self {
        debug_assert!(task >> PAYLOAD_BITS == 0);
        Self(task)
    }

    #[inline]
    pub(super) fn of(device: DeviceId, payload: u64) -> Self {
        assert!(payload >> PAYLOAD_BITS == 0 && device.0 < 255, "a payload has 56 bits, a device 8");
        Self(u64::from(device.0 + 1) << PAYLOAD_BITS | payload)
    }

    /// Which device; `None` for a process.
    #[inline]
    pub(super) fn device(self) -> Option<usize> {
        ((self.0 >> PAYLOAD_BITS) as usize).checked_sub(1)
    }

    #[inline]
    pub(super) fn payload(self) -> u64 {
        self.0 & ((1 << PAYLOAD_BITS) - 1)
    }
}

/// An action at a place.
#[derive(Clone, Copy)]
pub(super) struct Event {
    pub(super) place: Place,
    pub(super) action: Action,
    pub(super) key: Key,
}

/// The order of events of one place and instant (SIM-2): time of creation, creating place, that place's own count.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    created: u64,
    origin_and_count: u64,
}

const COUNT_BITS: u32 = 44;

impl Key {
    #[inline]
    pub(super) fn new(created: u64, origin: Place, count: u64) -> Self {
        Self { created, origin_and_count: u64::from(origin.0) << COUNT_BITS | count }
    }
}

/// The events of one instant, chained by place.
pub(super) struct Instant {
    events: Vec<Event>,
    /// For each event, the next one of its place.
    next: Vec<u32>,
    /// The chain of each place; meaningful only for places in `turns`.
    chains: Vec<Chain>,
    /// The places with events, in the order of their turns, and how many have had theirs.
    turns: Vec<Place>,
    done: usize,
    stamp: u64,
}

#[derive(Clone, Copy, Default)]
struct Chain {
    stamp: u64,
    head: u32,
    tail: u32,
}

const END: u32 = u32::MAX;

impl Instant {
    pub(super) fn new(places: u32) -> Self {
        let chains = vec![Chain::default(); places as usize];
        Self { events: Vec::new(), next: Vec::new(), chains, turns: Vec::new(), done: 0, stamp: 0 }
    }

    /// Where the queue puts the events of the next instant.
    pub(super) fn events(&mut self) -> &mut Vec<Event> {
        self.events.clear();
        &mut self.events
    }

    /// Chains the events of each place in the order of their keys, and lines the places up.
    #[inline]
    pub(super) fn sort(&mut self, now: u64, order: PlaceOrder) {
        self.turns.clear();
        self.next.clear();
        self.done = 0;
        self.stamp += 1;
        for index in 0..self.events.len() {
            self.append(index);
        }
        if let PlaceOrder::Shuffled(seed) = order {
            self.turns.sort_by_key(|place| (turn_of(seed, now, *place), *place));
        }
    }

    #[inline]
    fn append(&mut self, index: usize) {
        let Event { place, key, .. } = self.events[index];
        self.next.push(END);
        #[expect(clippy::cast_possible_truncation, reason = "the queue numbers its events in 32 bits")]
        let number = index as u32;
        let chain = &mut self.chains[place.0 as usize];
        if chain.stamp != self.stamp {
            *chain = Chain { stamp: self.stamp, head: number, tail: number };
            self.turns.push(place);
        } else if self.events[chain.tail as usize].key < key {
            self.next[chain.tail as usize] = number;
            chain.tail = number;
        } else {
            self.insert(index, number);
        }
    }

    /// The queue hands events out in the order they were put in. Those of one creator and one time of creation are
    /// in order; only equal times of creation at several places can be out of it.
    #[cold]
    fn insert(&mut self, index: usize, number: u32) {
        let Event { place, key, .. } = self.events[index];
        let chain = &mut self.chains[place.0 as usize];
        if key < self.events[chain.head as usize].key {
            self.next[index] = chain.head;
            chain.head = number;
            return;
        }
        let mut before = chain.head as usize;
        while self.events[self.next[before] as usize].key < key {
            before = self.next[before] as usize;
        }
        self.next[index] = self.next[before];
        self.next[before] = number;
    }

    /// The place whose turn it is, and its first event.
    #[inline]
    pub(super) fn next_place(&mut self) -> Option<(Place, u32)> {
        let place = *self.turns.get(self.done)?;
        self.done += 1;
        Some((place, self.chains[place.0 as usize].head))
    }

    /// An event of a chain, and the number of the one after it.
    #[inline]
    pub(super) fn event(&self, number: u32) -> Option<(Action, u32)> {
        let event = self.events.get(number as usize)?;
        Some((event.action, self.next[number as usize]))
    }
}

fn turn_of(seed: u64, now: u64, place: Place) -> u64 {
    let mut x = seed ^ now.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (u64::from(place.0) << 32);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}
