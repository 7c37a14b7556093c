//! What is said in a mailbox: tasks on the way down, endings on the way up, as bytes.
//!
//! Little-endian, without padding that is not zero; every decoder refuses what it does not know.
//!
//! - **MSG-1 (round trip).** What was encoded is decoded as it was.
//! - **MSG-2 (strict).** Bytes that no encoder makes are refused with the place and what was expected; nothing panics.

mod seat;
mod step;

pub use seat::{MAX_DOMAINS, Seat};
pub use step::Step;

use crate::tensor::{Access, DType, Layout, MAX_RANK};
use bytemuck::{Pod, Zeroable};
use seat::{decode_seat, encode_seat};
use std::fmt;

/// The most arguments of a task.
pub const MAX_ARGUMENTS: usize = 256;
/// The most scalars of a task.
pub const MAX_SCALARS: usize = 128;

/// One argument as a worker finds it: a tensor in memory that both share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which of the memories both share.
    pub memory: u8,
    /// What the task may do.
    pub access: Access,
    /// The number of its buffer and how often that was used.
    pub buffer: (u64, u32),
    /// The first byte, counted in the memory.
    pub offset: u64,
    /// What lies there.
    pub layout: Layout,
}

/// The fixed part of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// The callable's place in the program.
    pub callable: u32,
    /// The first bytes of its digest.
    pub digest: u32,
    /// The number of the run.
    pub run: u64,
    /// Which member of a group.
    pub member: u16,
    /// How many members; 1 for a single task.
    pub members: u16,
}

/// How a task begins, in memory as it is sent.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Head {
    run: [u8; 8],
    callable: [u8; 4],
    digest: [u8; 4],
    member: [u8; 2],
    members: [u8; 2],
    arguments: [u8; 2],
    scalars: u8,
    domains: u8,
}

/// How an argument begins; its shape follows unless it is one dense axis, its strides unless it is dense.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct PlaceHead {
    memory: u8,
    /// The lowest bits say what may be done, the highest that it is dense.
    access: u8,
    dtype: u8,
    rank: u8,
    generation: [u8; 4],
    number: [u8; 8],
    offset: [u8; 8],
    extent: [u8; 8],
}

const DENSE: u8 = 0x80;

/// Appends a task to `bytes`.
#[inline]
pub fn encode_task(
    bytes: &mut Vec<u8>,
    order: &Order,
    places: impl ExactSizeIterator<Item = Place>,
    scalars: &[u64],
    seats: &[Seat],
    blob: &[u8],
) {
    let head = Head {
        run: order.run.to_le_bytes(),
        callable: order.callable.to_le_bytes(),
        digest: order.digest.to_le_bytes(),
        member: order.member.to_le_bytes(),
        members: order.members.to_le_bytes(),
        arguments: count(places.len()).to_le_bytes(),
        scalars: u8::try_from(scalars.len()).unwrap_or(u8::MAX),
        domains: u8::try_from(seats.len()).unwrap_or(u8::MAX),
    };
    bytes.extend_from_slice(bytemuck::bytes_of(&head));
    for place in places {
        encode_place(bytes, &place);
    }
    for scalar in scalars {
        bytes.extend_from_slice(&scalar.to_le_bytes());
    }
    for seat in seats {
        encode_seat(bytes, seat);
    }
    bytes.extend_from_slice(blob);
}

fn count(length: usize) -> u16 {
    u16::try_from(length).unwrap_or(u16::MAX)
}

#[inline]
fn encode_place(bytes: &mut Vec<u8>, place: &Place) {
    let layout = &place.layout;
    let is_dense = layout.is_dense();
    let head = PlaceHead {
        memory: place.memory,
        access: place.access as u8 | if is_dense { DENSE } else { 0 },
        dtype: layout.dtype as u8,
        rank: layout.rank,
        generation: place.buffer.1.to_le_bytes(),
        number: place.buffer.0.to_le_bytes(),
        offset: place.offset.to_le_bytes(),
        extent: layout.extent.to_le_bytes(),
    };
    bytes.extend_from_slice(bytemuck::bytes_of(&head));
    if is_dense && layout.rank == 1 {
        return;
    }
    for axis in layout.shape() {
        bytes.extend_from_slice(&axis.to_le_bytes());
    }
    if !is_dense {
        for stride in layout.strides() {
            bytes.extend_from_slice(&stride.to_le_bytes());
        }
    }
}

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadMessage {
    /// What was being read.
    pub what: &'static str,
    /// Where, in bytes from the message's beginning.
    pub at: usize,
    /// What was found.
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

    /// A record of plain bytes.
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

    /// Some bytes as they are.
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
#[derive(Debug, PartialEq, Eq)]
pub struct Received<'a> {
    /// Its fixed part.
    pub order: Order,
    /// Whatever bytes it was given.
    pub blob: &'a [u8],
}

/// Reads a task; its arguments, scalars and seats go to the end of `places`, `scalars` and `seats`.
pub fn decode_task<'a>(
    bytes: &'a [u8],
    places: &mut Vec<Place>,
    scalars: &mut Vec<u64>,
    seats: &mut Vec<Seat>,
) -> Result<Received<'a>, BadMessage> {
    let mut reader = Reader { bytes, at: 0 };
    let head: Head = reader.record("the head of a task")?;
    let order = Order {
        callable: u32::from_le_bytes(head.callable),
        digest: u32::from_le_bytes(head.digest),
        run: u64::from_le_bytes(head.run),
        member: u16::from_le_bytes(head.member),
        members: u16::from_le_bytes(head.members),
    };
    if order.member >= order.members {
        return Err(reader.refuse("member", u64::from(order.member)));
    }
    let arguments = u16::from_le_bytes(head.arguments);
    if usize::from(arguments) > MAX_ARGUMENTS || usize::from(head.scalars) > MAX_SCALARS {
        let found = u64::from(arguments.max(head.scalars.into()));
        return Err(reader.refuse("count of arguments or scalars", found));
    }
    if usize::from(head.domains) > MAX_DOMAINS {
        return Err(reader.refuse("count of domains", head.domains.into()));
    }
    for _ in 0..arguments {
        places.push(decode_place(&mut reader)?);
    }
    for _ in 0..head.scalars {
        scalars.push(reader.long("scalar")?);
    }
    for _ in 0..head.domains {
        seats.push(decode_seat(&mut reader)?);
    }
    Ok(Received { order, blob: reader.rest() })
}

#[inline(always)]
#[expect(
    clippy::inline_always,
    reason = "it is most of what a worker does with a task that does nothing"
)]
fn decode_place(reader: &mut Reader<'_>) -> Result<Place, BadMessage> {
    let head: PlaceHead = reader.record("the head of an argument")?;
    let is_dense = head.access & DENSE != 0;
    let access = Access::from_byte(head.access & !DENSE)
        .ok_or_else(|| reader.refuse("access", u64::from(head.access)))?;
    let dtype = DType::from_byte(head.dtype)
        .ok_or_else(|| reader.refuse("dtype", u64::from(head.dtype)))?;
    let rank = usize::from(head.rank);
    if rank > MAX_RANK {
        return Err(reader.refuse("rank", rank as u64));
    }
    let extent = u64::from_le_bytes(head.extent);
    let layout = if is_dense && rank == 1 {
        let layout = Layout::row(dtype, extent / dtype.bytes());
        layout.ok_or_else(|| reader.refuse("extent", extent))?
    } else {
        decode_layout(reader, dtype, rank, is_dense)?
    };
    if layout.extent != extent {
        return Err(reader.refuse("extent", extent));
    }
    Ok(Place {
        memory: head.memory,
        access,
        buffer: (u64::from_le_bytes(head.number), u32::from_le_bytes(head.generation)),
        offset: u64::from_le_bytes(head.offset),
        layout,
    })
}

fn decode_layout(
    reader: &mut Reader<'_>,
    dtype: DType,
    rank: usize,
    is_dense: bool,
) -> Result<Layout, BadMessage> {
    let mut shape = [0; MAX_RANK];
    for axis in &mut shape[..rank] {
        *axis = reader.long("shape")?;
    }
    let shape = &shape[..rank];
    let dense = Layout::dense(dtype, shape);
    if is_dense {
        return dense.map_err(|_| reader.refuse("shape", shape.first().copied().unwrap_or(0)));
    }
    let mut strides = [0; MAX_RANK];
    for stride in &mut strides[..rank] {
        *stride = reader.long("stride")?;
    }
    let found = strides[0];
    let layout = Layout::strided(dtype, shape, &strides[..rank]);
    let layout = layout.map_err(|_| reader.refuse("strides", found))?;
    if layout.is_dense() {
        return Err(reader.refuse("strides of a dense tensor", found));
    }
    Ok(layout)
}

/// How a task ended, as its worker says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Verdict {
    /// Well.
    Done = 0,
    /// Badly.
    Failed = 1,
    /// It was recalled before it began.
    Skipped = 2,
}

/// The fixed part of an ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The number the task was sent with.
    pub dispatch: u64,
    /// How it ended.
    pub verdict: Verdict,
    /// When it began, in nanoseconds of the clock that all processes of a host share.
    pub begun: u64,
    /// How long it ran.
    pub nanoseconds: u64,
    /// How long it would have run on the machine that is simulated; 0 if nothing was.
    pub picoseconds: u64,
}

impl Ended {
    /// The ending of a task that was recalled before it began.
    pub fn skipped(dispatch: u64) -> Self {
        Self { dispatch, verdict: Verdict::Skipped, begun: 0, nanoseconds: 0, picoseconds: 0 }
    }

    /// As bytes; the words of a failure follow them.
    pub fn encode(&self) -> [u8; 33] {
        let mut bytes = [0; 33];
        bytes[0] = self.verdict as u8;
        bytes[1..9].copy_from_slice(&self.dispatch.to_le_bytes());
        bytes[9..17].copy_from_slice(&self.nanoseconds.to_le_bytes());
        bytes[17..25].copy_from_slice(&self.picoseconds.to_le_bytes());
        bytes[25..33].copy_from_slice(&self.begun.to_le_bytes());
        bytes
    }

    /// What [`Ended::encode`] made, and what follows it.
    pub fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), BadMessage> {
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
