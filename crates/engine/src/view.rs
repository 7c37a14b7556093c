//! Views: sets of bytes of one buffer, given as tensors give them.
//!
//! A view is reduced when it is made: axes of one element go, axes that continue each other become one, and the rest is
//! a row of contiguous `run`s. Two views with the same bytes and the same reduced form are the same view.
//!
//! - **VIEW-1 (exact).** Two views overlap if and only if they share a byte, for dense views, for views whose strides
//!   are equal, and for all others up to a bounded effort; beyond it they count as overlapping.
//! - **VIEW-2 (checked).** A view whose extent does not fit 61 bits is refused, never wrapped.
//! - **VIEW-3 (cover).** A view that is said to cover another holds each of its bytes.

mod meet;

use crate::buffer::BufferId;
use std::fmt;
use std::sync::Arc;

/// No buffer has more bytes, so that sums and differences of offsets need no check.
pub(crate) const MAX_BYTES: u64 = 1 << 61;

/// The most axes a view can have.
pub const MAX_RANK: usize = 5;

/// One axis: so many steps of so many bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Axis {
    pub(crate) count: i64,
    pub(crate) stride: i64,
}

/// The layout of the bytes of a view that is not dense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Contiguous bytes at each step.
    pub(crate) run: i64,
    /// Reduced axes, the widest stride first.
    pub(crate) axes: [Axis; MAX_RANK],
    pub(crate) rank: u8,
}

/// The bytes of its buffer that a view touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    /// The first byte.
    pub(crate) start: i64,
    /// Behind the last byte.
    pub(crate) end: i64,
    /// None if all bytes between are touched.
    pub(crate) geometry: Option<Arc<Geometry>>,
}

/// A set of bytes of one buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    pub(crate) buffer: BufferId,
    pub(crate) region: Region,
}

/// A set of bytes of a memory that has no number here: the arithmetic of views for schedulers of their own.
///
/// ```
/// use phalanx_engine::ByteSet;
/// let (left, right) = (ByteSet::strided(0, &[8, 4], &[8, 1], 2)?, ByteSet::strided(8, &[8, 4], &[8, 1], 2)?);
/// assert!(!left.overlaps(&right), "two halves of a matrix");
/// assert!(ByteSet::dense(0, 128)?.covers(&left) && !left.covers(&right));
/// # Ok::<(), phalanx_engine::ViewError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByteSet(Region);

impl ByteSet {
    /// Describes `bytes` bytes from `offset` on.
    pub fn dense(offset: u64, bytes: u64) -> Result<Self, ViewError> {
        Region::adjacent(offset, bytes).map(Self)
    }

    /// Returns the bytes of a tensor; see [`View::strided`].
    pub fn strided(
        offset: u64,
        shape: &[u64],
        strides: &[u64],
        element: u64,
    ) -> Result<Self, ViewError> {
        Region::strided(offset, shape, strides, element).map(Self)
    }

    /// True if it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.start == self.0.end
    }

    /// True if the two share a byte (VIEW-1).
    pub fn overlaps(&self, other: &Self) -> bool {
        self.0.overlaps(&other.0)
    }

    /// True if `self` surely holds every byte of `other` (VIEW-3).
    pub fn covers(&self, other: &Self) -> bool {
        self.0.covers(&other.0)
    }
}

/// Reasons why a view cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewError {
    /// Its last byte has no number.
    Overflow,
    /// It has more than [`MAX_RANK`] axes.
    Rank(usize),
    /// There is not one stride for each axis.
    Strides {
        /// Number of axes.
        axes: usize,
        /// Number of strides.
        strides: usize,
    },
    /// A stride or the size of an element is zero.
    Zero,
}

impl fmt::Display for ViewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overflow => write!(f, "the extent of the view does not fit 61 bits"),
            Self::Rank(rank) => write!(f, "a view has at most {MAX_RANK} axes: {rank}"),
            Self::Strides { axes, strides } => {
                write!(f, "{axes} axes need as many strides: {strides}")
            }
            Self::Zero => write!(f, "strides and element sizes are at least 1"),
        }
    }
}

impl std::error::Error for ViewError {}

impl View {
    /// Views `bytes` bytes of `buffer` from `offset` on.
    #[inline]
    pub fn bytes(buffer: BufferId, offset: u64, bytes: u64) -> Result<Self, ViewError> {
        Ok(Self { buffer, region: Region::adjacent(offset, bytes)? })
    }

    /// Returns a tensor of `shape` whose elements of `element` bytes lie `strides` elements apart, the first at byte
    /// `offset`.
    pub fn strided(
        buffer: BufferId,
        offset: u64,
        shape: &[u64],
        strides: &[u64],
        element: u64,
    ) -> Result<Self, ViewError> {
        Ok(Self { buffer, region: Region::strided(offset, shape, strides, element)? })
    }

    /// Returns a tensor of `shape` in row-major order without gaps.
    pub fn row_major(
        buffer: BufferId,
        offset: u64,
        shape: &[u64],
        element: u64,
    ) -> Result<Self, ViewError> {
        let elements = shape.iter().try_fold(1u64, |elements, axis| elements.checked_mul(*axis));
        let bytes = elements.and_then(|elements| elements.checked_mul(element));
        Self::bytes(buffer, offset, bytes.ok_or(ViewError::Overflow)?)
    }

    /// Returns the buffer it is a part of.
    pub fn buffer(&self) -> BufferId {
        self.buffer
    }

    /// Its first byte.
    #[inline]
    pub fn start(&self) -> u64 {
        self.region.start.unsigned_abs()
    }

    /// Returns the byte behind its last.
    pub fn end(&self) -> u64 {
        self.region.end.unsigned_abs()
    }

    /// True if it has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.region.start == self.region.end
    }

    /// True if the two share a byte.
    pub fn overlaps(&self, other: &View) -> bool {
        self.buffer == other.buffer && self.region.overlaps(&other.region)
    }

    /// True if `self` surely holds every byte of `other`.
    pub fn covers(&self, other: &View) -> bool {
        self.buffer == other.buffer && self.region.covers(&other.region)
    }
}

/// A number of bytes that is not too large.
#[inline]
fn limited(bytes: u64) -> Option<i64> {
    if bytes > MAX_BYTES { None } else { i64::try_from(bytes).ok() }
}

impl Region {
    #[inline]
    fn adjacent(offset: u64, bytes: u64) -> Result<Self, ViewError> {
        let start = limited(offset).ok_or(ViewError::Overflow)?;
        limited(bytes).ok_or(ViewError::Overflow)?;
        let end = limited(offset + bytes).ok_or(ViewError::Overflow)?;
        Ok(Self { start, end, geometry: None })
    }

    fn strided(
        offset: u64,
        shape: &[u64],
        strides: &[u64],
        element: u64,
    ) -> Result<Self, ViewError> {
        if shape.len() > MAX_RANK {
            return Err(ViewError::Rank(shape.len()));
        }
        if shape.len() != strides.len() {
            return Err(ViewError::Strides { axes: shape.len(), strides: strides.len() });
        }
        if element == 0 || strides.contains(&0) {
            return Err(ViewError::Zero);
        }
        if shape.contains(&0) {
            return Self::adjacent(offset, 0);
        }
        Self::reduced(offset, shape, strides, element).ok_or(ViewError::Overflow)
    }

    fn reduced(offset: u64, shape: &[u64], strides: &[u64], element: u64) -> Option<Self> {
        let start = limited(offset)?;
        let mut run = limited(element)?;
        let mut axes = [Axis::default(); MAX_RANK];
        let mut rank = 0;
        let mut end = start.checked_add(run)?;
        for (count, stride) in shape.iter().zip(strides).filter(|(count, _)| **count > 1) {
            let stride = i64::try_from(stride.checked_mul(element)?).ok()?;
            let count = i64::try_from(*count).ok()?;
            end = end.checked_add((count - 1).checked_mul(stride)?)?;
            axes[rank] = Axis { count, stride };
            rank += 1;
        }
        limited(end.unsigned_abs())?;
        axes[..rank].sort_by_key(|axis| std::cmp::Reverse(axis.stride));
        let mut kept: [Axis; MAX_RANK] = Default::default();
        let mut first = MAX_RANK;
        for axis in axes[..rank].iter().rev() {
            if first == MAX_RANK && axis.stride == run {
                run = run.checked_mul(axis.count)?;
            } else if first < MAX_RANK
                && kept[first].count.checked_mul(kept[first].stride) == Some(axis.stride)
            {
                kept[first].count = kept[first].count.checked_mul(axis.count)?;
            } else {
                first -= 1;
                kept[first] = *axis;
            }
        }
        let mut axes = [Axis::default(); MAX_RANK];
        let rank = MAX_RANK - first;
        axes[..rank].copy_from_slice(&kept[first..]);
        let geometry = Geometry { run, axes, rank: u8::try_from(rank).ok()? };
        Some(Self { start, end, geometry: (rank > 0).then(|| Arc::new(geometry)) })
    }

    /// All `bytes` bytes of a buffer.
    pub(crate) fn whole(bytes: i64) -> Self {
        Self::dense(0, bytes)
    }

    /// All bytes between.
    pub(crate) fn dense(start: i64, end: i64) -> Self {
        Self { start, end, geometry: None }
    }

    #[inline]
    pub(crate) fn is_same(&self, other: &Region) -> bool {
        self.start == other.start && self.end == other.end && self.geometry == other.geometry
    }
}
