//! The failure of a callable.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::borrow::Cow;
use std::fmt;

/// The failure of a task, in words. `?` makes it of any error.
///
/// The words are those of the error and of all its sources, and the backtrace if `RUST_BACKTRACE` asks for one. A parent is
/// told the first mebibyte of them.
#[derive(Clone, PartialEq, Eq)]
pub struct Failure {
    words: String,
}

impl Failure {
    /// Creates a failure with these words.
    pub fn new(words: impl Into<String>) -> Self {
        Self { words: with_backtrace(words.into()) }
    }

    /// Creates a failure with these words and no backtrace: they have their own, of another language.
    pub fn told(words: impl Into<String>) -> Self {
        Self { words: words.into() }
    }

    /// Calls `code`; if it panics, that is a failure with the panic's words and place, and nothing is printed.
    ///
    /// Workers do this with every task. It is public for devices that have a thread of their own.
    pub fn catch<T>(code: impl FnOnce() -> Result<T, Self>) -> Result<T, Self> {
        crate::runner::caught(code)
    }

    /// Returns its words.
    pub fn words(&self) -> &str {
        &self.words
    }

    /// Makes a failure of a panic's payload.
    pub(crate) fn of_panic(payload: &(dyn std::any::Any + Send), place: Option<String>) -> Self {
        let text = payload.downcast_ref::<&str>().map(ToString::to_string);
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        let text = text.unwrap_or_else(|| "a payload that is not text".to_owned());
        let place = place.map(|place| format!(" at {place}")).unwrap_or_default();
        Self { words: format!("panicked{place}: {text}") }
    }
}

/// The most bytes of words that are sent to a parent.
pub(crate) const MAX_WORDS: usize = 1 << 20;

/// Returns the first `most` bytes of `words`, or a little less, and a line that says how many more there were.
pub(crate) fn cut(words: &str, most: usize) -> Cow<'_, str> {
    if words.len() <= most {
        return Cow::Borrowed(words);
    }
    let at = (0..=most).rev().find(|at| words.is_char_boundary(*at)).unwrap_or(0);
    let more = words.len() - at;
    Cow::Owned(format!("{}\n… and {more} bytes more", &words[..at]))
}

fn with_backtrace(words: String) -> String {
    let backtrace = Backtrace::capture();
    match backtrace.status() {
        BacktraceStatus::Captured => format!("{words}\n{backtrace}"),
        _ => words,
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut words = error.to_string();
        let mut source = error.source();
        while let Some(next) = source {
            let next_words = next.to_string();
            // An error that says no more than its source is said once.
            if !words.ends_with(&next_words) {
                words.push_str("\n  because: ");
                words.push_str(&next_words);
            }
            source = next.source();
        }
        Self::new(words)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_between_letters() {
        assert_eq!(cut("äöü", 6), "äöü");
        assert_eq!(cut("äöü", 5), "äö\n… and 2 bytes more");
        assert_eq!(cut("äöü", 1), "\n… and 6 bytes more");
    }
}
