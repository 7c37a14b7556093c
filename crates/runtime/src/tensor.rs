//! Tensors in memory that workers share: a buffer, an offset in it, and the layout of the elements.
//!
//! - **TEN-1 (checked).** A tensor whose last byte is not in its buffer cannot be made; nothing wraps.
//! - **TEN-2 (by identity).** A tensor names a buffer, never an address; a buffer lives while anything names it.

use crate::memory::Home;
use crate::message::{ArgumentDescriptor, DescriptorHead, Encode, encode_argument};
use phalanx_engine::{Arg, BufferId, Tag, View, ViewError};
use std::fmt;
use std::sync::{Arc, Mutex};

/// The most axes of a tensor.
pub(crate) const MAX_RANK: usize = phalanx_engine::MAX_RANK;

/// Type of the elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "their names say it")]
pub enum DType {
    #[default]
    U8 = 0,
    I32 = 1,
    I64 = 2,
    F16 = 3,
    BF16 = 4,
    F32 = 5,
    F64 = 6,
    U32 = 7,
}

impl DType {
    const ALL: [Self; 8] =
        [Self::U8, Self::I32, Self::I64, Self::F16, Self::BF16, Self::F32, Self::F64, Self::U32];

    /// Returns the size of an element in bytes.
    #[inline]
    pub fn bytes(self) -> u64 {
        match self {
            Self::U8 => 1,
            Self::F16 | Self::BF16 => 2,
            Self::I32 | Self::F32 | Self::U32 => 4,
            Self::I64 | Self::F64 => 8,
        }
    }

    #[inline]
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }
}

/// Access of a task to an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Access {
    /// Read it.
    Read = 0,
    /// Write it.
    Write = 1,
    /// Read and write it.
    ReadWrite = 2,
    /// Copy to and from it while others may do the same.
    Unordered = 3,
}

impl Access {
    /// True if a task may be given an argument so, if its owner lets it be used like this.
    pub(crate) fn allows(self, tag: Tag) -> bool {
        match self {
            Self::Read => tag == Tag::Input,
            Self::Write | Self::ReadWrite => true,
            Self::Unordered => tag == Tag::NoDep,
        }
    }

    #[inline]
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        [Self::Read, Self::Write, Self::ReadWrite, Self::Unordered].get(usize::from(byte)).copied()
    }
}

impl From<Tag> for Access {
    fn from(tag: Tag) -> Self {
        match tag {
            Tag::Input => Self::Read,
            Tag::Output => Self::Write,
            Tag::InOut | Tag::OutputExisting => Self::ReadWrite,
            Tag::NoDep => Self::Unordered,
        }
    }
}

/// Layout of a tensor's elements, from its first byte on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Type of the elements.
    pub dtype: DType,
    pub(crate) rank: u8,
    pub(crate) shape: [u64; MAX_RANK],
    /// In elements.
    pub(crate) strides: [u64; MAX_RANK],
    /// From the first byte to behind the last.
    pub(crate) extent: u64,
}

impl Layout {
    /// Creates a row-major layout without gaps.
    pub fn dense(dtype: DType, shape: &[u64]) -> Result<Self, TensorError> {
        if shape.len() > MAX_RANK {
            return Err(TensorError::View(ViewError::Rank(shape.len())));
        }
        let mut layout = Self {
            dtype,
            rank: u8::try_from(shape.len()).unwrap_or(u8::MAX),
            shape: [0; MAX_RANK],
            strides: [0; MAX_RANK],
            extent: 0,
        };
        layout.shape[..shape.len()].copy_from_slice(shape);
        // An axis of nothing counts as one of one, or strides would depend on which side of it an axis lies.
        let overflow = TensorError::View(ViewError::Overflow);
        let mut stride = 1u64;
        for axis in (0..shape.len()).rev() {
            layout.strides[axis] = stride;
            stride = stride.checked_mul(shape[axis].max(1)).ok_or(overflow)?;
        }
        let bytes = stride.checked_mul(dtype.bytes()).ok_or(overflow)?;
        layout.extent = if shape.contains(&0) { 0 } else { bytes };
        Ok(layout)
    }

    /// Creates a layout of one axis without gaps.
    #[inline]
    pub(crate) fn vector(dtype: DType, elements: u64) -> Option<Self> {
        let extent = elements.checked_mul(dtype.bytes())?;
        let (mut shape, mut strides) = ([0; MAX_RANK], [0; MAX_RANK]);
        (shape[0], strides[0]) = (elements, 1);
        Some(Self { dtype, rank: 1, shape, strides, extent })
    }

    /// Creates a layout with a distance of elements along each axis.
    pub fn strided(dtype: DType, shape: &[u64], strides: &[u64]) -> Result<Self, TensorError> {
        let mut layout = Self::dense(dtype, shape)?;
        if strides.len() != shape.len() {
            let error = ViewError::Strides { axes: shape.len(), strides: strides.len() };
            return Err(TensorError::View(error));
        }
        if strides.contains(&0) {
            return Err(TensorError::View(ViewError::Zero));
        }
        layout.strides[..strides.len()].copy_from_slice(strides);
        layout.extent = layout.extent().ok_or(TensorError::View(ViewError::Overflow))?;
        Ok(layout)
    }

    /// Returns the length of each axis.
    pub fn shape(&self) -> &[u64] {
        &self.shape[..usize::from(self.rank)]
    }

    /// Returns the distance of elements along each axis.
    pub fn strides(&self) -> &[u64] {
        &self.strides[..usize::from(self.rank)]
    }

    /// Returns the number of elements.
    pub fn elements(&self) -> u64 {
        self.shape().iter().product()
    }

    /// True if there are no gaps.
    #[inline]
    pub fn is_dense(&self) -> bool {
        if self.rank == 1 {
            return self.strides[0] == 1;
        }
        let mut stride = 1;
        for (count, distance) in self.shape().iter().zip(self.strides()).rev() {
            if *distance != stride {
                return false;
            }
            stride = stride.saturating_mul((*count).max(1));
        }
        true
    }

    pub(crate) fn extent(&self) -> Option<u64> {
        if self.shape().contains(&0) {
            return Some(0);
        }
        let mut last = 0u64;
        for (count, stride) in self.shape().iter().zip(self.strides()) {
            last = last.checked_add((count - 1).checked_mul(*stride)?)?;
        }
        last.checked_add(1)?.checked_mul(self.dtype.bytes())
    }
}

/// Bytes of a worker's memory under a name of their own; the last handle gives them back.
#[derive(Clone)]
pub struct Buffer(pub(crate) Arc<Bytes>);

/// Contents of a [`Buffer`].
pub(crate) struct Bytes {
    pub(crate) id: BufferId,
    /// Nonce of the node that owns it.
    pub(crate) owner: u64,
    pub(crate) number: u64,
    pub(crate) generation: u32,
    pub(crate) memory: u8,
    pub(crate) offset: u64,
    #[expect(clippy::struct_field_names, reason = "how many there are")]
    pub(crate) bytes: u64,
    /// Its offset in the engine's buffer.
    pub(crate) base: u64,
    /// Access that its owner allows.
    pub(crate) access: Access,
    pub(crate) home: Home,
    /// List for buffers that nobody names any more.
    pub(crate) dropped: Option<Arc<Mutex<Vec<Released>>>>,
}

/// A buffer that no handle names any more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Released {
    pub(crate) id: BufferId,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl Drop for Bytes {
    fn drop(&mut self) {
        let released = Released { id: self.id, offset: self.offset, bytes: self.bytes };
        if let Some(Ok(mut dropped)) = self.dropped.as_ref().map(|dropped| dropped.lock()) {
            dropped.push(released);
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Bytes { number, generation, bytes, home, .. } = &*self.0;
        write!(f, "Buffer({number}.{generation}, {bytes} bytes, {home})")
    }
}

impl Buffer {
    /// Returns its size in bytes.
    pub fn len(&self) -> u64 {
        self.0.bytes
    }

    /// True if it has none.
    pub fn is_empty(&self) -> bool {
        self.0.bytes == 0
    }

    /// Returns the owner of its memory.
    pub fn home(&self) -> Home {
        self.0.home
    }

    /// Returns all of it as a tensor of bytes.
    pub fn whole(&self) -> Tensor {
        self.tensor(0, DType::U8, &[self.0.bytes]).expect("TEN-1: one axis, and all of it")
    }

    /// Returns a tensor without gaps from byte `start` on.
    pub fn tensor(&self, start: u64, dtype: DType, shape: &[u64]) -> Result<Tensor, TensorError> {
        Tensor::new(self.clone(), start, Layout::dense(dtype, shape)?)
    }

    /// Returns a tensor whose elements lie `strides` elements apart, from byte `start` on.
    pub fn strided(
        &self,
        start: u64,
        dtype: DType,
        shape: &[u64],
        strides: &[u64],
    ) -> Result<Tensor, TensorError> {
        Tensor::new(self.clone(), start, Layout::strided(dtype, shape, strides)?)
    }
}

/// Elements of one buffer; a copy is another handle on the same ones.
#[derive(Clone)]
pub struct Tensor(Arc<Elements>);

/// Contents of a [`Tensor`]; what a submission needs comes first, beside the count of handles.
#[repr(C)]
struct Elements {
    usage: Usage,
    buffer: Buffer,
    start: u64,
    layout: Layout,
}

/// Parts of a tensor that a submission needs, computed when the tensor is made; the most used come first.
#[repr(C)]
pub(crate) struct Usage {
    /// Head of the argument in a message.
    head: DescriptorHead,
    /// Owner, if any task of the owner may have it for any use; else 0, which no owner has.
    pub(crate) free_for: u64,
    /// The bytes, as the engine knows them.
    pub(crate) view: View,
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Elements { buffer, start, layout, .. } = &*self.0;
        f.debug_struct("Tensor")
            .field("buffer", buffer)
            .field("start", start)
            .field("layout", layout)
            .finish_non_exhaustive()
    }
}

/// An impossible tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TensorError {
    /// Its shape or strides are none.
    #[error(transparent)]
    View(ViewError),
    /// It ends behind its buffer.
    #[error(
        "the tensor ends at byte {end} of a buffer of {bytes}; make it smaller or begin earlier"
    )]
    OutOfBounds {
        /// The byte behind its last.
        end: u64,
        /// The bytes of the buffer.
        bytes: u64,
    },
    /// Its first byte is not at a multiple of an element's size.
    #[error("a tensor of {dtype:?} cannot begin at byte {start}: it must be a multiple of {}", .dtype.bytes())]
    Misaligned {
        /// Its first byte.
        start: u64,
        /// Type of its elements.
        dtype: DType,
    },
}

impl Tensor {
    pub(crate) fn new(buffer: Buffer, start: u64, layout: Layout) -> Result<Self, TensorError> {
        if !start.is_multiple_of(layout.dtype.bytes()) {
            return Err(TensorError::Misaligned { start, dtype: layout.dtype });
        }
        let end = start.checked_add(layout.extent).ok_or(TensorError::View(ViewError::Overflow))?;
        if end > buffer.len() {
            return Err(TensorError::OutOfBounds { end, bytes: buffer.len() });
        }
        let Bytes { memory, number, generation, offset, owner, access, home, .. } = *buffer.0;
        let (identity, offset) = ((number, generation), offset + start);
        let descriptor = ArgumentDescriptor { memory, access, buffer: identity, offset, layout };
        let view = view(&buffer, start, &layout).map_err(TensorError::View)?;
        let is_free = access == Access::ReadWrite && home == Home::Host;
        let free_for = if is_free { owner } else { 0 };
        let usage = Usage { head: descriptor.head(), free_for, view };
        Ok(Self(Arc::new(Elements { usage, buffer, start, layout })))
    }

    /// Returns its offset in its memory.
    pub(crate) fn offset(&self) -> u64 {
        self.0.buffer.0.offset + self.0.start
    }

    /// Returns what a submission needs.
    #[inline]
    pub(crate) fn usage(&self) -> &Usage {
        &self.0.usage
    }

    /// Returns its first byte in its buffer.
    pub fn start(&self) -> u64 {
        self.0.start
    }

    /// Returns the buffer it is a part of.
    pub fn buffer(&self) -> &Buffer {
        &self.0.buffer
    }

    /// Returns the type and the layout of its elements.
    pub fn layout(&self) -> &Layout {
        &self.0.layout
    }

    /// Returns elements `from..to` of the first axis.
    pub fn rows(&self, from: u64, to: u64) -> Result<Self, TensorError> {
        let (shape, strides) = (self.layout().shape(), self.layout().strides());
        let (Some(&count), Some(&stride)) = (shape.first(), strides.first()) else {
            return Err(TensorError::View(ViewError::Rank(0)));
        };
        if from > to || to > count {
            return Err(TensorError::OutOfBounds { end: to, bytes: count });
        }
        let mut rows = shape.to_vec();
        rows[0] = to - from;
        let layout = Layout::strided(self.layout().dtype, &rows, strides)?;
        let skip = from.checked_mul(stride).and_then(|skip| skip.checked_mul(layout.dtype.bytes()));
        let start = skip.and_then(|skip| skip.checked_add(self.0.start));
        Self::new(
            self.buffer().clone(),
            start.ok_or(TensorError::View(ViewError::Overflow))?,
            layout,
        )
    }

    /// Makes an argument that the task reads.
    pub fn input(&self) -> Argument {
        self.tagged(Tag::Input)
    }

    /// Makes an argument that the task writes whole.
    pub fn output(&self) -> Argument {
        self.tagged(Tag::Output)
    }

    /// Makes an argument that the task reads and writes.
    pub fn in_out(&self) -> Argument {
        self.tagged(Tag::InOut)
    }

    /// Makes an argument of which the task writes a part.
    pub fn output_existing(&self) -> Argument {
        self.tagged(Tag::OutputExisting)
    }

    /// Makes an argument without order. The submitter is responsible for conflicts.
    pub fn no_dep(&self) -> Argument {
        self.tagged(Tag::NoDep)
    }

    #[inline]
    fn tagged(&self, tag: Tag) -> Argument {
        // The submission needs the head next: this load starts before the count of handles, which no load can overtake.
        std::hint::black_box(self.0.usage.head.last());
        Argument { tensor: self.clone(), tag }
    }
}

/// Returns the bytes of a tensor, as the engine knows them.
fn view(buffer: &Buffer, start: u64, layout: &Layout) -> Result<View, ViewError> {
    let (id, start) = (buffer.0.id, buffer.0.base + start);
    if layout.is_dense() {
        return View::bytes(id, start, layout.extent);
    }
    View::strided(id, start, layout.shape(), layout.strides(), layout.dtype.bytes())
}

/// A tensor, and its use by a task.
#[derive(Clone, Debug)]
pub struct Argument {
    pub(crate) tensor: Tensor,
    pub(crate) tag: Tag,
}

impl Argument {
    #[inline]
    pub(crate) fn engine(&self) -> Arg {
        Arg { view: self.tensor.usage().view.clone(), tag: self.tag }
    }
}

impl Argument {
    /// Returns the head of the argument in a message.
    #[inline]
    pub(crate) fn head(&self) -> DescriptorHead {
        self.tensor.usage().head.with(self.tag.into())
    }
}

impl Encode for &Argument {
    #[inline]
    fn encode(&self, bytes: &mut Vec<u8>) {
        let layout = &self.tensor.0.layout;
        encode_argument(bytes, &self.head(), layout);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Call, Callable, Error, Failure, Program, Task, Worker};
    use proptest::prelude::*;

    #[expect(clippy::unnecessary_wraps, reason = "a callable may fail")]
    fn nothing(_: &mut Task<'_>) -> Result<(), Failure> {
        Ok(())
    }

    const NOTHING: Callable = Callable::new("nothing", nothing);
    static PROGRAM: Program = Program::new(&[NOTHING]);

    fn worker() -> Worker {
        let worker = Worker::builder(&PROGRAM).threads().sub_workers(1).memory(4096).ring(16, 0);
        worker.init().expect("a worker")
    }

    /// Returns the byte behind the last, in numbers that do not wrap.
    fn end(start: u64, bytes: u64, shape: &[u64], strides: &[u64]) -> u128 {
        if shape.contains(&0) {
            return start.into();
        }
        let axes = shape.iter().zip(strides);
        let last: u128 =
            axes.map(|(count, stride)| u128::from(count - 1) * u128::from(*stride)).sum();
        u128::from(start) + (last + 1) * u128::from(bytes)
    }

    #[test]
    fn ten_1_a_tensor_lies_in_its_buffer_or_is_refused() {
        let worker = worker();
        let buffer = worker.buffer(256).expect("memory");
        let length = prop_oneof![0..20u64, Just(u64::MAX / 8), Just(u64::MAX)];
        let axes = prop::collection::vec((length.clone(), length), 0..4);
        let start = prop_oneof![0..300u64, Just(u64::MAX - 7), Just(u64::MAX)];
        let cases = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
        proptest!(cases, |(start in start, axes in axes, dtype in 0..8u8)| {
            let dtype = DType::from_byte(dtype).expect("one of eight");
            let (shape, strides): (Vec<u64>, Vec<u64>) = axes.into_iter().unzip();
            if let Ok(tensor) = buffer.strided(start, dtype, &shape, &strides) {
                let end = end(start, dtype.bytes(), &shape, &strides);
                prop_assert!(end <= 256, "TEN-1: it ends at {end}");
                prop_assert!(start.is_multiple_of(dtype.bytes()), "TEN-1: aligned");
                prop_assert_eq!(tensor.layout().shape(), &shape[..]);
            }
        });
        assert!(buffer.tensor(192, DType::F64, &[2, 4]).is_ok(), "TEN-1: the last byte is inside");
        let beyond = buffer.tensor(200, DType::F64, &[2, 4]).expect_err("TEN-1");
        assert_eq!(beyond, TensorError::OutOfBounds { end: 264, bytes: 256 });
        let rows = buffer.tensor(0, DType::F64, &[4, 8]).expect("inside");
        assert!(rows.rows(3, 5).is_err() && rows.rows(2, 1).is_err(), "TEN-1");
    }

    #[test]
    fn ten_2_a_tensor_names_a_buffer_that_lives_while_anything_names_it() {
        let (worker, other) = (worker(), worker());
        let first = worker.tensor(DType::U8, &[4096]).expect("memory");
        worker.write(&first, &[7u8; 4096]).expect("idle");
        let part = first.rows(4000, 4096).expect("inside");
        drop(first);
        assert!(worker.buffer(1).is_err(), "TEN-2: a part of it is named");
        assert_eq!(worker.read::<u8>(&part).expect("idle"), [7; 96], "TEN-2");
        let call = Call::new(&NOTHING).args([part.input()]);
        let refused = other.call(&call).expect_err("TEN-2: another worker's buffer").to_string();
        assert!(refused.contains("argument 0 belongs to another worker's memory"), "{refused}");
        assert!(matches!(other.read::<u8>(&part), Err(Error::ForeignBuffer(_))), "TEN-2");
        let number = part.buffer().0.number;
        drop((part, call));
        let second = worker.buffer(4096).expect("TEN-2: nobody names the first");
        assert_ne!(second.0.number, number, "TEN-2: the same bytes, another identity");
    }
}
