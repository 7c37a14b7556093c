//! Graphs on real workers.

mod as_elsewhere;
mod at_once;
mod callables;
mod conformance;
mod graphs;
mod helping;
mod names;
mod settings;
mod stress;
mod timeline;
mod together;
