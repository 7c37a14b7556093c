//! Which buffers a run has named whose tasks are run at once: the engine does not know of those.
//!
//! Who reads or writes a tensor from outside holds the core; who runs a task at once does not. So each says what it is about
//! to do before it looks at what the other has said.
//!
//! ```text
//!   who names:    bit up; does anybody touch? wait for the core; run
//!   who touches:  hold the core; touching up; is the bit up? refuse; copy; touching down; let go
//! ```
//!
//! - **NAM-1 (not both).** A buffer is not touched from outside while a task that was run at once may use it.

use super::parts::{Number, Parts, Std};
use phalanx_engine::RunId;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// One bit for the place of each buffer that was named.
pub(crate) struct Named<P: Parts = Std> {
    pub(super) run: Option<RunId>,
    bits: Box<[P::Number]>,
    /// How many touch something.
    touching: P::Number,
}

impl<P: Parts> Default for Named<P> {
    fn default() -> Self {
        Self::new(None, 0)
    }
}

impl<P: Parts> Named<P> {
    /// For `run`, with room for so many buffers.
    pub(super) fn new(run: Option<RunId>, buffers: usize) -> Self {
        let bits = (0..buffers.div_ceil(64)).map(|_| P::Number::new(0)).collect();
        Self { run, bits, touching: P::Number::new(0) }
    }

    /// The same for `run`, with room for so many; what it named before is kept.
    pub(super) fn renew(this: &Arc<Self>, run: RunId, buffers: usize) -> Arc<Self> {
        let is_same = this.run == Some(run);
        if is_same && this.bits.len() * 64 >= buffers {
            return Arc::clone(this);
        }
        let new = Self::new(Some(run), 2 * buffers);
        if is_same {
            for (new, old) in new.bits.iter().zip(&this.bits) {
                new.store(old.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
        Arc::new(new)
    }

    /// Names the buffer at a place; whether there is room for it.
    #[inline]
    pub(super) fn add(&self, place: usize) -> bool {
        let Some(word) = self.bits.get(place / 64) else { return false };
        // SYNC: NAM-1: named before the look who touches; pairs with `touch`.
        word.fetch_or(1 << (place % 64), Ordering::SeqCst);
        true
    }

    /// Another buffer has this place from now on.
    pub(super) fn forget(&self, place: usize) {
        if let Some(word) = self.bits.get(place / 64) {
            word.fetch_and(!(1 << (place % 64)), Ordering::SeqCst);
        }
    }

    /// Whether the buffer at a place was named.
    #[inline]
    pub(super) fn has(&self, place: usize) -> bool {
        let word = self.bits.get(place / 64);
        word.is_some_and(|word| word.load(Ordering::SeqCst) >> (place % 64) & 1 == 1)
    }

    /// Whether somebody touches something.
    #[inline]
    pub(super) fn is_touched(&self) -> bool {
        self.touching.load(Ordering::SeqCst) > 0
    }

    /// From now on somebody touches what nobody has named, until the guard is gone.
    pub(crate) fn touch(this: &Arc<Self>) -> Touch<P> {
        // SYNC: NAM-1: touching before the look at what was named; pairs with `add`.
        this.touching.fetch_add(1, Ordering::SeqCst);
        Touch(Arc::clone(this))
    }
}

/// Somebody who holds the core touches a buffer.
pub(crate) struct Touch<P: Parts = Std>(Arc<Named<P>>);

impl<P: Parts> Drop for Touch<P> {
    fn drop(&mut self) {
        self.0.touching.fetch_sub(1, Ordering::SeqCst);
    }
}
