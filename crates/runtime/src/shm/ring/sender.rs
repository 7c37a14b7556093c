//! The side of a ring that writes.

use super::{Corrupt, HEAD, HEADER, LINE, PushError, RingError, Shape, WANTED, kind};
use crate::shm::memory::{Memory, Region};
use crate::shm::segment::WORD;
use crate::sync::Ordering;

/// The side of a ring that writes.
#[derive(Debug)]
pub struct Sender<M: Memory = Region> {
    memory: M,
    shape: Shape,
    /// Position of the next record.
    written: u64,
    /// Position up to which the receiver may read.
    published: u64,
    /// First word of the record at `published`, which publishes that record.
    withheld: u64,
    /// Head of the receiver at the last look.
    head: u64,
    /// The number of the next record.
    pub(super) sequence: u64,
    /// The rest of a message, from `drained` on.
    backlog: Vec<u8>,
    drained: usize,
    /// True if our word says that we lack room.
    wanted: bool,
    corrupt: Option<Corrupt>,
}

impl<M: Memory> Sender<M> {
    /// Creates the sender of the fresh (zero) ring in `memory`, for messages of up to `largest` bytes.
    pub fn new(memory: M, largest: usize) -> Result<Self, RingError> {
        let shape = Shape::of(&memory, largest)?;
        Ok(Self {
            memory,
            shape,
            written: 0,
            published: 0,
            withheld: 0,
            head: 0,
            sequence: 0,
            backlog: Vec::new(),
            drained: 0,
            wanted: false,
            corrupt: None,
        })
    }

    /// Takes a message, `head` and `body` in a row; the receiver sees it after `publish`.
    ///
    /// A message larger than a quarter of the ring is always taken unless the rest of another is still here; its own
    /// rest follows with every `publish` while there is room.
    #[inline]
    pub fn push(&mut self, head: &[u8], body: &[u8]) -> Result<(), PushError> {
        let bytes = head.len() + body.len();
        let need = Shape::record(bytes);
        if bytes <= self.shape.fragment
            && need <= self.free()
            && self.is_plain()
            && bytes <= self.shape.largest
        {
            self.record(head, body, false);
            return Ok(());
        }
        self.push_slowly(head, body)
    }

    #[inline(never)]
    fn push_slowly(&mut self, head: &[u8], body: &[u8]) -> Result<(), PushError> {
        let (bytes, largest) = (head.len() + body.len(), self.shape.largest);
        if bytes > largest {
            return Err(PushError::TooLarge { bytes, largest });
        }
        self.drain()?;
        let left = self.backlog.len() - self.drained;
        if left > 0 {
            let room = usize::try_from(self.free()).unwrap_or(usize::MAX);
            return Err(PushError::Full { need: left, room });
        }
        if bytes <= self.shape.fragment {
            self.make_room(Shape::record(bytes))?;
            self.record(head, body, false);
            return Ok(());
        }
        self.fragments(head, body)
    }

    /// Makes everything written visible to the receiver: true if there was anything, so that it wants to be woken.
    pub fn publish(&mut self) -> bool {
        if !self.backlog.is_empty() {
            // The next `push` reports a corrupt ring.
            let _ = self.drain();
        }
        if self.written == self.published {
            return false;
        }
        let (first, _) = self.shape.place(self.published);
        self.published = self.written;
        // SYNC: the record, and all behind it, before its first word; pairs with the load in `Receiver::header`.
        self.memory.store(first, self.withheld, Ordering::Release);
        true
    }

    /// True if the rest of a message is still here, to go with the next `publish`.
    pub fn is_pending(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Returns the largest payload that `push` takes now as one record; 0 if none.
    pub fn room(&mut self) -> usize {
        if self.drain().is_err() || self.look().is_err() || self.is_pending() {
            return 0;
        }
        let free = usize::try_from(self.free()).unwrap_or(usize::MAX);
        free.saturating_sub(HEADER).min(self.shape.fragment).min(self.shape.largest)
    }

    /// True if the receiver has released anything since we last looked: what to wait for after a refusal, or while
    /// the rest of a message is pending.
    pub fn has_new_room(&self) -> bool {
        // SYNC: the caller looks again with `look`, which acquires.
        self.corrupt.is_some() || self.memory.load(HEAD, Ordering::Relaxed) != self.head
    }

    /// Returns the largest message it takes.
    pub fn largest(&self) -> usize {
        self.shape.largest
    }

    /// True if nothing is pending, nothing is corrupt, and no room is wanted.
    #[inline]
    fn is_plain(&self) -> bool {
        self.backlog.is_empty() && !self.wanted && self.corrupt.is_none()
    }

    #[inline]
    fn free(&self) -> u64 {
        self.shape.room() - (self.written - self.head)
    }

    /// Sends as much of a large message as there is room for, and keeps the rest.
    fn fragments(&mut self, head: &[u8], body: &[u8]) -> Result<(), PushError> {
        let (bytes, most) = (head.len() + body.len(), self.shape.fragment);
        let mut from = 0;
        while from < bytes {
            let count = most.min(bytes - from);
            match self.make_room(Shape::record(count)) {
                Ok(()) => {}
                Err(PushError::Full { .. }) => break,
                Err(error) => return Err(error),
            }
            let (first, second) = part(head, body, from, count);
            self.record(first, second, from + count < bytes);
            from += count;
        }
        let (first, second) = part(head, body, from, bytes - from);
        self.backlog.extend_from_slice(first);
        self.backlog.extend_from_slice(second);
        Ok(())
    }

    /// Sends what is left of a large message, as far as there is room.
    fn drain(&mut self) -> Result<(), Corrupt> {
        if let Some(corrupt) = self.corrupt {
            return Err(corrupt);
        }
        let backlog = std::mem::take(&mut self.backlog);
        let mut outcome = Ok(());
        while self.drained < backlog.len() {
            let count = self.shape.fragment.min(backlog.len() - self.drained);
            match self.make_room(Shape::record(count)) {
                Ok(()) => {}
                Err(PushError::Corrupt(corrupt)) => {
                    outcome = Err(corrupt);
                    break;
                }
                Err(_) => break,
            }
            let end = self.drained + count;
            self.record(&backlog[self.drained..end], &[], end < backlog.len());
            self.drained = end;
        }
        self.backlog = backlog;
        if self.drained == self.backlog.len() {
            self.backlog.clear();
            self.drained = 0;
        }
        outcome
    }

    /// Looks whether a record of `need` bytes fits; if not, the receiver learns that we wait for room.
    fn make_room(&mut self, need: u64) -> Result<(), PushError> {
        if self.free() < need {
            self.look()?;
        }
        if self.free() < need {
            self.wanted = true;
            self.memory.store(WANTED, 1, Ordering::Relaxed);
            // SYNC: RNG-4: our wish before our look at the head; pairs with the fence in `Receiver::release`.
            self.memory.fence();
            self.look()?;
        }
        if self.free() < need {
            let saturated = |number| usize::try_from(number).unwrap_or(usize::MAX);
            return Err(PushError::Full { need: saturated(need), room: saturated(self.free()) });
        }
        if self.wanted {
            self.wanted = false;
            self.memory.store(WANTED, 0, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Looks at what the receiver has given back.
    fn look(&mut self) -> Result<(), Corrupt> {
        if let Some(corrupt) = self.corrupt {
            return Err(corrupt);
        }
        // SYNC: the receiver has copied what is before its head; pairs with the store in `Receiver::release`.
        let found = self.memory.load(HEAD, Ordering::Acquire);
        let (from, to) = (self.head, self.published);
        if found < from || found > to || !found.is_multiple_of(LINE as u64) {
            let corrupt = Corrupt::Head { found, from, to };
            self.corrupt = Some(corrupt);
            return Err(corrupt);
        }
        self.head = found;
        Ok(())
    }

    /// Writes a record; there is room.
    #[inline]
    fn record(&mut self, head: &[u8], body: &[u8], more: bool) {
        let length = head.len() + body.len();
        let first = length as u64 | kind(self.sequence, more) << 32;
        let (at, left) = self.shape.place(self.written);
        let next = self.written + Shape::record(length);
        self.memory.store(self.shape.place(next).0, 0, Ordering::Relaxed);
        // The receiver gets past the first record that is not published only with `publish`.
        let is_withheld = self.written == self.published;
        let now = if is_withheld { 0 } else { first };
        if is_withheld {
            self.withheld = first;
        }
        if head.len().is_multiple_of(WORD) && HEADER + length <= left {
            // The usual record: whole words, which end before the ring does.
            let (head_at, body_at) = (at + 1, at + 1 + head.len() / WORD);
            self.memory.store(at, now, Ordering::Relaxed);
            self.memory.write(head_at, head);
            self.memory.write(body_at, body);
        } else {
            self.record_by_lines(now, head, body);
        }
        self.written = next;
        self.sequence = self.sequence.wrapping_add(1);
    }

    /// Writes a record whose words are put together from two parts, or that wraps round the end.
    #[inline(never)]
    fn record_by_lines(&self, first: u64, head: &[u8], body: &[u8]) {
        let mut line = Line { bytes: [0; LINE], used: HEADER, position: self.written };
        line.bytes[..HEADER].copy_from_slice(&first.to_ne_bytes());
        line.append(&self.memory, self.shape, head);
        line.append(&self.memory, self.shape, body);
        line.flush(&self.memory, self.shape);
    }
}

/// Returns `count` bytes from `from` on of two consecutive slices.
fn part<'a>(head: &'a [u8], body: &'a [u8], from: usize, count: usize) -> (&'a [u8], &'a [u8]) {
    let split = head.len();
    let end = from + count;
    (&head[from.min(split)..end.min(split)], &body[from.max(split) - split..end.max(split) - split])
}

/// A line of a record while it is put together.
struct Line {
    bytes: [u8; LINE],
    used: usize,
    /// Position in the ring.
    position: u64,
}

impl Line {
    #[inline]
    fn append(&mut self, memory: &impl Memory, shape: Shape, mut from: &[u8]) {
        while !from.is_empty() {
            let count = from.len().min(LINE - self.used);
            let (now, later) = from.split_at(count);
            self.bytes[self.used..self.used + count].copy_from_slice(now);
            self.used += count;
            from = later;
            if self.used == LINE {
                self.flush(memory, shape);
            }
        }
    }

    #[inline]
    fn flush(&mut self, memory: &impl Memory, shape: Shape) {
        let (at, _) = shape.place(self.position);
        memory.write(at, &self.bytes[..self.used]);
        self.position += LINE as u64;
        self.used = 0;
    }
}
