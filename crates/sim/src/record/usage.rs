//! A resource and the kind of its time in one word, so that a step is small.

use super::Resource;
use crate::portable::{Malformed, Portable, Reader};
use crate::stall::Kind;
use crate::topology::PeId;

/// The use of a resource for a kind of time, and the mark of a step during a fold.
///
/// ```text
///   mark (3 bits) | kind (4) | variant and side (5) | SIP (20) | cube (16), PE (16), or the other SIP (32)
/// ```
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use(u64);

impl Portable for Use {
    fn put(&self, to: &mut Vec<u8>) {
        self.0.put(to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let word = u64::take(from)?;
        let is_known = (word >> KIND & 15) < Kind::COUNT as u64;
        if is_known { Ok(Self(word)) } else { Err(Malformed("a use of no kind")) }
    }
}

/// The reach of a fold to a step or a chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mark {
    /// No path reaches it.
    #[default]
    Unreached,
    /// One step follows it, and no path ends there.
    Inner,
    /// A path ends there, or several steps follow it.
    Kept,
}

crate::portable!(enum Mark { 0 => Unreached, 1 => Inner, 2 => Kept });

const VARIANT: u32 = 52;
const KIND: u32 = 57;
const MARK: u32 = 61;

/// Returns a PE in one word.
#[inline]
fn number_of(id: PeId) -> u64 {
    u64::from(id.sip) << 32 | u64::from(id.cube) << 16 | u64::from(id.pe)
}

impl Use {
    /// Returns the use of an engine of a PE by its position: matrix, vector, load, store.
    #[inline]
    pub(crate) fn of_engine(position: u64, pe: PeId, kind: Kind) -> Self {
        Self(number_of(pe) | (position + 2) << VARIANT | (kind as u64) << KIND)
    }

    #[inline]
    pub(crate) fn new(resource: Resource, kind: Kind) -> Self {
        let of = number_of;
        let (variant, number) = match resource {
            Resource::Program(id) => (1, of(id)),
            Resource::Gemm(id) => (2, of(id)),
            Resource::Vector(id) => (3, of(id)),
            Resource::Load(id) => (4, of(id)),
            Resource::Store(id) => (5, of(id)),
            Resource::Hbm(id) => (6, of(id)),
            Resource::Link { from, to } => (7, u64::from(from) << 32 | u64::from(to)),
            Resource::Ingress(sip) => (8, u64::from(sip)),
            Resource::Host(sip) => (9, u64::from(sip)),
            Resource::Upload(sip) => (10, u64::from(sip)),
            Resource::Cache(sip) => (11, u64::from(sip)),
            Resource::PeLink(id, side) => (16 + u64::from(side), of(id)),
            Resource::CubeLink(id, side) => (24 + u64::from(side), of(id)),
        };
        Self(number | variant << VARIANT | (kind as u64) << KIND)
    }

    /// Returns the use of the same resource for another kind of time.
    #[inline]
    pub(crate) fn for_kind(self, kind: Kind) -> Self {
        Self(self.0 & !(15 << KIND) | (kind as u64) << KIND)
    }

    /// Returns a number that no other resource and kind have, and that is not zero.
    #[inline]
    pub(super) fn code(self) -> u64 {
        self.0 & ((1 << MARK) - 1)
    }

    #[inline]
    pub(crate) fn kind(self) -> Kind {
        Kind::ALL[(self.0 >> KIND & 15) as usize]
    }

    #[expect(clippy::cast_possible_truncation, reason = "the parts of a word")]
    pub(crate) fn resource(self) -> Resource {
        let (upper, lower) = ((self.0 >> 32 & 0xF_FFFF) as u32, self.0 as u32);
        let id = PeId { sip: upper, cube: (lower >> 16) as u16, pe: lower as u16 };
        match self.variant() {
            1 => Resource::Program(id),
            2 => Resource::Gemm(id),
            3 => Resource::Vector(id),
            4 => Resource::Load(id),
            5 => Resource::Store(id),
            6 => Resource::Hbm(id),
            7 => Resource::Link { from: upper, to: lower },
            8 => Resource::Ingress(lower),
            9 => Resource::Host(lower),
            10 => Resource::Upload(lower),
            11 => Resource::Cache(lower),
            side @ 16..24 => Resource::PeLink(id, side - 16),
            side => Resource::CubeLink(id, side - 24),
        }
    }

    /// True for the bytes on a wire between SIPs, or between a SIP and its host; not for a wait for a credit before it.
    #[inline]
    pub(crate) fn is_wire_outside(self) -> bool {
        (7..=10).contains(&self.variant()) && self.kind() != Kind::Credit
    }

    #[inline]
    fn variant(self) -> u8 {
        (self.0 >> VARIANT & 31) as u8
    }

    #[inline]
    pub(super) fn mark(self) -> Mark {
        match self.0 >> MARK {
            0 => Mark::Unreached,
            1 => Mark::Inner,
            _ => Mark::Kept,
        }
    }

    #[inline]
    pub(super) fn set_mark(&mut self, mark: Mark) {
        self.0 = self.code() | (mark as u64) << MARK;
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(in crate::record) fn resources() -> impl Strategy<Value = Resource> {
        let sip = || prop_oneof![0..9u32, Just((1 << 20) - 1)];
        let to = prop_oneof![0..9u32, Just(Resource::SWITCH)];
        let pe = (sip(), 0..3u16, prop_oneof![0..3u16, Just(u16::MAX)])
            .prop_map(|(sip, cube, pe)| PeId { sip, cube, pe });
        (pe, 0..13u8, 0..4u8, sip(), to).prop_map(|(pe, variant, side, sip, to)| match variant {
            0 => Resource::Program(pe),
            1 => Resource::Gemm(pe),
            2 => Resource::Vector(pe),
            3 => Resource::Load(pe),
            4 => Resource::Store(pe),
            5 => Resource::PeLink(pe, side),
            6 => Resource::CubeLink(pe, side),
            7 => Resource::Hbm(pe),
            8 => Resource::Link { from: sip, to },
            9 => Resource::Ingress(sip),
            10 => Resource::Host(sip),
            11 => Resource::Cache(sip),
            _ => Resource::Upload(sip),
        })
    }

    #[test]
    fn the_use_of_an_engine_is_that_of_its_resource() {
        use crate::machine::Engine;
        let pe = PeId { sip: 3, cube: 2, pe: 7 };
        for engine in [Engine::Gemm, Engine::Vector, Engine::Load, Engine::Store] {
            let (used, known) = (engine.used(pe), Use::new(engine.resource(pe), engine.kind()));
            assert_eq!((used.code(), used.resource()), (known.code(), engine.resource(pe)));
        }
    }

    proptest! {
        #[test]
        fn a_use_reads_back(resource in resources(), kind in 0..Kind::COUNT, mark in 0..3usize) {
            let (kind, mark) = (Kind::ALL[kind], [Mark::Unreached, Mark::Inner, Mark::Kept][mark]);
            let mut what = Use::new(resource, kind);
            let code = what.code();
            prop_assert!(code != 0 && what.mark() == Mark::Unreached);
            let other = what.for_kind(Kind::Latency);
            prop_assert_eq!((other.resource(), other.kind()), (resource, Kind::Latency));
            what.set_mark(mark);
            prop_assert_eq!((what.resource(), what.kind(), what.mark()), (resource, kind, mark));
            let is_outside = resource.is_wire_outside() && kind != Kind::Credit;
            prop_assert_eq!((what.code(), what.is_wire_outside()), (code, is_outside));
        }
    }
}
