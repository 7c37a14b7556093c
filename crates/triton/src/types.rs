//! Types of the values of a kernel.

use std::fmt;
use std::rc::Rc;

/// The type of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// An integer of this many bits.
    Int(u8),
    /// A float of 16 bits.
    F16,
    /// A float of 16 bits with the range of `f32`.
    BF16,
    /// A float of 32 bits.
    F32,
    /// A float of 64 bits.
    F64,
    /// A float of 8 bits: 4 of exponent, no infinity.
    F8E4M3,
    /// A float of 8 bits: 5 of exponent.
    F8E5M2,
}

impl Scalar {
    /// Returns the type of this name in the text.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Some(match name {
            "i1" => Self::Int(1),
            "i8" => Self::Int(8),
            "i16" => Self::Int(16),
            "i32" => Self::Int(32),
            "i64" | "index" => Self::Int(64),
            "f16" => Self::F16,
            "bf16" => Self::BF16,
            "f32" => Self::F32,
            "f64" => Self::F64,
            "f8E4M3FN" => Self::F8E4M3,
            "f8E5M2" => Self::F8E5M2,
            _ => return None,
        })
    }

    /// The names of all types.
    pub(crate) const NAMES: [&str; 12] = [
        "i1", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "f8E4M3FN", "f8E5M2", "index",
    ];

    /// True for floats.
    pub fn is_float(self) -> bool {
        !matches!(self, Self::Int(_))
    }

    /// Returns the bits of one number.
    pub fn bits(self) -> u32 {
        match self {
            Self::Int(bits) => bits.into(),
            Self::F8E4M3 | Self::F8E5M2 => 8,
            Self::F16 | Self::BF16 => 16,
            Self::F32 => 32,
            Self::F64 => 64,
        }
    }

    /// Returns the bytes of one number in memory.
    pub fn bytes(self) -> u64 {
        u64::from(self.bits().div_ceil(8))
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(bits) => write!(f, "i{bits}"),
            Self::F16 => f.write_str("f16"),
            Self::BF16 => f.write_str("bf16"),
            Self::F32 => f.write_str("f32"),
            Self::F64 => f.write_str("f64"),
            Self::F8E4M3 => f.write_str("f8E4M3FN"),
            Self::F8E5M2 => f.write_str("f8E5M2"),
        }
    }
}

/// The type of one element: a number or a pointer to numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// A number.
    Number(Scalar),
    /// A pointer to numbers.
    Pointer(Scalar),
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(scalar) => scalar.fmt(f),
            Self::Pointer(scalar) => write!(f, "!tt.ptr<{scalar}>"),
        }
    }
}

/// The extent of a tensor, outermost dimension first.
pub type Extent = Rc<[usize]>;

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// One element.
    One(Element),
    /// A tensor.
    Tensor(Extent, Element),
    /// A descriptor of a tensor in memory, and the block of one access.
    Descriptor(Extent, Scalar),
}

impl Type {
    /// Returns the type of the elements.
    pub fn element(&self) -> Element {
        match self {
            Self::One(element) | Self::Tensor(_, element) => *element,
            Self::Descriptor(_, scalar) => Element::Number(*scalar),
        }
    }

    /// Returns the extent; that of one element has no dimension.
    pub fn extent(&self) -> &[usize] {
        match self {
            Self::One(_) => &[],
            Self::Tensor(extent, _) | Self::Descriptor(extent, _) => extent,
        }
    }

    /// Returns a type of the same extent with other elements.
    #[must_use]
    pub fn with(&self, element: Element) -> Self {
        match self {
            Self::Tensor(extent, _) | Self::Descriptor(extent, _) => {
                Self::Tensor(extent.clone(), element)
            }
            Self::One(_) => Self::One(element),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims = |f: &mut fmt::Formatter<'_>, extent: &[usize]| {
            extent.iter().try_for_each(|dim| write!(f, "{dim}x"))
        };
        match self {
            Self::One(element) => element.fmt(f),
            Self::Tensor(extent, element) => {
                f.write_str("tensor<")?;
                dims(f, extent)?;
                write!(f, "{element}>")
            }
            Self::Descriptor(extent, scalar) => {
                f.write_str("!tt.tensordesc<")?;
                dims(f, extent)?;
                write!(f, "{scalar}>")
            }
        }
    }
}
