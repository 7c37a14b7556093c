//! The side of a ring that reads.

use super::{Corrupt, HEAD, HEADER, MORE, NUMBER, RingError, Shape, WANTED, kind, number};
use crate::shm::memory::{Memory, Region};
use crate::shm::segment::WORD;
use crate::sync::Ordering;

/// The side of a ring that reads.
#[derive(Debug)]
pub struct Receiver<M: Memory = Region> {
    memory: M,
    shape: Shape,
    /// Position of the next record.
    position: u64,
    /// Position up to which room was given back.
    released: u64,
    /// The number of the next record.
    pub(super) sequence: u64,
    /// The parts of a message that is not whole yet.
    parts: Vec<u8>,
    corrupt: Option<Corrupt>,
}

/// A record whose header was checked.
struct Record {
    length: usize,
    more: bool,
}

impl<M: Memory> Receiver<M> {
    /// Creates the receiver of the fresh (zero) ring in `memory`, for messages of up to `largest` bytes.
    pub fn new(memory: M, largest: usize) -> Result<Self, RingError> {
        let shape = Shape::of(&memory, largest)?;
        Ok(Self {
            memory,
            shape,
            position: 0,
            released: 0,
            sequence: 0,
            parts: Vec::new(),
            corrupt: None,
        })
    }

    /// Copies the next message into `into`, in place of what was there; false if there is none.
    ///
    /// # Errors
    /// [`Corrupt`] if the sender did not keep to the rules; from then on always.
    #[inline]
    pub fn next(&mut self, into: &mut Vec<u8>) -> Result<bool, Corrupt> {
        match self.advance(into) {
            Ok(found) => Ok(found),
            Err(corrupt) => {
                self.corrupt = Some(corrupt);
                Err(corrupt)
            }
        }
    }

    #[inline]
    fn advance(&mut self, into: &mut Vec<u8>) -> Result<bool, Corrupt> {
        // Ends: every record that goes on adds a full part, and parts have a limit.
        loop {
            let Some(record) = self.header()? else { return Ok(false) };
            if !record.more && self.parts.is_empty() {
                into.clear();
                self.payload(record.length, into);
                return Ok(true);
            }
            let mut parts = std::mem::take(&mut self.parts);
            self.payload(record.length, &mut parts);
            self.parts = parts;
            if !record.more {
                std::mem::swap(&mut self.parts, into);
                self.parts.clear();
                return Ok(true);
            }
        }
    }

    /// Gives the room of the read records back to the sender. Returns true if the sender waits for room and has to be
    /// woken.
    pub fn release(&mut self) -> bool {
        if self.released == self.position {
            return false;
        }
        self.released = self.position;
        // SYNC: our copies before the sender writes there again; pairs with the load in `Sender::look`.
        self.memory.store(HEAD, self.released, Ordering::Release);
        // SYNC: RNG-4: the room before our look at the wish; pairs with the fence in `Sender::make_room`.
        self.memory.fence();
        self.memory.load(WANTED, Ordering::Relaxed) != 0
    }

    /// True if nothing new is published. A ring that is corrupt is not empty: `next` says what is wrong.
    pub fn is_empty(&self) -> bool {
        let (at, _) = self.shape.place(self.position);
        // SYNC: the caller reads what was published through `next`, which loads again.
        self.corrupt.is_none() && self.memory.load(at, Ordering::Relaxed) == 0
    }

    /// Reads and checks the header at `position`; `None` if no record is published there.
    #[inline]
    fn header(&self) -> Result<Option<Record>, Corrupt> {
        if let Some(corrupt) = self.corrupt {
            return Err(corrupt);
        }
        let (at, _) = self.shape.place(self.position);
        // SYNC: the record before its first word; pairs with the store in `Sender::publish`.
        let first = self.memory.load(at, Ordering::Acquire);
        if first == 0 {
            return Ok(None);
        }
        let (sequence, most) = (self.sequence, self.shape.fragment);
        let (found, expected) = (first >> 32, kind(self.sequence, false));
        if found & !MORE != expected {
            return Err(if (found ^ expected) & !(MORE | NUMBER) != 0 {
                Corrupt::Mark { sequence, found: first }
            } else {
                Corrupt::Sequence { expected: number(expected), found: number(found) }
            });
        }
        let length = usize::try_from(first & u64::from(u32::MAX)).unwrap_or(usize::MAX);
        let unread = self.position + Shape::record(length) - self.released;
        if length > most || unread > self.shape.room() {
            return Err(Corrupt::Length { sequence, length, most });
        }
        let more = first >> 32 & MORE != 0;
        if more && length != most {
            return Err(Corrupt::Fragment { sequence, length, expected: most });
        }
        let (bytes, largest) = (self.parts.len() + length, self.shape.largest);
        if bytes > largest {
            return Err(Corrupt::Largest { bytes, largest });
        }
        Ok(Some(Record { length, more }))
    }

    /// Appends the payload of the record at `position`, whose header was checked, and goes past it.
    #[inline]
    fn payload(&mut self, length: usize, into: &mut Vec<u8>) {
        let (at, left) = self.shape.place(self.position);
        let start = into.len();
        into.resize(start + length, 0);
        let (now, wrapped) = into[start..].split_at_mut(length.min(left - HEADER));
        self.memory.read(at + HEADER / WORD, now);
        if !wrapped.is_empty() {
            let (first, _) = self.shape.place(0);
            self.memory.read(first, wrapped);
        }
        self.position += Shape::record(length);
        self.sequence = self.sequence.wrapping_add(1);
    }
}
