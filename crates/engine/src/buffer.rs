//! Memory that tasks share, and the dense numbers the hot path knows it by.
//!
//! - **BUF-1 (identity).** A buffer is known by its whole identity; two identities never share an entry, however alike.
//! - **BUF-2 (stale).** A [`BufferId`] whose buffer was released is refused, also when its number is in use again.
//! - **BUF-3 (pinned).** A buffer that an unfinished run names is not released.

use crate::arena::{Arena, NONE};
use crate::ring::Ring;
use crate::task::TaskId;
use crate::tensormap::RunKey;
use crate::tensormap::trail::{Readers, Trail};
use std::collections::BTreeMap;

/// The identity of a buffer, wherever it is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// The incarnation of the process that owns it.
    pub owner: u64,
    /// The owner's number for it.
    pub number: u64,
    /// Number of times that the owner has used that number.
    pub generation: u32,
}

/// The number of a registered buffer or of a slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl BufferId {
    /// Its place among the buffers there are, from 0; another buffer has it later.
    #[inline]
    pub fn index(self) -> usize {
        self.index as usize
    }
}

/// The uses of a buffer that are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// Only read it.
    Read,
    /// Read and write it.
    ReadWrite,
}

/// Reasons why a buffer cannot be registered or released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferError {
    /// It has more bytes than 2^61.
    TooLarge(u64),
    /// The identity is registered with another size or grant.
    Differs,
    /// There is no such buffer any more.
    Stale(BufferId),
    /// An unfinished run names it.
    InUse(BufferId),
    /// It is the slab of a task, which goes when the task goes.
    Slab(BufferId),
}

impl std::fmt::Display for BufferError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooLarge(bytes) => write!(f, "a buffer has at most 2^61 bytes: {bytes}"),
            Self::Differs => write!(f, "the identity is registered with another size or grant"),
            Self::Stale(id) => write!(f, "no such buffer any more: {}.{}", id.index, id.generation),
            Self::InUse(id) => {
                write!(f, "an unfinished run names buffer {}.{}", id.index, id.generation)
            }
            Self::Slab(id) => {
                write!(f, "buffer {}.{} is the slab of a task", id.index, id.generation)
            }
        }
    }
}

impl std::error::Error for BufferError {}

/// A buffer: the part that a submission looks at in one cache line, the readers in another.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Buffer {
    /// Another one as soon as it is gone.
    pub(crate) generation: u32,
    /// The slot of the task whose slab this is.
    pub(crate) owner: u32,
    pub(crate) bytes: i64,
    pub(crate) trail: Trail,
    /// The last check of arguments that came across it.
    pub(crate) mark: u32,
    pub(crate) grant: Grant,
    /// True if there are readers.
    pub(crate) has_readers: bool,
    /// Tasks that have read the only region since it was written.
    pub(crate) readers: Readers,
}

const _: () = assert!(size_of::<Buffer>() == 128, "two cache lines");

impl Buffer {
    /// Nobody uses its only region, and the next who do are of `run`.
    #[inline]
    pub(crate) fn begin(&mut self, run: RunKey) {
        self.trail.begin(run);
        if std::mem::take(&mut self.has_readers) {
            self.readers.clear();
        }
    }

    /// True if nobody is known to use its only region.
    #[inline]
    pub(crate) fn is_unused(&self) -> bool {
        self.trail.writer == TaskId::NONE && !self.has_readers
    }

    /// True if a task that has not ended uses its only region.
    pub(crate) fn is_used(&self, ring: &Ring) -> bool {
        let is_read = || self.readers.tasks().iter().any(|reader| ring.is_under_way(*reader));
        ring.is_under_way(self.trail.writer) || (self.has_readers && is_read())
    }
}

#[derive(Debug, Default)]
pub(crate) struct Buffers {
    all: Arena<Buffer>,
    identities: Vec<Option<Identity>>,
    known: BTreeMap<Identity, u32>,
}

impl Buffers {
    pub(crate) fn register(
        &mut self,
        identity: Identity,
        bytes: u64,
        grant: Grant,
    ) -> Result<BufferId, BufferError> {
        let size = i64::try_from(bytes).ok().filter(|_| bytes <= crate::view::MAX_BYTES);
        let size = size.ok_or(BufferError::TooLarge(bytes))?;
        if let Some(index) = self.known.get(&identity) {
            let buffer = &self.all[*index];
            let id = BufferId { index: *index, generation: buffer.generation };
            return if buffer.bytes == size && buffer.grant == grant {
                Ok(id)
            } else {
                Err(BufferError::Differs)
            };
        }
        let id = self.add(size, grant, NONE);
        self.identities[id.index as usize] = Some(identity);
        self.known.insert(identity, id.index);
        Ok(id)
    }

    /// The slab of the task in `slot`.
    pub(crate) fn add_slab(&mut self, bytes: i64, slot: u32) -> BufferId {
        self.add(bytes, Grant::ReadWrite, slot)
    }

    fn add(&mut self, bytes: i64, grant: Grant, owner: u32) -> BufferId {
        if let Some(index) = self.all.reuse() {
            let buffer = &mut self.all[index];
            (buffer.owner, buffer.bytes, buffer.grant) = (owner, bytes, grant);
            return BufferId { index, generation: buffer.generation };
        }
        let (trail, readers) = (Trail::new(), Readers::new());
        let buffer = Buffer {
            generation: 1,
            owner,
            bytes,
            trail,
            mark: 0,
            grant,
            has_readers: false,
            readers,
        };
        self.identities.push(None);
        BufferId { index: self.all.add(buffer), generation: 1 }
    }

    #[inline]
    pub(crate) fn get(&self, id: BufferId) -> Option<&Buffer> {
        self.all.get(id.index).filter(|buffer| buffer.generation == id.generation)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: BufferId) -> Option<&mut Buffer> {
        self.all.get_mut(id.index).filter(|buffer| buffer.generation == id.generation)
    }

    #[inline]
    pub(crate) fn at(&self, index: u32) -> &Buffer {
        &self.all[index]
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, index: u32) -> &mut Buffer {
        &mut self.all[index]
    }

    pub(crate) fn remove(&mut self, id: BufferId) {
        let buffer = &mut self.all[id.index];
        buffer.generation = buffer.generation.wrapping_add(1);
        buffer.owner = NONE;
        buffer.begin((NONE, 0));
        if let Some(identity) = self.identities[id.index as usize].take() {
            self.known.remove(&identity);
        }
        self.all.remove(id.index);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Buffer> {
        self.all.iter()
    }

    pub(crate) fn live(&self) -> usize {
        self.all.live()
    }
}
