//! Atomics and fences: those of the standard library, or loom's when a protocol is checked.

#[cfg(not(loom))]
#[expect(unused_imports, reason = "the seam of the models")]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
