//! What each place has yet to do.
//!
//! Every place keeps its own events by time, and a row of plain numbers says when each place is due next: a window
//! begins with a look at those numbers, and from then on a place touches nothing but its own agenda.
//!
//! - **AGD-1 (order).** The events of a place come out by time, and at equal times by their keys (SIM-2).
//! - **AGD-2 (due).** A place is due at the time of its first event.

use super::action::{Action, Key};
use super::{Place, PlaceOrder};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An action to come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    pub(super) time: u64,
    pub(super) key: Key,
    pub(super) action: Action,
}

/// The events of one place.
///
/// A place rarely has more than a few, and most new ones are the last to happen: those stand in a short sorted row,
/// and only what does not fit into it goes to a heap.
#[derive(Default)]
pub(super) struct Agenda {
    /// From `done` on, the next ones in order.
    soon: Vec<Entry>,
    done: usize,
    /// The others, none of which comes before any of `soon`.
    later: BinaryHeap<Reverse<Entry>>,
}

/// How many events the row of an agenda holds.
const SOON: usize = 16;

impl Agenda {
    /// When the first event happens; never, if there is none.
    #[inline]
    pub(super) fn time(&self) -> u64 {
        self.soon.get(self.done).map_or(u64::MAX, |entry| entry.time)
    }

    /// Takes the first event, if it happens before `end`.
    #[inline]
    pub(super) fn pop_before(&mut self, end: u64) -> Option<(u64, Action)> {
        let Entry { time, action, .. } = *self.soon.get(self.done)?;
        if time >= end {
            return None;
        }
        self.done += 1;
        if self.done == self.soon.len() {
            self.refill();
        }
        Some((time, action))
    }

    /// Takes the first event, if it happens at `time`, before which there is none.
    #[inline]
    pub(super) fn pop_at(&mut self, time: u64) -> Option<Action> {
        if self.time() != time {
            return None;
        }
        self.pop_before(u64::MAX).map(|(_, action)| action)
    }

    /// The row is used up.
    #[inline]
    fn refill(&mut self) {
        self.done = 0;
        self.soon.clear();
        if !self.later.is_empty() {
            self.take_later();
        }
    }

    #[cold]
    fn take_later(&mut self) {
        let later = std::iter::from_fn(|| self.later.pop());
        self.soon.extend(later.take(SOON / 2).map(|Reverse(entry)| entry));
    }

    /// Adds an event.
    #[inline]
    pub(super) fn push(&mut self, entry: Entry) {
        if self.soon.len() == SOON {
            self.make_room();
        }
        if self.later.peek().is_some_and(|Reverse(first)| *first < entry) {
            return self.later.push(Reverse(entry));
        }
        let mut at = self.soon.len();
        self.soon.push(entry);
        while at > self.done && entry < self.soon[at - 1] {
            self.soon[at] = self.soon[at - 1];
            at -= 1;
        }
        self.soon[at] = entry;
    }

    /// The row is full: forgets those that are done, or moves the later half to the heap.
    fn make_room(&mut self) {
        if self.done > 0 {
            self.soon.drain(..self.done);
            self.done = 0;
        } else {
            self.later.extend(self.soon.drain(SOON / 2..).map(Reverse));
        }
    }
}

/// The agendas of all places, and when each is due.
pub(super) struct Agendas {
    agendas: Box<[Agenda]>,
    /// When each place is due. For the place whose turn it is, when it was before.
    due: Box<[u64]>,
    /// When the first of each `BLOCK` places is due, or earlier: only blocks that may be due are looked at.
    blocks: Box<[u64]>,
}

const BLOCK: usize = 32;

impl Agendas {
    pub(super) fn new(places: u32) -> Self {
        let places = places as usize;
        Self {
            agendas: std::iter::repeat_with(Agenda::default).take(places).collect(),
            due: vec![u64::MAX; places].into(),
            blocks: vec![u64::MAX; places.div_ceil(BLOCK)].into(),
        }
    }

    /// The agenda of one place.
    #[inline]
    pub(super) fn of(&mut self, place: Place) -> &mut Agenda {
        &mut self.agendas[place.0 as usize]
    }

    /// Adds an event of a place.
    #[inline]
    pub(super) fn push(&mut self, place: Place, entry: Entry) {
        let place = place.0 as usize;
        self.agendas[place].push(entry);
        if entry.time < self.due[place] {
            self.due[place] = entry.time;
            let block = &mut self.blocks[place / BLOCK];
            *block = entry.time.min(*block);
        }
    }

    /// A place has had its turn.
    #[inline]
    pub(super) fn end_turn(&mut self, place: Place) {
        let place = place.0 as usize;
        self.due[place] = self.agendas[place].time();
    }

    /// When the first place is due; never, if nothing is left to happen.
    pub(super) fn first_due(&mut self) -> u64 {
        // A block may say too little after a turn, but never too much.
        loop {
            let first = self.blocks.iter().copied().min().unwrap_or(u64::MAX);
            if first == u64::MAX {
                return first;
            }
            let mut exact = false;
            for (block, due) in self.blocks.iter_mut().zip(self.due.chunks(BLOCK)) {
                if *block == first {
                    *block = due.iter().copied().min().unwrap_or(u64::MAX);
                    exact |= *block == first;
                }
            }
            if exact {
                return first;
            }
        }
    }

    /// Gives every place that is due before `end` to `out`, in the order of `order`.
    pub(super) fn line_up(&self, end: u64, order: PlaceOrder, out: &mut Vec<Place>) {
        out.clear();
        for (block, (number, due)) in
            self.blocks.iter().zip((0..).step_by(BLOCK).zip(self.due.chunks(BLOCK)))
        {
            if *block < end {
                let due = (number..).zip(due).filter(|(_, due)| **due < end);
                out.extend(due.map(|(place, _)| Place(place)));
            }
        }
        if let PlaceOrder::Shuffled(seed) = order {
            out.sort_by_key(|place| (turn_of(seed, end, *place), *place));
        }
    }
}

fn turn_of(seed: u64, now: u64, place: Place) -> u64 {
    let mut x = seed ^ now.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (u64::from(place.0) << 32);
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
        Entry { time, key: Key::new(0, Place(0), count), action: Action::resume(count) }
    }

    proptest! {
        #[test]
        fn agd_1_agd_2_an_agenda_is_a_sorted_set(
            script in prop::collection::vec((0..40usize, prop_oneof![0..3u64, 0..5_000u64], 0..3u8), 0..400)
        ) {
            let mut agendas = Agendas::new(40);
            let mut models = vec![BTreeSet::new(); 40];
            for (count, (place, delay, pops)) in (0..).zip(script) {
                let (at, model) = (Place(u32::try_from(place).unwrap()), &mut models[place]);
                agendas.push(at, entry(delay, count));
                model.insert(entry(delay, count));
                for _ in 0..pops {
                    let popped = agendas.of(at).pop_before(u64::MAX).map(|(time, action)| (time, action.payload()));
                    let expected = model.pop_first().map(|entry| (entry.time, entry.action.payload()));
                    prop_assert_eq!(popped, expected, "AGD-1");
                }
                agendas.end_turn(at);
                let due = models.iter().filter_map(|model| model.first()).map(|entry| entry.time);
                prop_assert_eq!(agendas.first_due(), due.min().unwrap_or(u64::MAX), "AGD-2");
                let (end, mut turns) = (agendas.first_due().saturating_add(100), Vec::new());
                agendas.line_up(end, PlaceOrder::Queued, &mut turns);
                let expected = (0..).zip(&models).filter(|(_, model)| model.first().is_some_and(|e| e.time < end));
                prop_assert!(turns.into_iter().eq(expected.map(|(place, _)| Place(place))), "AGD-2");
            }
        }

        #[test]
        fn agd_1_many_events_come_out_in_order(times in prop::collection::vec(0..1_000u64, 0..300)) {
            let mut agenda = Agenda::default();
            for (count, time) in (0..).zip(&times) {
                agenda.push(entry(*time, count));
            }
            let mut expected: Vec<(u64, u64)> = times.iter().copied().zip(0..).collect();
            expected.sort_unstable();
            let popped = std::iter::from_fn(|| agenda.pop_before(u64::MAX));
            prop_assert!(popped.map(|(time, action)| (time, action.payload())).eq(expected), "AGD-1");
        }
    }

    #[test]
    fn events_of_one_instant_can_be_told_from_later_ones() {
        let mut agenda = Agenda::default();
        for (time, count) in [(5, 0), (7, 1), (5, 2)] {
            agenda.push(entry(time, count));
        }
        assert!(agenda.pop_before(5).is_none());
        assert_eq!(
            agenda.pop_before(6).map(|(time, action)| (time, action.payload())),
            Some((5, 0))
        );
        assert_eq!(agenda.pop_at(5).map(Action::payload), Some(2));
        assert!(agenda.pop_at(5).is_none());
        assert_eq!(agenda.time(), 7);
    }
}
