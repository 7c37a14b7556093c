//! The `phalanx` program.
#![forbid(unsafe_code)]
fn main() {}
