//! Elements in memory: the result of an evaluation.

use super::DType;
use bytemuck::Pod;
use half::{bf16, f16};

/// The elements of one value, by type.
#[derive(Clone, Debug, PartialEq)]
pub enum Buffer {
    /// Elements of [`DType::F32`].
    F32(Vec<f32>),
    /// Elements of [`DType::F16`].
    F16(Vec<f16>),
    /// Elements of [`DType::Bf16`].
    Bf16(Vec<bf16>),
    /// Elements of [`DType::I32`].
    I32(Vec<i32>),
}

impl Buffer {
    /// Creates an empty buffer with room for `len` elements.
    pub(crate) fn with_capacity(dtype: DType, len: usize) -> Self {
        match dtype {
            DType::F32 => Self::F32(Vec::with_capacity(len)),
            DType::F16 => Self::F16(Vec::with_capacity(len)),
            DType::Bf16 => Self::Bf16(Vec::with_capacity(len)),
            DType::I32 => Self::I32(Vec::with_capacity(len)),
        }
    }

    /// Creates a buffer of `len` copies of `scalar`.
    pub(crate) fn filled(scalar: Scalar, len: usize) -> Self {
        match scalar {
            Scalar::F32(x) => Self::F32(vec![x; len]),
            Scalar::F16(x) => Self::F16(vec![x; len]),
            Scalar::Bf16(x) => Self::Bf16(vec![x; len]),
            Scalar::I32(x) => Self::I32(vec![x; len]),
        }
    }

    /// Returns the type of the elements.
    pub fn dtype(&self) -> DType {
        match self {
            Self::F32(_) => DType::F32,
            Self::F16(_) => DType::F16,
            Self::Bf16(_) => DType::Bf16,
            Self::I32(_) => DType::I32,
        }
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(v) => v.len(),
            Self::F16(v) => v.len(),
            Self::Bf16(v) => v.len(),
            Self::I32(v) => v.len(),
        }
    }

    /// True if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all elements.
    pub(crate) fn view(&self) -> Slice<'_> {
        match self {
            Self::F32(v) => Slice::F32(v),
            Self::F16(v) => Slice::F16(v),
            Self::Bf16(v) => Slice::Bf16(v),
            Self::I32(v) => Slice::I32(v),
        }
    }

    /// Appends elements of the buffer's own type.
    pub(crate) fn extend(&mut self, slice: Slice<'_>) {
        match (self, slice) {
            (Self::F32(v), Slice::F32(s)) => append(v, s),
            (Self::F16(v), Slice::F16(s)) => append(v, s),
            (Self::Bf16(v), Slice::Bf16(s)) => append(v, s),
            (Self::I32(v), Slice::I32(s)) => append(v, s),
            (buffer, slice) => unreachable!("VAL-6: {} into {}", slice.dtype(), buffer.dtype()),
        }
    }
}

/// Number of bytes copied at a time. Longer copies become `rep movsb`, which some processors run ten times slower than a
/// loop if the addresses agree in their low bits, as those of blocks do.
const PIECE: usize = 1024;

/// Appends `from` to `to`.
pub(crate) fn append<T: Copy>(to: &mut Vec<T>, from: &[T]) {
    for piece in from.chunks(PIECE / size_of::<T>()) {
        to.extend_from_slice(piece);
    }
}

/// Copies `from` to `to`, which has the same length.
pub(crate) fn copy(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.chunks_mut(PIECE).zip(from.chunks(PIECE)) {
        to.copy_from_slice(from);
    }
}

/// One element, rounded to its type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scalar {
    F32(f32),
    F16(f16),
    Bf16(bf16),
    I32(i32),
}

impl Scalar {
    /// Rounds `number` to `dtype`, floats through `f32`.
    #[expect(clippy::cast_possible_truncation, reason = "rounding is the point")]
    pub(crate) fn new(dtype: DType, number: f64) -> Self {
        match dtype {
            DType::F32 => Self::F32(number as f32),
            DType::F16 => Self::F16(f16::from_f32(number as f32)),
            DType::Bf16 => Self::Bf16(bf16::from_f32(number as f32)),
            DType::I32 => Self::I32(number as i32),
        }
    }

    /// Returns the element as a number.
    pub(crate) fn to_f64(self) -> f64 {
        match self {
            Self::F32(x) => f64::from(x),
            Self::F16(x) => f64::from(x.to_f32()),
            Self::Bf16(x) => f64::from(x.to_f32()),
            Self::I32(x) => f64::from(x),
        }
    }

    /// True if the bits are equal, so that `0.0` and `-0.0` differ and a NaN equals itself.
    pub(crate) fn same_bits(self, other: Self) -> bool {
        match (self, other) {
            (Self::F32(a), Self::F32(b)) => a.to_bits() == b.to_bits(),
            (Self::F16(a), Self::F16(b)) => a.to_bits() == b.to_bits(),
            (Self::Bf16(a), Self::Bf16(b)) => a.to_bits() == b.to_bits(),
            (Self::I32(a), Self::I32(b)) => a == b,
            _ => false,
        }
    }
}

/// Borrowed elements of a ready value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Slice<'a> {
    /// Elements of [`DType::F32`].
    F32(&'a [f32]),
    /// Elements of [`DType::F16`].
    F16(&'a [f16]),
    /// Elements of [`DType::Bf16`].
    Bf16(&'a [bf16]),
    /// Elements of [`DType::I32`].
    I32(&'a [i32]),
}

impl<'a> Slice<'a> {
    /// Returns the type of the elements.
    pub fn dtype(self) -> DType {
        match self {
            Self::F32(_) => DType::F32,
            Self::F16(_) => DType::F16,
            Self::Bf16(_) => DType::Bf16,
            Self::I32(_) => DType::I32,
        }
    }

    /// Returns the number of elements.
    pub fn len(self) -> usize {
        match self {
            Self::F32(s) => s.len(),
            Self::F16(s) => s.len(),
            Self::Bf16(s) => s.len(),
            Self::I32(s) => s.len(),
        }
    }

    /// True if there are no elements.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns `len` elements from `start`.
    ///
    /// # Panics
    ///
    /// If the range does not lie inside the slice.
    #[must_use]
    pub fn range(self, start: usize, len: usize) -> Self {
        match self {
            Self::F32(s) => Self::F32(&s[start..start + len]),
            Self::F16(s) => Self::F16(&s[start..start + len]),
            Self::Bf16(s) => Self::Bf16(&s[start..start + len]),
            Self::I32(s) => Self::I32(&s[start..start + len]),
        }
    }

    /// Returns element `i`.
    pub(crate) fn get(self, i: usize) -> Scalar {
        match self {
            Self::F32(s) => Scalar::F32(s[i]),
            Self::F16(s) => Scalar::F16(s[i]),
            Self::Bf16(s) => Scalar::Bf16(s[i]),
            Self::I32(s) => Scalar::I32(s[i]),
        }
    }

    /// Returns the elements as `T`.
    ///
    /// # Panics
    ///
    /// If the elements are of another type.
    pub fn of<T: Element>(self) -> &'a [T] {
        T::slice(self)
    }

    /// Returns the bytes of the elements.
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Self::F32(s) => bytemuck::cast_slice(s),
            Self::F16(s) => bytemuck::cast_slice(s),
            Self::Bf16(s) => bytemuck::cast_slice(s),
            Self::I32(s) => bytemuck::cast_slice(s),
        }
    }
}

/// A Rust type that is an element type: `f32`, `f16`, `bf16` or `i32`.
pub trait Element: Pod + Send + Sync {
    /// The element type.
    const DTYPE: DType;
    /// Returns the elements of `slice`.
    ///
    /// # Panics
    ///
    /// If the elements are of another type.
    fn slice(slice: Slice<'_>) -> &[Self];
    /// Creates a buffer of these elements.
    fn buffer(elements: Vec<Self>) -> Buffer;
}

macro_rules! element {
    ($($rust:ty => $variant:ident),*) => {$(
        impl Element for $rust {
            const DTYPE: DType = DType::$variant;
            fn slice(slice: Slice<'_>) -> &[Self] {
                match slice {
                    Slice::$variant(s) => s,
                    other => panic!("elements are {}, not {}", other.dtype(), Self::DTYPE),
                }
            }
            fn buffer(elements: Vec<Self>) -> Buffer {
                Buffer::$variant(elements)
            }
        }
    )*};
}
element!(f32 => F32, f16 => F16, bf16 => Bf16, i32 => I32);
