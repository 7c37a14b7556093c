//! Runs task graphs on threads and processes.
//!
//! # What is what
//!
//! - A **worker** ([`Worker`]) runs graphs. It has *chips* and *sub workers*, which run tasks, or workers of the level below.
//!   Each of them is a process, or a thread of this process ([`Builder::threads`]).
//! - A **callable** ([`Callable`]) is a function with a name. A [`Program`] is the list of all callables; it is the same in
//!   every process.
//! - A **task** is one call of a callable on one worker. Code of a graph describes it with a [`Call`]; the callable sees it as
//!   a [`Task`].
//! - A **graph** is the code that submits tasks to an [`Orchestrator`]; one pass through a graph is a *run*. A task waits for
//!   the earlier tasks whose bytes it reads or overwrites: dependencies follow from the arguments.
//! - A **tensor** ([`Tensor`]) names elements of a [`Buffer`] in memory that all workers share. Tasks see it in place, without
//!   a copy. An argument says what the task does with it: [`Tensor::input`], [`Tensor::output`], [`Tensor::in_out`].
//! - A **domain** ([`Domain`]) is the same window of memory on each of some chips. Tasks reach into the windows of their peers
//!   ([`DomainView`]): put, get, notify, wait, barrier.
//!
//! # A first program
//!
//! Two threads add a number to the rows of a matrix, and a third task sums the matrix after that.
//!
//! ```
//! use phalanx_runtime::{Call, Callable, DType, Error, Failure, Program, Task, Worker, register};
//!
//! fn add(task: &mut Task<'_>) -> Result<(), Failure> {
//!     let number = task.real(0)?;
//!     let [mut rows] = task.arguments()?;
//!     rows.slice_mut::<f64>()?.iter_mut().for_each(|x| *x += number);
//!     Ok(())
//! }
//!
//! fn sum(task: &mut Task<'_>) -> Result<(), Failure> {
//!     let [matrix, mut total] = task.arguments()?;
//!     total.slice_mut::<f64>()?[0] = matrix.slice::<f64>()?.iter().sum();
//!     Ok(())
//! }
//!
//! const ADD: Callable = register!(add);
//! const SUM: Callable = register!(sum);
//! static PROGRAM: Program = Program::new(&[ADD, SUM]);
//!
//! let worker = Worker::builder(&PROGRAM).threads().sub_workers(2).init()?;
//! let matrix = worker.tensor(DType::F64, &[4, 8])?;
//! let total = worker.tensor(DType::F64, &[1])?;
//! worker.run("add and sum", |graph| {
//!     for row in 0..4 {
//!         let rows = matrix.rows(row, row + 1)?;
//!         graph.submit_sub(&Call::new(&ADD).args([rows.in_out()]).real(2.5))?;
//!     }
//!     graph.submit_sub(&Call::new(&SUM).args([matrix.input(), total.output()]))?;
//!     Ok(())
//! })?;
//! assert_eq!(worker.read::<f64>(&total)?, [80.0]);
//! worker.close()?;
//! # Ok::<(), Error>(())
//! ```
//!
//! # Processes
//!
//! Without [`Builder::threads`] each worker is a process: this program, started again. So `main` begins with
//! [`Program::serve_if_child`], which serves and never returns in a child. Memory is shared, so tasks see tensors in place as
//! before; a process that dies fails its own tasks only, and the error names the process and the cause.
//!
//! ```no_run
//! # use phalanx_runtime::{Error, Program, Worker};
//! # static PROGRAM: Program = Program::new(&[]);
//! fn main() -> Result<(), Error> {
//!     PROGRAM.serve_if_child();
//!     let worker = Worker::builder(&PROGRAM).chips(4).init()?;
//!     // Runs as above.
//!     worker.close()
//! }
//! ```
//!
//! # Where to go
//!
//! - Graphs: [`Orchestrator`], scopes and groups; [`RunHandle`] for runs in the background.
//! - Chips: [`Bootstrap`] sets a chip up; [`Builder::workers`] makes workers of workers.
//! - Failure: [`Error`], [`RunError`], [`Budgets`] for time limits, [`Builder::restart`] for lost processes.
//! - Sight: [`Timeline`], [`Startup`], [`doctor`] for what a host lacks.
//!
//! The protocols have pages of their own: `src/node/README.md` (who drives a node) and `src/shm/README.md` (shared memory).

mod allowance;
mod bootstrap;
mod call;
mod callable;
mod clock;
pub mod doctor;
mod domain;
mod endpoint;
mod error;
mod failure;
mod inside;
mod memory;
#[doc(hidden)]
pub mod message;
mod nested;
mod node;
mod open;
mod orchestrator;
mod process;
mod program;
mod runner;
mod serve;
#[doc(hidden)]
pub mod shm;
mod sync;
mod task;
mod tensor;
mod timeline;
mod worker;

pub use bootstrap::{Bootstrap, BootstrapFunction, ChipContext};
pub use call::Call;
pub use callable::{Callable, Digest, Function, Orchestration};
pub use domain::{Domain, DomainError, DomainSpec, DomainView, OwnedDomain, WindowBuffer};
pub use error::{Error, Lost, RunError, StartError, TaskFailure};
pub use failure::Failure;
pub use memory::{Home, NoMemory};
pub use node::Finished;
pub use open::OpenRun;
pub use orchestrator::{Orchestrator, Target};
pub use process::{ChildStart, Startup, serve_found, start_children_by};
pub use program::{Program, ProgramError};
pub use shm::Phase;
pub use task::{ArgumentSpan, Copied, Data, DataError, Progress, Task};
pub use tensor::{Access, Argument, Buffer, DType, Layout, Tensor, TensorError};
pub use timeline::{RunSpan, TaskSpan, Timeline};
pub use worker::{Budgets, Builder, Isolation, RunHandle, Worker};

pub use phalanx_engine::{
    Cause, Class, Counts, Reason, RunId, RunReport, ScopeError, Stall, Stats, SubmitError, TaskId,
    Time, ViewError, WorkerId,
};
