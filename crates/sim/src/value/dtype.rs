//! The four element types of a value.

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
}

impl DType {
    /// Every element type, in declaration order.
    pub const ALL: [Self; 4] = [Self::F32, Self::F16, Self::Bf16, Self::I32];

    /// Returns the size of one element in bytes.
    #[inline]
    pub const fn size(self) -> usize {
        1 << self.size_shift()
    }

    /// Returns the binary logarithm of the size.
    #[inline]
    pub(crate) const fn size_shift(self) -> u32 {
        2 - matches!(self, Self::F16 | Self::Bf16) as u32
    }

    /// Returns the name of the type: `f32`, `f16`, `bf16` or `i32`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::I32 => "i32",
        }
    }

    /// True if elements are floating-point numbers.
    pub const fn is_float(self) -> bool {
        !matches!(self, Self::I32)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The error of parsing an unknown element type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no element type `{name}`, expected one of `f32`, `f16`, `bf16`, `i32`")]
pub struct UnknownDType {
    /// The unknown name.
    pub name: String,
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
        let error = "f64".parse::<DType>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "no element type `f64`, expected one of `f32`, `f16`, `bf16`, `i32`"
        );
    }
}
