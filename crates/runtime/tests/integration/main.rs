//! Graphs on real workers.

mod callables;
mod callers;
mod conformance;
mod given_back;
mod graphs;
mod in_place;
mod inside;
mod memory;
mod mixed;
mod names;
mod open;
mod prompt;
mod settings;
mod stress;
mod timeline;
