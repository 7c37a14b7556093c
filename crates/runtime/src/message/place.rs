//! Arguments as bytes: a head, then the shape unless it is one dense axis, then the strides unless it is dense.

use super::{BadMessage, Reader};
use crate::tensor::{Access, DType, Layout, MAX_RANK};

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

/// What can stand in a message as an argument.
pub trait Encode {
    /// Appends it to `bytes`.
    fn encode(&self, bytes: &mut Vec<u8>);
}

impl Encode for Place {
    fn encode(&self, bytes: &mut Vec<u8>) {
        encode_place(bytes, &self.head(), &self.layout);
    }
}

impl Place {
    /// How it begins as bytes.
    pub(crate) fn head(&self) -> PlaceHead {
        let Self { memory, access, buffer, offset, layout } = self;
        let access = *access as u8 | if layout.is_dense() { DENSE } else { 0 };
        let first = [*memory, access, layout.dtype as u8, layout.rank];
        let first = u64::from(u32::from_le_bytes(first)) | u64::from(buffer.1) << 32;
        PlaceHead([first, buffer.0, *offset, layout.extent])
    }
}

/// How an argument begins, in whole words: what is written in parts is slow to be read as one.
///
/// The first has, from the lowest byte on: the memory, the access, the dtype, the rank, the generation of the buffer. The
/// others are the buffer's number, the offset and the extent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlaceHead([u64; 4]);

/// The highest bit of the access says that it is dense; the lowest say what may be done.
const DENSE: u8 = 0x80;

impl PlaceHead {
    /// The same, to be used like this.
    #[inline]
    pub(crate) fn with(&self, access: Access) -> Self {
        let Self([first, number, offset, extent]) = *self;
        Self([first & !0x7f00 | (access as u64) << 8, number, offset, extent])
    }

    #[inline]
    fn byte(&self, at: u32) -> u8 {
        (self.0[0] >> (8 * at)) as u8
    }

    #[inline]
    fn access(&self) -> u8 {
        self.byte(1)
    }

    #[inline]
    fn rank(&self) -> usize {
        usize::from(self.byte(3))
    }

    #[inline]
    fn is_dense(&self) -> bool {
        self.access() & DENSE != 0
    }

    /// Whether nothing follows the head.
    #[inline]
    fn is_row(&self) -> bool {
        self.is_dense() && self.rank() == 1
    }

    /// The memory it is in, where it begins, and how many bytes it spans.
    #[inline]
    fn reach(&self) -> Reach {
        let [_, _, offset, bytes] = self.0;
        Reach { memory: self.byte(0), offset, bytes }
    }
}

/// Appends words.
#[inline]
pub(super) fn push<const N: usize>(bytes: &mut Vec<u8>, words: [u64; N]) {
    bytes.extend_from_slice(bytemuck::cast_slice(&words.map(u64::to_le)));
}

/// Appends an argument that begins with `head`.
#[inline]
pub(crate) fn encode_place(bytes: &mut Vec<u8>, head: &PlaceHead, layout: &Layout) {
    push(bytes, head.0);
    if !head.is_row() {
        encode_layout(bytes, head.is_dense(), layout);
    }
}

#[inline(never)]
fn encode_layout(bytes: &mut Vec<u8>, is_dense: bool, layout: &Layout) {
    let strides: &[u64] = if is_dense { &[] } else { layout.strides() };
    for number in layout.shape().iter().chain(strides) {
        push(bytes, [*number]);
    }
}

/// Where the bytes of an argument are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    pub(crate) memory: u8,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// The arguments of a task that was read: all are known to be right, and each is taken apart when it is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Places<'a> {
    pub(super) bytes: &'a [u8],
    /// Where each begins.
    pub(super) starts: &'a [u32],
}

impl Places<'_> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// One of them.
    pub fn get(&self, index: usize) -> Option<Place> {
        let at = *self.starts.get(index)? as usize;
        decode_place(&mut Reader { bytes: self.bytes, at }).ok()
    }

    /// All of them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Place> {
        (0..self.len()).map(|index| self.get(index).expect("MSG-2: it was read before"))
    }

    /// Where the bytes of each are.
    #[inline]
    pub(crate) fn reaches(&self) -> impl Iterator<Item = Reach> {
        self.starts.iter().map(|at| {
            let mut reader = Reader { bytes: self.bytes, at: *at as usize };
            let head = reader.words("the head of an argument").expect("MSG-2: it was read before");
            PlaceHead(head).reach()
        })
    }
}

/// Reads over an argument that is right.
#[inline]
pub(super) fn check_place(reader: &mut Reader<'_>) -> Result<(), BadMessage> {
    let head = PlaceHead(reader.words("the head of an argument")?);
    let (access, dtype) = known(reader, &head)?;
    if head.is_row() {
        let [.., extent] = head.0;
        // Sizes of elements are powers of two.
        if extent & (dtype.bytes() - 1) != 0 {
            return Err(reader.refuse("extent", extent));
        }
        return Ok(());
    }
    decode_rest(reader, &head, access, dtype).map(drop)
}

#[inline]
fn known(reader: &Reader<'_>, head: &PlaceHead) -> Result<(Access, DType), BadMessage> {
    let access = Access::from_byte(head.access() & !DENSE)
        .ok_or_else(|| reader.refuse("access", u64::from(head.access())))?;
    let dtype = DType::from_byte(head.byte(2))
        .ok_or_else(|| reader.refuse("dtype", u64::from(head.byte(2))))?;
    Ok((access, dtype))
}

fn decode_place(reader: &mut Reader<'_>) -> Result<Place, BadMessage> {
    let head = PlaceHead(reader.words("the head of an argument")?);
    let (access, dtype) = known(reader, &head)?;
    decode_rest(reader, &head, access, dtype)
}

fn decode_rest(
    reader: &mut Reader<'_>,
    head: &PlaceHead,
    access: Access,
    dtype: DType,
) -> Result<Place, BadMessage> {
    let Reach { memory, offset, bytes: extent } = head.reach();
    let layout = if head.is_row() {
        let layout = Layout::row(dtype, extent / dtype.bytes());
        layout.ok_or_else(|| reader.refuse("extent", extent))?
    } else {
        decode_layout(reader, dtype, head.rank(), head.is_dense())?
    };
    if layout.extent != extent {
        return Err(reader.refuse("extent", extent));
    }
    let [first, number, ..] = head.0;
    let buffer = (number, (first >> 32) as u32);
    Ok(Place { memory, access, buffer, offset, layout })
}

fn decode_layout(
    reader: &mut Reader<'_>,
    dtype: DType,
    rank: usize,
    is_dense: bool,
) -> Result<Layout, BadMessage> {
    if rank > MAX_RANK {
        return Err(reader.refuse("rank", rank as u64));
    }
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
