//! Errors of domains.

use super::roster::Roster;
use std::time::Duration;

/// An error of a domain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DomainError {
    /// It has no chips.
    #[error("domain `{domain}` has no chips")]
    Empty {
        /// Name of the domain.
        domain: String,
    },
    /// It has too much of something.
    #[error("a domain has at most {limit} {what}: {count}")]
    TooMany {
        /// Kind of things.
        what: &'static str,
        /// Most that are allowed.
        limit: usize,
        /// Number that was given.
        count: usize,
    },
    /// A name is none.
    #[error("the name of a domain or buffer has 1 to 255 bytes: {bytes}")]
    Name {
        /// Number that it has.
        bytes: usize,
    },
    /// A chip is there twice.
    #[error("chip {chip} is in domain `{domain}` twice: a chip has one rank in a domain")]
    SameChip {
        /// Name of the domain.
        domain: String,
        /// Number of the chip.
        chip: u32,
    },
    /// Two buffers have one name.
    #[error("two buffers of the window are called `{name}`")]
    SameBuffer {
        /// The name.
        name: String,
    },
    /// The buffers do not fit.
    #[error(
        "the buffers of domain `{domain}` have {needed} bytes and its window {window}: raise `window`"
    )]
    TooSmall {
        /// Name of the domain.
        domain: String,
        /// Bytes of the window.
        window: u64,
        /// Bytes that the buffers need.
        needed: u64,
    },
    /// No memory is so large.
    #[error("a window has less than 2^64 bytes")]
    Overflow,
    /// It belongs to another worker.
    #[error("domain `{domain}` belongs to another worker")]
    Foreign {
        /// Name of the domain.
        domain: String,
    },
    /// Not one of its chips.
    #[error("{who} is not in domain `{domain}`: its members are chips {members:?}")]
    NotAMember {
        /// Name of the domain.
        domain: String,
        /// Name of the non-member.
        who: String,
        /// Chips of the members, in the order of their ranks.
        members: Vec<u32>,
    },
    /// There is no such rank.
    #[error("domain `{domain}` has no rank {rank}: it has {ranks}, counted from 0")]
    NoRank {
        /// Name of the domain.
        domain: String,
        /// Value that was asked for.
        rank: usize,
        /// Number that there are.
        ranks: usize,
    },
    /// There is no such buffer.
    #[error("the windows of domain `{domain}` have no buffer `{name}`: they have {known:?}")]
    NoBuffer {
        /// Name of the domain.
        domain: String,
        /// Value that was asked for.
        name: String,
        /// Names that there are.
        known: Vec<String>,
    },
    /// There is no such cell.
    #[error("domain `{domain}` has no cell {cell}: each rank has {cells}, counted from 0")]
    NoCell {
        /// Name of the domain.
        domain: String,
        /// Value that was asked for.
        cell: u32,
        /// Number that there are.
        cells: u32,
    },
    /// Elements of another size.
    #[error("buffer `{name}` holds elements of {bytes} bytes, not of {wanted}")]
    Element {
        /// Name of the buffer.
        name: String,
        /// Value that it holds.
        bytes: u64,
        /// Value that was asked for.
        wanted: usize,
    },
    /// It ends behind the buffer.
    #[error("{count} elements from {offset} on do not lie in buffer `{name}` of {elements}")]
    Bounds {
        /// Name of the buffer.
        name: String,
        /// The first element.
        offset: usize,
        /// Number of elements.
        count: usize,
        /// Number of elements of the buffer.
        elements: u64,
    },
    /// Somebody sees these bytes in place.
    #[error(
        "buffer `{name}` of rank {rank} cannot be reached now: {words}; a task that its chip runs has it as an argument"
    )]
    Taken {
        /// Name of the buffer.
        name: String,
        /// Rank that owns it.
        rank: usize,
        /// Refusal of the memory.
        words: String,
    },
    /// A cell would go back.
    #[error(
        "cell {cell} of rank {writer} at rank {owner} of domain `{domain}` holds {found} and cannot go back to {value}"
    )]
    Backwards {
        /// Name of the domain.
        domain: String,
        /// Number of the cell.
        cell: u32,
        /// Rank that writes it.
        writer: usize,
        /// In whose window.
        owner: usize,
        /// Value that it holds.
        found: u64,
        /// Value that it was to hold.
        value: u64,
    },
    /// A wait was in vain.
    #[error(
        "rank {rank} of domain `{domain}` waited {within:?} for {what} of rank {peer} (chip {chip}): it is {seen}, and {wanted} was wanted"
    )]
    TimedOut {
        /// Name of the domain.
        domain: String,
        /// Rank that waited.
        rank: usize,
        /// Object of the wait: `cell 3` or `the barrier`.
        what: String,
        /// Rank that should have written.
        peer: usize,
        /// Chip of that rank.
        chip: u32,
        /// Value that was seen.
        seen: u64,
        /// Value that was waited for.
        wanted: u64,
        /// Length of the wait.
        within: Duration,
    },
    /// A wait for a rank that is lost, or has failed in this run.
    #[error("rank {rank} of domain `{domain}` waits in vain for {what} of rank {peer}: {words}")]
    InVain {
        /// Name of the domain.
        domain: String,
        /// Rank that waited.
        rank: usize,
        /// Object of the wait: `cell 3` or `the barrier`.
        what: String,
        /// Rank that should have written.
        peer: usize,
        /// Chip of that rank.
        chip: u32,
        /// The peer, and its end.
        words: String,
    },
    /// A rank would come to another barrier than the others are at.
    #[error(
        "rank {rank} of domain `{domain}` cannot come to a barrier in this run any more: {words}"
    )]
    OutOfStep {
        /// Name of the domain.
        domain: String,
        /// The rank.
        rank: usize,
        /// Reason, in words.
        words: String,
    },
    /// A wait without an end.
    #[error("a wait must have an end: {within:?} is too long for this clock")]
    Endless {
        /// Value that was asked for.
        within: Duration,
    },
    /// The memory says no.
    #[error("the memory of domain `{domain}`: {words}")]
    Memory {
        /// Name of the domain.
        domain: String,
        /// Words or number that it gives.
        words: String,
    },
}

pub(super) fn no_rank(roster: &Roster, rank: usize) -> DomainError {
    DomainError::NoRank { domain: roster.name.clone(), rank, ranks: roster.members.len() }
}

pub(super) fn no_buffer(roster: &Roster, name: &str) -> DomainError {
    let (domain, name, known) = (roster.name.clone(), name.to_owned(), roster.names());
    DomainError::NoBuffer { domain, name, known }
}
