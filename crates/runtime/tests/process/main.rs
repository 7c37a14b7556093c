//! Workers that are processes: their start, their words, their deaths, and their remains.
#![expect(clippy::print_stdout, reason = "counts and times, for whoever runs the tests by hand")]

#[path = "../fixture/callables.rs"]
mod callables;

#[path = "../fixture/collectives.rs"]
mod collectives;

#[path = "../fixture/hostile.rs"]
mod hostile;

#[path = "../fixture/levels_below.rs"]
mod levels_below;

#[expect(dead_code, reason = "another test uses the rest")]
#[path = "../fixture/records.rs"]
mod records;

mod closing;
mod death;
mod domains;
mod frozen;
mod graphs;
mod idle;
mod levels;
mod limits;
mod losses;
mod parent;
mod peers;
mod restart;
mod start;
mod support;
mod words;
