//! What each partition has yet to do.
//!
//! Every partition keeps its own events by time. A window begins with a look at when each partition is due; from then on a
//! partition touches its own agenda, and those of the partitions it sends something to.
//!
//! - **AGD-1 (order).** The events of a partition come out by time, and at equal times by their keys (SIM-2).
//! - **AGD-2 (due).** A partition is due at the time of its first event.

use super::action::{Action, Key};
use super::{Partition, PartitionOrder};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An action to come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    pub(super) time: u64,
    pub(super) key: Key,
    pub(super) action: Action,
}

impl Entry {
    const NONE: Self = Self { time: u64::MAX, key: Key::NONE, action: Action::NONE };

    /// Whether it happens before `other`. Times differ nearly always.
    #[inline]
    fn is_before(&self, other: &Self) -> bool {
        self.time < other.time || (self.time == other.time && self.key < other.key)
    }
}

/// The events of one partition.
///
/// A partition rarely has more than a few, and most new ones are the last to happen: those stand in a short sorted ring,
/// and only what does not fit into it goes to a heap.
#[repr(C, align(64))]
pub(super) struct Agenda {
    /// When the partition is due. While it has its turn, when it was before.
    due: u64,
    /// How many events the partition has created, for itself and for others.
    created: u64,
    /// The first of `soon`, counted without end: its slot is that modulo `SOON`.
    head: usize,
    len: usize,
    /// The others, none of which comes before any of `soon`; there are none unless `soon` has some.
    later: BinaryHeap<Reverse<Entry>>,
    soon: [Entry; SOON],
}

/// How many events the ring of an agenda holds: a power of two, so that slots need no check.
const SOON: usize = 16;

impl Agenda {
    fn new() -> Self {
        let (soon, later) = ([Entry::NONE; SOON], BinaryHeap::new());
        Self { due: u64::MAX, created: 0, head: 0, len: 0, soon, later }
    }

    /// When the first event happens; never, if there is none.
    #[inline]
    fn time(&self) -> u64 {
        if self.len == 0 { u64::MAX } else { self.soon[self.head % SOON].time }
    }

    /// Takes the first event, if it happens before `end`.
    #[inline]
    pub(super) fn pop_before(&mut self, end: u64) -> Option<Entry> {
        let entry = self.soon[self.head % SOON];
        if self.len == 0 || entry.time >= end {
            return None;
        }
        self.len -= 1;
        self.head += 1;
        if self.len == 0 {
            self.refill();
        }
        Some(entry)
    }

    /// The ring is used up: starts at its first slot again, which is the most likely to be at hand.
    #[inline]
    fn refill(&mut self) {
        self.head = 0;
        if !self.later.is_empty() {
            self.take_later();
        }
    }

    #[cold]
    fn take_later(&mut self) {
        for slot in self.soon.iter_mut().take(SOON / 2) {
            let Some(Reverse(entry)) = self.later.pop() else { break };
            *slot = entry;
            self.len += 1;
        }
    }

    /// Adds an event.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "an entry that is passed on is written, read and written again"
    )]
    fn push(&mut self, entry: Entry) {
        if (self.len == SOON || !self.later.is_empty()) && self.keep_for_later(entry) {
            return;
        }
        let mut at = self.head + self.len;
        self.len += 1;
        while at > self.head && entry.is_before(&self.soon[(at - 1) % SOON]) {
            self.soon[at % SOON] = self.soon[(at - 1) % SOON];
            at -= 1;
        }
        self.soon[at % SOON] = entry;
    }

    /// Makes room for an entry, or puts it into the heap, if it belongs there.
    #[cold]
    fn keep_for_later(&mut self, entry: Entry) -> bool {
        while self.len >= SOON {
            self.len -= 1;
            self.later.push(Reverse(self.soon[(self.head + self.len) % SOON]));
        }
        let is_later = self.later.peek().is_some_and(|Reverse(first)| first.is_before(&entry));
        if is_later {
            self.later.push(Reverse(entry));
        }
        is_later
    }
}

/// The agendas of all partitions.
pub(super) struct Agendas {
    list: Box<[Agenda]>,
    /// When the first of each `BLOCK` partitions is due, or earlier: only blocks that may be due are looked at.
    blocks: Box<[u64]>,
}

const BLOCK: usize = 32;

impl Agendas {
    pub(super) fn new(partitions: u32) -> Self {
        let partitions = partitions as usize;
        Self {
            list: std::iter::repeat_with(Agenda::new).take(partitions).collect(),
            blocks: vec![u64::MAX; partitions.div_ceil(BLOCK)].into(),
        }
    }

    /// Forgets every event. Counts go on, so that no key is used twice.
    pub(super) fn clear(&mut self) {
        for agenda in &mut self.list {
            *agenda = Agenda { created: agenda.created, ..Agenda::new() };
        }
        self.blocks.fill(u64::MAX);
    }

    /// The agenda of one partition.
    #[inline]
    pub(super) fn of(&mut self, partition: Partition) -> &mut Agenda {
        &mut self.list[partition.0 as usize]
    }

    /// The key of an event that `origin` creates now.
    #[inline]
    pub(super) fn next_key(&mut self, now: u64, origin: Partition) -> Key {
        let agenda = self.of(origin);
        agenda.created += 1;
        Key::new(now, origin, agenda.created)
    }

    /// Adds an event of a partition.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "an entry that is passed on is written, read and written again"
    )]
    pub(super) fn push(&mut self, partition: Partition, entry: Entry) {
        let agenda = self.of(partition);
        agenda.push(entry);
        if entry.time < agenda.due {
            agenda.due = entry.time;
            let block = &mut self.blocks[partition.0 as usize / BLOCK];
            *block = entry.time.min(*block);
        }
    }

    /// A partition has had its turn.
    #[inline]
    pub(super) fn end_turn(&mut self, partition: Partition) {
        let agenda = self.of(partition);
        agenda.due = agenda.time();
    }

    /// When the first partition is due; never, if nothing is left to happen.
    pub(super) fn first_due(&mut self) -> u64 {
        // A block may say too little after a turn, but never too much.
        loop {
            let first = self.blocks.iter().copied().min().unwrap_or(u64::MAX);
            if first == u64::MAX {
                return first;
            }
            let mut exact = false;
            for (block, agendas) in self.blocks.iter_mut().zip(self.list.chunks(BLOCK)) {
                if *block == first {
                    *block = agendas.iter().map(|agenda| agenda.due).min().unwrap_or(u64::MAX);
                    exact |= *block == first;
                }
            }
            if exact {
                return first;
            }
        }
    }

    /// Gives every partition that is due before `end` to `out`, in the order of `order`.
    pub(super) fn line_up(&self, end: u64, order: PartitionOrder, out: &mut Vec<Partition>) {
        out.clear();
        let blocks = (0..).step_by(BLOCK).zip(&self.blocks).zip(self.list.chunks(BLOCK));
        for ((first, block), agendas) in blocks {
            if *block < end {
                let due = (first..).zip(agendas).filter(|(_, agenda)| agenda.due < end);
                out.extend(due.map(|(partition, _)| Partition(partition)));
            }
        }
        if let PartitionOrder::Shuffled(seed) = order {
            out.sort_by_key(|partition| (turn_of(seed, end, *partition), *partition));
        }
    }
}

fn turn_of(seed: u64, now: u64, partition: Partition) -> u64 {
    let mut x = seed ^ now.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (u64::from(partition.0) << 32);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn entry(time: u64, count: u64) -> Entry {
        Entry { time, key: Key::new(0, Partition(0), count), action: Action::resume(count) }
    }

    proptest! {
        #[test]
        fn agd_1_agd_2_an_agenda_is_a_sorted_set(
            script in prop::collection::vec((0..40usize, prop_oneof![0..3u64, 0..5_000u64], 0..3u8), 0..400)
        ) {
            let mut agendas = Agendas::new(40);
            let mut models = vec![BTreeSet::new(); 40];
            for (count, (partition, delay, pops)) in (0..).zip(script) {
                let (at, model) = (Partition(u32::try_from(partition).unwrap()), &mut models[partition]);
                agendas.push(at, entry(delay, count));
                model.insert(entry(delay, count));
                for _ in 0..pops {
                    let popped = agendas.of(at).pop_before(u64::MAX).map(|entry| (entry.time, entry.action.payload()));
                    let expected = model.pop_first().map(|entry| (entry.time, entry.action.payload()));
                    prop_assert_eq!(popped, expected, "AGD-1");
                }
                agendas.end_turn(at);
                let due = models.iter().filter_map(|model| model.first()).map(|entry| entry.time);
                prop_assert_eq!(agendas.first_due(), due.min().unwrap_or(u64::MAX), "AGD-2");
                let (end, mut turns) = (agendas.first_due().saturating_add(100), Vec::new());
                agendas.line_up(end, PartitionOrder::Queued, &mut turns);
                let expected = (0..).zip(&models).filter(|(_, model)| model.first().is_some_and(|e| e.time < end));
                prop_assert!(turns.into_iter().eq(expected.map(|(partition, _)| Partition(partition))), "AGD-2");
            }
        }

        #[test]
        fn agd_1_many_events_come_out_in_order(times in prop::collection::vec(0..1_000u64, 0..300)) {
            let mut agenda = Agenda::new();
            for (count, time) in (0..).zip(&times) {
                agenda.push(entry(*time, count));
            }
            let mut expected: Vec<(u64, u64)> = times.iter().copied().zip(0..).collect();
            expected.sort_unstable();
            let popped = std::iter::from_fn(|| agenda.pop_before(u64::MAX));
            prop_assert!(popped.map(|entry| (entry.time, entry.action.payload())).eq(expected), "AGD-1");
        }
    }

    #[test]
    fn agd_1_what_comes_later_stays() {
        let mut agenda = Agenda::new();
        for (time, count) in [(5, 0), (7, 1), (5, 2)] {
            agenda.push(entry(time, count));
        }
        assert!(agenda.pop_before(5).is_none());
        let popped =
            std::iter::from_fn(|| agenda.pop_before(6)).map(|entry| entry.action.payload());
        assert!(popped.eq([0, 2]), "AGD-1");
        assert_eq!(agenda.time(), 7);
    }
}
