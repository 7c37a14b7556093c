//! Ranks that look like `PyTorch` programs, on simulated chips.
//!
//! A [`Context`] holds a machine. [`multiprocessing::spawn`] runs one program for each rank; a [`Rank`] makes tensors, launches
//! kernels and joins collectives ([`distributed`]). Layers spread over ranks are in [`tp`], algorithms of collectives in [`ccl`].
//! [`Pool`] computes numbers on several threads beside the simulation, and [`shards`] simulates on several threads.
//!
//! ```
//! use phalanx_sim::{DType, MachineSpec, machine::Options};
//! use phalanx_torch::{Context, distributed as dist, multiprocessing};
//!
//! let mut context = Context::new(MachineSpec::preset("quad-sip").unwrap(), Options::default());
//! let sums = multiprocessing::spawn(&mut context, 4, |rank, cx| async move {
//!     dist::init_process_group(&cx)?;
//!     let x = cx.full([1024], rank as f64, DType::F16)?;
//!     dist::all_reduce(&cx, &x, dist::ReduceOp::Sum, None).await?;
//!     Ok(x.to_vec().await?[0])
//! });
//! assert_eq!(sums.unwrap(), [6.0; 4]);
//! ```
#![forbid(unsafe_code)]

pub mod ccl;
mod context;
pub mod distributed;
pub mod driver;
mod error;
mod launch;
pub mod limits;
pub mod multiprocessing;
mod placement;
mod pool;
mod random;
mod rank;
mod request;
mod settings;
pub mod shards;
pub mod stream;
mod tensor;
pub mod tp;

pub use context::Context;
pub use error::{Custom, Error, Mismatch, MismatchSide};
pub use launch::{Arg, Args, Grid};
pub use placement::{DpPolicy, Shard, Spread};
pub use pool::Pool;
pub use rank::{Range, Rank};
pub use request::Handle;
pub use stream::{Entered, Event, Stream};
pub use tensor::{Placed, Tensor};
