//! Uses of simulated time: the kinds of waiting, and a stack of kinds that fills the whole run.
//!
//! - **STL-1 (complete).** The parts of a stack, idle time included, add up to the simulated time exactly.

use crate::time::Time;
use std::fmt;

/// The activity of a PE or a link that is not idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The matrix or the vector engine works.
    Compute,
    /// The DMA engine moves bytes between memory and scratch, or is busy with earlier ones.
    Dma,
    /// The memory of a cube moves bytes, or is busy with those of others.
    Hbm,
    /// Bytes are on the meshes inside a SIP, or wait for them.
    Mesh,
    /// The latency of DMA, memory and meshes.
    Latency,
    /// A message is on its way, or waits for a wire.
    Link,
    /// A message waits for a free slot at the receiver.
    Credit,
    /// Somebody else has not come so far: an unsent message, a barrier.
    Dependency,
}

crate::portable!(enum Kind {
    0 => Compute, 1 => Dma, 2 => Hbm, 3 => Mesh, 4 => Latency, 5 => Link, 6 => Credit, 7 => Dependency,
});

impl Kind {
    /// Number of kinds.
    pub const COUNT: usize = 8;
    /// All of them.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Compute,
        Self::Dma,
        Self::Hbm,
        Self::Mesh,
        Self::Latency,
        Self::Link,
        Self::Credit,
        Self::Dependency,
    ];

    /// Returns the name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Dma => "dma",
            Self::Hbm => "hbm",
            Self::Mesh => "mesh",
            Self::Latency => "latency",
            Self::Link => "link",
            Self::Credit => "credit",
            Self::Dependency => "dependency",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Time spent, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stack([u64; Kind::COUNT]);

crate::portable!(tuple Stack);

impl Stack {
    /// Adds `span` to a kind.
    #[inline]
    pub fn add(&mut self, kind: Kind, span: Time) {
        self.0[kind as usize] += span.as_ps();
    }

    /// Returns the time spent on a kind.
    pub fn get(&self, kind: Kind) -> Time {
        Time::ps(self.0[kind as usize])
    }

    /// Returns the time spent on anything.
    pub fn total(&self) -> Time {
        Time::ps(self.0.iter().sum())
    }

    /// Returns the idle time: the rest of a run of `whole`.
    pub fn idle(&self, whole: Time) -> Time {
        whole.saturating_sub(self.total())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stl_1_the_parts_and_idle_time_add_up() {
        let mut stack = Stack::default();
        for (nanoseconds, kind) in (1..).zip(Kind::ALL) {
            stack.add(kind, Time::ns(nanoseconds));
            stack.add(kind, Time::ns(10));
            assert_eq!(stack.get(kind), Time::ns(nanoseconds + 10));
        }
        let whole = Time::ns(1000);
        assert_eq!(stack.total() + stack.idle(whole), whole, "STL-1");
        assert_eq!(stack.total(), Time::ns(36 + 80));
    }
}
