//! Triton kernels on simulated chips.
//!
//! Triton turns a kernel into TTIR, a text of typed operations. [`parse`] reads the text into a module (`ir.rs`); a
//! [`Kernel`] is compiled from it once and launched on a rank as often as needed.
//!
//! ```text
//!   text -> lexer -> parser -> ir -> lower -> program -> exec -> Tl
//! ```
#![forbid(unsafe_code)]

mod combine;
mod error;
mod exec;
mod function;
mod index;
mod ir;
mod kernel;
mod lexer;
mod lower;
mod number;
mod parser;
mod program;
mod source_text;
mod types;

pub use error::{SourceLine, TritonError};
pub use kernel::{Argument, Kernel, Launched, Settings};
#[doc(hidden)]
pub use parser::parse;
pub use types::{Element, Extent, Scalar, Type};
