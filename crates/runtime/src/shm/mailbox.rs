//! All that a parent and one child say to each other, in one segment.
//!
//! ```text
//!   handshake       magic, version, layout hash, sizes            written by the parent, before the child exists
//!   parent's line   shutdown, go                                  written by the parent
//!   child's line    phase                                         written by the child
//!   evidence        progress, step                                written by the thread that runs the task
//!   robust word     the thread that lives                         written by the child, marked by the kernel
//!   child's bell    rung by the parent; the parent's bell is in a segment of its own, one for all children
//!   rings           tasks and controls to the child, events to the parent
//! ```
//!
//! - **MBX-1 (one writer).** Every word of the lines has one writer, by types: a fact is never erased by the other side.
//! - **MBX-2 (sticky).** Shutdown and go are said once and stay said.
//! - **MBX-3 (same layout).** A child that was built with another layout, or got other memory, refuses it with both
//!   values.
//! - **MBX-4 (checked).** Whatever stands in the segment, reading it gives a value or an error.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use super::bell::{self, Bell};
use super::layout::{hash, layout};
use super::memory::{Memory, Region};
use super::ring::{self, Receiver, RingError, Sender};
use super::segment::{Segment, SegmentError, WORD};
use super::sentinel::is_dead;
use super::waiting::Waiting;
use crate::sync::{Ordering, shared::AtomicU32};

layout! {
    MAGIC: usize = 0;
    VERSION: usize = 1;
    HASH: usize = 2;
    BYTES: usize = 3;
    TASKS: usize = 4;
    CONTROLS: usize = 5;
    EVENTS: usize = 6;
    LARGEST: usize = 7;
    BELL_OFFSET: usize = 8;
    WAKING: usize = 9;
    SHUTDOWN: usize = 16;
    GO: usize = 17;
    PHASE: usize = 32;
    PROGRESS: usize = 48;
    STEP: usize = 49;
    ROBUST: usize = 64;
    CHILD_BELL: usize = 80;
    RINGS: usize = 128;
}

/// First word of a mailbox.
const MAGIC_NUMBER: u64 = u64::from_le_bytes(*b"PHALANX\0");
/// Changes when the meaning changes and the layout does not.
const THIS_VERSION: u64 = 1;
/// The layout that this program was built with.
pub(crate) const LAYOUT_HASH: u64 = hash(&[LAYOUT, ring::LAYOUT, bell::LAYOUT, PHASES]);

/// Sizes of the rings of a mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of records from parent to child: tasks. Each is a power of two of at least 256.
    pub tasks: usize,
    /// Bytes of records from parent to child: controls.
    pub controls: usize,
    /// Bytes of records from child to parent: events.
    pub events: usize,
    /// The largest message of any ring.
    pub largest: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { tasks: 128 << 10, controls: 32 << 10, events: 128 << 10, largest: 64 << 20 }
    }
}

/// Phase of a child's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u64)]
pub enum Phase {
    /// The process exists, or will.
    Starting = 0,
    /// It sets itself up.
    Bootstrapping = 1,
    /// Everything that can fail has succeeded.
    Ready = 2,
    /// It could not set itself up; the reason is among the events.
    Failed = 3,
    /// It takes tasks.
    Serving = 4,
    /// It takes no more and goes.
    Leaving = 5,
}

const PHASES: &str = "Starting=0;Bootstrapping=1;Ready=2;Failed=3;Serving=4;Leaving=5;";
const ALL_PHASES: [Phase; 6] = [
    Phase::Starting,
    Phase::Bootstrapping,
    Phase::Ready,
    Phase::Failed,
    Phase::Serving,
    Phase::Leaving,
];

/// An error of a mailbox.
#[derive(Debug, thiserror::Error)]
pub enum MailboxError {
    /// The system refused.
    #[error("cannot share memory for a mailbox: {0}")]
    Io(#[from] io::Error),
    /// The memory is too small.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// A ring of that size is impossible.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// It is no mailbox, or one of another program.
    #[error(
        "the shared memory is not a mailbox of this program: its {what} is {found:#x}, and here it is {expected:#x}"
    )]
    Mismatch {
        /// Word that differs.
        what: &'static str,
        /// Value that is there.
        found: u64,
        /// Value that should be there.
        expected: u64,
    },
    /// The child says that it is in a phase that does not exist.
    #[error("the child reports phase {found}, and there are phases 0 to 5")]
    Phase {
        /// Number of the phase.
        found: u64,
    },
}

/// Evidence of a child about the task that it runs, for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Grows while the child gets on.
    pub progress: u64,
    /// Its step with the task: an encoded [`Step`](crate::message::Step).
    pub step: u64,
}

/// Makes and adopts mailboxes.
#[derive(Debug)]
pub struct Mailbox;

/// The parent's side.
#[derive(Debug)]
pub struct ParentSide {
    /// Tasks for the child.
    pub tasks: Sender,
    /// Controls for the child.
    pub controls: Sender,
    /// Events of the child.
    pub events: Receiver,
    words: Region,
    child_bell: Bell,
    parent_bell: Bell,
}

/// The child's side.
#[derive(Debug)]
pub struct ChildSide {
    /// Tasks to run.
    pub tasks: Receiver,
    /// Controls to obey.
    pub controls: Receiver,
    /// Events for the parent.
    pub events: Sender,
    /// Evidence about the task that runs.
    pub witness: Witness,
    words: Region,
    child_bell: Bell,
    parent_bell: Bell,
}

/// Writes the evidence; may be given to the thread that runs the task.
#[derive(Clone, Debug)]
pub struct Witness<M: Memory = Region> {
    words: M,
}

impl Mailbox {
    /// Returns a fresh mailbox for one child, and the parent's side of it; the child gets its segment and that of the bell.
    pub fn create(parent_bell: &Bell, sizes: &Sizes) -> Result<ParentSide, MailboxError> {
        let layout = MailboxLayout::of(sizes)?;
        let segment = Segment::create("phalanx-mailbox", layout.bytes)?;
        let words = Region::new(&segment, 0, RINGS * WORD)?;
        for (at, value) in layout.handshake(sizes) {
            words.store(at, value, Ordering::Relaxed);
        }
        words.store(BELL_OFFSET, parent_bell.offset() as u64, Ordering::Relaxed);
        let waking = u64::try_from(Waiting::calibrate().waking().as_nanos()).unwrap_or(u64::MAX);
        words.store(WAKING, waking, Ordering::Relaxed);
        Ok(ParentSide {
            tasks: Sender::new(layout.tasks(&segment)?, sizes.largest)?,
            controls: Sender::new(layout.controls(&segment)?, sizes.largest)?,
            events: Receiver::new(layout.events(&segment)?, sizes.largest)?,
            child_bell: Bell::at(&segment, CHILD_BELL * WORD)?,
            parent_bell: parent_bell.clone(),
            words,
        })
    }

    /// Returns the child's side of the mailbox that was handed to it, with the memory of the parent's bell.
    pub fn adopt(mailbox: OwnedFd, parent_bell: OwnedFd) -> Result<ChildSide, MailboxError> {
        Self::attach(&Segment::adopt_whole(mailbox)?, &Segment::adopt_whole(parent_bell)?)
    }

    /// Returns the child's side of a mailbox whose memory is mapped already: for a child that is a thread.
    pub fn attach(mailbox: &Segment, parent_bell: &Segment) -> Result<ChildSide, MailboxError> {
        let words = Region::new(mailbox, 0, RINGS * WORD)?;
        let (layout, sizes) = MailboxLayout::read(&words)?;
        Ok(ChildSide {
            tasks: Receiver::new(layout.tasks(mailbox)?, sizes.largest)?,
            controls: Receiver::new(layout.controls(mailbox)?, sizes.largest)?,
            events: Sender::new(layout.events(mailbox)?, sizes.largest)?,
            witness: Witness { words: words.clone() },
            child_bell: Bell::at(mailbox, CHILD_BELL * WORD)?,
            parent_bell: Bell::at(parent_bell, number(words.load(BELL_OFFSET, Ordering::Relaxed)))?,
            words,
        })
    }
}

impl ParentSide {
    /// Returns the memory to hand to the child, beside that of the parent's bell.
    pub fn segment(&self) -> &Segment {
        self.words.segment()
    }

    /// Returns the bell that this child rings, and on which the parent waits.
    pub fn bell(&self) -> &Bell {
        &self.parent_bell
    }

    /// Wakes the child if it sleeps; to be called after publishing. True if it had to be woken.
    pub fn ring(&self) -> bool {
        self.child_bell.ring()
    }

    /// Tells the child to leave, for good, and wakes it.
    pub fn shut_down(&self) {
        say(&self.words, SHUTDOWN);
        self.ring();
    }

    /// Tells the child that all children are ready, for good, and wakes it.
    pub fn open(&self) {
        say(&self.words, GO);
        self.ring();
    }

    /// Returns the phase of the child.
    pub fn phase(&self) -> Result<Phase, MailboxError> {
        read_phase(&self.words)
    }

    /// Returns the child's evidence about the task that it runs. The three numbers are not of one instant.
    pub fn evidence(&self) -> Evidence {
        // SYNC: pairs with the stores of `Witness`; evidence orders nothing.
        let load = |at| self.words.load(at, Ordering::Relaxed);
        Evidence { progress: load(PROGRESS), step: load(STEP) }
    }

    /// Returns the child's robust word, to wait on: see [`is_dead`].
    pub fn robust(&self) -> &AtomicU32 {
        self.words.word32(ROBUST)
    }

    /// Returns the offset of the robust word.
    pub fn robust_offset(&self) -> usize {
        ROBUST * WORD
    }

    /// True if the kernel has marked the child's death. False also if its sentinel never stood.
    pub fn is_dead(&self) -> bool {
        // SYNC: the kernel marks it; what the child published before is read through the rings.
        is_dead(self.robust().load(Ordering::Acquire))
    }
}

impl ChildSide {
    /// Returns the memory of the mailbox.
    pub fn segment(&self) -> &Segment {
        self.words.segment()
    }

    /// Returns the bell that the parent rings, and on which the child waits.
    pub fn bell(&self) -> &Bell {
        &self.child_bell
    }

    /// Wakes the parent if it sleeps; to be called after publishing. True if it had to be woken.
    pub fn ring(&self) -> bool {
        self.parent_bell.ring()
    }

    /// Returns the policy of waiting that the parent has measured.
    pub fn waiting(&self) -> Waiting {
        Waiting::with_waking(Duration::from_nanos(self.words.load(WAKING, Ordering::Relaxed)))
    }

    /// Returns the offset of the robust word, for [`Sentinel::stand`](super::Sentinel::stand).
    pub fn robust_offset(&self) -> usize {
        ROBUST * WORD
    }

    /// True if the parent wants the child to leave.
    pub fn is_shut_down(&self) -> bool {
        is_said(&self.words, SHUTDOWN)
    }

    /// True if all children are ready.
    pub fn is_open(&self) -> bool {
        is_said(&self.words, GO)
    }

    /// Sets the phase and wakes the parent. A reader of the phase sees what was published before.
    pub fn enter(&mut self, phase: Phase) {
        // SYNC: pairs with the load in `read_phase`.
        self.words.store(PHASE, phase as u64, Ordering::Release);
        self.ring();
    }

    /// Returns the phase of the child.
    pub fn phase(&self) -> Result<Phase, MailboxError> {
        read_phase(&self.words)
    }
}

impl<M: Memory> Witness<M> {
    /// Notes the step of the child with its task.
    pub fn step(&self, step: u64) {
        // SYNC: pairs with `ParentSide::evidence`; evidence orders nothing.
        self.words.store(STEP, step, Ordering::Relaxed);
        self.advance();
    }

    /// Counts progress of the child.
    pub fn advance(&self) {
        // Only the thread that runs the task writes it.
        let progress = self.words.load(PROGRESS, Ordering::Relaxed).wrapping_add(1);
        self.words.store(PROGRESS, progress, Ordering::Relaxed);
    }
}

/// Says a sticky fact.
pub(super) fn say(words: &impl Memory, at: usize) {
    // SYNC: what came before the fact; pairs with the load in `is_said`.
    words.store(at, 1, Ordering::Release);
}

/// True if a sticky fact was said. Any other value than 0 is taken for yes.
pub(super) fn is_said(words: &impl Memory, at: usize) -> bool {
    // SYNC: pairs with the store in `say`.
    words.load(at, Ordering::Acquire) != 0
}

fn read_phase(words: &impl Memory) -> Result<Phase, MailboxError> {
    // SYNC: pairs with the store in `ChildSide::enter`.
    let found = words.load(PHASE, Ordering::Acquire);
    ALL_PHASES.into_iter().find(|phase| *phase as u64 == found).ok_or(MailboxError::Phase { found })
}

fn number(word: u64) -> usize {
    usize::try_from(word).unwrap_or(usize::MAX)
}

/// Layout of a mailbox: its rings.
#[derive(Clone, Copy)]
struct MailboxLayout {
    /// Offset and bytes of each ring.
    rings: [(usize, usize); 3],
    /// Bytes of the whole mailbox.
    bytes: usize,
}

impl MailboxLayout {
    fn of(sizes: &Sizes) -> Result<Self, MailboxError> {
        let mut rings = [(0, 0); 3];
        let mut end = RINGS * WORD;
        for (ring, capacity) in rings.iter_mut().zip([sizes.tasks, sizes.controls, sizes.events]) {
            if capacity > MOST_CAPACITY {
                return Err(RingError::Capacity { bytes: capacity }.into());
            }
            *ring = (end, ring::footprint(capacity));
            end += ring.1;
        }
        Ok(Self { rings, bytes: end })
    }

    /// Returns the handshake of a mailbox of these sizes.
    fn handshake(&self, sizes: &Sizes) -> [(usize, u64); 8] {
        [
            (MAGIC, MAGIC_NUMBER),
            (VERSION, THIS_VERSION),
            (HASH, LAYOUT_HASH),
            (BYTES, self.bytes as u64),
            (TASKS, sizes.tasks as u64),
            (CONTROLS, sizes.controls as u64),
            (EVENTS, sizes.events as u64),
            (LARGEST, sizes.largest as u64),
        ]
    }

    /// Reads the handshake once, and checks it.
    fn read(words: &Region) -> Result<(Self, Sizes), MailboxError> {
        let load = |at| words.load(at, Ordering::Relaxed);
        let fixed = [
            ("magic", MAGIC, MAGIC_NUMBER),
            ("version", VERSION, THIS_VERSION),
            ("layout", HASH, LAYOUT_HASH),
        ];
        for (what, at, expected) in fixed {
            let found = load(at);
            if found != expected {
                return Err(MailboxError::Mismatch { what, found, expected });
            }
        }
        let [tasks, controls, events, largest] =
            [TASKS, CONTROLS, EVENTS, LARGEST].map(|at| number(load(at)));
        let sizes = Sizes { tasks, controls, events, largest };
        let layout = Self::of(&sizes)?;
        let (found, expected) = (load(BYTES), layout.bytes as u64);
        if found != expected {
            return Err(MailboxError::Mismatch { what: "size", found, expected });
        }
        Ok((layout, sizes))
    }

    fn tasks(&self, segment: &Segment) -> Result<Region, SegmentError> {
        Region::new(segment, self.rings[0].0, self.rings[0].1)
    }

    fn controls(&self, segment: &Segment) -> Result<Region, SegmentError> {
        Region::new(segment, self.rings[1].0, self.rings[1].1)
    }

    fn events(&self, segment: &Segment) -> Result<Region, SegmentError> {
        Region::new(segment, self.rings[2].0, self.rings[2].1)
    }
}

/// The largest ring: far from where sums overflow.
const MOST_CAPACITY: usize = 1 << 30;

#[cfg(test)]
mod tests;
