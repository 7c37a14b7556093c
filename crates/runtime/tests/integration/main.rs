//! Graphs on real workers.

mod as_elsewhere;
mod at_once;
mod callables;
mod conformance;
mod given_back;
mod graphs;
mod helping;
mod in_place;
mod inside;
mod stress;
mod timeline;
mod together;
