//! Triton kernels on simulated chips.
//!
//! Triton turns a kernel into TTIR, a text of typed operations. [`parse`] reads the text into a [`Module`](ir::Module).
#![forbid(unsafe_code)]

mod error;
pub mod ir;
mod lexer;
mod parser;
mod types;

pub use error::{SourceLine, TritonError};
pub use parser::parse;
pub use types::{Element, Extent, Scalar, Type};
