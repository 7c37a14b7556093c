//! Messages of a mailbox as bytes: tasks to the worker, endings to the parent.
//!
//! Little-endian, without padding that is not zero; every decoder refuses what it does not know.
//!
//! - **MSG-1 (round trip).** Decoding gives back every encoded message.
//! - **MSG-2 (strict).** Bytes that no encoder makes are refused with their position and the expectation; nothing
//!   panics.

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

/// Numbers of the parts of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    arguments: u16,
    scalars: u16,
    memberships: u16,
}

// The head of a task is the number of its run and a word with the digest of the callable in its upper half. The lower half
// has, if the lowest bit is 0, the callable (16 bits), the number of arguments (8 bits) and that of scalars (7 bits); else
// the callable only, and one more word follows: member, members, arguments (16 bits each), scalars and domains (8 bits each).

/// True if the head of a task is two words: no group, no domain, and small numbers.
#[inline]
fn is_short(order: &Order, counts: Counts) -> bool {
    let is_single = order.members == 1 && order.member == 0 && counts.memberships == 0;
    is_single && order.callable < 1 << 16 && counts.arguments < 1 << 8 && counts.scalars < 1 << 7
}

#[inline]
fn first_word(order: &Order, counts: Counts) -> u64 {
    let callable = u64::from(order.callable);
    let low = if is_short(order, counts) {
        callable << 16 | u64::from(counts.arguments) << 8 | u64::from(counts.scalars) << 1
    } else {
        (callable << 1 | 1) & u64::from(u32::MAX)
    };
    u64::from(order.digest) << 32 | low
}

fn second_word(order: &Order, counts: Counts) -> u64 {
    let few = |number: u16| u64::from(number.min(0xff));
    u64::from(order.member)
        | u64::from(order.members) << 16
        | u64::from(counts.arguments) << 32
        | few(counts.scalars) << 48
        | few(counts.memberships) << 56
}

/// Returns the callable that the first word of a head names.
#[inline]
fn callable_of(first: u64) -> u32 {
    let [low, _] = halves(first);
    if low & 1 == 0 { low >> 16 } else { low >> 1 }
}

/// Reads the head of a task.
#[inline]
fn read_head(reader: &mut Reader<'_>) -> Result<(Order, Counts), BadMessage> {
    let [run, first] = reader.words("the head of a task")?;
    let [low, digest] = halves(first);
    let callable = callable_of(first);
    if low & 1 == 0 {
        let [rest, _] = quarters(low);
        let [scalars, arguments] = rest.to_le_bytes();
        let order = Order { callable, digest, run, member: 0, members: 1 };
        let (arguments, scalars) = (arguments.into(), (scalars >> 1).into());
        return Ok((order, Counts { arguments, scalars, memberships: 0 }));
    }
    read_long_head(reader, Order { callable, digest, run, member: 0, members: 1 })
}

/// Reads the rest of a head of three words.
#[inline(never)]
fn read_long_head(reader: &mut Reader<'_>, order: Order) -> Result<(Order, Counts), BadMessage> {
    let [second] = reader.words("the head of a group or of a task with many parts")?;
    let [members, counts] = halves(second);
    let [member, members] = quarters(members);
    let [arguments, others] = quarters(counts);
    let [scalars, memberships] = others.to_le_bytes().map(u16::from);
    let (order, counts) =
        (Order { member, members, ..order }, Counts { arguments, scalars, memberships });
    if order.member >= order.members {
        return Err(reader.refuse("member", u64::from(order.member)));
    }
    if is_short(&order, counts) {
        return Err(reader.refuse("a long head of a short task", second));
    }
    Ok((order, counts))
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
    let counts = Counts {
        arguments: count(arguments.len()),
        scalars: count(scalars.len()),
        memberships: count(memberships.len()),
    };
    push(bytes, [order.run, first_word(order, counts)]);
    if !is_short(order, counts) {
        push(bytes, [second_word(order, counts)]);
    }
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
    /// Its domains.
    pub(crate) memberships: &'a [Membership],
    /// The bytes of [`Call::bytes`](crate::Call::bytes).
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
    let mut reader = Reader { bytes, at: 0 };
    let (order, Counts { arguments, scalars, memberships: domains }) = read_head(&mut reader)?;
    if usize::from(arguments) > MAX_ARGUMENTS || usize::from(scalars) > MAX_SCALARS {
        let found = u64::from(arguments.max(scalars));
        return Err(reader.refuse("count of arguments or scalars", found));
    }
    if usize::from(domains) > MAX_DOMAINS {
        return Err(reader.refuse("count of domains", domains.into()));
    }
    let arguments = read_arguments(&mut reader, starts, arguments.into())?;
    let (scalars, _) = reader.bytes(8 * usize::from(scalars), "scalars")?.as_chunks();
    let memberships = if domains == 0 {
        // The usual task: a list that was just cleared is slow to read.
        &[]
    } else {
        memberships.clear();
        for _ in 0..domains {
            memberships.push(decode_membership(&mut reader)?);
        }
        &memberships[..]
    };
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
    ///
    /// Whole numbers of eight bytes: the dispatch with the verdict in its two highest bits, both lengths, the beginning.
    #[inline]
    pub(crate) fn encode(&self) -> [u64; 4] {
        let first = self.dispatch | (self.verdict as u64) << VERDICT;
        [first, self.nanoseconds, self.picoseconds, self.begun].map(u64::to_le)
    }

    /// Reads what [`Ended::encode`] wrote; returns it and the bytes behind it.
    #[inline]
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), BadMessage> {
        let mut reader = Reader { bytes, at: 0 };
        let [first, nanoseconds, picoseconds, begun] = reader.words("an ending")?;
        let verdict = match first >> VERDICT {
            0 => Verdict::Done,
            1 => Verdict::Failed,
            2 => Verdict::Skipped,
            other => return Err(reader.refuse("verdict", other)),
        };
        let dispatch = first & ((1 << VERDICT) - 1);
        let ended = Self { dispatch, verdict, begun, nanoseconds, picoseconds };
        Ok((ended, reader.rest()))
    }
}

/// Number of bits of a dispatch in an ending.
const VERDICT: u32 = 62;

#[cfg(test)]
mod tests;
