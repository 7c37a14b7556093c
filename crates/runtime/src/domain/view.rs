//! A domain as a task sees it: the windows of its peers, its own, and the cells.

mod waits;

use super::DomainError;
use super::error::{no_buffer, no_rank};
use super::notice::Notice;
use super::roster::{Part, Roster};
use crate::message::Membership;
use crate::shm::copying::Copying;
use crate::shm::grant::GrantError;
use crate::shm::mailbox::Witness;
use crate::shm::{Bell, Segment, SegmentError, Waiting};
use crate::sync::{Ordering, shared::AtomicU64};
use crate::tensor::Layout;
use bytemuck::Pod;
use std::sync::Arc;

/// Identity of a task in a domain.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TaskIdentity {
    /// The number of its run.
    pub(crate) run: u64,
    /// The number it was sent with; a task that is sent again keeps it.
    pub(crate) dispatch: u64,
    pub(crate) process: u32,
}

/// A domain, seen by one of its ranks while its task runs.
pub struct DomainView<'a> {
    rank: usize,
    roster: Arc<Roster>,
    memory: &'a Segment,
    identity: TaskIdentity,
    /// The bell of each window.
    bells: Vec<Bell>,
    /// Notice of each rank.
    notices: Vec<Notice>,
    witness: Option<&'a Witness>,
    waiting: Waiting,
}

impl<'a> DomainView<'a> {
    pub(crate) fn open(
        membership: &Membership,
        identity: TaskIdentity,
        memory: &'a Segment,
        witness: Option<&'a Witness>,
        waiting: Waiting,
    ) -> Result<Self, DomainError> {
        let roster = Arc::clone(&membership.roster);
        check_memory(&roster, memory)?;
        let bell = |at: u64| Bell::at(memory, place(at + roster.bell()));
        let bells: Result<Vec<Bell>, _> =
            roster.members.iter().map(|member| bell(member.window)).collect();
        let bells = bells.map_err(|error| memory_error(&roster, &error))?;
        let notice = |rank| Notice::at(memory, roster.notice(rank).unwrap_or(u64::MAX));
        let notices: Result<Vec<Notice>, _> = (0..roster.members.len()).map(notice).collect();
        let notices = notices.map_err(|error| memory_error(&roster, &error))?;
        Ok(Self {
            rank: membership.rank,
            roster,
            memory,
            identity,
            bells,
            notices,
            witness,
            waiting,
        })
    }

    /// Returns the name of the domain.
    pub fn name(&self) -> &str {
        &self.roster.name
    }

    /// Returns the rank.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> usize {
        self.roster.members.len()
    }

    /// Writes elements into a buffer of a peer, from element `offset` on.
    pub fn put<T: Pod>(
        &self,
        peer: usize,
        buffer: &str,
        offset: usize,
        elements: &[T],
    ) -> Result<(), DomainError> {
        let at = self.range::<T>(peer, buffer, offset, elements.len())?;
        let written = Copying::new(self.memory).write(at, bytemuck::cast_slice(elements));
        written.map_err(|error| self.taken(peer, buffer, &error))
    }

    /// Reads elements of a buffer of a peer, from element `offset` on.
    pub fn get<T: Pod>(
        &self,
        peer: usize,
        buffer: &str,
        offset: usize,
        elements: &mut [T],
    ) -> Result<(), DomainError> {
        let at = self.range::<T>(peer, buffer, offset, elements.len())?;
        let read = Copying::new(self.memory).read(at, bytemuck::cast_slice_mut(elements));
        read.map_err(|error| self.taken(peer, buffer, &error))
    }

    /// Returns a buffer of this rank's own window.
    pub fn buffer(&self, name: &str) -> Result<WindowBuffer<'_>, DomainError> {
        let part = self.roster.part(name).ok_or_else(|| no_buffer(&self.roster, name))?;
        Ok(WindowBuffer { view: self, part })
    }

    /// Sets this rank's cell in the window of a peer, after all that was put before; it cannot go back.
    pub fn notify(&self, peer: usize, cell: u32, value: u64) -> Result<(), DomainError> {
        self.check_cell(cell)?;
        self.set(peer, cell, |_| value)
    }

    /// Adds to this rank's cell in the window of a peer, after all that was put before.
    pub fn notify_add(&self, peer: usize, cell: u32, amount: u64) -> Result<(), DomainError> {
        self.check_cell(cell)?;
        self.set(peer, cell, |found| found.saturating_add(amount))
    }

    /// Returns the value of a peer's cell in this rank's window. Data that the peer put before is visible.
    pub fn test(&self, peer: usize, cell: u32) -> Result<u64, DomainError> {
        self.check_cell(cell)?;
        // SYNC: DOM-5: pairs with the store in `set`.
        Ok(self.word(self.rank, peer, cell)?.load(Ordering::Acquire))
    }

    fn word(&self, owner: usize, writer: usize, cell: u32) -> Result<&AtomicU64, DomainError> {
        let roster = &self.roster;
        let window = roster.members.get(owner).ok_or_else(|| no_rank(roster, owner))?.window;
        if writer >= roster.members.len() {
            return Err(no_rank(roster, writer));
        }
        let word = self.memory.word64(place(window + roster.cell(writer, cell)));
        word.map_err(|error| memory_error(roster, &error))
    }

    /// Refuses the barrier's cell, which is behind the caller's cells.
    fn check_cell(&self, cell: u32) -> Result<(), DomainError> {
        let cells = self.roster.signals;
        if cell < cells {
            return Ok(());
        }
        Err(DomainError::NoCell { domain: self.roster.name.clone(), cell, cells })
    }

    /// Returns the offset of elements of a buffer in the memory.
    fn range<T: Pod>(
        &self,
        rank: usize,
        buffer: &str,
        offset: usize,
        count: usize,
    ) -> Result<usize, DomainError> {
        let roster = &self.roster;
        let member = roster.members.get(rank).ok_or_else(|| no_rank(roster, rank))?;
        let part = roster.part(buffer).ok_or_else(|| no_buffer(roster, buffer))?;
        let element = check_element::<T>(part)?;
        let end = offset.checked_add(count).and_then(|end| end.checked_mul(element));
        if end.is_none_or(|end| end as u64 > part.layout.extent) {
            let (name, elements) = (buffer.to_owned(), part.layout.extent / element as u64);
            return Err(DomainError::Bounds { name, offset, count, elements });
        }
        Ok(place(member.window + part.offset) + offset * element)
    }

    /// Makes the error of a refused copy.
    #[cold]
    fn taken(&self, rank: usize, buffer: &str, error: &GrantError) -> DomainError {
        match error {
            GrantError::Segment(error) => memory_error(&self.roster, error),
            error => {
                let (name, words) = (buffer.to_owned(), error.to_string());
                DomainError::Taken { name, rank, words }
            }
        }
    }
}

/// A buffer of a rank's own window; it is copied, since peers may reach it at any time.
pub struct WindowBuffer<'v> {
    view: &'v DomainView<'v>,
    part: &'v Part,
}

impl WindowBuffer<'_> {
    /// Returns the type and the layout of its elements.
    pub fn layout(&self) -> &Layout {
        &self.part.layout
    }

    /// Returns all its elements.
    pub fn read<T: Pod>(&self) -> Result<Vec<T>, DomainError> {
        let bytes = check_element::<T>(self.part)?;
        let mut elements = vec![T::zeroed(); place(self.part.layout.extent) / bytes];
        self.view.get(self.view.rank, &self.part.name, 0, &mut elements)?;
        Ok(elements)
    }

    /// Sets elements from `offset` on.
    pub fn write<T: Pod>(&self, offset: usize, elements: &[T]) -> Result<(), DomainError> {
        self.view.put(self.view.rank, &self.part.name, offset, elements)
    }
}

/// Refuses a domain that does not lie in the memory it names.
pub(crate) fn check_memory(roster: &Roster, memory: &Segment) -> Result<(), DomainError> {
    let last = roster.members.iter().map(|member| member.window).max().unwrap_or(0);
    let end = roster.window_bytes().and_then(|bytes| last.checked_add(bytes));
    let notices = roster.notices.checked_add(roster.notice_bytes());
    let is_inside = |end: Option<u64>| end.is_some_and(|end| end <= memory.len() as u64);
    if is_inside(end) && is_inside(notices) {
        return Ok(());
    }
    let (notices, bytes) = (roster.notices, memory.len());
    let words = format!("a window at {last} or the notices at {notices} do not end within {bytes}");
    Err(DomainError::Memory { domain: roster.name.clone(), words })
}

/// Returns the size of an element, if the buffer holds elements of that size, or bytes are asked for.
fn check_element<T: Pod>(part: &Part) -> Result<usize, DomainError> {
    let (bytes, wanted) = (part.layout.dtype.bytes(), size_of::<T>());
    if bytes == wanted as u64 || wanted == 1 {
        return Ok(wanted);
    }
    Err(DomainError::Element { name: part.name.clone(), bytes, wanted })
}

/// Converts an offset that was checked.
fn place(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

fn memory_error(roster: &Roster, error: &SegmentError) -> DomainError {
    DomainError::Memory { domain: roster.name.clone(), words: error.to_string() }
}
