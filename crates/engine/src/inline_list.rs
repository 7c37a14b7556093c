//! Lists whose first entries are stored inline; the others are in chunks of an overflow arena that all lists share.

use crate::arena::{Arena, NONE};
use crate::task::Edge;

/// Entries of a chunk.
const CHUNK: usize = 8;

/// A type with a value for empty places of a list.
pub(crate) trait Vacant: Copy {
    /// The value of an empty place.
    const VACANT: Self;
}

impl Vacant for u32 {
    const VACANT: Self = NONE;
}

impl Vacant for Edge {
    const VACANT: Self = Edge::NONE;
}

#[derive(Clone, Copy, Debug)]
struct Chunk<T> {
    entries: [T; CHUNK],
    next: u32,
}

/// Storage of the entries that are not inline.
#[derive(Debug)]
pub(crate) struct Overflow<T>(Arena<Chunk<T>>);

impl<T> Default for Overflow<T> {
    fn default() -> Self {
        Self(Arena::default())
    }
}

/// A list whose first `N` entries are stored inline.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct InlineList<T, const N: usize> {
    count: u32,
    /// The first and the last chunk of the other entries.
    more: u32,
    last: u32,
    first: [T; N],
}

impl<T: Vacant, const N: usize> Default for InlineList<T, N> {
    fn default() -> Self {
        Self { count: 0, more: NONE, last: NONE, first: [T::VACANT; N] }
    }
}

impl<T: Vacant, const N: usize> InlineList<T, N> {
    /// True if one more entry fits inline.
    #[inline]
    pub(crate) fn has_inline_room(&self) -> bool {
        (self.count as usize) < N
    }

    /// Appends an entry inline; there must be room.
    #[inline]
    pub(crate) fn push_inline(&mut self, entry: T) {
        if let Some(place) = self.first.get_mut(self.count as usize) {
            *place = entry;
            self.count += 1;
        }
    }

    /// Appends an entry.
    pub(crate) fn push(&mut self, entry: T, overflow: &mut Overflow<T>) {
        if self.has_inline_room() {
            return self.push_inline(entry);
        }
        let at = self.count as usize - N;
        self.count += 1;
        if at.is_multiple_of(CHUNK) {
            let chunk = overflow.0.add(Chunk { entries: [T::VACANT; CHUNK], next: NONE });
            if self.last == NONE {
                self.more = chunk;
            } else {
                overflow.0[self.last].next = chunk;
            }
            self.last = chunk;
        }
        overflow.0[self.last].entries[at % CHUNK] = entry;
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.count as usize
    }

    /// Returns the entry `at`, if it is inline.
    #[inline]
    pub(crate) fn inline(&self, at: usize) -> Option<T> {
        if at < self.len() { self.first.get(at).copied() } else { None }
    }

    /// Returns all entries, if all are inline.
    #[inline]
    pub(crate) fn whole(&self) -> Option<&[T]> {
        self.first.get(..self.len())
    }

    /// Returns the first chunk of the entries that are not inline; for [`Overflow::next`].
    #[inline]
    pub(crate) fn more(&self) -> u32 {
        self.more
    }

    #[inline]
    pub(crate) fn clear(&mut self, overflow: &mut Overflow<T>) {
        self.count = 0;
        if self.more != NONE {
            self.clear_more(overflow);
        }
    }

    #[cold]
    fn clear_more(&mut self, overflow: &mut Overflow<T>) {
        let mut at = std::mem::replace(&mut self.more, NONE);
        while at != NONE {
            overflow.0.remove(at);
            at = overflow.0[at].next;
        }
        self.last = NONE;
    }

    pub(crate) fn iter<'a>(&'a self, overflow: &'a Overflow<T>) -> impl Iterator<Item = T> + 'a {
        let next = |at: &u32| Some(overflow.0[*at].next).filter(|at| *at != NONE);
        let more = std::iter::successors(Some(self.more).filter(|at| *at != NONE), next);
        let entries = self.first.iter().chain(more.flat_map(|at| &overflow.0[at].entries));
        entries.take(self.len()).copied()
    }
}

impl<T: Vacant> Overflow<T> {
    /// Returns the entries of a chunk and the number of the next chunk; `None` if there is no such chunk.
    pub(crate) fn next(&self, at: u32) -> Option<([T; CHUNK], u32)> {
        self.0.get(at).map(|chunk| (chunk.entries, chunk.next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_their_order_and_share_their_memory() {
        let mut overflow = Overflow::default();
        let (mut a, mut b) = (InlineList::<u32, 3>::default(), InlineList::<u32, 3>::default());
        for round in 0..3 {
            for entry in 0..40 {
                a.push(entry, &mut overflow);
                b.push(100 + entry, &mut overflow);
            }
            assert!(a.iter(&overflow).eq(0..40), "round {round}");
            assert!(b.iter(&overflow).eq(100..140), "round {round}");
            a.clear(&mut overflow);
            b.clear(&mut overflow);
            assert_eq!((a.len(), a.iter(&overflow).count(), overflow.0.live()), (0, 0, 0));
        }
    }
}
