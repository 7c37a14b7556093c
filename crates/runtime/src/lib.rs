//! Runs task graphs for real: workers as threads or processes behind shared-memory mailboxes.
//!
//! [`Worker`] is where to begin.

mod allowance;
pub mod bootstrap;
pub mod call;
pub mod callable;
mod clock;
pub mod doctor;
pub mod domain;
pub mod endpoint;
pub mod error;
pub mod failure;
mod inside;
pub mod memory;
pub mod message;
pub mod nested;
mod node;
pub mod orchestrator;
pub mod process;
pub mod program;
mod runner;
mod serve;
pub mod shm;
mod sync;
pub mod task;
pub mod tensor;
pub mod timeline;
pub mod worker;

pub use bootstrap::{Bootstrap, ChipContext};
pub use call::Call;
pub use callable::Callable;
pub use domain::{Domain, DomainError, DomainSpec, DomainView};
pub use error::{Error, RunError, TaskFailure};
pub use failure::Failure;
pub use memory::Home;
pub use node::Finished;
pub use orchestrator::{Orchestrator, Target};
pub use process::{ChildStart, Startup};
pub use program::Program;
pub use task::{Data, Task};
pub use tensor::{Access, Argument, Buffer, DType, Layout, Tensor};
pub use timeline::Timeline;
pub use worker::{Builder, RunHandle, Worker};
