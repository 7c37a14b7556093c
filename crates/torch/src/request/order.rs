//! The order of the requests on one storage, by the bytes that they touch.

use super::{Access, Before, Handle};
use crate::tensor::{Storage, Tensor};
use phalanx_engine::ByteSet;
use std::rc::Rc;

/// Bytes of a storage that a request accesses.
pub(crate) struct Touch<'a> {
    pub(super) storage: &'a Rc<Storage>,
    pub(super) bytes: ByteSet,
    pub(super) access: Access,
}

impl<'a> Touch<'a> {
    /// An access to the elements of a tensor.
    pub(crate) fn of(tensor: &'a Tensor, access: Access) -> Self {
        Self { storage: &tensor.storage, bytes: bytes_of(tensor), access }
    }

    /// An access to all of the storage of a tensor.
    pub(crate) fn storage_of(tensor: &'a Tensor, access: Access) -> Self {
        let storage = &tensor.storage;
        let bytes = (storage.rows * storage.columns * tensor.dtype().size()) as u64;
        Self { storage, bytes: adjacent(0, bytes), access }
    }
}

/// The bytes of a tensor in its storage.
fn bytes_of(tensor: &Tensor) -> ByteSet {
    let size = tensor.dtype().size() as u64;
    let start = tensor.storage_offset() as u64 * size;
    if tensor.numel() == 0 {
        return adjacent(0, 0);
    }
    if tensor.is_contiguous() {
        return adjacent(start, tensor.numel() as u64 * size);
    }
    let wide = |list: &[usize]| list.iter().map(|number| *number as u64).collect::<Vec<u64>>();
    let (shape, strides) = (wide(tensor.shape()), wide(tensor.strides()));
    ByteSet::strided(start, &shape, &strides, size).unwrap_or_else(|_| {
        // More axes than the arithmetic knows: all bytes from the first to the last.
        let steps = shape.iter().zip(&strides).map(|(count, stride)| (count - 1) * stride);
        adjacent(start, (steps.sum::<u64>() + 1) * size)
    })
}

/// Adjacent bytes. A tensor without elements has the first byte, so that its requests keep their order.
fn adjacent(start: u64, bytes: u64) -> ByteSet {
    ByteSet::dense(start, bytes.max(1)).expect("a tensor has fewer than 2^61 bytes")
}

/// The requests that have written a storage last, and those that have read it since.
#[derive(Default)]
pub(crate) struct Order {
    /// Oldest first; a writer that a newer one covers is not kept.
    writers: Vec<Entry>,
    /// Readers that are not over.
    readers: Vec<Entry>,
}

struct Entry {
    bytes: ByteSet,
    handle: Handle,
}

/// Writers of a storage beyond which those that are over are forgotten.
const MOST_WRITERS: usize = 256;

impl Order {
    /// Records an access by `handle`; returns its dependencies.
    pub(super) fn enter(&mut self, touch: &Touch<'_>, handle: &Handle) -> Vec<Before> {
        let Touch { bytes, access, .. } = touch;
        let matters = *access != Access::Overwrite;
        let before = |handle: Handle, matters| Before { handle, matters };
        let mut all: Vec<Before> =
            self.writers_of(bytes).map(|writer| before(writer.clone(), matters)).collect();
        // Only open readers are kept, so that memory is bounded.
        self.readers.retain(|reader| !reader.handle.is_over());
        let entry = Entry { bytes: bytes.clone(), handle: handle.clone() };
        match access {
            Access::Read => self.readers.push(entry),
            Access::Write | Access::Overwrite => {
                // A failed reader does not poison: it has changed nothing.
                let met = self.readers.iter().filter(|reader| reader.bytes.overlaps(bytes));
                all.extend(met.map(|reader| before(reader.handle.clone(), false)));
                // Later requests wait for this writer, and the writer waits for the requests that it covers.
                self.readers.retain(|reader| !bytes.covers(&reader.bytes));
                self.writers.retain(|writer| !bytes.covers(&writer.bytes));
                self.writers.push(entry);
                if self.writers.len() > MOST_WRITERS {
                    self.writers.retain(|writer| !writer.handle.has_succeeded());
                }
            }
        }
        all
    }

    /// The last writers of these bytes, newest first. A writer of all of them has waited for those before.
    fn writers_of<'a>(&'a self, bytes: &'a ByteSet) -> impl Iterator<Item = &'a Handle> {
        let mut is_covered = false;
        let met = self.writers.iter().rev().take_while(move |writer| {
            let is_needed = !is_covered;
            is_covered |= writer.bytes.covers(bytes);
            is_needed
        });
        met.filter(|writer| writer.bytes.overlaps(bytes)).map(|writer| &writer.handle)
    }

    /// The last writers of a tensor, newest first.
    pub(crate) fn writers(&self, tensor: &Tensor) -> Vec<Handle> {
        self.writers_of(&bytes_of(tensor)).cloned().collect()
    }
}
