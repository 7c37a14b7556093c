//! Errors of reading a kernel.

use std::fmt;
use std::rc::Rc;

/// A line of a kernel's source file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceLine {
    /// The file.
    pub file: Rc<str>,
    /// The line, from 1.
    pub line: u32,
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// A text that is not a kernel, or a kernel that uses what is not supported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TritonError {
    /// Line of the text, from 1.
    pub line: u32,
    /// Column of the text, from 1.
    pub column: u32,
    /// The operation, if the error is one of an operation.
    pub operation: Option<String>,
    /// The line of the kernel's source that asks for the operation, if the text says.
    pub source: Option<SourceLine>,
    /// The problem, and what is allowed.
    pub message: String,
}

impl fmt::Display for TritonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(source) = &self.source {
            write!(f, "{source}: ")?;
        }
        write!(f, "line {}, column {} of the TTIR: ", self.line, self.column)?;
        if let Some(operation) = &self.operation {
            write!(f, "`{operation}`: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for TritonError {}
