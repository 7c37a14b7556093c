//! The parts of a chain of steps: the number and the time of the operations of each resource and kind.

use super::Resource;
use crate::stall::Kind;
use crate::time::Time;
use crate::topology::PeId;

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

/// Parts that grow, found by a hash of resource and kind.
pub(crate) struct Sums {
    parts: Vec<PathPart>,
    /// One more than the index of the part with this hash; zero for none. The length is a power of two.
    slots: Vec<u32>,
    /// The slot of each part.
    used: Vec<usize>,
}

impl Default for Sums {
    fn default() -> Self {
        Self { parts: Vec::new(), slots: vec![0; FIRST_SLOTS], used: Vec::new() }
    }
}

/// Number of slots at first.
const FIRST_SLOTS: usize = 64;

impl Sums {
    /// Adds one operation.
    #[inline]
    pub(crate) fn add(&mut self, resource: Resource, kind: Kind, time: Time) {
        self.add_part(PathPart { resource, kind, count: 1, time });
    }

    /// Adds all operations of a part.
    #[inline]
    pub(crate) fn add_part(&mut self, part: PathPart) {
        let slot = self.slot_of(part.resource, part.kind);
        match self.slots[slot] {
            0 => self.insert(slot, part),
            number => {
                let known = &mut self.parts[number as usize - 1];
                known.count += part.count;
                known.time += part.time;
            }
        }
    }

    /// Returns the parts, in the order in which they were added first, and forgets them.
    pub(crate) fn take(&mut self) -> Vec<PathPart> {
        for slot in self.used.drain(..) {
            self.slots[slot] = 0;
        }
        let parts = self.parts.as_slice().to_vec();
        self.parts.clear();
        parts
    }

    /// Returns the slot of a part, or the free slot for it.
    #[inline]
    fn slot_of(&self, resource: Resource, kind: Kind) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = hash(resource, kind) & mask;
        loop {
            let number = self.slots[slot];
            let is_it = number == 0 || {
                let part = &self.parts[number as usize - 1];
                part.kind == kind && part.resource == resource
            };
            if is_it {
                return slot;
            }
            slot = (slot + 1) & mask;
        }
    }

    #[cold]
    fn insert(&mut self, slot: usize, part: PathPart) {
        self.parts.push(part);
        self.fill(slot, self.parts.len());
        if self.parts.len() * 2 > self.slots.len() {
            self.grow();
        }
    }

    fn grow(&mut self) {
        self.slots = vec![0; self.slots.len() * 2];
        self.used.clear();
        for index in 0..self.parts.len() {
            let PathPart { resource, kind, .. } = self.parts[index];
            let slot = self.slot_of(resource, kind);
            self.fill(slot, index + 1);
        }
    }

    fn fill(&mut self, slot: usize, number: usize) {
        self.slots[slot] = u32::try_from(number).expect("fewer than 2^32 resources and kinds");
        self.used.push(slot);
    }
}

/// Returns bits that depend on all of a resource and a kind.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "any bits will do")]
fn hash(resource: Resource, kind: Kind) -> usize {
    let of = |id: PeId| u64::from(id.sip) << 32 | u64::from(id.cube) << 16 | u64::from(id.pe);
    let (variant, number) = match resource {
        Resource::Program(id) => (0, of(id)),
        Resource::Gemm(id) => (1, of(id)),
        Resource::Vector(id) => (2, of(id)),
        Resource::Load(id) => (3, of(id)),
        Resource::Store(id) => (4, of(id)),
        Resource::PeLink(id, side) => (5 + u64::from(side), of(id)),
        Resource::CubeLink(id, side) => (9 + u64::from(side), of(id)),
        Resource::Hbm(id) => (13, of(id)),
        Resource::Link { from, to } => (14, u64::from(from) << 32 | u64::from(to)),
        Resource::Ingress(sip) => (15, u64::from(sip)),
        Resource::Host(sip) => (16, u64::from(sip)),
        Resource::Upload(sip) => (17, u64::from(sip)),
    };
    let bits = number ^ (variant << 4 | kind as u64) << 24;
    (bits.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn resources() -> impl Strategy<Value = Resource> {
        let pe = (0..9u32, 0..3u16, 0..3u16).prop_map(|(sip, cube, pe)| PeId { sip, cube, pe });
        (pe, 0..12u8, 0..4u8, 0..9u32).prop_map(|(pe, variant, side, to)| match variant {
            0 => Resource::Program(pe),
            1 => Resource::Gemm(pe),
            2 => Resource::Vector(pe),
            3 => Resource::Load(pe),
            4 => Resource::Store(pe),
            5 => Resource::PeLink(pe, side),
            6 => Resource::CubeLink(pe, side),
            7 => Resource::Hbm(pe),
            8 => Resource::Link { from: pe.sip, to },
            9 => Resource::Ingress(to),
            10 => Resource::Host(to),
            _ => Resource::Upload(to),
        })
    }

    proptest! {
        #[test]
        fn sums_equal_those_of_a_map(
            adds in prop::collection::vec((resources(), 0..Kind::COUNT, 0..50u64), 0..400)
        ) {
            let (mut sums, mut map) = (Sums::default(), BTreeMap::new());
            for (resource, kind, time) in adds {
                let kind = Kind::ALL[kind];
                sums.add(resource, kind, Time::ps(time));
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
