//! An arena: records addressed by number; freed numbers are used again, the last freed first.

use std::ops::{Index, IndexMut};

/// The number of no record.
pub(crate) const NONE: u32 = u32::MAX;

/// `count` as the number of a record.
pub(crate) fn number(count: usize) -> u32 {
    u32::try_from(count).expect("fewer than 2^32 records")
}

#[derive(Debug)]
pub(crate) struct Arena<T> {
    items: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self { items: Vec::new(), free: Vec::new() }
    }
}

impl<T> Arena<T> {
    #[inline]
    pub(crate) fn add(&mut self, item: T) -> u32 {
        if let Some(at) = self.free.pop() {
            self.items[at as usize] = item;
            return at;
        }
        self.items.push(item);
        number(self.items.len() - 1)
    }

    #[inline]
    pub(crate) fn remove(&mut self, at: u32) {
        self.free.push(at);
    }

    /// Returns a freed number; its old record is still there.
    pub(crate) fn reuse(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// All records, also those that are not in use.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.iter()
    }

    /// Returns the number of records in use.
    pub(crate) fn live(&self) -> usize {
        self.items.len() - self.free.len()
    }

    #[inline]
    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        self.items.get(at as usize)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.items.get_mut(at as usize)
    }
}

impl<T> Index<u32> for Arena<T> {
    type Output = T;

    #[inline]
    fn index(&self, at: u32) -> &T {
        &self.items[at as usize]
    }
}

impl<T> IndexMut<u32> for Arena<T> {
    #[inline]
    fn index_mut(&mut self, at: u32) -> &mut T {
        &mut self.items[at as usize]
    }
}
