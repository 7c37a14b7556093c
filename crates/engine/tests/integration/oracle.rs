//! Random programs over aliasing views: whatever the engine does in parallel, the bytes are those of one task after the
//! other.
//!
//! A task reads at its start and looks again at its end; it scribbles over what it writes at its start and writes the truth
//! at its end. So two tasks that should not be under way together are found out, whichever came first.

mod execute;
mod program;

use execute::Execution;
use program::Program;
use proptest::prelude::*;

/// The number of programs, unless `PHALANX_ENGINE_PROGRAMS` says otherwise.
const PROGRAMS: u32 = 100_000;

fn programs() -> u32 {
    std::env::var("PHALANX_ENGINE_PROGRAMS")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(PROGRAMS)
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig::with_cases(cases)
}

proptest! {
    #![proptest_config(config(programs()))]

    /// Properties P1 to P6 of the specification, as far as they need no processes.
    #[test]
    fn parallel_execution_gives_the_bytes_of_sequential_execution(
        words in prop::collection::vec(any::<u64>(), 1..12),
        seed in any::<u64>(),
    ) {
        let program = Program::decode(&words, seed);
        Execution::new(&program, seed).run().map_err(TestCaseError::fail)?;
    }
}

proptest! {
    #![proptest_config(config(programs() / 50))]

    /// Longer programs meet full rings, scopes and groups more often.
    #[test]
    fn long_programs_give_the_bytes_of_sequential_execution(
        words in prop::collection::vec(any::<u64>(), 30..80),
        seed in any::<u64>(),
    ) {
        let program = Program::decode(&words, seed);
        Execution::new(&program, seed).run().map_err(TestCaseError::fail)?;
    }

    #[test]
    fn eng_1_the_same_program_and_seed_give_the_same_actions(
        words in prop::collection::vec(any::<u64>(), 1..30),
        seed in any::<u64>(),
    ) {
        let program = Program::decode(&words, seed);
        let trace = || Execution::new(&program, seed).run().map_err(TestCaseError::fail);
        prop_assert_eq!(trace()?, trace()?);
    }
}
