//! Elements in memory: the result of an evaluation.

use super::element::{Bool, Element, F8e4m3, F8e5m2, each_type};
use super::number::Number;
use super::{DType, bf16, f16};
use crate::with_element;
use bytemuck::cast_slice_mut;

macro_rules! containers {
    ($($variant:ident $rust:ty),*) => {
        /// The elements of one value, by type.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Buffer {
            $(#[doc = concat!("Elements of [`DType::", stringify!($variant), "`].")]
            $variant(Vec<$rust>)),*
        }

        /// Borrowed elements of a ready value.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum Slice<'a> {
            $(#[doc = concat!("Elements of [`DType::", stringify!($variant), "`].")]
            $variant(&'a [$rust])),*
        }

        /// One element, rounded to its type.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub(crate) enum Scalar {
            $($variant($rust)),*
        }

        impl Buffer {
            /// Creates a buffer of `len` copies of `scalar`.
            pub(crate) fn filled(scalar: Scalar, len: usize) -> Self {
                match scalar {
                    $(Scalar::$variant(x) => Self::$variant(vec![x; len])),*
                }
            }

            /// Returns the type of the elements.
            pub fn dtype(&self) -> DType {
                match self {
                    $(Self::$variant(_) => DType::$variant),*
                }
            }

            /// Returns the number of elements.
            pub fn len(&self) -> usize {
                match self {
                    $(Self::$variant(v) => v.len()),*
                }
            }

            /// Returns all elements.
            pub fn view(&self) -> Slice<'_> {
                match self {
                    $(Self::$variant(v) => Slice::$variant(v)),*
                }
            }

            /// Appends elements of the buffer's own type.
            pub(crate) fn extend(&mut self, slice: Slice<'_>) {
                match (self, slice) {
                    $((Self::$variant(v), Slice::$variant(s)) => append(v, s),)*
                    (buffer, slice) => {
                        unreachable!("VAL-6: {} into {}", slice.dtype(), buffer.dtype())
                    }
                }
            }
        }

        impl Scalar {
            /// Returns the element as a number.
            pub(crate) fn to_f64(self) -> f64 {
                match self {
                    $(Self::$variant(x) => x.to_f64()),*
                }
            }

            pub(crate) fn dtype(self) -> DType {
                match self {
                    $(Self::$variant(_) => DType::$variant),*
                }
            }

            /// Returns the nearest `f32`.
            pub(crate) fn to_f32(self) -> f32 {
                match self {
                    $(Self::$variant(x) => Number::to_f32(x)),*
                }
            }

            /// Returns the whole number: floats truncated and saturating, `u64` as the same bits.
            pub(crate) fn to_i64(self) -> i64 {
                match self {
                    $(Self::$variant(x) => x.to_i64()),*
                }
            }

            /// Returns the bits, above them zeros.
            pub(crate) fn bits(self) -> u64 {
                match self {
                    $(Self::$variant(x) => x.bits()),*
                }
            }
        }

        impl<'a> Slice<'a> {
            /// Returns the type of the elements.
            pub fn dtype(self) -> DType {
                match self {
                    $(Self::$variant(_) => DType::$variant),*
                }
            }

            /// Returns the number of elements.
            pub fn len(self) -> usize {
                match self {
                    $(Self::$variant(s) => s.len()),*
                }
            }

            /// Returns `len` elements from `start`.
            ///
            /// # Panics
            ///
            /// If the range does not lie inside the slice.
            #[must_use]
            pub fn range(self, start: usize, len: usize) -> Self {
                match self {
                    $(Self::$variant(s) => Self::$variant(&s[start..start + len])),*
                }
            }

            /// Returns element `i`.
            pub(crate) fn get(self, i: usize) -> Scalar {
                match self {
                    $(Self::$variant(s) => Scalar::$variant(s[i])),*
                }
            }

            /// Returns the bytes of the elements.
            pub fn bytes(self) -> &'a [u8] {
                match self {
                    $(Self::$variant(s) => bytemuck::cast_slice(s)),*
                }
            }

            /// Returns a copy of the elements.
            pub fn to_buffer(self) -> Buffer {
                match self {
                    $(Self::$variant(s) => Buffer::$variant(s.to_vec())),*
                }
            }
        }
    };
}
each_type!(containers);

impl Buffer {
    /// Creates an empty buffer with room for `len` elements.
    pub(crate) fn with_capacity(dtype: DType, len: usize) -> Self {
        with_element!(dtype, T => T::buffer(Vec::with_capacity(len)))
    }

    /// Creates a buffer of the elements in `bytes`; of `bool` every byte but 0 is 1. Bytes after the last whole element
    /// are ignored.
    pub fn from_bytes(dtype: DType, bytes: &[u8]) -> Self {
        if dtype == DType::Bool {
            return Self::Bool(bytes.iter().map(|byte| Bool::new(*byte != 0)).collect());
        }
        let len = bytes.len() / dtype.size();
        with_element!(dtype, T => {
            let mut elements = vec![<T as bytemuck::Zeroable>::zeroed(); len];
            copy(cast_slice_mut(&mut elements), &bytes[..len * dtype.size()]);
            T::buffer(elements)
        })
    }

    /// True if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
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

impl Scalar {
    /// Rounds `number` to `dtype`, floats of fewer than 64 bits through `f32`.
    #[expect(clippy::cast_possible_truncation, reason = "rounding is the point")]
    pub(crate) fn new(dtype: DType, number: f64) -> Self {
        match dtype {
            DType::F32 => Self::F32(number as f32),
            DType::I32 => Self::I32(number as i32),
            DType::F16 => Self::F16(f16::from_f32(number as f32)),
            DType::Bf16 => Self::Bf16(bf16::from_f32(number as f32)),
            DType::F8e4m3 => Self::F8e4m3(F8e4m3::from_f32(number as f32)),
            DType::F8e5m2 => Self::F8e5m2(F8e5m2::from_f32(number as f32)),
            other => with_element!(other, T => T::from_f64(number).scalar()),
        }
    }

    /// Converts a whole number to `dtype`: wrapping, or rounded as by a cast from `i64`.
    pub(crate) fn from_i64(dtype: DType, number: i64) -> Self {
        with_element!(dtype, T => super::convert::convert::<i64, T>(number).scalar())
    }

    /// Creates the element of `dtype` with these bits.
    pub(crate) fn from_bits(dtype: DType, bits: u64) -> Self {
        with_element!(dtype, T => T::from_bits64(bits).scalar())
    }

    /// True if the bits are equal, so that `0.0` and `-0.0` differ and a NaN equals itself.
    pub(crate) fn same_bits(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
            && self.bits() == other.bits()
    }
}

impl<'a> Slice<'a> {
    /// True if there are no elements.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns the elements as `T`.
    ///
    /// # Panics
    ///
    /// If the elements are of another type.
    pub fn of<T: Element>(self) -> &'a [T] {
        T::slice(self)
    }
}
