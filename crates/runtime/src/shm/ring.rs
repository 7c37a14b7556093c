//! Records from one side to the other, in a ring of shared words.
//!
//! ```text
//!   word  0        wanted: the sender lacks room                written by the sender
//!        16        head: what the receiver has given back       written by the receiver
//!        32 ...    records, each from a multiple of 64 bytes on:
//!                    word 0   length of the payload, more to come?, number of the record, a mark; 0 if none is published
//!                    then the payload; a record may wrap round the end
//! ```
//!
//! The first word of a record publishes the record, so a message crosses from one processor to the other with its own lines alone.
//! Before the sender publishes a record it writes a 0 where the next record will begin: old bytes are never taken for a record. So
//! one line of the ring is always free. Of several records that are published together, only the first waits for `publish` with
//! its first word: the receiver cannot get past it.
//!
//! Positions count bytes for ever. A message larger than a record may be (a quarter of the ring) travels in several, all
//! full but the last; what does not fit yet stays with the sender until there is room.
//!
//! - **RNG-1 (order).** Every message arrives once, whole, in the order of `push`, after `publish` and not before.
//! - **RNG-2 (no trust).** Whatever the words hold, each side gives its result or [`Corrupt`]: it never panics, hangs or
//!   leaves the ring; each word is read once and checked before use. A corrupt ring stays corrupt.
//! - **RNG-3 (any legal size).** A message up to the largest arrives uncut; a larger one is refused on both sides.
//! - **RNG-4 (room).** A sender that was refused is told: the `release` that makes room says so.
//! - **RNG-5 (steady state).** After the first messages neither side allocates.

mod corrupt;
mod receiver;
mod sender;

pub use corrupt::{Corrupt, PushError, RingError};
pub use receiver::Receiver;
pub use sender::Sender;

use super::layout::layout;
use super::memory::Memory;
use super::segment::WORD;

/// Bytes of a line: what records are aligned to.
pub(crate) const LINE: usize = 64;
/// Bytes in front of each payload: one word, so that a task with one argument fits into a line.
pub(super) const HEADER: usize = WORD;

layout! {
    WANTED: usize = 0;
    HEAD: usize = 16;
    RECORDS: usize = 32;
    /// In the upper half of the first word of every record: the highest byte.
    MARK: u64 = 0x5000_0000;
    /// In the upper half as well: the lowest bits of the number of the record, far more than a ring has records.
    NUMBER: u64 = 0x00ff_fffe;
    /// In the upper half as well: the message goes on in the next record.
    MORE: u64 = 1;
}

/// Returns the upper half of the first word of record `sequence`, the message of which goes on if `more`.
#[inline]
fn kind(sequence: u64, more: bool) -> u64 {
    MARK | sequence << 1 & NUMBER | if more { MORE } else { 0 }
}

/// Returns the number of a record as far as its first word has it.
#[inline]
fn number(kind: u64) -> u64 {
    (kind & NUMBER) >> 1
}

/// Returns the bytes of shared memory for a ring that holds `capacity` bytes of records.
pub(super) const fn footprint(capacity: usize) -> usize {
    RECORDS * WORD + capacity
}

/// Shape of a ring, as both sides know it.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// Bytes of records: a power of two.
    capacity: u64,
    /// The largest payload of one record.
    fragment: usize,
    /// The largest message.
    largest: usize,
}

impl Shape {
    fn of(memory: &impl Memory, largest: usize) -> Result<Self, RingError> {
        let bytes = memory.words().checked_sub(RECORDS).map_or(0, |words| words * WORD);
        if !bytes.is_power_of_two() || bytes < 4 * LINE {
            return Err(RingError::Capacity { bytes });
        }
        if largest == 0 || u32::try_from(largest).is_err() {
            return Err(RingError::Largest { largest });
        }
        let fragment = (bytes / 4).min(1 << 31) - HEADER;
        Ok(Self { capacity: bytes as u64, fragment, largest })
    }

    /// Returns the most bytes of records that the ring holds: all but the line with the 0 behind the last.
    #[inline]
    fn room(self) -> u64 {
        self.capacity - LINE as u64
    }

    /// Returns the bytes that a record takes.
    #[inline]
    fn record(payload: usize) -> u64 {
        (payload + HEADER).next_multiple_of(LINE) as u64
    }

    /// Returns the word where `position` stands, and how many bytes there are to the end of the ring.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "below the capacity, which is a usize")]
    fn place(self, position: u64) -> (usize, usize) {
        let offset = (position & (self.capacity - 1)) as usize;
        (RECORDS + offset / WORD, self.capacity as usize - offset)
    }
}

#[cfg(test)]
mod tests;
