//! Task graphs whose dependencies are inferred from data, as a pure state machine.
//!
//! A driver submits tasks that say which bytes they read and write. The [`Engine`] infers the dependencies, bounds the number
//! of live tasks, and says which task to start on which worker. It has no clock, thread, lock or I/O: the driver turns
//! [`Event`]s into [`Action`]s inline, over threads, over processes, or in virtual time.
//!
//! - Memory: [`Identity`], [`BufferId`] and [`View`] name bytes; a [`Tag`] says how a task uses them.
//! - Tasks: a [`TaskSpec`] goes to [`Engine::submit`]; its [`Placement`] is a worker, a pool or a group.
//! - Runs: a [`RunSpec`] begins a graph, a [`Scope`] bounds the life of slabs, an [`Outcome`] ends the run.
//! - Diagnosis: [`Engine::why`] explains one task, [`watch`] finds stalls.
//!
//! ```
//! use phalanx_engine::*;
//!
//! let mut engine = Engine::new(Config::default());
//! let pool = engine.add_pool();
//! let worker = engine.add_worker(Some(pool), 1);
//! engine.step(Time(0), Event::Ready(worker));
//! let data = engine.register(Identity { owner: 1, number: 1, generation: 1 }, 64, Grant::ReadWrite)?;
//! let Begin::Started(run) = engine.begin(&RunSpec::new("example")) else { unreachable!("nothing else runs") };
//! let write = [View::bytes(data, 0, 64)?.output()];
//! let read = [View::bytes(data, 32, 8)?.input()];
//! engine.submit(run, &TaskSpec::new(Placement::Pool(pool)).args(&write).work(1))?;
//! engine.submit(run, &TaskSpec::new(Placement::Pool(pool)).args(&read).work(2))?;
//! engine.seal(run)?;
//!
//! let mut order = Vec::new();
//! while let Some(action) = engine.actions().next() {
//!     if let Action::Start(start) = action {
//!         order.push(start.work);
//!         let Start { worker, dispatch, .. } = start;
//!         engine.step(Time(0), Event::Finished { worker, dispatch, ending: Ending::Done, took: 1 });
//!     }
//! }
//! assert_eq!(order, [1, 2]);
//! assert_eq!(engine.outcome(run).map(|outcome| outcome.report.critical), Some(2));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod arena;
mod buffer;
mod engine;
mod error;
mod explain;
mod group;
mod inline_list;
mod record;
mod refs;
mod region;
mod ring;
mod run;
mod scope;
mod task;
mod tensormap;
mod view;
mod watchdog;
mod worker;

pub use buffer::{BufferError, BufferId, Grant, Identity};
pub use engine::{Action, Actions, Config, Ending, Engine, Event, Start, Stats};
pub use error::{Begin, Knob, Submit, SubmitError};
pub use explain::{Dependency, Graph, GraphEdge, GraphNode, Waiting, Why};
pub use region::Regions;
pub use run::{Cause, Outcome, Reason, Resources, RunId, RunReport, RunSpec};
pub use scope::{Mode, Scope, ScopeError};
pub use task::{Arg, Placement, Slab, State, Tag, TaskId, TaskSpec, Time};
pub use tensormap::Kinds;
pub use view::{ByteSet, MAX_RANK, View, ViewError};
pub use watchdog::{Budgets, Class, Counts, Inverted, Ladder, Stall, Verdict, watch};
pub use worker::{Health, PoolId, WorkerId};
