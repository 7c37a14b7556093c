//! Atomics and fences of the product. The models of the protocols do not replace these types but the memory that the
//! words stand in ([`Memory`](crate::shm::Memory)), so that nothing else has to be built for them.

pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
