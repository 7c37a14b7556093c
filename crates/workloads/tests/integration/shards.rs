//! Runs on several threads and processes: every byte is that of one thread (XCH-1).

use crate::same_bytes::{CASES, Case};
use phalanx_sim::machine::Options;
use phalanx_torch::shards::{Channels, Farewell, Processes, ShardLayout};

/// The first lines that differ.
fn assert_same(one: &str, other: &str, what: &str) {
    if let Some((left, right)) = one.lines().zip(other.lines()).find(|(left, right)| left != right)
    {
        panic!("XCH-1: {what}\n  {left}\n  {right}");
    }
    assert_eq!(one.len(), other.len(), "XCH-1: {what}");
}

#[test]
fn there_are_enough_cases() {
    let workloads = CASES.iter().filter(|case| matches!(case, Case::Workload(..))).count();
    assert!(workloads >= 40, "{workloads} of {}", CASES.len());
}

#[test]
fn xch_1_every_byte_of_a_run_is_that_of_one_thread() {
    for case in CASES {
        for data in [true, false] {
            let alone = case.run(&ShardLayout::threads(1), data);
            for threads in [2, 3, 7] {
                let what = format!("{case:?} data {data} on {threads} threads");
                assert_same(&alone, &case.run(&ShardLayout::threads(threads), data), &what);
            }
        }
    }
}

/// Runs a case in processes that are threads, each with so many threads; returns what process 0 sees.
fn in_processes(case: &Case, data: bool, processes: usize, threads: usize) -> String {
    std::thread::scope(|scope| {
        let start = |link: Channels| {
            scope.spawn(move || {
                let processes = Processes::new(link);
                let layout = ShardLayout { threads, processes: Some(processes.clone()) };
                let seen = case.run(&layout, data);
                processes.end(Farewell { code: 0, words: String::new() });
                seen
            })
        };
        let mut all: Vec<_> = Channels::new(processes).into_iter().map(start).collect();
        let first = all.remove(0).join().unwrap();
        for other in all {
            other.join().unwrap();
        }
        first
    })
}

#[test]
fn xch_3_every_byte_of_a_run_is_that_of_one_process() {
    for (number, case) in CASES.iter().enumerate() {
        // Each case with one layout; `mpi.rs` has all of them.
        let (processes, threads) = [(2, 1), (4, 1), (2, 3), (3, 2)][number % 4];
        let data = number % 8 < 5;
        let alone = case.run(&ShardLayout::threads(1), data);
        let what = format!("{case:?} data {data} in {processes} processes of {threads} threads");
        assert_same(&alone, &in_processes(case, data, processes, threads), &what);
    }
}

#[test]
fn xch_1_folding_many_steps_gives_the_same_report() {
    let case = &CASES[29];
    let options = || Options { data: false, steps: 500, ..Options::default() };
    let alone = case.run_with(&ShardLayout::threads(1), options());
    for threads in [2, 3, 7] {
        let what = format!("{case:?}, folded, on {threads} threads");
        assert_same(&alone, &case.run_with(&ShardLayout::threads(threads), options()), &what);
    }
}
