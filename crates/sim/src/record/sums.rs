//! The parts of a chain of steps: the number and the time of the operations of each resource and kind.

use super::Resource;
use super::usage::Use;
use crate::stall::Kind;
use crate::time::Time;

/// One resource's part in the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathPart {
    /// The resource.
    pub resource: Resource,
    /// The kind of its time.
    pub kind: Kind,
    /// Number of operations.
    pub count: u64,
    /// Sum of their times.
    pub time: Time,
}

crate::portable!(struct PathPart { resource, kind, count, time });

/// A part as chains keep it: three words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    what: Use,
    count: u64,
    time: Time,
}

crate::portable!(struct Part { what, count, time });

impl Part {
    fn of_path(&self) -> PathPart {
        let Self { what, count, time } = *self;
        PathPart { resource: what.resource(), kind: what.kind(), count, time }
    }
}

/// Parts that grow, found by the code of resource and kind.
pub(crate) struct Sums {
    parts: Vec<Part>,
    /// The parts by a hash of their codes; the length is a power of two.
    slots: Vec<Slot>,
    /// The slots that are taken.
    taken: Vec<usize>,
}

/// The code of a part and its index; the code is zero in a free slot.
#[derive(Clone, Copy, Default)]
struct Slot {
    code: u64,
    index: usize,
}

impl Default for Sums {
    fn default() -> Self {
        let slots = vec![Slot::default(); FIRST_SLOTS];
        Self { parts: Vec::new(), slots, taken: Vec::new() }
    }
}

/// Number of slots at first.
const FIRST_SLOTS: usize = 64;

impl Sums {
    /// Adds one operation.
    #[inline]
    pub(crate) fn add(&mut self, what: Use, time: Time) {
        self.add_all(what, 1, time);
    }

    /// Adds all operations of a part.
    #[inline]
    pub(crate) fn add_part(&mut self, part: &Part) {
        self.add_all(part.what, part.count, part.time);
    }

    #[inline]
    fn add_all(&mut self, what: Use, count: u64, time: Time) {
        let at = self.slot_of(what.code());
        let Slot { code, index } = self.slots[at];
        if code == 0 {
            return self.insert(at, what, count, time);
        }
        let part = &mut self.parts[index];
        part.count += count;
        part.time += time;
    }

    /// Returns the parts, in the order in which they were added first, and forgets them.
    pub(crate) fn take(&mut self) -> Vec<PathPart> {
        self.take_parts().iter().map(Part::of_path).collect()
    }

    /// Does the same, for a chain.
    pub(crate) fn take_parts(&mut self) -> Vec<Part> {
        for slot in self.taken.drain(..) {
            self.slots[slot] = Slot::default();
        }
        let parts = self.parts.as_slice().to_vec();
        self.parts.clear();
        parts
    }

    /// Returns the slot of a code, or the free slot for it.
    #[inline]
    fn slot_of(&self, code: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = (code.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize & mask;
        while self.slots[at].code != code && self.slots[at].code != 0 {
            at = (at + 1) & mask;
        }
        at
    }

    #[cold]
    fn insert(&mut self, at: usize, what: Use, count: u64, time: Time) {
        let index = self.parts.len();
        self.parts.push(Part { what, count, time });
        self.fill(at, Slot { code: what.code(), index });
        if self.parts.len() * 2 > self.slots.len() {
            self.grow();
        }
    }

    fn fill(&mut self, at: usize, slot: Slot) {
        self.slots[at] = slot;
        self.taken.push(at);
    }

    fn grow(&mut self) {
        let old = std::mem::take(&mut self.slots);
        self.slots = vec![Slot::default(); old.len() * 2];
        self.taken.clear();
        for slot in old.into_iter().filter(|slot| slot.code != 0) {
            let at = self.slot_of(slot.code);
            self.fill(at, slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::usage::tests::resources;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn sums_equal_those_of_a_map(
            adds in prop::collection::vec((resources(), 0..Kind::COUNT, 0..50u64), 0..400)
        ) {
            let (mut sums, mut map) = (Sums::default(), BTreeMap::new());
            for (resource, kind, time) in adds {
                let kind = Kind::ALL[kind];
                sums.add(Use::new(resource, kind), Time::ps(time));
                let (count, total) = map.entry((resource, kind)).or_insert((0, 0));
                (*count, *total) = (*count + 1, *total + time);
            }
            let mut parts = sums.take();
            parts.sort_by_key(|part| (part.resource, part.kind));
            let all = parts.iter().map(|part| ((part.resource, part.kind), (part.count, part.time.as_ps())));
            prop_assert!(all.eq(map));
            prop_assert!(sums.take().is_empty());
        }
    }
}
