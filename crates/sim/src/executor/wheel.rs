//! The event queue: a hierarchical timing wheel that hands out one instant at a time.
//!
//! Four levels of 4 096 slots cover 2^48 ps (281 s) around the current instant; what lies beyond waits in an
//! ordered map. An event sits on the level of the highest 12-bit digit in which its time differs from the
//! wheel's, moves down as that digit comes due, and so is touched once or twice however many events are
//! pending.
//!
//! - **WHL-1 (monotone).** Instants come out in strictly ascending order, each once, with all its events.
//! - **WHL-2 (stable).** Events of one instant come out in the order they were put in.

use std::collections::BTreeMap;

const DIGIT: u32 = 12;
const SLOTS: usize = 1 << DIGIT;
const LEVELS: usize = 4;
/// How many bits of a time the levels cover together.
const REACH: u32 = DIGIT * 4;
const WORDS: usize = SLOTS / 64;
const NIL: u32 = u32::MAX;

/// Pending items by time, in picoseconds.
pub(super) struct Wheel<T> {
    /// The last instant handed out: every pending time is later or equal.
    base: u64,
    levels: Box<[Level; LEVELS]>,
    beyond: BTreeMap<u64, Vec<T>>,
    nodes: Vec<Node<T>>,
    free: u32,
    len: usize,
}

#[derive(Clone, Copy)]
struct Node<T> {
    time: u64,
    next: u32,
    item: T,
}

/// A FIFO list of nodes.
#[derive(Clone, Copy)]
struct Slot {
    head: u32,
    tail: u32,
}

const EMPTY: Slot = Slot { head: NIL, tail: NIL };

struct Level {
    slots: Box<[Slot; SLOTS]>,
    /// Bit `i` of word `w` is set while slot `64 w + i` has nodes; bit `w` of `summary` while word `w` is not 0.
    words: [u64; WORDS],
    summary: u64,
}

impl Level {
    fn new() -> Self {
        let slots =
            vec![EMPTY; SLOTS].into_boxed_slice().try_into().unwrap_or_else(|_| unreachable!());
        Self { slots, words: [0; WORDS], summary: 0 }
    }

    fn mark(&mut self, slot: usize) {
        self.words[slot / 64] |= 1 << (slot % 64);
        self.summary |= 1 << (slot / 64);
    }

    fn clear(&mut self, slot: usize) {
        let word = &mut self.words[slot / 64];
        *word &= !(1 << (slot % 64));
        if *word == 0 {
            self.summary &= !(1 << (slot / 64));
        }
    }

    /// The first slot with nodes at `from` or after it.
    fn next(&self, from: usize) -> Option<usize> {
        let (word, bit) = (from / 64, from % 64);
        let here = self.words[word] & (u64::MAX << bit);
        if here != 0 {
            return Some(word * 64 + here.trailing_zeros() as usize);
        }
        let later = self.summary & (u64::MAX << word) & !(1 << word);
        if later == 0 {
            return None;
        }
        let word = later.trailing_zeros() as usize;
        Some(word * 64 + self.words[word].trailing_zeros() as usize)
    }

    fn take(&mut self, slot: usize) -> Slot {
        self.clear(slot);
        std::mem::replace(&mut self.slots[slot], EMPTY)
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "only the lowest digit is kept")]
fn digit(time: u64, level: usize) -> usize {
    (time >> (DIGIT as usize * level)) as usize & (SLOTS - 1)
}

impl<T: Copy> Wheel<T> {
    pub(super) fn new() -> Self {
        let levels = Box::new(std::array::from_fn(|_| Level::new()));
        Self { base: 0, levels, beyond: BTreeMap::new(), nodes: Vec::new(), free: NIL, len: 0 }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an item; `time` must not be before the last instant handed out.
    #[inline]
    pub(super) fn push(&mut self, time: u64, item: impl FnOnce() -> T) {
        assert!(time >= self.base, "WHL-1: pushed into the past");
        self.len += 1;
        let differing = time ^ self.base;
        if differing >> (REACH) != 0 {
            return self.push_beyond(time, item());
        }
        let node = self.allocate(time, item);
        self.link(node, time, differing);
    }

    #[cold]
    fn push_beyond(&mut self, time: u64, item: T) {
        self.beyond.entry(time).or_default().push(item);
    }

    /// The earliest instant.
    pub(super) fn next_time(&self) -> Option<u64> {
        if let Some(slot) = self.levels[0].next(digit(self.base, 0)) {
            return Some((self.base & !(SLOTS as u64 - 1)) | slot as u64);
        }
        for level in 1..LEVELS {
            if let Some(slot) = self.levels[level].next(digit(self.base, level)) {
                return self.earliest(self.levels[level].slots[slot]);
            }
        }
        self.beyond.keys().next().copied()
    }

    fn earliest(&self, list: Slot) -> Option<u64> {
        let mut at = list.head;
        let mut earliest = None;
        while at != NIL {
            let node = &self.nodes[at as usize];
            earliest = Some(earliest.map_or(node.time, |time: u64| time.min(node.time)));
            at = node.next;
        }
        earliest
    }

    /// Gives every item of the earliest instant to `out`, in order, and returns that instant.
    #[inline]
    pub(super) fn take_instant(&mut self, out: impl FnMut(T)) -> Option<u64> {
        if self.len == 0 {
            return None;
        }
        loop {
            if let Some(slot) = self.levels[0].next(digit(self.base, 0)) {
                let list = self.levels[0].take(slot);
                let time = (self.base & !(SLOTS as u64 - 1)) | slot as u64;
                return Some(self.hand_out(time, list, out));
            }
            if let Some((time, list)) = self.descend() {
                return Some(self.hand_out(time, list, out));
            }
        }
    }

    /// Brings the next higher slot down one level, or returns it when it holds a single instant.
    fn descend(&mut self) -> Option<(u64, Slot)> {
        for level in 1..LEVELS {
            let Some(slot) = self.levels[level].next(digit(self.base, level)) else { continue };
            let list = self.levels[level].take(slot);
            if let Some(time) = self.single_instant(list) {
                return Some((time, list));
            }
            self.base = self.slot_start(level, slot);
            self.relink(list);
            return None;
        }
        self.refill();
        None
    }

    /// The time of a list whose nodes all have the same one.
    fn single_instant(&self, list: Slot) -> Option<u64> {
        let time = self.nodes[list.head as usize].time;
        let mut at = list.head;
        while at != NIL {
            let node = &self.nodes[at as usize];
            if node.time != time {
                return None;
            }
            at = node.next;
        }
        Some(time)
    }

    /// The first time that belongs to `slot` of `level`, given the digits above it.
    fn slot_start(&self, level: usize, slot: usize) -> u64 {
        let shift = DIGIT as usize * level;
        let above = shift + DIGIT as usize;
        (self.base >> above << above) | ((slot as u64) << shift)
    }

    fn relink(&mut self, list: Slot) {
        let mut at = list.head;
        while at != NIL {
            let node = &mut self.nodes[at as usize];
            let (time, next) = (node.time, std::mem::replace(&mut node.next, NIL));
            self.link(at, time, time ^ self.base);
            at = next;
        }
    }

    /// Every level is empty: takes the next epoch of 2^48 ps from the map.
    fn refill(&mut self) {
        let first = *self.beyond.keys().next().expect("WHL-1: items are pending");
        self.base = first;
        let epoch_end = (first | ((1 << (REACH)) - 1)).checked_add(1);
        let later = epoch_end.map_or_else(BTreeMap::new, |end| self.beyond.split_off(&end));
        for (time, items) in std::mem::replace(&mut self.beyond, later) {
            self.len -= items.len();
            for item in items {
                self.push(time, || item);
            }
        }
    }

    #[inline]
    fn hand_out(&mut self, time: u64, list: Slot, mut out: impl FnMut(T)) -> u64 {
        self.base = time;
        let mut at = list.head;
        while at != NIL {
            let node = &mut self.nodes[at as usize];
            out(node.item);
            let next = std::mem::replace(&mut node.next, self.free);
            self.free = at;
            self.len -= 1;
            at = next;
        }
        time
    }

    /// A node for an item, which is made where it will stand.
    #[inline]
    fn allocate(&mut self, time: u64, item: impl FnOnce() -> T) -> u32 {
        let at = self.free;
        if let Some(node) = self.nodes.get_mut(at as usize) {
            self.free = node.next;
            node.time = time;
            node.next = NIL;
            node.item = item();
            return at;
        }
        self.nodes.push(Node { time, next: NIL, item: item() });
        u32::try_from(self.nodes.len() - 1).expect("fewer than 2^32 pending events")
    }

    /// Appends a node, whose `next` is nil, to the slot that its time belongs to.
    #[inline]
    fn link(&mut self, node: u32, time: u64, differing: u64) {
        let level = ((differing | 1).ilog2() / DIGIT) as usize;
        let slot = digit(time, level);
        let level = &mut self.levels[level];
        let list = &mut level.slots[slot];
        let tail = std::mem::replace(&mut list.tail, node);
        if tail == NIL {
            list.head = node;
            level.mark(slot);
        } else {
            self.nodes[tail as usize].next = node;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Pops everything from the wheel and from an ordered map in step, with pushes relative to the last instant.
    fn agree_with_a_sorted_map(script: &[(u64, u8)]) {
        let mut wheel = Wheel::new();
        let mut model: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        let mut now = 0;
        for (id, &(delay, pops)) in script.iter().enumerate() {
            let time = now + delay;
            wheel.push(time, || id);
            model.entry(time).or_default().push(id);
            for _ in 0..pops {
                let mut out = Vec::new();
                let next = wheel.next_time();
                let popped = wheel.take_instant(|item| out.push(item));
                assert_eq!(next, popped, "WHL-1");
                let expected = model.pop_first();
                assert_eq!(popped.map(|t| (t, out)), expected, "WHL-1, WHL-2");
                now = popped.unwrap_or(now);
            }
        }
        let mut out = Vec::new();
        while let Some(time) = wheel.take_instant(|item| out.push(item)) {
            assert_eq!(Some((time, std::mem::take(&mut out))), model.pop_first());
        }
        assert!(model.is_empty() && wheel.is_empty());
    }

    proptest! {
        #[test]
        fn whl_1_whl_2_the_wheel_is_a_sorted_map_of_fifos(
            script in prop::collection::vec(
                (prop_oneof![Just(0), 0..4u64, 0..5_000u64, 0..20_000_000u64, 0..(1u64 << 50), Just(4095), Just(4096)], 0..3u8),
                0..400,
            )
        ) {
            agree_with_a_sorted_map(&script);
        }
    }

    #[test]
    #[should_panic(expected = "WHL-1")]
    fn whl_1_the_past_is_closed() {
        let mut wheel = Wheel::new();
        wheel.push(5, || ());
        wheel.take_instant(drop);
        wheel.push(4, || ());
    }

    #[test]
    fn the_end_of_time_can_be_reached() {
        agree_with_a_sorted_map(&[(u64::MAX, 0), (0, 0), (1 << 48, 0), ((1 << 48) - 1, 1)]);
    }
}
