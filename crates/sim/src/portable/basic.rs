//! The bytes of the types of the standard library.

use super::{Malformed, Portable, Reader, kept};
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, PoisonError};

/// Most items for which room is taken at once.
const ROOM: usize = 1024;

macro_rules! numbers {
    ($($number:ty),*) => { $(
        impl Portable for $number {
            fn put(&self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_le_bytes());
            }

            fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
                from.array().map(Self::from_le_bytes)
            }
        }
    )* };
}
numbers!(u8, u16, u32, u64, i32, i64, f32, f64);

impl Portable for usize {
    fn put(&self, to: &mut Vec<u8>) {
        (*self as u64).put(to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Self::try_from(u64::take(from)?).map_err(|_| Malformed("a number that is too large"))
    }
}

impl Portable for bool {
    fn put(&self, to: &mut Vec<u8>) {
        to.push(u8::from(*self));
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        match u8::take(from)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed("neither true nor false")),
        }
    }
}

impl Portable for () {
    fn put(&self, to: &mut Vec<u8>) {
        to.push(0);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        if u8::take(from)? == 0 { Ok(()) } else { Err(Malformed("something instead of nothing")) }
    }
}

impl Portable for NonZeroU64 {
    fn put(&self, to: &mut Vec<u8>) {
        self.get().put(to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Self::new(u64::take(from)?).ok_or(Malformed("a zero"))
    }
}

fn put_text(text: &str, to: &mut Vec<u8>) {
    text.len().put(to);
    to.extend_from_slice(text.as_bytes());
}

fn take_text<'a>(from: &mut Reader<'a>) -> Result<&'a str, Malformed> {
    let length = from.length()?;
    str::from_utf8(from.bytes(length)?).map_err(|_| Malformed("a text that is no UTF-8"))
}

impl Portable for String {
    fn put(&self, to: &mut Vec<u8>) {
        put_text(self, to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        take_text(from).map(ToOwned::to_owned)
    }
}

impl Portable for Arc<str> {
    fn put(&self, to: &mut Vec<u8>) {
        put_text(self, to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        take_text(from).map(Self::from)
    }
}

/// A word of the program: it is kept for the rest of the process.
impl Portable for &'static str {
    fn put(&self, to: &mut Vec<u8>) {
        put_text(self, to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        kept(take_text(from)?)
    }
}

impl<T: Portable> Portable for Option<T> {
    fn put(&self, to: &mut Vec<u8>) {
        self.is_some().put(to);
        if let Some(value) = self {
            value.put(to);
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        bool::take(from)?.then(|| T::take(from)).transpose()
    }
}

impl<T: Portable, E: Portable> Portable for Result<T, E> {
    fn put(&self, to: &mut Vec<u8>) {
        self.is_ok().put(to);
        match self {
            Ok(value) => value.put(to),
            Err(error) => error.put(to),
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(if bool::take(from)? { Ok(T::take(from)?) } else { Err(E::take(from)?) })
    }
}

impl<T: Portable> Portable for Vec<T> {
    fn put(&self, to: &mut Vec<u8>) {
        self.len().put(to);
        for item in self {
            item.put(to);
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let length = from.length()?;
        let mut list = Self::with_capacity(length.min(ROOM));
        for _ in 0..length {
            list.push(T::take(from)?);
        }
        Ok(list)
    }
}

impl<T: Portable, const N: usize> Portable for [T; N] {
    fn put(&self, to: &mut Vec<u8>) {
        for item in self {
            item.put(to);
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let items: Vec<T> = (0..N).map(|_| T::take(from)).collect::<Result<_, _>>()?;
        items.try_into().map_err(|_| Malformed("too few items"))
    }
}

impl<K: Portable + Ord, V: Portable> Portable for BTreeMap<K, V> {
    fn put(&self, to: &mut Vec<u8>) {
        self.len().put(to);
        for (key, value) in self {
            key.put(to);
            value.put(to);
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let length = from.length()?;
        (0..length).map(|_| Ok((K::take(from)?, V::take(from)?))).collect()
    }
}

impl<T: Portable> Portable for Box<T> {
    fn put(&self, to: &mut Vec<u8>) {
        (**self).put(to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        from.nested(T::take).map(Self::new)
    }
}

impl<T: Portable> Portable for Arc<Vec<T>> {
    fn put(&self, to: &mut Vec<u8>) {
        (**self).put(to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Vec::take(from).map(Self::new)
    }
}

impl<T: Portable> Portable for Mutex<T> {
    fn put(&self, to: &mut Vec<u8>) {
        self.lock().unwrap_or_else(PoisonError::into_inner).put(to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        T::take(from).map(Self::new)
    }
}

macro_rules! tuples {
    ($(($($item:ident),*))*) => { $(
        impl<$($item: Portable),*> Portable for ($($item,)*) {
            #[expect(non_snake_case, reason = "the types name the items")]
            fn put(&self, to: &mut Vec<u8>) {
                let ($($item,)*) = self;
                $($item.put(to);)*
            }

            fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
                Ok(($($item::take(from)?,)*))
            }
        }
    )* };
}
tuples!((A, B)(A, B, C)(A, B, C, D));
