//! Graphs on real workers.

mod callables;
mod callers;
mod conformance;
mod graphs;
mod mixed;
mod prompt;
mod stress;
mod timeline;
