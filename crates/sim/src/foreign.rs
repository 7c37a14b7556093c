//! Errors from outside, such as an exception of another language.

use crate::portable::{Malformed, Portable, Reader};
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// An error that a program of another kind brings along: its text, and the error itself for those who know its type.
///
/// ```
/// use phalanx_sim::{Foreign, kernel::KernelError};
/// let error = KernelError::from(Foreign::new("ValueError: bad luck", 42_i32));
/// assert_eq!(error.to_string(), "ValueError: bad luck");
/// assert_eq!(error.foreign().and_then(Foreign::downcast_ref), Some(&42_i32));
/// ```
#[derive(Clone)]
pub struct Foreign {
    /// The error in words.
    pub text: String,
    /// The error itself.
    pub payload: Arc<dyn Any + Send + Sync>,
}

/// Another process gets the words of the error alone.
impl Portable for Foreign {
    fn put(&self, to: &mut Vec<u8>) {
        self.text.put(to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self::new(String::take(from)?, ()))
    }
}

impl Foreign {
    /// Creates an error of its text and the error itself.
    pub fn new(text: impl Into<String>, payload: impl Any + Send + Sync) -> Self {
        Self { text: text.into(), payload: Arc::new(payload) }
    }

    /// Returns the error itself, if it is a `T`.
    pub fn downcast_ref<T: Any>(&self) -> Option<&T> {
        self.payload.downcast_ref()
    }
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Foreign({:?})", self.text)
    }
}

impl PartialEq for Foreign {
    /// True for copies of one error.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.payload, &other.payload) && self.text == other.text
    }
}

impl Eq for Foreign {}
