//! The element types of a value.

use std::fmt;
use std::str::FromStr;

/// The element type of a [`Value`](super::Value).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DType {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary16.
    F16,
    /// The upper half of a binary32.
    Bf16,
    /// Two's complement, 32 bits, wrapping.
    I32,
    /// IEEE 754 binary64.
    F64,
    /// Two's complement, 64 bits, wrapping.
    I64,
    /// Two's complement, 16 bits, wrapping.
    I16,
    /// Two's complement, 8 bits, wrapping.
    I8,
    /// Unsigned, 64 bits, wrapping.
    U64,
    /// Unsigned, 32 bits, wrapping.
    U32,
    /// Unsigned, 16 bits, wrapping.
    U16,
    /// Unsigned, 8 bits, wrapping.
    U8,
    /// 0 or 1, in a byte of its own; arithmetic is that of one unsigned bit.
    Bool,
    /// 8 bits: 4 of exponent, 3 of mantissa, no infinity ([`F8e4m3`](super::F8e4m3)).
    F8e4m3,
    /// 8 bits: 5 of exponent, 2 of mantissa ([`F8e5m2`](super::F8e5m2)).
    F8e5m2,
}

/// The kind of number that a type holds, which decides how it is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    /// A float that is computed in `f32`.
    Narrow,
    /// A float that is computed in `f64`.
    Double,
    /// A whole number, computed in its own type.
    Whole,
}

impl DType {
    /// Every element type, in declaration order.
    pub const ALL: [Self; 15] = [
        Self::F32,
        Self::F16,
        Self::Bf16,
        Self::I32,
        Self::F64,
        Self::I64,
        Self::I16,
        Self::I8,
        Self::U64,
        Self::U32,
        Self::U16,
        Self::U8,
        Self::Bool,
        Self::F8e4m3,
        Self::F8e5m2,
    ];

    /// Returns the size of one element in bytes.
    #[inline]
    pub const fn size(self) -> usize {
        1 << self.size_shift()
    }

    /// Returns the binary logarithm of the size.
    #[inline]
    pub(crate) const fn size_shift(self) -> u32 {
        // One nibble for each type, in declaration order.
        const SHIFTS: u64 = 0x0123_0133_2112;
        (SHIFTS >> (self as u32 * 4) & 15) as u32
    }

    /// Returns the name of the type, such as `f32` or `f8e4m3`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::I32 => "i32",
            Self::F64 => "f64",
            Self::I64 => "i64",
            Self::I16 => "i16",
            Self::I8 => "i8",
            Self::U64 => "u64",
            Self::U32 => "u32",
            Self::U16 => "u16",
            Self::U8 => "u8",
            Self::Bool => "bool",
            Self::F8e4m3 => "f8e4m3",
            Self::F8e5m2 => "f8e5m2",
        }
    }

    /// True if elements are floating-point numbers.
    pub const fn is_float(self) -> bool {
        !matches!(self.kind(), Arithmetic::Whole)
    }

    /// True if elements are 8-bit floating-point numbers.
    pub(crate) const fn is_fp8(self) -> bool {
        matches!(self, Self::F8e4m3 | Self::F8e5m2)
    }

    /// Returns the type of a product of matrices of this type: `f32` for floats, `i32` for whole numbers, and their
    /// own size for 64 bits.
    #[must_use]
    pub const fn product(self) -> Self {
        match self {
            Self::F64 => Self::F64,
            Self::I64 | Self::U64 => Self::I64,
            _ if self.is_float() => Self::F32,
            _ => Self::I32,
        }
    }

    pub(crate) const fn kind(self) -> Arithmetic {
        match self {
            Self::F64 => Arithmetic::Double,
            Self::F32 | Self::F16 | Self::Bf16 | Self::F8e4m3 | Self::F8e5m2 => Arithmetic::Narrow,
            _ => Arithmetic::Whole,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The error of parsing an unknown element type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no element type `{name}`, expected one of {}", names())]
pub struct UnknownDType {
    /// The unknown name.
    pub name: String,
}

fn names() -> String {
    DType::ALL.map(|dtype| format!("`{dtype}`")).join(", ")
}

impl FromStr for DType {
    type Err = UnknownDType;
    fn from_str(name: &str) -> Result<Self, UnknownDType> {
        let found = Self::ALL.into_iter().find(|dtype| dtype.name() == name);
        found.ok_or_else(|| UnknownDType { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back() {
        for dtype in DType::ALL {
            assert_eq!(dtype.to_string().parse(), Ok(dtype));
        }
        let error = "f65".parse::<DType>().unwrap_err().to_string();
        assert!(error.starts_with("no element type `f65`, expected one of `f32`, `f16`, "));
        assert!(error.ends_with("`bool`, `f8e4m3`, `f8e5m2`"));
    }

    #[test]
    fn sizes_are_those_of_the_names() {
        for dtype in DType::ALL {
            let digits: String =
                dtype.name().chars().skip_while(char::is_ascii_alphabetic).take(2).collect();
            let bits = digits.trim_end_matches(char::is_alphabetic).parse().unwrap_or(8);
            assert_eq!(dtype.size() * 8, bits, "{dtype}");
        }
    }
}
