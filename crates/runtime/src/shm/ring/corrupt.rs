//! Errors of rings.

/// A word of the ring that the other side cannot have written by the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Corrupt {
    /// The receiver cannot have given back up to there.
    #[error(
        "the ring is corrupt: its head is {found}, which is not a record's end between {from} and {to}"
    )]
    Head {
        /// Value that is there.
        found: u64,
        /// The least it can be.
        from: u64,
        /// The most it can be.
        to: u64,
    },
    /// No record begins like this.
    #[error("the ring is corrupt: record {sequence} begins with {found:#018x}")]
    Mark {
        /// The number of the record.
        sequence: u64,
        /// Its first word.
        found: u64,
    },
    /// A record that is longer than any can be, or than the room that the sender has.
    #[error(
        "the ring is corrupt: record {sequence} says {length} bytes, and at most {most} can be there"
    )]
    Length {
        /// The number of the record.
        sequence: u64,
        /// Number that the record gives.
        length: usize,
        /// The most it can be.
        most: usize,
    },
    /// A record of another time.
    #[error("the ring is corrupt: record {found} stands where record {expected} should")]
    Sequence {
        /// The number that should stand there, as far as records have it.
        expected: u64,
        /// The number that does.
        found: u64,
    },
    /// A message in several records whose parts are not full.
    #[error(
        "the ring is corrupt: record {sequence} goes on after {length} bytes, not after {expected}"
    )]
    Fragment {
        /// The number of the record.
        sequence: u64,
        /// Its length.
        length: usize,
        /// The length of all parts but the last.
        expected: usize,
    },
    /// A message that is longer than any may be.
    #[error(
        "the ring is corrupt: a message of {bytes} bytes or more, and the largest allowed is {largest}"
    )]
    Largest {
        /// Bytes so far.
        bytes: usize,
        /// The most that was agreed.
        largest: usize,
    },
}

/// A refused message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// No room now: publish, wait until the receiver releases some, try again.
    #[error("the ring is full: {need} bytes needed, {room} free")]
    Full {
        /// Bytes the message needs in the ring.
        need: usize,
        /// Bytes there are.
        room: usize,
    },
    /// It can never be sent.
    #[error("the message is too large: {bytes} bytes, and the largest allowed is {largest}")]
    TooLarge {
        /// Value that was asked for.
        bytes: usize,
        /// The most that was agreed.
        largest: usize,
    },
    /// The receiver wrote nonsense.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
}

/// A ring that cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// Its room for records.
    #[error("a ring holds a power of two of at least 256 bytes: {bytes}")]
    Capacity {
        /// Value that was asked for.
        bytes: usize,
    },
    /// The largest message.
    #[error("the largest message of a ring is between 1 and {max} bytes: {largest}", max = u32::MAX)]
    Largest {
        /// Value that was asked for.
        largest: usize,
    },
}
