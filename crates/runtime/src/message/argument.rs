//! Arguments as bytes: a head, then the shape unless it is one dense axis, then the strides unless it is dense.

use super::{BadMessage, Reader, halves};
use crate::tensor::{Access, DType, Layout, MAX_RANK};

/// One argument as a worker finds it: a tensor in memory that both share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArgumentDescriptor {
    /// Index of the memory.
    pub memory: u8,
    /// Access of the task.
    pub access: Access,
    /// The number and the generation of its buffer.
    pub buffer: (u64, u32),
    /// The first byte, counted in the memory.
    pub offset: u64,
    /// Its layout.
    pub layout: Layout,
}

/// An argument that can be written into a message.
pub(crate) trait Encode {
    /// Appends it to `bytes`.
    fn encode(&self, bytes: &mut Vec<u8>);
}

impl Encode for ArgumentDescriptor {
    fn encode(&self, bytes: &mut Vec<u8>) {
        encode_argument(bytes, &self.head(), &self.layout);
    }
}

impl ArgumentDescriptor {
    /// True if a task can see it in place, unless peers can reach it: it has an order and no gaps.
    pub(crate) fn is_in_place(&self) -> bool {
        self.access != Access::Unordered && self.layout.is_dense()
    }

    /// Returns its head.
    pub(crate) fn head(&self) -> DescriptorHead {
        let Self { memory, access, buffer, offset, layout } = self;
        let access = *access as u8 | if layout.is_dense() { DENSE } else { 0 };
        let first = [*memory, access, layout.dtype as u8, layout.rank];
        let first = u64::from(u32::from_le_bytes(first)) | u64::from(buffer.1) << 32;
        DescriptorHead([first, buffer.0, *offset, layout.extent])
    }
}

/// Head of an argument, in whole words: parts that were written apart are slow to read as one.
///
/// The first has, from the lowest byte on: the memory, the access, the dtype, the rank, the generation of the buffer. The
/// others are the buffer's number, the offset and the extent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DescriptorHead([u64; 4]);

/// The highest bit of the access says that it is dense; the lowest say what may be done.
const DENSE: u8 = 0x80;

impl DescriptorHead {
    /// Returns the same head with another access.
    #[inline]
    pub(crate) fn with(&self, access: Access) -> Self {
        let Self([first, number, offset, extent]) = *self;
        Self([first & !0x7f00 | (access as u64) << 8, number, offset, extent])
    }

    #[inline]
    fn of(bytes: &[u8; HEAD]) -> Self {
        Self(bytemuck::cast::<_, [u64; 4]>(*bytes).map(u64::from_le))
    }

    /// True if it is a dense row, and everything about it is right.
    #[inline]
    fn is_valid_vector(&self) -> bool {
        let dtype = DType::from_byte(self.byte(2));
        // Sizes of elements are powers of two.
        let is_whole = dtype.is_some_and(|dtype| self.last() & (dtype.bytes() - 1) == 0);
        self.is_vector() && is_whole && Access::from_byte(self.access() & !DENSE).is_some()
    }

    /// Returns its last word.
    #[inline]
    pub(crate) fn last(&self) -> u64 {
        self.0[3]
    }

    #[inline]
    fn byte(&self, at: usize) -> u8 {
        self.0[0].to_le_bytes()[at]
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

    /// True if nothing follows the head.
    #[inline]
    fn is_vector(&self) -> bool {
        self.is_dense() && self.rank() == 1
    }

    /// Returns its memory, its first byte and its length.
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
pub(crate) fn encode_argument(bytes: &mut Vec<u8>, head: &DescriptorHead, layout: &Layout) {
    push(bytes, head.0);
    if !head.is_vector() {
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

/// Range of an argument's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    pub(crate) memory: u8,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// The arguments of a task that was read: all are known to be right, and each is taken apart when it is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ArgumentDescriptors<'a> {
    /// Dense vectors, which are nothing but their heads.
    DenseVectors(DenseVectors<'a>),
    /// Any others.
    Others {
        /// The message.
        bytes: &'a [u8],
        /// Offset of each argument.
        starts: &'a [u32],
    },
}

/// Arguments that are dense vectors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DenseVectors<'a>(&'a [VectorBytes]);

/// A dense row in a message.
type VectorBytes = [u8; HEAD];

/// Bytes of a head.
const HEAD: usize = size_of::<DescriptorHead>();

impl<'a> DenseVectors<'a> {
    /// Returns the first `count` arguments in `bytes`, if all are vectors and right.
    #[inline]
    pub(super) fn read(bytes: &'a [u8], count: usize) -> Option<Self> {
        let heads = bytes.as_chunks::<HEAD>().0.get(..count)?;
        heads.iter().all(|head| DescriptorHead::of(head).is_valid_vector()).then_some(Self(heads))
    }

    /// Returns the bytes that they take.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        HEAD * self.0.len()
    }
}

impl ArgumentDescriptors<'_> {
    /// Returns the number of them.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::DenseVectors(vectors) => vectors.0.len(),
            Self::Others { starts, .. } => starts.len(),
        }
    }

    /// Returns one of them.
    pub(crate) fn get(&self, index: usize) -> Option<ArgumentDescriptor> {
        let mut reader = match self {
            Self::DenseVectors(vectors) => Reader { bytes: vectors.0.get(index)?, at: 0 },
            Self::Others { bytes, starts } => Reader { bytes, at: *starts.get(index)? as usize },
        };
        decode_argument(&mut reader).ok()
    }

    /// Returns all of them.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = ArgumentDescriptor> {
        (0..self.len()).map(|index| self.get(index).expect("MSG-2: it was read before"))
    }

    /// Looks at where the bytes of each are, until one is not where it should be.
    #[inline]
    pub(crate) fn try_reaches<E>(
        &self,
        mut look: impl FnMut(usize, Reach) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Self::DenseVectors(vectors) => (0..)
                .zip(vectors.0)
                .try_for_each(|(index, head)| look(index, DescriptorHead::of(head).reach())),
            Self::Others { .. } => (0..).zip(self.iter()).try_for_each(|(index, argument)| {
                let ArgumentDescriptor { memory, offset, layout, .. } = argument;
                look(index, Reach { memory, offset, bytes: layout.extent })
            }),
        }
    }
}

/// Reads over an argument that is right.
#[inline(never)]
pub(super) fn check_argument(reader: &mut Reader<'_>) -> Result<(), BadMessage> {
    decode_argument(reader).map(drop)
}

#[inline]
fn known(reader: &Reader<'_>, head: &DescriptorHead) -> Result<(Access, DType), BadMessage> {
    let access = Access::from_byte(head.access() & !DENSE)
        .ok_or_else(|| reader.refuse("access", u64::from(head.access())))?;
    let dtype = DType::from_byte(head.byte(2))
        .ok_or_else(|| reader.refuse("dtype", u64::from(head.byte(2))))?;
    Ok((access, dtype))
}

fn decode_argument(reader: &mut Reader<'_>) -> Result<ArgumentDescriptor, BadMessage> {
    let head = DescriptorHead(reader.words("the head of an argument")?);
    let (access, dtype) = known(reader, &head)?;
    decode_rest(reader, &head, access, dtype)
}

fn decode_rest(
    reader: &mut Reader<'_>,
    head: &DescriptorHead,
    access: Access,
    dtype: DType,
) -> Result<ArgumentDescriptor, BadMessage> {
    let Reach { memory, offset, bytes: extent } = head.reach();
    let layout = if head.is_vector() {
        let layout = Layout::vector(dtype, extent / dtype.bytes());
        layout.ok_or_else(|| reader.refuse("extent", extent))?
    } else {
        decode_layout(reader, dtype, head.rank(), head.is_dense())?
    };
    if layout.extent != extent {
        return Err(reader.refuse("extent", extent));
    }
    let [first, number, ..] = head.0;
    let [_, generation] = halves(first);
    let buffer = (number, generation);
    Ok(ArgumentDescriptor { memory, access, buffer, offset, layout })
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
