//! Handoff to a child at its start, over a socket: its role and the memory it shares.

use crate::failure::cut;
use crate::program::Program;
use crate::shm::Segment;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// First word of a handoff: a mark and a version.
const MARK: u64 = u64::from_le_bytes(*b"PHXCHLD\x02");
/// Numbers in a handoff.
const NUMBERS: usize = 8;
/// Descriptors in each handoff: mailbox, bell, callables; memories follow, and the settings of a worker.
const DESCRIPTORS: usize = 3;
/// The most memories that a worker can share: its parent's and those of its parent's parents.
pub(crate) const MAX_MEMORIES: usize = 16;
/// Most sockets of processes above.
const MAX_SOCKETS: usize = 16;
/// Advice about missing descriptors.
const LIMIT: &str = "; raise the limit of descriptors (`ulimit -n`)";
/// The most descriptors in a handoff.
const MOST: usize = DESCRIPTORS + MAX_MEMORIES + MAX_SOCKETS + 1;

/// Role of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A chip.
    Chip(Chip),
    /// A worker without a device.
    Sub {
        /// Counted from 0.
        number: u32,
    },
    /// A worker that has workers.
    Worker {
        /// Counted from 0.
        number: u32,
        /// Its name.
        level: u32,
    },
}

/// A chip and its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chip {
    pub(crate) device_id: u32,
    pub(crate) rank: u32,
    pub(crate) nranks: u32,
    pub(crate) window: WindowRange,
}

/// The window of a chip: a range of the shared memory that no other worker is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WindowRange {
    pub(crate) base: u64,
    pub(crate) bytes: u64,
}

impl Role {
    /// Returns its name.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Chip(chip) => format!("chip {}", chip.rank),
            Self::Sub { number } => format!("sub worker {number}"),
            Self::Worker { number, level } => format!("level {level} worker {number}"),
        }
    }

    /// Encodes the role as numbers; the last has the counts of descriptors.
    fn numbers(self, counts: u64) -> [u64; NUMBERS] {
        match self {
            Self::Chip(Chip { device_id, rank, nranks, window }) => {
                let [device_id, rank, nranks] = [device_id, rank, nranks].map(u64::from);
                [MARK, 1, device_id, rank, nranks, window.base, window.bytes, counts]
            }
            Self::Sub { number } => [MARK, 2, u64::from(number), 0, 0, 0, 0, counts],
            Self::Worker { number, level } => {
                [MARK, 3, u64::from(number), u64::from(level), 0, 0, 0, counts]
            }
        }
    }

    fn of(numbers: [u64; NUMBERS]) -> Option<Self> {
        let small = |number: u64| u32::try_from(number).ok();
        match numbers {
            [MARK, 1, device_id, rank, nranks, base, bytes, _] => Some(Self::Chip(Chip {
                device_id: small(device_id)?,
                rank: small(rank)?,
                nranks: small(nranks)?,
                window: WindowRange { base, bytes },
            })),
            [MARK, 2, number, 0, 0, 0, 0, _] => Some(Self::Sub { number: small(number)? }),
            [MARK, 3, number, level, 0, 0, 0, _] => {
                Some(Self::Worker { number: small(number)?, level: small(level)? })
            }
            _ => None,
        }
    }
}

/// A handoff that was read.
#[derive(Debug)]
pub(crate) struct Handoff {
    pub(crate) role: Role,
    pub(crate) mailbox: OwnedFd,
    pub(crate) bell: OwnedFd,
    /// Callables of the parent; see [`write_callables`].
    pub(crate) callables: OwnedFd,
    /// The parent's memory first, then those of its parents.
    pub(crate) memories: Vec<OwnedFd>,
    /// To be held for life, so that those above know when all below are gone.
    pub(crate) liveness_sockets: Vec<OwnedFd>,
    /// Settings of a worker that has workers.
    pub(crate) settings: Option<OwnedFd>,
}

/// Descriptors that go with a handoff.
pub(crate) struct SharedWithChild<'a> {
    pub(crate) mailbox: &'a Segment,
    pub(crate) bell: &'a Segment,
    pub(crate) callables: &'a Segment,
    pub(crate) memories: &'a [Segment],
    pub(crate) liveness_sockets: &'a [OwnedFd],
    pub(crate) settings: Option<&'a Segment>,
}

/// Sends a handoff; it is short, and the socket takes it also if nobody reads.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    role: Role,
    shared: &SharedWithChild<'_>,
) -> io::Result<()> {
    let SharedWithChild { mailbox, bell, callables, memories, liveness_sockets, settings } = shared;
    if memories.len() > MAX_MEMORIES || liveness_sockets.len() > MAX_SOCKETS {
        return Err(io::Error::other("workers are too deep inside workers"));
    }
    let numbers = role.numbers(memories.len() as u64 | (liveness_sockets.len() as u64) << 32);
    let bytes: Vec<u8> = numbers.into_iter().flat_map(u64::to_le_bytes).collect();
    let first = [*mailbox, *bell, *callables].into_iter().chain(*memories).map(Segment::fd);
    let liveness_sockets = liveness_sockets.iter().map(OwnedFd::as_fd);
    let descriptors: Vec<BorrowedFd<'_>> =
        first.chain(liveness_sockets).chain(settings.map(Segment::fd)).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let is_taken = control.push(SendAncillaryMessage::ScmRights(&descriptors));
    debug_assert!(is_taken, "PRC-1: room for all descriptors");
    let sent =
        rustix::net::sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)?;
    if sent == bytes.len() { Ok(()) } else { Err(io::Error::from(io::ErrorKind::WriteZero)) }
}

/// Reads the handoff from the socket.
pub(crate) fn receive(socket: BorrowedFd<'_>) -> io::Result<Handoff> {
    let mut bytes = [0; NUMBERS * 8];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let received = rustix::net::recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    if received.bytes != bytes.len() {
        return Err(wrong("the handoff of the parent is too short"));
    }
    let mut numbers = [0; NUMBERS];
    for (number, bytes) in numbers.iter_mut().zip(bytes.chunks_exact(8)) {
        *number = bytes.try_into().map_or(0, u64::from_le_bytes);
    }
    let role = Role::of(numbers).ok_or_else(|| wrong("the handoff is of another version"))?;
    let counts = numbers[NUMBERS - 1];
    let count = |number: u64| usize::try_from(number & 0xffff_ffff).unwrap_or(usize::MAX);
    let (memories, liveness_sockets) = (count(counts), count(counts >> 32));
    let is_worker = matches!(role, Role::Worker { .. });
    let needed = DESCRIPTORS + usize::from(is_worker);
    let needed = needed.saturating_add(memories).saturating_add(liveness_sockets);
    let count = descriptors.len();
    if count != needed || memories == 0 {
        // The kernel leaves out what is beyond the limit.
        let limit = if received.flags.contains(ReturnFlags::CTRUNC) { LIMIT } else { "" };
        let words = format!("the handoff has {count} descriptors, and {needed} are needed{limit}");
        return Err(wrong(&words));
    }
    let mut descriptors = descriptors.into_iter();
    let mut next = || descriptors.next().ok_or_else(|| wrong("a descriptor is missing"));
    let [mailbox, bell, callables] = [next()?, next()?, next()?];
    let memories = descriptors.by_ref().take(memories).collect();
    let liveness_sockets = descriptors.by_ref().take(liveness_sockets).collect();
    let settings = descriptors.next();
    Ok(Handoff { role, mailbox, bell, callables, memories, liveness_sockets, settings })
}

/// Writes the callables of a program and the bytes for bootstraps, for children to compare and read.
pub(crate) fn write_callables(program: &Program, setting: &[u8]) -> io::Result<Segment> {
    let mut bytes = Vec::new();
    let count = u64::try_from(program.callables().len()).unwrap_or(u64::MAX);
    bytes.extend_from_slice(&count.to_le_bytes());
    bytes.extend_from_slice(&u64::from(program.bootstrap().is_some()).to_le_bytes());
    for callable in program.callables() {
        let name = callable.name().as_bytes();
        bytes.extend_from_slice(&callable.digest().0);
        bytes.extend_from_slice(&(name.len() as u64).to_le_bytes());
        bytes.extend_from_slice(name);
    }
    bytes.extend_from_slice(&(setting.len() as u64).to_le_bytes());
    bytes.extend_from_slice(setting);
    let segment = Segment::create("phalanx-callables", bytes.len())?;
    segment.write(0, &bytes).map_err(io::Error::other)?;
    Ok(segment)
}

/// The message of a parent to its children before they serve: its callables, and the bytes for bootstraps.
pub(crate) struct Announced {
    callables: Vec<(String, [u8; 32])>,
    has_bootstrap: bool,
    pub(crate) setting: Vec<u8>,
}

impl Announced {
    /// Reads what [`write_callables`] wrote.
    pub(crate) fn read(callables: OwnedFd) -> Result<Self, String> {
        let unreadable =
            |error: io::Error| format!("the parent's callables cannot be read: {error}");
        let segment = Segment::adopt_whole(callables).map_err(unreadable)?;
        let mut bytes = vec![0; segment.len()];
        segment.read(0, &mut bytes).map_err(|error| unreadable(io::Error::other(error)))?;
        let mut rest = &bytes[..];
        let cut = || "the parent's list of callables is cut off".to_owned();
        let count = number(&mut rest).ok_or_else(cut)?;
        let has_bootstrap = number(&mut rest).ok_or_else(cut)? != 0;
        let mut callables = Vec::new();
        for _ in 0..count {
            let digest: [u8; 32] =
                *take(&mut rest, 32).and_then(<[u8]>::first_chunk).ok_or_else(cut)?;
            let name = text(&mut rest).ok_or_else(cut)?;
            callables.push((String::from_utf8_lossy(name).into_owned(), digest));
        }
        let setting = text(&mut rest).ok_or_else(cut)?.to_vec();
        Ok(Self { callables, has_bootstrap, setting })
    }

    /// Compares the callables of the parent with those of this program; the error names the first that differs.
    pub(crate) fn compare(&self, program: &Program) -> Result<(), String> {
        let mut ours = program.callables().iter();
        for (at, (name, digest)) in (0..).zip(&self.callables) {
            let Some(here) = ours.next() else {
                return Err(differs(at, &format!("it is `{name}` in the parent and missing here")));
            };
            if here.digest().0 != *digest {
                let here = here.name();
                let what = if here == name {
                    format!("`{name}` is of another version or kind here")
                } else {
                    format!("it is `{name}` in the parent and `{here}` here")
                };
                return Err(differs(at, &what));
            }
        }
        if let Some(more) = ours.next() {
            let what = format!("it is `{}` here and missing in the parent", more.name());
            return Err(differs(self.callables.len() as u64, &what));
        }
        if self.has_bootstrap != program.bootstrap().is_some() {
            return Err(
                "parent and child must be the same build: one of them has a bootstrap for \
                        chips and the other none"
                    .to_owned(),
            );
        }
        Ok(())
    }
}

fn differs(at: u64, what: &str) -> String {
    format!("parent and child must be the same build: callable {at} differs, {what}")
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    take(rest, 8).and_then(<[u8]>::first_chunk).map(|bytes| u64::from_le_bytes(*bytes))
}

/// Takes bytes whose number comes first.
fn text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(number(rest)?).ok()?;
    take(rest, length)
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(count)?;
    *rest = left;
    Some(taken)
}

/// Writes last words to the socket. Text that does not fit at once is cut, and the text says so.
pub(crate) fn say_last_words(socket: BorrowedFd<'_>, words: &str) {
    /// A socket takes this much even if nobody reads.
    const MOST: usize = 128 << 10;
    let text = format!("{}\n", cut(words, MOST));
    // Nobody is left to tell if this fails.
    let _ = rustix::net::send(
        socket.as_fd(),
        text.as_bytes(),
        SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
    );
}

/// Adds what was said on the socket to `words`, without waiting.
pub(crate) fn hear_last_words(socket: BorrowedFd<'_>, words: &mut Vec<u8>) {
    let mut bytes = [0; 4096];
    while let Ok((count @ 1.., _)) =
        rustix::net::recv(socket.as_fd(), &mut bytes[..], RecvFlags::DONTWAIT)
    {
        words.extend_from_slice(&bytes[..count]);
    }
}
