//! Algorithms of collectives, their configuration and their measurement.
//!
//! A file, `ccl.yaml`, configures the algorithms. Every part of it may be left out:
//!
//! ```
//! use phalanx_torch::ccl::{CclConfig, Choice};
//! let text = "
//! defaults: { algorithm: large, n_slots: 8 }
//! algorithms:
//!   large: { module: ring, slot_size: 1 MiB }
//! ";
//! let config = CclConfig::parse("ccl.yaml", text, &["ring"]).unwrap();
//! assert_eq!(config.default_choice(), Choice::Named("large".into()));
//! let plan = config.plan("large", &["ring"]).unwrap();
//! assert_eq!((plan.module.as_str(), plan.edge.n_slots, plan.edge.slot_size), ("ring", 8, 1 << 20));
//! ```

pub(crate) mod algorithm;
mod algorithms;
pub(crate) mod channels;
pub(crate) mod config;
pub(crate) mod job;
pub(crate) mod lanes;
pub mod layout;
pub mod least;
pub(crate) mod part;
mod prefetch;
pub mod profile;
pub mod store;
mod streams;
pub mod sweep;
pub mod trial;
pub mod tuner;

pub use algorithm::{
    Algorithm, CollectiveAlgorithm, LeastWork, Operation, OwnAlgorithm, Running, Shape, anywhere,
};
pub use channels::Channels;
pub use config::{
    CclConfig, Choice, ENVIRONMENT, FILE, Plan, ProfileChoice, Source, TopologyKind, locate,
};
pub use part::{Buffer, Part, Peers, RecvQueue, ReduceOp, Runs, SendQueue, Splits};
pub use prefetch::{LoadFrom, Prefetch};
pub use profile::Profile;
pub use streams::{Stream, side_by_side};
pub use tuner::Tuner;
