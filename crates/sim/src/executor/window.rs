//! Everything that happens within one window of time, place by place.

use super::{DeviceId, Place, PlaceOrder};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

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
        assert!(
            payload >> PAYLOAD_BITS == 0 && device.0 < 255,
            "a payload has 56 bits, a device 8"
        );
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

/// The events of one window, chained by place.
pub(super) struct Window {
    events: Vec<Link>,
    /// The chain of each place; meaningful only for places in `turns`.
    chains: Box<[Chain]>,
    /// The places with events, in the order of their turns, and how many have had theirs.
    turns: Vec<Place>,
    done: usize,
    stamp: u64,
}

/// An event, and the next one of its place.
#[derive(Clone, Copy)]
struct Link {
    time: u64,
    action: Action,
    key: Key,
    next: u32,
}

#[derive(Clone, Copy, Default)]
struct Chain {
    stamp: u64,
    head: u32,
    tail: u32,
}

const END: u32 = u32::MAX;

impl Window {
    pub(super) fn new(places: u32) -> Self {
        let chains = vec![Chain::default(); places as usize].into();
        Self { events: Vec::new(), chains, turns: Vec::new(), done: 0, stamp: 0 }
    }

    /// Forgets the last window.
    pub(super) fn clear(&mut self) {
        self.events.clear();
        self.turns.clear();
        self.done = 0;
        self.stamp += 1;
    }

    /// Chains an event behind the others of its place, by time and then in the order of their keys.
    ///
    /// Events come by time, so only those of one instant can be out of order.
    #[inline]
    pub(super) fn add(&mut self, time: u64, event: Event) {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the queue numbers its events in 32 bits"
        )]
        let number = self.events.len() as u32;
        let Event { place, action, key } = event;
        self.events.push(Link { time, action, key, next: END });
        let chain = &mut self.chains[place.0 as usize];
        if chain.stamp != self.stamp {
            *chain = Chain { stamp: self.stamp, head: number, tail: number };
            self.turns.push(place);
            return;
        }
        let tail = &mut self.events[chain.tail as usize];
        if (tail.time, tail.key) < (time, key) {
            (tail.next, chain.tail) = (number, number);
        } else {
            self.insert(place, number);
        }
    }

    /// The queue hands events out in the order they were put in. Those of one creator are in order; only those
    /// created at the same time at several places can be out of it.
    #[cold]
    fn insert(&mut self, place: Place, number: u32) {
        let order = |link: &Link| (link.time, link.key);
        let key = order(&self.events[number as usize]);
        let chain = &mut self.chains[place.0 as usize];
        if key < order(&self.events[chain.head as usize]) {
            self.events[number as usize].next = chain.head;
            chain.head = number;
            return;
        }
        let mut before = chain.head as usize;
        while order(&self.events[self.events[before].next as usize]) < key {
            before = self.events[before].next as usize;
        }
        self.events[number as usize].next = self.events[before].next;
        self.events[before].next = number;
    }

    /// Decides in which order the places take their turns.
    pub(super) fn line_up(&mut self, now: u64, order: PlaceOrder) {
        if let PlaceOrder::Shuffled(seed) = order {
            self.turns.sort_by_key(|place| (turn_of(seed, now, *place), *place));
        }
    }

    /// The place whose turn it is, and its first event.
    #[inline]
    pub(super) fn next_place(&mut self) -> Option<(Place, u32)> {
        let place = *self.turns.get(self.done)?;
        self.done += 1;
        Some((place, self.chains[place.0 as usize].head))
    }

    /// When an event of a chain happens; never, behind its end.
    #[inline]
    pub(super) fn time(&self, number: u32) -> u64 {
        self.events.get(number as usize).map_or(u64::MAX, |link| link.time)
    }

    /// An event of a chain, and the number of the one after it.
    #[inline]
    pub(super) fn event(&self, number: u32) -> (Action, u32) {
        let link = &self.events[number as usize];
        (link.action, link.next)
    }
}

/// What a place has created for itself within the window, by time and then in the order of creation.
#[derive(Default)]
pub(super) struct Near {
    heap: BinaryHeap<Reverse<(u64, u64, u64)>>,
    created: u64,
}

impl Near {
    #[inline]
    pub(super) fn push(&mut self, time: u64, action: Action) {
        self.created += 1;
        self.heap.push(Reverse((time, self.created, action.0)));
    }

    /// When the first happens; never, if there is none.
    #[inline]
    pub(super) fn time(&self) -> u64 {
        self.heap.peek().map_or(u64::MAX, |Reverse((time, ..))| *time)
    }

    #[inline]
    pub(super) fn pop_at(&mut self, time: u64) -> Option<Action> {
        if self.time() != time {
            return None;
        }
        self.heap.pop().map(|Reverse((.., action))| Action(action))
    }
}

fn turn_of(seed: u64, now: u64, place: Place) -> u64 {
    let mut x = seed ^ now.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (u64::from(place.0) << 32);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}
