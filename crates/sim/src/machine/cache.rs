//! The cache of a SIP: which blocks it holds, and when their bytes are there.
//!
//! The cache keeps *blocks*: the elements that one load reads or one store writes. A load of a block that is there takes a turn of
//! the cache alone; a load of another block takes a turn of the cache and a turn of its memory, which begin when the head arrives, and
//! the latencies of both. A store takes a turn of the cache; the memory takes the bytes when the block leaves the cache. A load that overlaps a
//! block in the cache and is not equal to it is a load of another block.
//!
//! - **CACHE-1 (once).** A block that stays in the cache is read from memory once, however many PEs load it, and a load that
//!   follows ends no sooner than the bytes are there.
//! - **CACHE-2 (least recent).** Blocks leave in the order of their last use, no more of them than a new block needs.
//! - **CACHE-3 (write back).** A stored block is written to memory when it leaves the cache, and not before.

use crate::time::{Capacity, Time};
use std::collections::BTreeMap;

/// The number of a block; in two halves, so that a stage of a route stays small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockNumber([u16; 2]);

impl BlockNumber {
    fn new(index: usize) -> Self {
        let index = u32::try_from(index).expect("fewer than 2^32 blocks");
        #[expect(clippy::cast_possible_truncation, reason = "two halves")]
        Self([(index >> 16) as u16, index as u16])
    }

    fn index(self) -> usize {
        usize::from(self.0[0]) << 16 | usize::from(self.0[1])
    }
}

/// The elements of a load or a store: address, bytes, and bytes from the first element to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BlockKey {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) reach: u64,
}

impl BlockKey {
    /// The key of no block: no access has so many bytes.
    const NONE: Self = Self { address: 0, bytes: u64::MAX, reach: 0 };

    /// Returns a number below [`RECENT`].
    #[inline]
    fn hash(&self) -> usize {
        const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
        let mixed = (self.address ^ self.bytes.rotate_left(40)).wrapping_mul(ODD);
        usize::try_from(mixed >> (64 - RECENT.trailing_zeros())).unwrap_or_default()
    }
}

/// Places for blocks that were asked for last.
const RECENT: usize = 1 << 12;

/// The end of the list of blocks.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Block {
    key: BlockKey,
    bytes: u64,
    cube: u16,
    is_resident: bool,
    /// True if the memory does not have the bytes.
    is_dirty: bool,
    /// Arrival of the first and the last byte.
    head: Time,
    tail: Time,
    /// The neighbours in the list of resident blocks.
    older: u32,
    newer: u32,
}

/// The arrival of the first and the last byte of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrived {
    pub(crate) head: Time,
    pub(crate) tail: Time,
}

/// A block that has left the cache and must be written to the memory of a cube.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriteBack {
    pub(crate) cube: u16,
    pub(crate) bytes: u64,
}

/// The blocks of a cache. It takes room for every block that was ever used and is still mapped.
pub(crate) struct Cache {
    capacity: u64,
    used: u64,
    numbers: BTreeMap<BlockKey, u32>,
    /// The block that was asked for last, of all with one hash: most blocks are found here.
    recent: Vec<u32>,
    blocks: Vec<Block>,
    /// Blocks whose memory is no longer mapped: their numbers are used again.
    unused: Vec<u32>,
    oldest: u32,
    newest: u32,
}

impl Cache {
    pub(crate) fn new(capacity: Capacity) -> Self {
        let capacity = match capacity {
            Capacity::Unlimited => u64::MAX,
            Capacity::Limited(bytes) => bytes.0,
        };
        Self {
            capacity,
            used: 0,
            numbers: BTreeMap::new(),
            recent: Vec::new(),
            blocks: Vec::new(),
            unused: Vec::new(),
            oldest: NONE,
            newest: NONE,
        }
    }

    /// Returns the number of a block; `bytes` is its size in the cache and on wires.
    #[inline]
    pub(crate) fn block(&mut self, key: BlockKey, cube: u16, bytes: u64) -> BlockNumber {
        let place = key.hash();
        let index = self.recent.get(place).copied().unwrap_or(NONE);
        if self.blocks.get(index as usize).is_some_and(|block| block.key == key) {
            return BlockNumber::new(index as usize);
        }
        let index = self.find_or_add(key, cube, bytes);
        if self.recent.is_empty() {
            self.recent = vec![NONE; RECENT];
        }
        self.recent[place] = index;
        BlockNumber::new(index as usize)
    }

    #[inline(never)]
    fn find_or_add(&mut self, key: BlockKey, cube: u16, bytes: u64) -> u32 {
        match self.numbers.get(&key) {
            Some(index) => *index,
            None => self.add(key, cube, bytes),
        }
    }

    fn add(&mut self, key: BlockKey, cube: u16, bytes: u64) -> u32 {
        let (head, tail) = (Time::ZERO, Time::ZERO);
        let (is_resident, is_dirty, older, newer) = (false, false, NONE, NONE);
        let block = Block { key, bytes, cube, is_resident, is_dirty, head, tail, older, newer };
        let index = if let Some(index) = self.unused.pop() {
            self.blocks[index as usize] = block;
            index
        } else {
            self.blocks.push(block);
            u32::try_from(self.blocks.len() - 1).expect("fewer than 2^32 blocks")
        };
        self.numbers.insert(key, index);
        index
    }

    /// True if the block can be in the cache at all.
    pub(crate) fn fits(&self, block: BlockNumber) -> bool {
        self.blocks[block.index()].bytes <= self.capacity
    }

    /// Returns the arrival of a block that is in the cache; it is then the one used last.
    pub(crate) fn find(&mut self, block: BlockNumber) -> Option<Arrived> {
        let Block { is_resident, head, tail, .. } = self.blocks[block.index()];
        if !is_resident {
            return None;
        }
        self.unlink(block.index());
        self.link(block.index());
        Some(Arrived { head, tail })
    }

    /// Puts a block into the cache, as the one used last. Calls `write_back` for every stored block that leaves for it.
    pub(crate) fn put(
        &mut self,
        block: BlockNumber,
        arrived: Arrived,
        is_dirty: bool,
        mut write_back: impl FnMut(WriteBack),
    ) {
        let index = block.index();
        if self.blocks[index].is_resident {
            self.remove(index);
        }
        let bytes = self.blocks[index].bytes;
        while self.capacity - self.used < bytes {
            let oldest = self.oldest as usize;
            self.remove(oldest);
            let Block { cube, bytes, is_dirty, .. } = self.blocks[oldest];
            if is_dirty {
                write_back(WriteBack { cube, bytes });
            }
        }
        let Arrived { head, tail } = arrived;
        let state = &mut self.blocks[index];
        (state.is_resident, state.is_dirty) = (true, is_dirty);
        (state.head, state.tail) = (head, tail);
        self.used += bytes;
        self.link(index);
    }

    /// Forgets the blocks from `address` to `end`, whose memory is no longer mapped.
    pub(crate) fn forget(&mut self, address: u64, end: u64) {
        let key = |address| BlockKey { address, bytes: 0, reach: 0 };
        let gone: Vec<_> =
            self.numbers.range(key(address)..key(end)).map(|(key, _)| *key).collect();
        for key in gone {
            if let Some(index) = self.numbers.remove(&key) {
                if self.blocks[index as usize].is_resident {
                    self.remove(index as usize);
                }
                self.blocks[index as usize].key = BlockKey::NONE;
                self.unused.push(index);
            }
        }
    }

    fn remove(&mut self, index: usize) {
        self.unlink(index);
        self.blocks[index].is_resident = false;
        self.used -= self.blocks[index].bytes;
    }

    /// Adds a block to the list, as the newest.
    fn link(&mut self, index: usize) {
        let number = u32::try_from(index).expect("fewer than 2^32 blocks");
        (self.blocks[index].older, self.blocks[index].newer) = (self.newest, NONE);
        match self.newest {
            NONE => self.oldest = number,
            newest => self.blocks[newest as usize].newer = number,
        }
        self.newest = number;
    }

    /// Takes a block out of the list.
    fn unlink(&mut self, index: usize) {
        let Block { older, newer, .. } = self.blocks[index];
        match older {
            NONE => self.oldest = newer,
            older => self.blocks[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.blocks[newer as usize].older = older,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Bytes;
    use proptest::prelude::*;

    /// A cache as a list, oldest first: a key, its bytes, and whether it was stored.
    #[derive(Default)]
    struct Slow(Vec<(u64, u64, bool)>);

    impl Slow {
        fn find(&mut self, key: u64) -> bool {
            let Some(at) = self.0.iter().position(|block| block.0 == key) else { return false };
            let block = self.0.remove(at);
            self.0.push(block);
            true
        }

        fn put(&mut self, capacity: u64, (key, bytes, dirty): (u64, u64, bool)) -> Vec<u64> {
            self.0.retain(|block| block.0 != key);
            let mut written = Vec::new();
            while self.0.iter().map(|block| block.1).sum::<u64>() + bytes > capacity {
                let (_, bytes, dirty) = self.0.remove(0);
                written.extend(dirty.then_some(bytes));
            }
            self.0.push((key, bytes, dirty));
            written
        }
    }

    fn key(address: u64, bytes: u64) -> BlockKey {
        BlockKey { address, bytes, reach: bytes }
    }

    const NOW: Arrived = Arrived { head: Time::ZERO, tail: Time::ZERO };

    proptest! {
        #[test]
        fn cache_2_and_cache_3_blocks_leave_in_the_order_of_their_last_use_and_stored_ones_are_written(
            capacity in 1..60u64, uses in prop::collection::vec((0..12u64, 0..4u8), 0..80),
        ) {
            let mut cache = Cache::new(Capacity::Limited(Bytes(capacity)));
            let mut slow = Slow::default();
            for (name, what) in uses {
                let bytes = 1 + name * 3 % 11;
                let block = cache.block(key(name, bytes), 0, bytes);
                prop_assert_eq!(cache.fits(block), bytes <= capacity);
                if what == 3 {
                    cache.forget(name, name + 1);
                    slow.0.retain(|block| block.0 != name);
                    continue;
                }
                let is_there = cache.find(block).is_some();
                prop_assert_eq!(is_there, slow.find(name), "CACHE-2: {}", name);
                if bytes > capacity || is_there && what > 0 {
                    continue;
                }
                let mut written = Vec::new();
                cache.put(block, NOW, what == 0, |block| written.push(block.bytes));
                prop_assert_eq!(written, slow.put(capacity, (name, bytes, what == 0)), "CACHE-3");
                prop_assert_eq!(cache.used, slow.0.iter().map(|block| block.1).sum::<u64>());
            }
        }
    }
}
