//! Parts of a task without a borrow, for language bindings that cannot hold a Rust reference while user code runs.
//!
//! They reach shared memory by copies and atomics only, so that a part that is kept by mistake does no harm; a binding
//! ends them with their task.
//!
//! - **LOAN-1 (as the borrowed).** A `Copied`, an `ArgumentSpan` and an `OwnedDomain` behave as the argument and the
//!   domain of the task.

use super::{Data, DataError, Task};
use crate::failure::Failure;
use crate::shm::Segment;
use crate::shm::mailbox::Witness;
use crate::tensor::{Access, Layout};
use bytemuck::Pod;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// The memory of an argument, and the rights of its task there.
#[derive(Clone, Copy, Debug)]
pub struct ArgumentSpan {
    /// Index of its memory; see [`Task::memory`].
    pub memory: usize,
    /// Its first byte there.
    pub start: u64,
    /// The layout of its elements.
    pub layout: Layout,
    /// The accesses that the task is allowed.
    pub access: Access,
    /// True if its task may see it in place: nobody else changes it meanwhile.
    pub is_in_place: bool,
}

/// An argument that is only copied.
#[derive(Clone, Debug)]
pub struct Copied {
    segment: Segment,
    offset: usize,
    access: Access,
    layout: Layout,
    index: usize,
    is_shared: bool,
}

/// Says that a long task moves.
#[derive(Clone, Debug)]
pub struct Progress(Option<Witness>);

impl Progress {
    /// Says that the task moves, as [`Task::progress`] does.
    pub fn report(&self) {
        if let Some(witness) = &self.0 {
            witness.advance();
        }
    }
}

impl Task<'_> {
    /// Returns the place of its callable in the program.
    pub fn callable(&self) -> usize {
        self.given.order.callable as usize
    }

    /// Returns the memory of one argument.
    pub fn argument_span(&self, index: usize) -> Result<ArgumentSpan, Failure> {
        let given = self.given.arguments.len();
        let Some(descriptor) = self.given.arguments.get(index) else {
            return Err(Failure::new(format!("argument {index} is wanted, {given} were given")));
        };
        let is_in_place =
            descriptor.access != Access::Unordered && !self.given.is_shared(&descriptor);
        Ok(ArgumentSpan {
            memory: usize::from(descriptor.memory),
            start: descriptor.offset,
            layout: descriptor.layout,
            access: descriptor.access,
            is_in_place,
        })
    }

    /// Returns the descriptor and the size of a memory that its arguments lie in.
    pub fn memory(&self, index: usize) -> Option<(BorrowedFd<'_>, usize)> {
        self.memories.get(index).map(|memory| (memory.fd(), memory.len()))
    }

    /// Puts private memory in the place of a mapping of one of its memories that other code made at `address`, and that is used
    /// beyond the task. `kept` are ranges of the memory that stay visible there as they are now.
    pub fn sever(&self, memory: usize, address: usize, kept: &[Range<usize>]) -> io::Result<()> {
        let segment = self.memories.get(memory);
        let segment = segment.ok_or_else(|| io::Error::other("there is no such memory"))?;
        crate::shm::sever(segment, address, kept)
    }

    /// Returns what says that the task moves.
    pub fn progress_of(&self) -> Progress {
        Progress(self.witness())
    }
}

impl Data<'_> {
    /// Returns it without a borrow, to be copied.
    pub fn copied(&self) -> Copied {
        let Self { segment, offset, access, layout, index, is_shared, .. } = self;
        Copied {
            segment: (*segment).clone(),
            offset: *offset,
            access: *access,
            layout: *layout,
            index: *index,
            is_shared: *is_shared,
        }
    }
}

impl Copied {
    /// Returns the type and the layout of its elements.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns copies of its elements; see [`Data::read_elements`].
    pub fn read_elements<T: Pod>(&self) -> Result<Vec<T>, DataError> {
        self.data().read_elements()
    }

    /// Sets its elements; see [`Data::write_elements`].
    pub fn write_elements<T: Pod>(&self, elements: &[T]) -> Result<(), DataError> {
        self.data().write_elements(elements)
    }

    fn data(&self) -> Data<'_> {
        let Self { segment, offset, access, layout, index, is_shared } = self;
        Data {
            segment,
            offset: *offset,
            grant: None,
            access: *access,
            layout: *layout,
            index: *index,
            is_shared: *is_shared,
        }
    }
}
