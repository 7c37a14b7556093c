//! What the protocol between those who move the node is made of: the seam between it and its models.
//!
//! The product has the standard library's parts; the models have those of a checker that tries every order of events.

use std::ops::DerefMut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};

/// Where numbers and locks come from.
pub(crate) trait Parts {
    /// How often a lock is tried before it is waited for.
    const TRIES: u32;
    type Number: Number;
    type Lock<T>: Lock<T>;
    /// A sequentially consistent fence.
    fn fence();
}

/// A number that threads share.
pub(crate) trait Number {
    fn new(value: u64) -> Self;
    fn load(&self, ordering: Ordering) -> u64;
    fn swap(&self, value: u64, ordering: Ordering) -> u64;
    fn store(&self, value: u64, ordering: Ordering);
    fn fetch_add(&self, value: u64, ordering: Ordering) -> u64;
    fn fetch_sub(&self, value: u64, ordering: Ordering) -> u64;
}

/// A lock, and what can be waited for while it is held. A holder that panics does no harm.
pub(crate) trait Lock<T> {
    type Held<'a>: DerefMut<Target = T>
    where
        Self: 'a;
    type Condition: Default;
    fn new(value: T) -> Self;
    fn lock(&self) -> Self::Held<'_>;
    fn try_lock(&self) -> Option<Self::Held<'_>>;
    /// Lets go, sleeps until notified, and holds again. May return early.
    fn wait<'a>(condition: &Self::Condition, held: Self::Held<'a>) -> Self::Held<'a>
    where
        Self: 'a;
    fn notify(condition: &Self::Condition);
}

/// The parts of the product.
pub(crate) struct Std;

impl Parts for Std {
    const TRIES: u32 = 64;
    type Number = AtomicU64;
    type Lock<T> = Mutex<T>;

    #[inline]
    fn fence() {
        std::sync::atomic::fence(Ordering::SeqCst);
    }
}

impl Number for AtomicU64 {
    #[inline]
    fn new(value: u64) -> Self {
        Self::new(value)
    }

    #[inline]
    fn load(&self, ordering: Ordering) -> u64 {
        self.load(ordering)
    }

    #[inline]
    fn swap(&self, value: u64, ordering: Ordering) -> u64 {
        self.swap(value, ordering)
    }

    #[inline]
    fn store(&self, value: u64, ordering: Ordering) {
        self.store(value, ordering);
    }

    #[inline]
    fn fetch_add(&self, value: u64, ordering: Ordering) -> u64 {
        self.fetch_add(value, ordering)
    }

    #[inline]
    fn fetch_sub(&self, value: u64, ordering: Ordering) -> u64 {
        self.fetch_sub(value, ordering)
    }
}

impl<T> Lock<T> for Mutex<T> {
    type Held<'a>
        = MutexGuard<'a, T>
    where
        T: 'a;
    type Condition = Condvar;

    fn new(value: T) -> Self {
        Self::new(value)
    }

    #[inline]
    fn lock(&self) -> MutexGuard<'_, T> {
        self.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.try_lock() {
            Ok(held) => Some(held),
            Err(TryLockError::Poisoned(held)) => Some(held.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn wait<'a>(condition: &Condvar, held: MutexGuard<'a, T>) -> MutexGuard<'a, T>
    where
        T: 'a,
    {
        condition.wait(held).unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(condition: &Condvar) {
        condition.notify_one();
    }
}
