//! Graphs on real workers.

mod at_once;
mod attack5;
mod callables;
mod conformance;
mod graphs;
mod helping;
mod stress;
mod timeline;
mod together;
