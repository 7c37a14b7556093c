//! Where virtual time would cross from one chip process to another. Not built: today every chip has a clock of its own.
//!
//! Today a task reports how long it took on its chip, and nothing says when, on a clock of the whole machine, it began. A
//! message between chips (a put into a window, a tensor that one writes and another reads) carries bytes and no time.
//! So the simulated times of chips can be compared and added up along a graph, but two chips that wait for each other
//! *inside* a task do not see each other's delays.
//!
//! What is missing is said by [`TimeCarrier`]. The rules are those of one machine (PAR-1 to PAR-3 of the simulator), which
//! already has one place for each SIP that others reach by messages with latency only:
//!
//! 1. A message between chips is a [`Stamped`]: it left at a time of the sender's clock, and arrives
//!    [`lookahead`](TimeCarrier::lookahead) later or more. A receiver acts on it at that time, not before and not after.
//! 2. A chip simulates up to its [`horizon`](TimeCarrier::horizon), the least of what its peers have promised, and no
//!    further; whoever cannot go on promises anew. As links have latency, promises always grow.
//! 3. Equal times are ordered by (time of sending, sender, the sender's own count), so that the answer does not depend on
//!    which process was faster.
//! 4. That nothing can happen any more is decided when all chips are at rest and no message is under way.
//!
//! The bytes would go where they go today, through the windows of a domain; stamps and promises would be words beside
//! them. [`SimChip`](super::SimChip) would hand its machine's arrivals to a carrier instead of to its own links, and a
//! task's simulated time would be a span of one common clock.

use phalanx_sim::Time;

/// Something that left at a time of its sender's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamped<T> {
    /// When it left, on the sender's clock.
    pub sent: Time,
    /// Which SIP sent it.
    pub from: u32,
    /// How many messages the sender had sent before: orders those of equal time.
    pub count: u64,
    /// What it carries.
    pub content: T,
}

/// Carries messages with their virtual time between the processes of chips; see the [module](self) for what it must keep.
pub trait TimeCarrier<T> {
    /// The least time between sending and arriving, on any way between two chips. Never zero.
    fn lookahead(&self) -> Time;

    /// Sends to SIP `to`. The stamps of one sender never go back.
    fn send(&mut self, to: u32, message: Stamped<T>);

    /// The next message that may be acted upon: all others will arrive later, or in a later order.
    fn receive(&mut self) -> Option<Stamped<T>>;

    /// Up to when this chip may simulate without hearing from anybody.
    fn horizon(&self) -> Time;

    /// Says that this chip sends nothing that leaves before `time`.
    fn promise(&mut self, time: Time);
}
