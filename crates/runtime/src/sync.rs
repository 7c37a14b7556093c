//! Atomics, fences and locks of the protocols inside one process: `std` in the product, `loom` in the models.
//!
//! With `--cfg loom` the same names are those of the model checker, so a model runs the code of the product. Words of shared
//! memory are always `std`'s atomics: the kernel and other processes see them. Their models replace
//! [`Memory`](crate::shm::Memory) instead.

#[cfg(loom)]
mod checked;
#[cfg(not(loom))]
mod product;

#[cfg(loom)]
pub(crate) use checked::{AtomicU64, Condvar, Mutex, MutexGuard, SeqCst, fence, with_seq_cst};
#[cfg(not(loom))]
pub(crate) use product::{AtomicU64, Condvar, Mutex, MutexGuard, fence};
pub(crate) use std::sync::atomic::Ordering;

/// Words of shared memory, which are `std`'s atomics also in models.
pub(crate) mod shared {
    pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, fence};
}
