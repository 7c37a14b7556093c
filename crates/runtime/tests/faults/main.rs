//! Faults in numbers: what must hold however often, whenever and in whatever order things go wrong.
//!
//! Each test prints how often it tried. That is few times, unless the variable `PHALANX_RUNTIME_FAULTS` is `full`:
//!
//! ```text
//! PHALANX_RUNTIME_FAULTS=full cargo test --release -p phalanx-runtime --test faults -- --nocapture
//! ```
//!
//! | test | few | full |
//! |---|---|---|
//! | kills in every state of a worker | 40 | 640 |
//! | kills among barriers | 16 | 400 |
//! | all-reduces with skewed starts and stalls, on 2 and 4 chips | 40 | 1 000 |
//! | deadlocks, and kernels that never return | 4 each | 100 each |
//! | random graphs with dying tasks, on threads and on processes | up to 90 | up to 4 500 |
//! | children that write over their mailbox | 12 | 1 000 |
//! | runs of the soak | 10 000 | 1 000 000 |
#![expect(clippy::print_stdout, reason = "counts and times, for whoever runs the tests by hand")]

#[path = "../fixture/callables.rs"]
mod callables;

#[path = "../fixture/collectives.rs"]
mod collectives;

#[path = "../fixture/hostile.rs"]
mod hostile;

#[path = "../fixture/levels_below.rs"]
mod levels_below;

#[path = "../fixture/records.rs"]
mod records;

#[expect(dead_code, reason = "other tests use the rest")]
#[path = "../process/support.rs"]
mod support;

mod graphs;
mod kills;
mod latches;
mod meetings;
mod refusals;
mod soak;
mod stalls;
mod tampering;

/// The number of tries.
fn count(few: u64, full: u64) -> u64 {
    let is_full = std::env::var("PHALANX_RUNTIME_FAULTS").is_ok_and(|value| value == "full");
    if is_full { full } else { few }
}
