//! Graphs on real workers.

mod callables;
mod conformance;
mod graphs;
mod helping;
mod stress;
mod timeline;
mod together;
