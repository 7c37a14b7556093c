//! Values as bytes, for shards in other processes.
//!
//! The form is fixed: whole numbers and floats take their own width, lowest byte first; `usize` and lengths take eight bytes; a list or a
//! text is its length and its items; an option, a result or an enum is a number of one byte and what belongs to it. Fields come in the order
//! in which [`portable!`](crate::portable!) names them. [`VERSION`] changes with the form of anything that crosses.
//!
//! ```
//! use phalanx_sim::portable::{from_bytes, to_bytes};
//! #[derive(Debug, PartialEq)]
//! struct Lap { rank: usize, name: String }
//! phalanx_sim::portable!(struct Lap { rank, name });
//! let lap = Lap { rank: 3, name: "last".to_owned() };
//! let bytes = to_bytes(&lap);
//! assert_eq!(from_bytes::<Lap>(&bytes), Ok(lap));
//! assert!(from_bytes::<Lap>(&bytes[1..]).is_err());
//! ```
//!
//! - **POR-1 (round trip).** Written values read back, bit for bit.
//! - **POR-2 (checked).** Any bytes are read or refused: no panic, no more memory than some times their length, no deep recursion.

mod basic;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// The version of the form of all that crosses between processes.
pub const VERSION: u16 = 1;

/// Most boxes in boxes that are read.
const DEPTH: u32 = 64;
/// Longest text that is kept for the rest of the process, in bytes.
const LONGEST_NAME: usize = 4096;

/// Bytes that are not what was to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);

/// A value that can be written as bytes and read back (POR-1). Every value takes at least one byte.
pub trait Portable: Sized {
    /// Appends the value.
    fn put(&self, to: &mut Vec<u8>);

    /// Reads a value.
    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed>;
}

/// Bytes that are read from the front.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    depth: u32,
}

impl<'a> Reader<'a> {
    /// Reads `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, depth: 0 }
    }

    /// Takes the next `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(Malformed("too short"))?;
        self.bytes = rest;
        Ok(taken)
    }

    /// Takes the next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.bytes.split_first_chunk().ok_or(Malformed("too short"))?;
        self.bytes = rest;
        Ok(*taken)
    }

    /// Takes a length of items that take at least a byte each: no more than there are bytes.
    pub fn length(&mut self) -> Result<usize, Malformed> {
        let length = usize::take(self)?;
        if length > self.bytes.len() {
            return Err(Malformed("a list that is longer than its bytes"));
        }
        Ok(length)
    }

    /// Reads something that may be in itself.
    pub fn nested<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Malformed>,
    ) -> Result<T, Malformed> {
        if self.depth == DEPTH {
            return Err(Malformed("boxes in boxes, too deep"));
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Refuses bytes that are left.
    pub fn finish(self) -> Result<(), Malformed> {
        if self.bytes.is_empty() { Ok(()) } else { Err(Malformed("too long")) }
    }
}

/// Returns a value as bytes.
pub fn to_bytes<T: Portable>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.put(&mut bytes);
    bytes
}

/// Returns the value that all of `bytes` are.
pub fn from_bytes<T: Portable>(bytes: &[u8]) -> Result<T, Malformed> {
    let mut reader = Reader::new(bytes);
    let value = T::take(&mut reader)?;
    reader.finish()?;
    Ok(value)
}

/// Returns a text that lives as long as the process; equal texts are kept once.
pub(crate) fn kept(text: &str) -> Result<&'static str, Malformed> {
    static KEPT: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    if text.len() > LONGEST_NAME {
        return Err(Malformed("a name that is too long"));
    }
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = kept.get(text) {
        return Ok(known);
    }
    let text: &'static str = Box::leak(text.to_owned().into_boxed_str());
    kept.insert(text);
    Ok(text)
}

/// Implements [`Portable`] for a type, by the names of all its fields or variants.
///
/// ```
/// enum Shape { Point, Circle(f64), Box { width: f64, height: f64 } }
/// struct Metres(f64);
/// phalanx_sim::portable!(enum Shape { 0 => Point, 1 => Circle(radius), 2 => Box { width, height } });
/// phalanx_sim::portable!(tuple Metres);
/// ```
#[macro_export]
macro_rules! portable {
    (struct $name:ident { $($field:ident),* $(,)? }) => {
        impl $crate::portable::Portable for $name {
            fn put(&self, to: &mut ::std::vec::Vec<u8>) {
                let Self { $($field),* } = self;
                $($crate::portable::Portable::put($field, to);)*
            }

            fn take(
                from: &mut $crate::portable::Reader<'_>,
            ) -> ::std::result::Result<Self, $crate::portable::Malformed> {
                $(let $field = $crate::portable::Portable::take(from)?;)*
                Ok(Self { $($field),* })
            }
        }
    };
    (tuple $name:ident) => {
        impl $crate::portable::Portable for $name {
            fn put(&self, to: &mut ::std::vec::Vec<u8>) {
                let Self(inner) = self;
                $crate::portable::Portable::put(inner, to);
            }

            fn take(
                from: &mut $crate::portable::Reader<'_>,
            ) -> ::std::result::Result<Self, $crate::portable::Malformed> {
                $crate::portable::Portable::take(from).map(Self)
            }
        }
    };
    (enum $name:ident { $(
        $number:literal => $variant:ident $(($($item:ident),*))? $({ $($field:ident),* $(,)? })?
    ),* $(,)? }) => {
        impl $crate::portable::Portable for $name {
            fn put(&self, to: &mut ::std::vec::Vec<u8>) {
                match self { $(
                    Self::$variant $(($($item),*))? $({ $($field),* })? => {
                        to.push($number);
                        $($($crate::portable::Portable::put($item, to);)*)?
                        $($($crate::portable::Portable::put($field, to);)*)?
                    }
                )* }
            }

            fn take(
                from: &mut $crate::portable::Reader<'_>,
            ) -> ::std::result::Result<Self, $crate::portable::Malformed> {
                Ok(match <u8 as $crate::portable::Portable>::take(from)? {
                    $($number => {
                        $($(let $item = $crate::portable::Portable::take(from)?;)*)?
                        $($(let $field = $crate::portable::Portable::take(from)?;)*)?
                        Self::$variant $(($($item),*))? $({ $($field),* })?
                    })*
                    _ => return Err($crate::portable::Malformed(
                        concat!("no ", stringify!($name), " has this number"),
                    )),
                })
            }
        }
    };
}
