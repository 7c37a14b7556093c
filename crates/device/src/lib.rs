//! Simulated chips, driven by task graphs.
//!
//! - [`graph`]: kernels over tiles on the PEs of one chip. The order of tasks follows from the bytes that the tasks touch.
//! - [`chip`]: a chip of a node. Each chip process of `phalanx-runtime` hosts one SIP of a simulated machine.
//!
//! A graph of two tasks on one PE; the second waits for the first, as it reads what the first writes:
//!
//! ```
//! use phalanx_device::{GraphOptions, KernelTask, OpenGraph};
//! use phalanx_sim::kernel::{KernelError, Tl};
//! use phalanx_sim::{DType, MachineSpec, machine::Options};
//! use phalanx_torch::{Args, Context};
//!
//! async fn double(tl: Tl, args: Args) -> Result<(), KernelError> {
//!     let x = tl.load(&args.view(0)?).await?;
//!     let y = tl.add(&x, &x).await?;
//!     tl.store(&args.view(1)?, &y).await
//! }
//!
//! let mut context = Context::new(MachineSpec::preset("pair").unwrap(), Options::default());
//! let (tasks, numbers) = context.run(|rank| async move {
//!     let x = rank.full([256], 1.0, DType::F32)?;
//!     let y = rank.empty([256], DType::F32)?;
//!     let graph = rank.graph("twice", GraphOptions::default())?;
//!     graph.submit(KernelTask::new("double", double).input(&x).output(&y)).await?;
//!     graph.submit(KernelTask::new("double", double).input(&y).output(&x)).await?;
//!     Ok((graph.finish().await?.tasks().len(), x.to_vec().await?))
//! }).unwrap();
//! assert_eq!((tasks, numbers), (2, vec![4.0; 256]));
//! println!("{}", context.report());
//! ```
//!
//! Chapter 8 of the guide has more of graphs, chapter 9 of chips; `examples/chip_graph.rs` is a matrix product.
#![forbid(unsafe_code)]

pub mod chip;
pub mod graph;

pub use chip::{Operand, SimChip};
pub use graph::{Dispatch, GraphOptions, KernelTask, OpenGraph, TaskGraph};
