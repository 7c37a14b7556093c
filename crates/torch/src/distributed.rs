//! What ranks do together: process groups, collectives, messages.
//!
//! Every rank launches its own part, a kernel on its own SIP, and learns of the others from their messages: there is
//! no table that they share (PAR-1).
//!
//! ```
//! use phalanx_sim::{MachineSpec, machine::Options, DType};
//! use phalanx_torch::{Context, distributed as dist, multiprocessing};
//! let quad = MachineSpec::preset("quad-sip").unwrap();
//! let mut context = Context::new(quad, Options::default());
//! let sums = multiprocessing::spawn(&mut context, 4, |rank, cx| async move {
//!     dist::init_process_group(&cx)?;
//!     let x = cx.full([8], rank as f64, DType::F32)?;
//!     dist::all_reduce(&cx, &x, dist::ReduceOp::Sum, None).await?;
//!     x.to_vec().await
//! });
//! assert_eq!(sums.unwrap(), [[6.0; 8]; 4]);
//! ```
//!
//! - **DST-1 (in order).** The collectives of a group run one after another, in the order a rank asks for them.
//! - **DST-2 (both sides).** Ranks that do not agree on operation, order, type, size or algorithm fail with an error
//!   that shows both sides, or are reported as unable to go on.
//! - **DST-3 (same on all).** What everybody gets is bitwise equal on all ranks (CCL-1).

mod check;
mod collective;
mod group;
mod messages;
mod operations;
mod work;

pub use crate::ccl::part::ReduceOp;
pub(crate) use collective::{CollectiveCall, launch_by};
pub use collective::{all_reduce_by, all_reduce_plan};
pub(crate) use group::Groups;
pub use group::{
    ProcessGroup, destroy_process_group, get_rank, get_world_size, init_process_group, new_group,
};
pub(crate) use messages::unreceived;
pub use messages::{irecv, isend, recv, send};
pub use operations::*;
pub use work::Work;
