//! Ranks in shards: results, failures and deadlocks are those of one thread.

mod faults;

use faults::{Fault, run};
use phalanx_sim::machine::Options;
use phalanx_torch::shards;

#[test]
fn xch_1_results_failures_and_deadlocks_of_ranks_are_those_of_one_thread() {
    let faults = [
        Fault::None,
        Fault::Errors,
        Fault::Panic,
        Fault::Missing,
        Fault::Mismatch,
        Fault::Unreceived,
        Fault::Silence,
        Fault::Destructor,
    ];
    for fault in faults {
        let options = || Options { record: true, ..Options::default() };
        let alone = run(fault, options());
        for count in [2, 3, 7] {
            let other =
                shards::run(count, |exchange| run(fault, Options { exchange, ..options() }));
            let mut lines = alone.lines().zip(other.lines());
            if let Some((one, other)) = lines.find(|(one, other)| one != other) {
                panic!("XCH-1: {fault:?} on {count} threads\n  {one}\n  {other}\n{alone}");
            }
            assert_eq!(alone.len(), other.len(), "XCH-1: {fault:?} on {count} threads");
        }
    }
}
