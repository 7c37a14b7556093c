//! The types of the product: those of `std`. A panic while a lock is held does not poison the lock.

pub(crate) use std::sync::MutexGuard;
pub(crate) use std::sync::atomic::{AtomicU64, fence};

use std::sync::{PoisonError, TryLockError};

/// A lock.
#[derive(Debug)]
pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    /// Locks; blocks while another thread holds the lock.
    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks, unless another thread holds the lock.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// A condition to wait for while a lock is released.
#[derive(Debug, Default)]
pub(crate) struct Condvar(std::sync::Condvar);

impl Condvar {
    /// Releases the lock, sleeps until notified, and locks again. May return early.
    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes one thread that waits.
    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }
}
