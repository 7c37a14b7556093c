//! Short lists that stand where they belong; what goes beyond is in chunks that all lists share.

use crate::arena::{Arena, NONE};
use crate::task::Edge;

/// How many entries a chunk has.
const CHUNK: usize = 8;

/// A value that stands where no entry is.
pub(crate) trait Vacant: Copy {
    /// Such a value.
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

/// The memory of lists that are not short.
#[derive(Debug)]
pub(crate) struct Chunks<T>(Arena<Chunk<T>>);

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Self(Arena::default())
    }
}

/// A list whose first `N` entries stand in it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Few<T, const N: usize> {
    count: u32,
    /// The first chunk of the others, and the last.
    more: u32,
    last: u32,
    first: [T; N],
}

impl<T: Vacant, const N: usize> Default for Few<T, N> {
    fn default() -> Self {
        Self { count: 0, more: NONE, last: NONE, first: [T::VACANT; N] }
    }
}

impl<T: Vacant, const N: usize> Few<T, N> {
    /// Whether one more entry can stand here.
    #[inline]
    pub(crate) fn has_place(&self) -> bool {
        (self.count as usize) < N
    }

    /// Appends an entry that can stand here.
    #[inline]
    pub(crate) fn place(&mut self, entry: T) {
        if let Some(place) = self.first.get_mut(self.count as usize) {
            *place = entry;
            self.count += 1;
        }
    }

    /// Appends an entry.
    pub(crate) fn push(&mut self, entry: T, chunks: &mut Chunks<T>) {
        if self.has_place() {
            return self.place(entry);
        }
        let at = self.count as usize - N;
        self.count += 1;
        if at.is_multiple_of(CHUNK) {
            let chunk = chunks.0.add(Chunk { entries: [T::VACANT; CHUNK], next: NONE });
            if self.last == NONE {
                self.more = chunk;
            } else {
                chunks.0[self.last].next = chunk;
            }
            self.last = chunk;
        }
        chunks.0[self.last].entries[at % CHUNK] = entry;
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.count as usize
    }

    /// The entries that stand here, and what is in their place if there are fewer.
    #[inline]
    pub(crate) fn first(&self) -> [T; N] {
        self.first
    }

    /// Where those begin that do not stand here; for [`Chunks::next`].
    #[inline]
    pub(crate) fn more(&self) -> u32 {
        self.more
    }

    #[inline]
    pub(crate) fn clear(&mut self, chunks: &mut Chunks<T>) {
        self.count = 0;
        if self.more != NONE {
            self.clear_more(chunks);
        }
    }

    #[cold]
    fn clear_more(&mut self, chunks: &mut Chunks<T>) {
        let mut at = std::mem::replace(&mut self.more, NONE);
        while at != NONE {
            chunks.0.remove(at);
            at = chunks.0[at].next;
        }
        self.last = NONE;
    }

    pub(crate) fn iter<'a>(&'a self, chunks: &'a Chunks<T>) -> impl Iterator<Item = T> + 'a {
        let next = |at: &u32| Some(chunks.0[*at].next).filter(|at| *at != NONE);
        let more = std::iter::successors(Some(self.more).filter(|at| *at != NONE), next);
        let entries = self.first.iter().chain(more.flat_map(|at| &chunks.0[at].entries));
        entries.take(self.len()).copied()
    }
}

impl<T: Vacant> Chunks<T> {
    /// The entries of a chunk, and where the next ones are; nothing if there is none.
    pub(crate) fn next(&self, at: u32) -> Option<([T; CHUNK], u32)> {
        self.0.get(at).map(|chunk| (chunk.entries, chunk.next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_their_order_and_share_their_memory() {
        let mut chunks = Chunks::default();
        let (mut a, mut b) = (Few::<u32, 3>::default(), Few::<u32, 3>::default());
        for round in 0..3 {
            for entry in 0..40 {
                a.push(entry, &mut chunks);
                b.push(100 + entry, &mut chunks);
            }
            assert!(a.iter(&chunks).eq(0..40), "round {round}");
            assert!(b.iter(&chunks).eq(100..140), "round {round}");
            a.clear(&mut chunks);
            b.clear(&mut chunks);
            assert_eq!((a.len(), a.iter(&chunks).count(), chunks.0.live()), (0, 0, 0));
        }
    }
}
