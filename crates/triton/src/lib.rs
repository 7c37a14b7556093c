//! Triton kernels on simulated chips.
//!
//! Triton turns a kernel into TTIR, a text of typed operations. [`parse`] reads the text into a module (`ir.rs`); a
//! [`Kernel`] is compiled from it once and launched on a rank as often as needed.
//!
//! This kernel squares a tensor where it is. Triton writes such a text; here it is part of the program:
//!
//! ```
//! use phalanx_sim::{DType, MachineSpec, machine::Options};
//! use phalanx_torch::Context;
//! use phalanx_triton::{Argument, Kernel, Settings};
//!
//! const SQUARE: &str = "
//!     tt.func public @square(%x: !tt.ptr<f32>) {
//!       %at = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>
//!       %all = tt.splat %x : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
//!       %places = tt.addptr %all, %at : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
//!       %numbers = tt.load %places : tensor<128x!tt.ptr<f32>>
//!       %squares = arith.mulf %numbers, %numbers : tensor<128xf32>
//!       tt.store %places, %squares : tensor<128x!tt.ptr<f32>>
//!       tt.return
//!     }";
//!
//! let mut context = Context::new(MachineSpec::preset("pair").unwrap(), Options::default());
//! let squares = context.run(|rank| async move {
//!     let kernel = Kernel::read(SQUARE).unwrap();
//!     let x = rank.full([128], 3.0, DType::F32)?;
//!     let pointer = Argument::Pointer(x.clone(), 0);
//!     kernel.launch(&rank, &[pointer], &[], &Settings::default())?.wait().await?;
//!     x.to_vec().await
//! });
//! assert_eq!(squares.unwrap(), [9.0; 128]);
//! println!("{}", context.report());
//! ```
//!
//! The way of a kernel through the modules:
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
