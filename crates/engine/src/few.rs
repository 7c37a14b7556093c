//! Short lists that need no memory of their own until they grow.

use crate::task::{Edge, TaskId};

/// A value that stands where no entry is.
pub(crate) trait Vacant: Copy {
    /// Such a value.
    const VACANT: Self;
}

impl Vacant for TaskId {
    const VACANT: Self = TaskId::NONE;
}

impl Vacant for u32 {
    const VACANT: Self = crate::arena::NONE;
}

impl Vacant for Edge {
    const VACANT: Self = Edge::NONE;
}

/// A list whose first `N` entries stand in it; the others are in a vector that is kept for the next ones.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Few<T, const N: usize> {
    count: u32,
    first: [T; N],
    more: Vec<T>,
}

impl<T: Vacant, const N: usize> Default for Few<T, N> {
    fn default() -> Self {
        Self { count: 0, first: [T::VACANT; N], more: Vec::new() }
    }
}

impl<T: Vacant, const N: usize> Few<T, N> {
    /// Appends an entry; whether it went beyond the first.
    #[inline]
    pub(crate) fn push(&mut self, entry: T) -> bool {
        let at = self.count as usize;
        self.count += 1;
        if let Some(place) = self.first.get_mut(at) {
            *place = entry;
            return false;
        }
        self.push_more(entry)
    }

    #[cold]
    #[inline(never)]
    fn push_more(&mut self, entry: T) -> bool {
        self.more.push(entry);
        true
    }

    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<T> {
        if at >= self.count as usize {
            return None;
        }
        self.first.get(at).or_else(|| self.more.get(at - N)).copied()
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.count as usize
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        if self.count as usize > N {
            self.more.clear();
        }
        self.count = 0;
    }

    /// Whether one more entry needs no memory of its own.
    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        (self.count as usize) < N
    }

    /// The entries that need no memory, and what stands in their place if there are fewer.
    #[inline]
    pub(crate) fn first(&self) -> [T; N] {
        self.first
    }

    /// The first entries and the others.
    #[inline]
    pub(crate) fn parts(&self) -> (&[T], &[T]) {
        (&self.first[..self.len().min(N)], &self.more)
    }

    /// Removes all entries and gives memory for more than `kept` back.
    #[inline]
    pub(crate) fn empty(&mut self, kept: usize) {
        if self.count as usize > N {
            self.more.clear();
            self.shrink(kept);
        }
        self.count = 0;
    }

    /// Gives memory for more than `kept` entries back.
    #[inline]
    pub(crate) fn shrink(&mut self, kept: usize) {
        if self.more.capacity() > kept {
            self.more = Vec::new();
        }
    }

    /// Keeps those that `is_wanted`, in their order.
    pub(crate) fn retain(&mut self, is_wanted: impl Fn(T) -> bool) {
        let mut kept = 0;
        for at in 0..self.len() {
            if let Some(entry) = self.get(at).filter(|entry| is_wanted(*entry)) {
                match self.first.get_mut(kept) {
                    Some(place) => *place = entry,
                    None => self.more[kept - N] = entry,
                }
                kept += 1;
            }
        }
        self.more.truncate(kept.saturating_sub(N));
        self.count = crate::arena::number(kept);
    }

    /// Whether one more entry would need memory.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.count as usize >= N && self.more.len() == self.more.capacity()
    }

    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = T> {
        let (first, more) = self.parts();
        first.iter().chain(more).copied()
    }
}
