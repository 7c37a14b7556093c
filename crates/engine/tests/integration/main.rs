//! The behaviours of the engine, one module each.

mod behind;
mod bugs;
mod explain;
mod groups;
mod oracle;
mod ring;
mod runs;
mod soak;
mod support;
mod tensors;
mod watchdog;
