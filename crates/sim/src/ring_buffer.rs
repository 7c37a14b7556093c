//! A FIFO ring buffer whose slots are written in place and reused: values are not moved in or out.
//!
//! - **RBUF-1 (FIFO).** Slots leave in the order in which they were added.
//! - **RBUF-2 (bounded).** The number of slots is the largest number in use at once, rounded up to a power of two.

use std::ops::{Index, IndexMut};

/// A FIFO of reusable slots.
pub(crate) struct RingBuffer<T> {
    /// The slots; their number is zero or a power of two.
    slots: Box<[T]>,
    head: u32,
    len: u32,
}

impl<T> Default for RingBuffer<T> {
    fn default() -> Self {
        Self { slots: Box::default(), head: 0, len: 0 }
    }
}

impl<T: Default> RingBuffer<T> {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a slot at the end; the slot holds its old content.
    #[inline]
    pub(crate) fn push(&mut self) -> &mut T {
        let last = self.len as usize;
        if last == self.slots.len() {
            self.grow();
        }
        self.len += 1;
        &mut self[last]
    }

    /// Removes the first slot; its content is valid until the next push.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<&mut T> {
        if self.len == 0 {
            return None;
        }
        let first = self.head as usize;
        self.len -= 1;
        // An empty buffer begins again with its first slot, which is most likely in the cache.
        let is_last = self.len == 0 || first + 1 == self.slots.len();
        self.head = if is_last { 0 } else { self.head + 1 };
        Some(&mut self.slots[first])
    }

    #[cold]
    fn grow(&mut self) {
        let mut slots = std::mem::take(&mut self.slots).into_vec();
        slots.rotate_left(self.head as usize);
        self.head = 0;
        let size = (slots.len() * 2).max(4);
        u32::try_from(size).expect("a queue has fewer than 2^32 slots");
        slots.resize_with(size, T::default);
        self.slots = slots.into();
    }
}

impl<T> Index<usize> for RingBuffer<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: usize) -> &T {
        debug_assert!(index < self.len as usize);
        &self.slots[(self.head as usize + index) & (self.slots.len() - 1)]
    }
}

impl<T> IndexMut<usize> for RingBuffer<T> {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut T {
        debug_assert!(index < self.len as usize);
        let mask = self.slots.len() - 1;
        &mut self.slots[(self.head as usize + index) & mask]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn rbuf_1_rbuf_2_it_is_a_queue_that_keeps_its_slots(script in prop::collection::vec(any::<bool>(), 0..300)) {
            let (mut ring, mut model, mut most) = (RingBuffer::<usize>::default(), VecDeque::new(), 0usize);
            for (number, push) in script.into_iter().enumerate() {
                if push {
                    *ring.push() = number;
                    model.push_back(number);
                } else {
                    prop_assert_eq!(ring.pop().map(|slot| *slot), model.pop_front(), "RBUF-1");
                }
                most = most.max(model.len());
                prop_assert_eq!(ring.is_empty(), model.is_empty());
                prop_assert!((0..ring.len()).map(|index| ring[index]).eq(model.iter().copied()), "RBUF-1");
            }
            prop_assert!(ring.slots.len() <= most.next_power_of_two().max(4), "RBUF-2");
        }
    }
}
