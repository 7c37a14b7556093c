//! Messages of a mailbox as bytes: tasks to the worker, endings to the parent.
//!
//! Little-endian, without padding that is not zero; every decoder refuses what it does not know.
//!
//! - **MSG-1 (round trip).** What was encoded is decoded as it was.
//! - **MSG-2 (strict).** Bytes that no encoder makes are refused with the place and what was expected; nothing panics.

mod argument;
mod membership;
mod sent;
mod step;

pub(crate) use argument::{ArgumentDescriptor, ArgumentDescriptors, DenseVectors, Encode};
pub(crate) use argument::{DescriptorHead, Reach, encode_argument};
pub(crate) use membership::{MAX_DOMAINS, Membership};
pub(crate) use sent::Sent;
pub use step::Step;

use argument::{check_argument, push};
use bytemuck::Pod;
use membership::{decode_membership, encode_membership};
use std::fmt;

/// The most arguments of a task.
pub(crate) const MAX_ARGUMENTS: usize = 256;
/// The most scalars of a task.
pub(crate) const MAX_SCALARS: usize = 128;

/// The fixed part of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Order {
    /// The callable's place in the program.
    pub callable: u32,
    /// The first bytes of its digest.
    pub digest: u32,
    /// The number of the run.
    pub run: u64,
    /// Member of a group.
    pub member: u16,
    /// Number of members; 1 for a single task.
    pub members: u16,
}

/// Appends a task to `bytes`.
#[inline]
pub(crate) fn encode_task(
    bytes: &mut Vec<u8>,
    order: &Order,
    arguments: impl ExactSizeIterator<Item = impl Encode>,
    scalars: &[u64],
    memberships: &[Membership],
    blob: &[u8],
) {
    let [argument_count, scalar_count, membership_count] =
        [arguments.len(), scalars.len(), memberships.len()];
    let counts = u64::from(count(argument_count))
        | u64::from(count(scalar_count).min(0xff)) << 16
        | u64::from(count(membership_count).min(0xff)) << 24;
    let members = u64::from(order.member) | u64::from(order.members) << 16;
    let callable = u64::from(order.callable) | u64::from(order.digest) << 32;
    push(bytes, [order.run, callable, members | counts << 32]);
    for argument in arguments {
        argument.encode(bytes);
    }
    for scalar in scalars {
        push(bytes, [*scalar]);
    }
    for membership in memberships {
        encode_membership(bytes, membership);
    }
    if !blob.is_empty() {
        bytes.extend_from_slice(blob);
    }
}

/// Returns the low and the high half of a word.
#[inline]
fn halves(word: u64) -> [u32; 2] {
    let bytes = word.to_le_bytes();
    let (halves, _) = bytes.as_chunks::<4>();
    [u32::from_le_bytes(halves[0]), u32::from_le_bytes(halves[1])]
}

/// Returns the low and the high half of half a word.
#[inline]
fn quarters(half: u32) -> [u16; 2] {
    let bytes = half.to_le_bytes();
    let (quarters, _) = bytes.as_chunks::<2>();
    [u16::from_le_bytes(quarters[0]), u16::from_le_bytes(quarters[1])]
}

fn count(length: usize) -> u16 {
    u16::try_from(length).unwrap_or(u16::MAX)
}

/// Bytes that are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadMessage {
    /// Part that was being read.
    pub what: &'static str,
    /// Offset in the message, in bytes.
    pub at: usize,
    /// Value that was found.
    pub found: u64,
}

impl fmt::Display for BadMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {} of a message: {} cannot be {}", self.at, self.what, self.found)
    }
}

impl std::error::Error for BadMessage {}

/// Reads numbers off the front of bytes.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], BadMessage> {
        let missing = BadMessage { what, at: self.at, found: (self.bytes.len() - self.at) as u64 };
        let taken = self.bytes.get(self.at..self.at + N).ok_or(missing)?;
        self.at += N;
        taken.try_into().map_err(|_| missing)
    }

    /// Returns some whole words.
    #[inline]
    fn words<const N: usize>(&mut self, what: &'static str) -> Result<[u64; N], BadMessage> {
        let (words, _) = self.bytes[self.at..].as_chunks::<8>();
        let Some(taken) = words.first_chunk::<N>() else {
            return Err(self.missing(what));
        };
        self.at += 8 * N;
        Ok(taken.map(u64::from_le_bytes))
    }

    /// Returns a record of plain bytes.
    #[inline]
    fn record<T: Pod>(&mut self, what: &'static str) -> Result<T, BadMessage> {
        let Some(taken) = self.bytes[self.at..].get(..size_of::<T>()) else {
            return Err(self.missing(what));
        };
        self.at += size_of::<T>();
        Ok(bytemuck::pod_read_unaligned(taken))
    }

    #[cold]
    fn missing(&self, what: &'static str) -> BadMessage {
        BadMessage { what, at: self.at, found: (self.bytes.len() - self.at) as u64 }
    }

    /// Returns some bytes as they are.
    fn bytes(&mut self, count: usize, what: &'static str) -> Result<&'a [u8], BadMessage> {
        let missing = BadMessage { what, at: self.at, found: (self.bytes.len() - self.at) as u64 };
        let taken = self.bytes[self.at..].get(..count).ok_or(missing)?;
        self.at += count;
        Ok(taken)
    }

    fn byte(&mut self, what: &'static str) -> Result<u8, BadMessage> {
        self.take::<1>(what).map(|[byte]| byte)
    }

    fn long(&mut self, what: &'static str) -> Result<u64, BadMessage> {
        self.take(what).map(u64::from_le_bytes)
    }

    fn rest(self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    #[cold]
    fn refuse(&self, what: &'static str, found: u64) -> BadMessage {
        BadMessage { what, at: self.at, found }
    }
}

/// A task that was read.
#[derive(Debug)]
pub struct Received<'a> {
    /// Its fixed part.
    pub(crate) order: Order,
    /// Its arguments.
    pub(crate) arguments: ArgumentDescriptors<'a>,
    /// Its numbers.
    pub(crate) scalars: Scalars<'a>,
    /// Its places in domains.
    pub(crate) memberships: &'a [Membership],
    /// Whatever bytes it was given.
    pub(crate) blob: &'a [u8],
}

impl Received<'_> {
    /// True if peers can reach an argument: it lies in a window of a domain that the task has.
    #[inline]
    pub(crate) fn is_shared(&self, argument: &ArgumentDescriptor) -> bool {
        let ArgumentDescriptor { memory, offset, layout, .. } = argument;
        self.memberships
            .iter()
            .any(|membership| membership.roster.touches(*memory, *offset, layout.extent))
    }

    /// Returns the message it was read from, made again.
    pub fn encode(&self) -> Vec<u8> {
        let Self { order, arguments, scalars, memberships, blob } = self;
        let scalars: Vec<u64> = (0..).map_while(|at| scalars.get(at)).collect();
        let mut bytes = Vec::new();
        encode_task(&mut bytes, order, arguments.iter(), &scalars, memberships, blob);
        bytes
    }
}

/// The numbers of a task that was read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scalars<'a>(&'a [[u8; 8]]);

impl Scalars<'_> {
    /// Returns the number of them.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns one of them.
    pub(crate) fn get(&self, index: usize) -> Option<u64> {
        self.0.get(index).copied().map(u64::from_le_bytes)
    }
}

/// Buffers of a decoder, to be used again.
#[derive(Debug, Default)]
pub struct DecodeBuffers {
    starts: Vec<u32>,
    memberships: Vec<Membership>,
}

/// Reads a task.
#[inline]
pub fn decode_task<'a>(
    bytes: &'a [u8],
    buffers: &'a mut DecodeBuffers,
) -> Result<Received<'a>, BadMessage> {
    let DecodeBuffers { starts, memberships } = buffers;
    memberships.clear();
    let mut reader = Reader { bytes, at: 0 };
    let [run, callable, rest] = reader.words("the head of a task")?;
    let [callable, digest] = halves(callable);
    let [members, counts] = halves(rest);
    let [member, members] = quarters(members);
    let [arguments, others] = quarters(counts);
    let [numbers, domains] = others.to_le_bytes();
    let order = Order { callable, digest, run, member, members };
    if order.member >= order.members {
        return Err(reader.refuse("member", u64::from(order.member)));
    }
    if usize::from(arguments) > MAX_ARGUMENTS || usize::from(numbers) > MAX_SCALARS {
        let found = u64::from(arguments.max(numbers.into()));
        return Err(reader.refuse("count of arguments or scalars", found));
    }
    if usize::from(domains) > MAX_DOMAINS {
        return Err(reader.refuse("count of domains", domains.into()));
    }
    let arguments = read_arguments(&mut reader, starts, arguments.into())?;
    let (scalars, _) = reader.bytes(8 * usize::from(numbers), "scalars")?.as_chunks();
    for _ in 0..domains {
        memberships.push(decode_membership(&mut reader)?);
    }
    Ok(Received { order, arguments, scalars: Scalars(scalars), memberships, blob: reader.rest() })
}

#[inline]
fn read_arguments<'a>(
    reader: &mut Reader<'a>,
    starts: &'a mut Vec<u32>,
    count: usize,
) -> Result<ArgumentDescriptors<'a>, BadMessage> {
    if let Some(vectors) = DenseVectors::read(&reader.bytes[reader.at..], count) {
        reader.at += vectors.bytes();
        return Ok(ArgumentDescriptors::DenseVectors(vectors));
    }
    starts.clear();
    for _ in 0..count {
        // The arguments of a task are no more than 256, and each has less than a kilobyte.
        starts.push(u32::try_from(reader.at).unwrap_or(u32::MAX));
        check_argument(reader)?;
    }
    Ok(ArgumentDescriptors::Others { bytes: reader.bytes, starts })
}

/// Result of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Verdict {
    /// Well.
    Done = 0,
    /// Badly.
    Failed = 1,
    /// It was recalled before it began.
    Skipped = 2,
}

/// The fixed part of an ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// The number the task was sent with.
    pub dispatch: u64,
    /// Result of the task.
    pub verdict: Verdict,
    /// Its beginning, in nanoseconds of the clock that all processes of a host share.
    pub begun: u64,
    /// Length of the task in nanoseconds.
    pub nanoseconds: u64,
    /// Simulated length of the task in picoseconds; 0 if nothing was simulated.
    pub picoseconds: u64,
}

impl Ended {
    /// Returns the ending of a task that was recalled before it began.
    pub(crate) fn skipped(dispatch: u64) -> Self {
        Self { dispatch, verdict: Verdict::Skipped, begun: 0, nanoseconds: 0, picoseconds: 0 }
    }

    /// Encodes it; the words of a failure follow the bytes.
    pub(crate) fn encode(&self) -> [u8; 33] {
        let mut bytes = [0; 33];
        bytes[0] = self.verdict as u8;
        bytes[1..9].copy_from_slice(&self.dispatch.to_le_bytes());
        bytes[9..17].copy_from_slice(&self.nanoseconds.to_le_bytes());
        bytes[17..25].copy_from_slice(&self.picoseconds.to_le_bytes());
        bytes[25..33].copy_from_slice(&self.begun.to_le_bytes());
        bytes
    }

    /// Reads what [`Ended::encode`] wrote; returns it and the bytes behind it.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), BadMessage> {
        let mut reader = Reader { bytes, at: 0 };
        let verdict = match reader.byte("verdict")? {
            0 => Verdict::Done,
            1 => Verdict::Failed,
            2 => Verdict::Skipped,
            other => return Err(reader.refuse("verdict", u64::from(other))),
        };
        let dispatch = reader.long("dispatch")?;
        let nanoseconds = reader.long("nanoseconds")?;
        let picoseconds = reader.long("picoseconds")?;
        let begun = reader.long("begun")?;
        let ended = Self { dispatch, verdict, begun, nanoseconds, picoseconds };
        Ok((ended, reader.rest()))
    }
}

#[cfg(test)]
mod tests;
