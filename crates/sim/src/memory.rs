//! HBM: the mapping of addresses, and the content of memory.
//!
//! Each SIP has one virtual address space. A *region* (a tensor's shard) is a range of virtual addresses that the MMU
//! maps onto physical addresses of one cube's HBM. The content of a region is a map from element ranges to values; reads
//! and writes copy no data.
//!
//! - **MEM-1 (capacity).** The bytes of all regions of a cube never exceed its HBM.
//! - **MEM-2 (mapped).** Accessing an address outside every region, or beyond the end of a region, is an error.
//! - **MEM-3 (written).** Reading unwritten memory is an error in strict mode; otherwise it gives poison (NaN; the lowest whole number).
//! - **MEM-4 (last write).** A read gives the last value written to each element.
//! - **MEM-5 (bounded).** Overwritten values, and values of freed regions, are released.
//! - **MEM-6 (aligned).** An address in the middle of an element is an error.

use crate::time::{Bytes, Capacity};
use crate::topology::PeId;
use crate::value::{DType, Value};
use std::cell::Cell;
use std::collections::BTreeMap;

/// A range of a SIP's virtual addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// The SIP.
    pub sip: u32,
    /// The cube whose HBM holds it.
    pub cube: u16,
    /// The first virtual address.
    pub address: u64,
    /// Type of the elements.
    pub dtype: DType,
    /// Number of elements.
    pub elements: usize,
}

impl Region {
    /// Returns the size in bytes.
    pub fn bytes(&self) -> u64 {
        self.elements as u64 * self.dtype.size() as u64
    }
}

/// A memory access or allocation that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// No room for a new region (MEM-1).
    #[error(
        "no room in the HBM of sip{sip}.cube{cube}: {wanted} wanted, {free} of {capacity} free in one piece"
    )]
    Full {
        /// The SIP.
        sip: u32,
        /// The cube.
        cube: u16,
        /// Size of the request.
        wanted: Bytes,
        /// Size of the largest free piece.
        free: Bytes,
        /// Capacity of the HBM.
        capacity: Bytes,
    },
    /// An address outside every region (MEM-2).
    #[error("address {address:#x} of sip{sip} is not mapped{near}")]
    Unmapped {
        /// The SIP.
        sip: u32,
        /// The first address that is not mapped.
        address: u64,
        /// The closest region before it, in words.
        near: String,
    },
    /// A load or store of the wrong type.
    #[error("address {address:#x} of sip{sip} holds {holds}, not {asked}")]
    WrongType {
        /// The SIP.
        sip: u32,
        /// The address.
        address: u64,
        /// Type of the region.
        holds: DType,
        /// Type of the access.
        asked: DType,
    },
    /// An address inside an element (MEM-6).
    #[error(
        "address {address:#x} of sip{sip} is in the middle of an element: the {dtype} there begins at {element:#x}"
    )]
    Misaligned {
        /// The SIP.
        sip: u32,
        /// The address.
        address: u64,
        /// Type of the region.
        dtype: DType,
        /// Address of the element.
        element: u64,
    },
    /// Unwritten memory was read (MEM-3).
    #[error("address {address:#x} of sip{sip} was read but never written")]
    Unwritten {
        /// The SIP.
        sip: u32,
        /// The first unwritten address.
        address: u64,
    },
}

crate::portable!(enum MemoryError {
    0 => Full { sip, cube, wanted, free, capacity },
    1 => Unmapped { sip, address, near },
    2 => WrongType { sip, address, holds, asked },
    3 => Misaligned { sip, address, dtype, element },
    4 => Unwritten { sip, address },
});

/// The physical addresses of one cube's HBM.
#[derive(Debug)]
pub(crate) struct Hbm {
    capacity: Capacity,
    /// Free pieces: start -> length.
    free: BTreeMap<u64, u64>,
    pub(crate) used: u64,
    pub(crate) peak: u64,
}

impl Hbm {
    pub(crate) fn new(capacity: Capacity) -> Self {
        let size = match capacity {
            Capacity::Unlimited => u64::MAX,
            Capacity::Limited(bytes) => bytes.0,
        };
        Self { capacity, free: BTreeMap::from([(0, size)]), used: 0, peak: 0 }
    }

    /// Takes the lowest free piece of `bytes` and returns its start; the error is the size of the largest free piece.
    pub(crate) fn allocate(&mut self, bytes: u64) -> Result<u64, u64> {
        let found =
            self.free.iter().find(|(_, len)| **len >= bytes).map(|(start, len)| (*start, *len));
        let Some((start, len)) = found else {
            return Err(self.free.values().copied().max().unwrap_or(0));
        };
        self.free.remove(&start);
        if len > bytes {
            self.free.insert(start + bytes, len - bytes);
        }
        self.used += bytes;
        self.peak = self.peak.max(self.used);
        Ok(start)
    }

    /// Takes a free piece for `pe` and returns its start.
    pub(crate) fn take(&mut self, pe: PeId, bytes: u64) -> Result<u64, MemoryError> {
        let capacity = self.capacity();
        self.allocate(bytes).map_err(|free| MemoryError::Full {
            sip: pe.sip,
            cube: pe.cube,
            wanted: Bytes(bytes),
            free: Bytes(free),
            capacity,
        })
    }

    /// Gives a piece back and merges it with its free neighbours.
    pub(crate) fn release(&mut self, mut start: u64, mut bytes: u64) {
        self.used -= bytes;
        if bytes == 0 {
            return;
        }
        if let Some((&before, &len)) = self.free.range(..start).next_back()
            && before + len == start
        {
            self.free.remove(&before);
            (start, bytes) = (before, len + bytes);
        }
        if let Some(len) = self.free.remove(&(start + bytes)) {
            bytes += len;
        }
        self.free.insert(start, bytes);
    }

    fn capacity(&self) -> Bytes {
        match self.capacity {
            Capacity::Unlimited => Bytes(u64::MAX),
            Capacity::Limited(bytes) => bytes,
        }
    }
}

/// The regions of one SIP, by virtual address.
#[derive(Debug)]
pub(crate) struct Mmu {
    sip: u32,
    strict: bool,
    next: u64,
    /// The mappings, by address. New addresses only grow.
    regions: Vec<Mapping>,
    /// Index of the mapping found last.
    hint: Cell<usize>,
}

/// A translated address: one element of a mapped region. It is valid until a region is unmapped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Translation {
    index: usize,
    element: usize,
    pub(crate) cube: u16,
}

#[derive(Debug)]
struct Mapping {
    region: Region,
    physical: u64,
    content: Content,
}

/// First virtual address of a SIP: zero stays unmapped, so that a null pointer is an error.
const FIRST_ADDRESS: u64 = 0x1000;
/// Alignment of regions; an unmapped gap lies between two regions.
const PAGE: u64 = 0x1000;

impl Mmu {
    pub(crate) fn new(sip: u32, strict: bool) -> Self {
        Self { sip, strict, next: FIRST_ADDRESS, regions: Vec::new(), hint: Cell::new(0) }
    }

    /// Maps a new region onto `hbm`.
    pub(crate) fn map(
        &mut self,
        hbm: &mut Hbm,
        cube: u16,
        dtype: DType,
        elements: usize,
    ) -> Result<Region, MemoryError> {
        let region = Region { sip: self.sip, cube, address: self.next, dtype, elements };
        let bytes = region.bytes();
        let physical = hbm.take(PeId { sip: self.sip, cube, pe: 0 }, bytes)?;
        self.next += (bytes.div_ceil(PAGE) + 1) * PAGE;
        self.regions.push(Mapping { region, physical, content: Content::default() });
        Ok(region)
    }

    /// Unmaps a region and drops its content.
    pub(crate) fn unmap(&mut self, hbm: &mut Hbm, region: &Region) {
        if let Some(index) =
            self.before(region.address).filter(|index| self.regions[*index].region == *region)
        {
            let mapping = self.regions.remove(index);
            hbm.release(mapping.physical, mapping.region.bytes());
        }
    }

    /// Translates `address`, if `reach` elements of `dtype` from there on are mapped.
    #[inline]
    pub(crate) fn find(
        &self,
        address: u64,
        dtype: DType,
        reach: usize,
    ) -> Result<Translation, Box<MemoryError>> {
        // Most accesses are to the region of the last one.
        match self.translate(self.hint.get(), address, dtype, reach) {
            Some(translation) => Ok(translation),
            None => self.search(address, dtype, reach),
        }
    }

    /// Does the work of [`Mmu::find`] for an address in any region.
    #[inline(never)]
    fn search(
        &self,
        address: u64,
        dtype: DType,
        reach: usize,
    ) -> Result<Translation, Box<MemoryError>> {
        let region = self.before(address);
        match region.and_then(|index| self.translate(index, address, dtype, reach)) {
            Some(translation) => Ok(translation),
            None => Err(Box::new(self.fault(address, dtype))),
        }
    }

    /// Translates `address`, if `reach` elements of `dtype` from there on are in this region.
    #[inline]
    fn translate(
        &self,
        index: usize,
        address: u64,
        dtype: DType,
        reach: usize,
    ) -> Option<Translation> {
        let region = &self.regions.get(index)?.region;
        // Regions are page-aligned (MEM-6).
        let aligned = address & (dtype.size() as u64 - 1) == 0;
        if region.dtype != dtype || !aligned {
            return None;
        }
        let distance = address.checked_sub(region.address)?;
        #[expect(clippy::cast_possible_truncation, reason = "compared with the region's length")]
        let element = (distance >> dtype.size_shift()) as usize;
        let is_inside = element <= region.elements && reach <= region.elements - element;
        is_inside.then_some(Translation { index, element, cube: region.cube })
    }

    /// Returns the cube of the region that has `address`, or ends there.
    pub(crate) fn cube_at(&self, address: u64) -> Option<u16> {
        let region = &self.regions[self.before(address)?].region;
        (address <= region.address + region.bytes()).then_some(region.cube)
    }

    /// Returns the error of an access that cannot be translated.
    #[cold]
    fn fault(&self, address: u64, dtype: DType) -> MemoryError {
        let region = self.before(address).map(|index| self.regions[index].region);
        match region.filter(|region| address < region.address + region.bytes()) {
            None => self.unmapped(address, region),
            Some(Region { dtype: holds, .. }) if holds != dtype => {
                MemoryError::WrongType { sip: self.sip, address, holds, asked: dtype }
            }
            Some(_) if address.trailing_zeros() < dtype.size_shift() => MemoryError::Misaligned {
                sip: self.sip,
                address,
                dtype,
                element: address >> dtype.size_shift() << dtype.size_shift(),
            },
            Some(region) => self.unmapped(region.address + region.bytes(), Some(region)),
        }
    }

    /// Returns the index of the last region that starts at `address` or before it.
    #[inline]
    fn before(&self, address: u64) -> Option<usize> {
        let hint = self.hint.get();
        let starts = |index: usize| self.regions.get(index).map(|mapping| mapping.region.address);
        if starts(hint).is_some_and(|start| start <= address)
            && starts(hint + 1).is_none_or(|start| start > address)
        {
            return Some(hint);
        }
        let index = self
            .regions
            .partition_point(|mapping| mapping.region.address <= address)
            .checked_sub(1)?;
        self.hint.set(index);
        Some(index)
    }

    fn unmapped(&self, address: u64, near: Option<Region>) -> MemoryError {
        let near = near.map_or_else(String::new, |region| {
            let (start, end) = (region.address, region.address + region.bytes());
            format!(
                "; the region before it is {start:#x}..{end:#x} ({} x {})",
                region.elements, region.dtype
            )
        });
        MemoryError::Unmapped { sip: self.sip, address, near }
    }

    /// Translates the address of a region's first element.
    pub(crate) fn start_of(&self, region: &Region) -> Result<Translation, Box<MemoryError>> {
        let index =
            self.before(region.address).filter(|index| self.regions[*index].region == *region);
        let index = index.ok_or_else(|| Box::new(self.unmapped(region.address, None)))?;
        Ok(Translation { index, element: 0, cube: region.cube })
    }

    /// Writes `value` from `offset` elements after `translation`.
    pub(crate) fn write(&mut self, translation: Translation, offset: usize, value: Value) {
        self.regions[translation.index].content.write(translation.element + offset, value);
    }

    /// Reads `len` elements from `offset` elements after `translation`.
    pub(crate) fn read(
        &self,
        translation: Translation,
        offset: usize,
        len: usize,
    ) -> Result<Value, MemoryError> {
        let Mapping { region, content, .. } = &self.regions[translation.index];
        let mut pieces = Vec::new();
        for piece in content.read(translation.element + offset, len) {
            pieces.push(match piece {
                Piece::Known(value) => value,
                Piece::Unwritten(at, len) => self.unwritten(region, at, len)?,
            });
        }
        Ok(if pieces.is_empty() { Value::zeros(region.dtype, 0) } else { Value::concat(&pieces) })
    }

    /// Returns the one value that covers `len` elements from `translation`, and their offset in it.
    pub(crate) fn covering(&self, translation: Translation, len: usize) -> Option<(&Value, usize)> {
        self.regions[translation.index].content.covering(translation.element, len)
    }

    fn unwritten(&self, region: &Region, at: usize, len: usize) -> Result<Value, MemoryError> {
        if self.strict {
            let address = region.address + (at * region.dtype.size()) as u64;
            return Err(MemoryError::Unwritten { sip: self.sip, address });
        }
        // The lowest of whole numbers.
        let poison = if region.dtype.is_float() { f64::NAN } else { f64::NEG_INFINITY };
        Ok(Value::full(region.dtype, len, poison))
    }
}

/// The content of a region: the first element of each piece -> its value.
#[derive(Debug, Default)]
struct Content(BTreeMap<usize, Value>);

enum Piece {
    Known(Value),
    Unwritten(usize, usize),
}

impl Content {
    fn write(&mut self, at: usize, value: Value) {
        let end = at + value.len();
        if value.is_empty() {
            return;
        }
        match self.0.range_mut(..=at).next_back() {
            // The common cases: the same piece again, or a part of a larger piece.
            Some((&start, piece)) if start == at && piece.len() == value.len() => *piece = value,
            Some((&start, piece)) if start < at && end < start + piece.len() => {
                let right = piece.slice(end - start, start + piece.len() - end);
                *piece = piece.slice(0, at - start);
                self.0.insert(at, value);
                self.0.insert(end, right);
            }
            _ => self.write_over(at, end, value),
        }
    }

    /// Writes over any number of pieces.
    fn write_over(&mut self, at: usize, end: usize, value: Value) {
        self.cut(at);
        self.cut(end);
        let covered: Vec<usize> = self.0.range(at..end).map(|(start, _)| *start).collect();
        for start in covered {
            self.0.remove(&start);
        }
        self.0.insert(at, value);
    }

    /// Splits the piece that contains `at`, so that a piece starts there.
    fn cut(&mut self, at: usize) {
        let Some((&start, value)) = self.0.range(..at).next_back() else { return };
        if start + value.len() <= at {
            return;
        }
        let (left, right) =
            (value.slice(0, at - start), value.slice(at - start, start + value.len() - at));
        self.0.insert(start, left);
        self.0.insert(at, right);
    }

    fn read(&self, at: usize, len: usize) -> Vec<Piece> {
        let end = at + len;
        let mut pieces = Vec::new();
        let mut next = at;
        let first = self.0.range(..at).next_back().map_or(at, |(start, _)| *start);
        for (&start, value) in self.0.range(first..end) {
            let (from, to) = (start.max(next), (start + value.len()).min(end));
            if to <= from {
                continue;
            }
            if from > next {
                pieces.push(Piece::Unwritten(next, from - next));
            }
            pieces.push(Piece::Known(value.slice(from - start, to - from)));
            next = to;
        }
        if next < end {
            pieces.push(Piece::Unwritten(next, end - next));
        }
        pieces
    }

    fn covering(&self, at: usize, len: usize) -> Option<(&Value, usize)> {
        let (&start, value) = self.0.range(..=at).next_back()?;
        (at + len <= start + value.len()).then_some((value, at - start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn memory(capacity: u64, strict: bool) -> (Mmu, Hbm) {
        (Mmu::new(0, strict), Hbm::new(Capacity::Limited(Bytes(capacity))))
    }

    #[test]
    fn mem_1_a_full_stack_says_how_much_was_left() {
        let (mut mmu, mut hbm) = memory(4096, true);
        let first = mmu.map(&mut hbm, 0, DType::F32, 1000).unwrap();
        let text = mmu.map(&mut hbm, 0, DType::F16, 100).unwrap_err().to_string();
        assert_eq!(
            text, "no room in the HBM of sip0.cube0: 200 B wanted, 96 B of 4 KiB free in one piece",
            "MEM-1"
        );
        mmu.unmap(&mut hbm, &first);
        assert!(mmu.map(&mut hbm, 0, DType::F32, 1024).is_ok());
        assert_eq!(hbm.used, 4096);
    }

    #[test]
    fn mem_2_addresses_outside_are_refused() {
        let (mut mmu, mut hbm) = memory(1 << 20, true);
        let region = mmu.map(&mut hbm, 0, DType::F32, 10).unwrap();
        let null = *mmu.find(0, DType::F32, 1).unwrap_err();
        assert!(matches!(null, MemoryError::Unmapped { address: 0, .. }), "MEM-2");
        assert!(mmu.find(region.address + 36, DType::F32, 1).is_ok());
        let beyond = mmu.find(region.address + 36, DType::F32, 2).unwrap_err();
        assert_eq!(
            beyond.to_string(),
            "address 0x1028 of sip0 is not mapped; the region before it is 0x1000..0x1028 (10 x f32)"
        );
        let wrong = *mmu.find(region.address, DType::F16, 1).unwrap_err();
        assert!(matches!(wrong, MemoryError::WrongType { .. }));
    }

    #[test]
    fn mem_6_an_address_inside_an_element_is_refused() {
        let (mut mmu, mut hbm) = memory(1 << 20, true);
        let region = mmu.map(&mut hbm, 0, DType::F32, 10).unwrap();
        for off in 1..4 {
            let inside = *mmu.find(region.address + 8 + off, DType::F32, 1).unwrap_err();
            assert!(matches!(inside, MemoryError::Misaligned { element: 0x1008, .. }), "MEM-6");
        }
        let text = mmu.find(region.address + 9, DType::F32, 1).unwrap_err().to_string();
        let expected =
            "address 0x1009 of sip0 is in the middle of an element: the f32 there begins at 0x1008";
        assert_eq!(text, expected, "MEM-6");
    }

    #[test]
    fn mem_3_unwritten_memory_is_an_error_or_poison() {
        let (mut mmu, mut hbm) = memory(1 << 20, true);
        let region = mmu.map(&mut hbm, 0, DType::F32, 4).unwrap();
        let translation = mmu.start_of(&region).unwrap();
        mmu.write(translation, 0, Value::zeros(DType::F32, 2));
        let error = mmu.read(translation, 1, 2).unwrap_err();
        assert_eq!(error.to_string(), "address 0x1008 of sip0 was read but never written", "MEM-3");
        mmu.strict = false;
        assert!(mmu.read(translation, 1, 2).unwrap().to_f32()[1].is_nan(), "MEM-3");
    }

    proptest! {
        #[test]
        fn mem_4_reads_give_the_last_write(writes in prop::collection::vec((0..40usize, 0..20usize), 0..40)) {
            let (mut mmu, mut hbm) = memory(1 << 20, false);
            let region = mmu.map(&mut hbm, 0, DType::F32, 64).unwrap();
            let mut model = vec![f32::NAN; 64];
            for (number, (at, len)) in writes.into_iter().enumerate() {
                let values: Vec<f32> = (0..len).map(|i| f32::from(u16::try_from(number * 100 + i).unwrap())).collect();
                model[at..at + len].copy_from_slice(&values);
                mmu.write(mmu.start_of(&region).unwrap(), at, Value::from_f32(DType::F32, &values));
            }
            let read = mmu.read(mmu.start_of(&region).unwrap(), 0, 64).unwrap().to_f32();
            prop_assert!(read.iter().zip(&model).all(|(a, b)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()));
            let pieces = mmu.regions[0].content.0.len();
            prop_assert!(pieces <= 64, "MEM-5: {pieces} pieces");
        }

        #[test]
        fn mem_1_the_allocator_hands_out_disjoint_pieces(sizes in prop::collection::vec((0..100u64, any::<bool>()), 1..60)) {
            let mut hbm = Hbm::new(Capacity::Limited(Bytes(1000)));
            let mut live: Vec<(u64, u64)> = Vec::new();
            for (bytes, keep) in sizes {
                if let Ok(start) = hbm.allocate(bytes) {
                    prop_assert!(start + bytes <= 1000, "MEM-1");
                    prop_assert!(live.iter().all(|(s, b)| start + bytes <= *s || s + b <= start || bytes == 0 || *b == 0));
                    live.push((start, bytes));
                }
                if !keep && let Some((start, bytes)) = live.pop() {
                    hbm.release(start, bytes);
                }
                prop_assert_eq!(hbm.used, live.iter().map(|(_, b)| b).sum::<u64>());
            }
        }
    }

    #[test]
    fn mem_5_overwriting_releases_the_old_value() {
        let (mut mmu, mut hbm) = memory(1 << 20, true);
        let region = mmu.map(&mut hbm, 0, DType::F32, 8).unwrap();
        for round in 0..1000 {
            mmu.write(mmu.start_of(&region).unwrap(), round % 5, Value::zeros(DType::F32, 3));
        }
        assert!(mmu.regions[0].content.0.len() <= 8, "MEM-5");
    }
}
