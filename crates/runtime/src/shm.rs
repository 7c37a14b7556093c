//! Shared memory of processes, and the protocols in it: the only unsafe code of the crate. For Linux.
//!
//! ```text
//!   Segment          memory that two processes map
//!     Grant          a range that a running task sees as a slice
//!     Copying        copies of ranges that nobody sees as a slice
//!     Region         words of a segment; the protocols below are written over `Memory`, which models replace
//!       Ring         records from one side to the other
//!       Bell         wakes sleepers after something is published; `Waiting` is the policy of waiters
//!       Sentinel     a word that the kernel marks when the process dies
//!     Mailbox        all of these for one child, in one layout
//! ```
//!
//! `shm/README.md` has the protocols.

pub(crate) mod bell;
pub(crate) mod copying;
pub mod futex;
pub(crate) mod grant;
mod inherited;
mod layout;
pub(crate) mod mailbox;
mod memory;
mod ring;
pub(crate) mod segment;
mod sentinel;
mod severed;
mod waiting;

pub use bell::Bell;
pub use inherited::inherited;
pub use mailbox::{ChildSide, Evidence, Mailbox, MailboxError, ParentSide, Phase, Sizes, Witness};
pub use memory::{Memory, Region};
pub use ring::{Corrupt, PushError, Receiver, RingError, Sender};
pub use segment::{Segment, SegmentError};
pub use sentinel::{Sentinel, is_dead};
pub use severed::sever;
pub use waiting::{Waiting, Woken};

#[cfg(all(test, loom))]
pub(crate) mod loom_tests;
