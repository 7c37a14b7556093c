//! What goes wrong with domains.

use super::roster::Roster;
use std::time::Duration;

/// Why a domain cannot be made or used so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DomainError {
    /// It has no chips.
    #[error("domain `{domain}` has no chips")]
    Empty {
        /// Which domain.
        domain: String,
    },
    /// It has too much of something.
    #[error("a domain has at most {limit} {what}: {count}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many are allowed.
        limit: usize,
        /// How many there were.
        count: usize,
    },
    /// A name is none.
    #[error("the name of a domain or buffer has 1 to 255 bytes: {bytes}")]
    Name {
        /// How many it has.
        bytes: usize,
    },
    /// A chip is there twice.
    #[error("chip {chip} is in domain `{domain}` twice: a chip has one rank in a domain")]
    SameChip {
        /// Which domain.
        domain: String,
        /// Which chip.
        chip: u32,
    },
    /// Two buffers have one name.
    #[error("two buffers of the window are called `{name}`")]
    SameBuffer {
        /// Which name.
        name: String,
    },
    /// The buffers do not fit.
    #[error(
        "the buffers of domain `{domain}` have {needed} bytes and its window {window}: raise `window`"
    )]
    TooSmall {
        /// Which domain.
        domain: String,
        /// What the window has.
        window: u64,
        /// What the buffers need.
        needed: u64,
    },
    /// No memory is so large.
    #[error("a window has less than 2^64 bytes")]
    Overflow,
    /// It belongs to another worker.
    #[error("domain `{domain}` belongs to another worker")]
    Foreign {
        /// Which domain.
        domain: String,
    },
    /// Not one of its chips.
    #[error("{who} is not in domain `{domain}`: its members are chips {members:?}")]
    NotAMember {
        /// Which domain.
        domain: String,
        /// Who is not.
        who: String,
        /// Who is, in the order of their ranks.
        members: Vec<u32>,
    },
    /// There is no such rank.
    #[error("domain `{domain}` has no rank {rank}: it has {ranks}, counted from 0")]
    NoRank {
        /// Which domain.
        domain: String,
        /// What was asked for.
        rank: usize,
        /// How many there are.
        ranks: usize,
    },
    /// There is no such buffer.
    #[error("the windows of domain `{domain}` have no buffer `{name}`: they have {known:?}")]
    NoBuffer {
        /// Which domain.
        domain: String,
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// There is no such cell.
    #[error("domain `{domain}` has no cell {cell}: each rank has {cells}, counted from 0")]
    NoCell {
        /// Which domain.
        domain: String,
        /// What was asked for.
        cell: u32,
        /// How many there are.
        cells: u32,
    },
    /// Elements of another size.
    #[error("buffer `{name}` holds elements of {bytes} bytes, not of {wanted}")]
    Element {
        /// Which buffer.
        name: String,
        /// What it holds.
        bytes: u64,
        /// What was asked for.
        wanted: usize,
    },
    /// It ends behind the buffer.
    #[error("{count} elements from {offset} on do not lie in buffer `{name}` of {elements}")]
    Bounds {
        /// Which buffer.
        name: String,
        /// The first element.
        offset: usize,
        /// How many.
        count: usize,
        /// How many the buffer has.
        elements: u64,
    },
    /// Somebody sees these bytes in place.
    #[error(
        "buffer `{name}` of rank {rank} cannot be reached now: {words}; a task that its chip runs has it as an argument"
    )]
    Taken {
        /// Which buffer.
        name: String,
        /// Whose.
        rank: usize,
        /// What the memory says.
        words: String,
    },
    /// A cell would go back.
    #[error(
        "cell {cell} of rank {writer} at rank {owner} of domain `{domain}` holds {found} and cannot go back to {value}"
    )]
    Backwards {
        /// Which domain.
        domain: String,
        /// Which cell.
        cell: u32,
        /// Who writes it.
        writer: usize,
        /// In whose window.
        owner: usize,
        /// What it holds.
        found: u64,
        /// What it was to hold.
        value: u64,
    },
    /// A wait was in vain.
    #[error(
        "rank {rank} of domain `{domain}` waited {within:?} for {what} of rank {peer} (chip {chip}): it is {seen}, and {wanted} was wanted"
    )]
    TimedOut {
        /// Which domain.
        domain: String,
        /// Who waited.
        rank: usize,
        /// For what: `cell 3` or `the barrier`.
        what: String,
        /// Who should have written.
        peer: usize,
        /// Which chip that is.
        chip: u32,
        /// What was there.
        seen: u64,
        /// What was waited for.
        wanted: u64,
        /// For how long.
        within: Duration,
    },
    /// Who should have written is lost, or has failed in this run.
    #[error("rank {rank} of domain `{domain}` waits in vain for {what} of rank {peer}: {words}")]
    InVain {
        /// Which domain.
        domain: String,
        /// Who waited.
        rank: usize,
        /// For what: `cell 3` or `the barrier`.
        what: String,
        /// Who should have written.
        peer: usize,
        /// Which chip that is.
        chip: u32,
        /// Who it is, and what became of it.
        words: String,
    },
    /// A rank would come to another barrier than the others are at.
    #[error(
        "rank {rank} of domain `{domain}` cannot come to a barrier in this run any more: {words}"
    )]
    OutOfStep {
        /// Which domain.
        domain: String,
        /// Which rank.
        rank: usize,
        /// What became of it before.
        words: String,
    },
    /// A wait without an end.
    #[error("a wait must have an end: {within:?} is too long for this clock")]
    Endless {
        /// What was asked for.
        within: Duration,
    },
    /// The memory says no.
    #[error("the memory of domain `{domain}`: {words}")]
    Memory {
        /// Which domain.
        domain: String,
        /// What it says.
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
