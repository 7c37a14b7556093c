//! A cache of packed operand parts, one for each thread.
//!
//! A part is kept at its second use soon after the first: a tile that is used once would only evict others.

use super::node::Node;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// Largest number of bytes kept, for each side of the product.
const LIMIT: usize = 2 << 20;
/// Size below which packing a part is faster than finding it.
const SMALL: usize = 16 << 10;
/// Number of recent parts that are remembered.
const SOON: usize = 64;

/// A part of a matrix: its start, the distance of its rows, and its numbers of rows and columns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) start: usize,
    pub(super) pitch: usize,
    pub(super) shape: [usize; 2],
}

/// The cache of one side of products: `A` or `B`.
pub(super) struct Side<T> {
    scratch: Vec<T>,
    kept: Vec<Kept<T>>,
    /// Parts that were packed and not kept. A reused address costs time, nothing else.
    seen: VecDeque<PartId>,
    clock: u64,
}

/// A part of a matrix, identified by the address of its node.
#[derive(PartialEq, Eq)]
struct PartId {
    address: usize,
    key: Key,
}

struct Kept<T> {
    /// The weak reference keeps the address from being reused, not the elements alive.
    node: Weak<Node>,
    key: Key,
    packed: Vec<T>,
    used: u64,
}

impl<T> Default for Side<T> {
    fn default() -> Self {
        Self { scratch: Vec::new(), kept: Vec::new(), seen: VecDeque::new(), clock: 0 }
    }
}

impl<T: Copy> Side<T> {
    /// Returns the packed elements of this part of the ready `node`: cached, or written by `pack` over `len` elements.
    pub(super) fn get(
        &mut self,
        node: &Arc<Node>,
        key: Key,
        len: usize,
        blank: T,
        pack: impl FnOnce(&mut [T]),
    ) -> &[T] {
        let bytes = len * size_of::<T>();
        if (SMALL..=LIMIT).contains(&bytes) {
            self.clock += 1;
            let is_it = |kept: &Kept<T>| kept.key == key && kept.node.as_ptr() == Arc::as_ptr(node);
            if let Some(at) = self.kept.iter().position(is_it) {
                self.kept[at].used = self.clock;
                return &self.kept[at].packed;
            }
            if self.is_again(PartId { address: Arc::as_ptr(node).addr(), key }) {
                self.make_room(bytes);
                let mut packed = vec![blank; len];
                pack(&mut packed);
                let node = Arc::downgrade(node);
                self.kept.push(Kept { node, key, packed, used: self.clock });
                return &self.kept[self.kept.len() - 1].packed;
            }
        }
        self.scratch.resize(self.scratch.len().max(len), blank);
        pack(&mut self.scratch[..len]);
        &self.scratch[..len]
    }

    /// True if the part was packed recently; otherwise remembers the part.
    fn is_again(&mut self, part: PartId) -> bool {
        if let Some(at) = self.seen.iter().position(|seen| *seen == part) {
            self.seen.remove(at);
            return true;
        }
        self.seen.truncate(SOON - 1);
        self.seen.push_front(part);
        false
    }

    /// Evicts the parts of dropped values, then the least recently used parts.
    fn make_room(&mut self, bytes: usize) {
        self.kept.retain(|kept| kept.node.strong_count() > 0);
        while self.bytes() + bytes > LIMIT {
            let oldest = (0..self.kept.len()).min_by_key(|at| self.kept[*at].used);
            self.kept.swap_remove(oldest.expect("DOT-4: one part is below the limit"));
        }
    }

    fn bytes(&self) -> usize {
        self.kept.iter().map(|kept| size_of_val(&kept.packed[..])).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DType, Value};
    use super::*;

    const LEN: usize = SMALL / 4;

    fn key(start: usize) -> Key {
        Key { start, pitch: 1, shape: [1, LEN] }
    }

    /// True if this call packs the part.
    fn packs(side: &mut Side<f32>, value: &Value, start: usize) -> bool {
        let mut packed = false;
        let got = side.get(&value.node, key(start), LEN, 0.0, |to| {
            packed = true;
            to.fill(2.5);
        });
        assert!(got.len() == LEN && got.iter().all(|x| x.to_bits() == 2.5_f32.to_bits()));
        packed
    }

    #[test]
    fn dot_4_a_part_used_again_is_packed_no_more() {
        let (mut side, value) = (Side::default(), Value::from_f32(DType::F16, &[1.0]));
        let answers: Vec<bool> = (0..5).map(|_| packs(&mut side, &value, 0)).collect();
        assert_eq!(answers, [true, true, false, false, false], "DOT-4");
        let other = Value::from_f32(DType::F16, &[1.0]);
        assert!(packs(&mut side, &other, 0) && packs(&mut side, &value, 1), "DOT-4: another part");
    }

    #[test]
    fn dot_4_what_is_kept_is_bounded_and_goes_with_its_value() {
        let (mut side, value) = (Side::default(), Value::from_f32(DType::F16, &[1.0]));
        for start in 0..1000 {
            packs(&mut side, &value, start);
            packs(&mut side, &value, start);
            assert!(side.bytes() <= LIMIT && side.seen.len() <= SOON, "DOT-4: at {start}");
        }
        assert!(
            !packs(&mut side, &value, 999) && packs(&mut side, &value, 0),
            "DOT-4: the oldest go"
        );
        drop(value);
        let other = Value::from_f32(DType::F16, &[1.0]);
        packs(&mut side, &other, 0);
        packs(&mut side, &other, 0);
        assert_eq!(side.kept.len(), 1, "DOT-4: nothing of a value that is gone");
    }
}
