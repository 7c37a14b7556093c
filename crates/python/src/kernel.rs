//! Kernels in Python.
//!
//! A kernel runs in one of three ways, which take the same simulated time and compute the same bits:
//!
//! - *recorded*: Python runs through the kernel without suspending; each call appends an [`Op`], and the list is then played in
//!   virtual time ([`player`]). The default.
//! - *greenlet*: each call is performed at once, and the program suspends until it is over. A recorded kernel goes on like this
//!   after its first look at a number or at the time: the list up to there is played first.
//! - *replayed*: the list of an earlier program with the same arguments is played again, without Python.
//!
//! While a kernel is recorded, nothing waits, and Python calls the methods of [`Tl`] themselves. From the first look on, the kernel's
//! context is of a subclass whose methods wait; they are Python ([`crate::fiber`]).
//!
//! An operation that fails while a list is played has no Python frame. Then Python runs through the kernel once more: calls that
//! were played do nothing, the call that failed raises, and the kernel goes on as a greenlet ([`running::Mode::Again`]). An operation whose
//! operands do not fit ends the recording, and raises in this way.

mod launch;
mod looks;
mod native;
mod ongoing;
mod op;
mod part;
mod player;
mod program;
mod queue;
mod running;
mod tile;
mod tl;
mod types;
mod view;
mod whole;

pub(crate) use launch::Recordings;
pub(crate) use part::{Algorithm, Part};
pub(crate) use queue::Queue;
pub(crate) use tile::{Issued, Tile};
pub(crate) use tl::Tl;
pub(crate) use view::View;
