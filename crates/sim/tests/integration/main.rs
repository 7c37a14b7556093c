//! The behaviours of the simulator, one module each.

mod config;
