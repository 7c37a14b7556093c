//! The one clock: the kernel's monotonic one, which all processes of a host read alike.

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// Returns its reading in nanoseconds.
#[inline]
pub(crate) fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let [seconds, rest] = [now.tv_sec, now.tv_nsec].map(|part| u64::try_from(part).unwrap_or(0));
    seconds * 1_000_000_000 + rest
}

/// Returns the instant of a reading.
pub(crate) fn instant(reading: u64) -> Option<Instant> {
    Instant::now().checked_add(Duration::from_nanos(reading.saturating_sub(now())))
}
