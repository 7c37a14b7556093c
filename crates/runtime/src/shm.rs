//! Memory that processes share, and what they say to each other in it: the only unsafe code. For Linux.
//!
//! ```text
//!   Segment          memory that two processes map
//!     Grant          a range of it that a running task sees as a slice
//!     Copying        copies of ranges that nobody sees so
//!     Region         words of it; the protocols below are written over `Memory`, which the models replace
//!       Ring         records from one side to the other
//!       Bell         wakes who sleeps until something is published; `Waiting` says how long to stay awake
//!       Sentinel     a word that the kernel marks when the process dies
//!     Mailbox        all of these for one child, in one layout
//! ```

pub mod bell;
pub(crate) mod copying;
pub mod futex;
pub(crate) mod grant;
mod inherited;
mod layout;
pub mod mailbox;
pub mod memory;
pub mod ring;
pub mod segment;
pub mod sentinel;
pub mod waiting;

pub use bell::Bell;
pub use inherited::inherited;
pub use mailbox::{ChildSide, Mailbox, MailboxError, ParentSide, Phase, Sizes};
pub use memory::{Memory, Region};
pub use ring::{Corrupt, PushError, Receiver, Sender};
pub use segment::{Segment, SegmentError};
pub use sentinel::{Sentinel, is_dead};
pub use waiting::{Waiting, Woken};

#[cfg(all(test, loom))]
pub(crate) mod loom_tests;
