//! The simulator as its users see it, one module a behaviour.

mod config;
mod value;
