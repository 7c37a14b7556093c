//! Actions, and the order of the events of one partition and instant.

use super::{DeviceId, Partition};

/// An action of a device, or the resumption of a process, in one word: eight bits of device number, the rest payload.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Action(u64);

const PAYLOAD_BITS: u32 = 56;

impl Action {
    pub(super) const NONE: Self = Self(0);

    #[inline]
    pub(super) fn resume(task: u64) -> Self {
        debug_assert!(task >> PAYLOAD_BITS == 0);
        Self(task)
    }

    #[inline]
    pub(super) fn of(device: DeviceId, payload: u64) -> Self {
        assert!(
            payload >> PAYLOAD_BITS == 0 && device.0 < 255,
            "a payload has 56 bits, a device 8"
        );
        Self(u64::from(device.0 + 1) << PAYLOAD_BITS | payload)
    }

    /// Returns the index of the device; `None` for a process.
    #[inline]
    pub(super) fn device(self) -> Option<usize> {
        ((self.0 >> PAYLOAD_BITS) as usize).checked_sub(1)
    }

    #[inline]
    pub(super) fn payload(self) -> u64 {
        self.0 & ((1 << PAYLOAD_BITS) - 1)
    }
}

/// The order of events of one partition and instant (SIM-2): time of creation, creating partition, that partition's count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    created: u64,
    origin_and_count: u64,
}

crate::portable!(struct Key { created, origin_and_count });

const COUNT_BITS: u32 = 44;

impl Key {
    pub(super) const NONE: Self = Self { created: 0, origin_and_count: 0 };
    /// The key of actions without delay, which come after all events of their instant.
    pub(super) const LAST: Self = Self { created: u64::MAX, origin_and_count: u64::MAX };

    #[inline]
    pub(super) fn new(created: u64, origin: Partition, count: u64) -> Self {
        Self { created, origin_and_count: u64::from(origin.0) << COUNT_BITS | count }
    }

    /// Returns the partition that has created the event.
    fn origin(self) -> u64 {
        self.origin_and_count >> COUNT_BITS
    }

    /// Returns the key that another partition would have given the event, which `image` takes the creating one to.
    pub(crate) fn moved(self, image: impl Fn(u32) -> u32) -> Self {
        let count = self.origin_and_count & ((1 << COUNT_BITS) - 1);
        let origin = image(u32::try_from(self.origin()).unwrap_or(u32::MAX));
        Self::new(self.created, Partition(origin), count)
    }

    /// True if nothing but the numbers of the creating partitions tells which of two events is first.
    #[inline]
    pub(super) fn is_tied_with(self, other: Self) -> bool {
        self.created == other.created && self.origin() != other.origin()
    }
}
