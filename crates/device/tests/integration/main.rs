//! Simulated chips as their users see them.

mod chip;
mod graph;
mod support;
