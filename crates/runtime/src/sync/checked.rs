//! The types of the model checker, which tries every order of events and every value that a load may see.
//!
//! The checker knows sequential consistency of fences only. So a sequentially consistent access is made of an acquiring or
//! releasing access and a fence, in one of the two ways that compilers have ([`SeqCst`]); models hold for both.

pub(crate) use loom::sync::MutexGuard;

use loom::sync::atomic;
use std::cell::Cell;
use std::sync::atomic::Ordering;

/// The way in which sequentially consistent accesses get their fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SeqCst {
    /// A fence before each access.
    FenceBefore,
    /// A fence after each access.
    FenceAfter,
    /// A flaw: no fences at all, so accesses only acquire and release.
    NoFence,
}

thread_local! {
    /// The way of the model that this thread checks. The checker runs all threads of a model on one thread of the system.
    static SEQ_CST: Cell<SeqCst> = const { Cell::new(SeqCst::FenceBefore) };
}

/// Checks a model in which sequentially consistent accesses are made in this way.
pub(crate) fn with_seq_cst(way: SeqCst, check: impl FnOnce()) {
    SEQ_CST.set(way);
    check();
    SEQ_CST.set(SeqCst::FenceBefore);
}

/// A fence. Does nothing while the model fails, since the checker is gone then.
pub(crate) fn fence(ordering: Ordering) {
    if SEQ_CST.get() != SeqCst::NoFence && !std::thread::panicking() {
        atomic::fence(ordering);
    }
}

/// A number that threads share.
#[derive(Debug)]
pub(crate) struct AtomicU64(atomic::AtomicU64);

impl AtomicU64 {
    pub(crate) fn new(value: u64) -> Self {
        Self(atomic::AtomicU64::new(value))
    }

    pub(crate) fn load(&self, ordering: Ordering) -> u64 {
        self.access(ordering, |number| number.load(weaker(ordering, Ordering::Acquire)))
    }

    pub(crate) fn store(&self, value: u64, ordering: Ordering) {
        self.access(ordering, |number| number.store(value, weaker(ordering, Ordering::Release)));
    }

    pub(crate) fn swap(&self, value: u64, ordering: Ordering) -> u64 {
        self.access(ordering, |number| number.swap(value, weaker(ordering, Ordering::AcqRel)))
    }

    pub(crate) fn fetch_add(&self, value: u64, ordering: Ordering) -> u64 {
        self.access(ordering, |number| number.fetch_add(value, weaker(ordering, Ordering::AcqRel)))
    }

    pub(crate) fn fetch_sub(&self, value: u64, ordering: Ordering) -> u64 {
        self.access(ordering, |number| number.fetch_sub(value, weaker(ordering, Ordering::AcqRel)))
    }

    fn access<T: Default>(
        &self,
        ordering: Ordering,
        access: impl FnOnce(&atomic::AtomicU64) -> T,
    ) -> T {
        if std::thread::panicking() {
            // The model has failed, and its numbers are gone.
            return T::default();
        }
        let is_fenced = |way| ordering == Ordering::SeqCst && SEQ_CST.get() == way;
        if is_fenced(SeqCst::FenceBefore) {
            atomic::fence(Ordering::SeqCst);
        }
        let value = access(&self.0);
        if is_fenced(SeqCst::FenceAfter) {
            atomic::fence(Ordering::SeqCst);
        }
        value
    }
}

/// The part of an ordering that the access has; a fence has the rest.
fn weaker(ordering: Ordering, rest: Ordering) -> Ordering {
    if ordering == Ordering::SeqCst { rest } else { ordering }
}

/// A lock.
#[derive(Debug)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().expect("no model panics while it holds a lock")
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }
}

/// A condition to wait for while a lock is released.
#[derive(Debug, Default)]
pub(crate) struct Condvar(loom::sync::Condvar);

impl Condvar {
    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).expect("no model panics while it holds a lock")
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }
}
