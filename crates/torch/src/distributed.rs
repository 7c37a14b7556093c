//! Communication between ranks: process groups, collectives, messages.
//!
//! Every rank launches its own part, a kernel on its own SIP, and learns of other ranks from their messages: ranks share no
//! state (PAR-1).
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
//! - **DST-1 (in order).** The collectives of a group run one after another, in the order of a rank's calls.
//! - **DST-2 (both sides).** Ranks that do not agree on operation, order, type, size or algorithm fail with an error that
//!   shows both sides, or with a report of the deadlock.
//! - **DST-3 (same on all).** A result that all ranks get is bitwise equal on all of them (CCL-1).

mod check;
mod collective;
mod group;
mod messages;
mod operations;
mod work;

pub use crate::ccl::part::ReduceOp;
pub(crate) use collective::{CollectiveCall, launch_by};
pub use collective::{all_reduce_by, all_reduce_plan};
pub(crate) use group::{Groups, MemberLists, SplitCall};
pub use group::{
    ProcessGroup, destroy_process_group, get_rank, get_world_size, init_process_group, new_group,
};
pub(crate) use messages::unreceived;
pub use messages::{P2pOp, batch_isend_irecv, irecv, irecv_any, isend, recv, recv_any, send};
pub use operations::*;
pub use work::Work;
