//! A deterministic discrete-event simulator of multi-chip accelerators.
//!
//! The crate runs kernels on a simulated machine. A run computes the data of every tensor and the simulated time of
//! every operation; the same program gives the same data and the same times on every computer.
//!
//! # A first program
//!
//! Two kernels on the two chips of the preset machine `pair`: the first sends a tile to the second.
//!
//! ```
//! use phalanx_sim::ipcq::EdgeSpec;
//! use phalanx_sim::kernel::View;
//! use phalanx_sim::machine::{Machine, Options};
//! use phalanx_sim::topology::PeId;
//! use phalanx_sim::{DType, MachineSpec, Time, Value};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut machine = Machine::new(MachineSpec::preset("pair")?, Options::default());
//! let input = machine.resident(0, 0, Value::full(DType::F32, 1024, 1.5))?;
//! let output = machine.empty(1, 0, DType::F32, 1024)?;
//! let (left, right) = (PeId::first(0), PeId::first(1));
//!
//! machine.launch(0, "send", &[left], move |tl| async move {
//!     let sender = tl.sender(right, EdgeSpec::default())?;
//!     let tile = tl.load(&View::of(&input)).await?;
//!     tl.send(&sender, &tile).await;
//!     Ok(())
//! });
//! machine.launch(1, "double", &[right], move |tl| async move {
//!     let receiver = tl.receiver(left, EdgeSpec::default())?;
//!     let tile = tl.recv(&receiver, DType::F32, 1024).await?;
//!     let sum = tl.add(&tile, &tile).await?;
//!     tl.store(&View::of(&output), &sum).await
//! });
//!
//! let report = machine.run()?;
//! assert!(report.simulated > Time::ZERO);
//! assert_eq!(machine.read(&output)?.unwrap().get(0), 3.0);
//! # Ok(())
//! # }
//! ```
//!
//! # The model
//!
//! - **Machine.** A machine is a set of packages (SIPs), each a grid of cubes with one HBM stack; a cube is a grid of
//!   processing elements (PEs), each with scratch memory (TCM), a matrix engine, a vector engine and two DMA channels.
//!   Links connect the SIPs in a ring, mesh, torus or switch. [`MachineSpec`] holds all numbers; [`machine::Machine`] is
//!   the running machine.
//! - **Virtual time.** [`Time`] is a whole number of picoseconds. The [`executor`] fires events in the order of time;
//!   each SIP is a *partition* with its own event queue, and the order of events never depends on the computer.
//! - **Processes.** A process is an `async` function. It takes simulated time only when it awaits: a sleep, an operation,
//!   or another process. If no event is left and processes still wait, the run ends with an
//!   [`executor::Deadlock`] that names the processes and their conditions.
//! - **Kernels.** A kernel is a process on a PE, written against [`kernel::Tl`]: load and store tiles, compute on the
//!   engines, send and receive.
//! - **Values.** A [`Value`] is immutable data that is computed lazily; an [`Evaluator`] computes it. A run without data
//!   gives the same times.
//! - **Queues with credits.** PEs exchange messages over directed edges ([`ipcq`]). An edge has a fixed number of slots
//!   at the receiver; a sender needs a credit for each message, and the credit returns when the receiver frees the slot.
//!
//! # Modules
//!
//! | module | contents |
//! |---|---|
//! | [`machine`] | machines, their options, launches and hosts |
//! | [`config`], [`spec`] | machine files, presets and overrides; a machine as numbers |
//! | [`kernel`] | the operations of kernels: tiles, views, matrix products, messages |
//! | [`ipcq`], [`topology`], [`memory`] | edges between PEs; PE names; regions of HBM |
//! | [`value`] | data, its operations and its evaluators |
//! | [`report`], [`stall`], [`record`], [`timeline`] | results of a run: times, stalls, critical path, timeline |
//! | [`advice`] | changes that make a run faster |
//! | [`executor`] | simulated processes: waits, joins, signals, deadlocks |
//! | [`time`], [`units`] | quantities, and their text form |
//!
//! The crates `phalanx-torch` (ranks, tensors, collectives), `phalanx-device` (task graphs on the PEs of a chip) and
//! `phalanx-workloads` (whole programs) build on this crate.
#![forbid(unsafe_code)]

pub mod advice;
pub mod config;
mod credit;
pub mod exchange;
pub mod executor;
mod foreign;
pub mod ipcq;
pub mod kernel;
pub mod machine;
pub mod memory;
pub mod names;
pub mod portable;
pub mod record;
pub mod report;
mod ring_buffer;
mod signal;
pub mod spec;
mod spelling;
pub mod stall;
pub mod time;
pub mod timeline;
pub mod topology;
pub mod units;
pub mod value;
mod wait_queue;
mod wire;

pub use foreign::Foreign;
pub use spec::MachineSpec;
pub use time::{Bandwidth, Bytes, Capacity, Rate, Time};
pub use value::{DType, Evaluator, Value};
