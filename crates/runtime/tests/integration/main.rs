//! Graphs on real workers.

mod callables;
mod callers;
mod conformance;
mod graphs;
mod mixed;
mod names;
mod prompt;
mod settings;
mod stress;
mod timeline;
