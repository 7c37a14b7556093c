//! A line of a kernel's source.

use std::panic::Location;

/// A line of a program that the compiler knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceLine {
    file: &'static str,
    line: u32,
}

crate::portable!(struct SourceLine { file, line });

impl SourceLine {
    /// Returns the name of the file.
    pub fn file(self) -> &'static str {
        self.file
    }

    /// Returns the number of the line, which counts from 1.
    pub fn line(self) -> u32 {
        self.line
    }
}

impl From<&'static Location<'static>> for SourceLine {
    fn from(location: &'static Location<'static>) -> Self {
        Self { file: location.file(), line: location.line() }
    }
}
