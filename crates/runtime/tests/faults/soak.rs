//! Very many runs cost nothing that stays, and many more children than cores get on.

use crate::callables::{NOTHING, WHO};
use crate::count;
use crate::support::{Leftovers, builder, descriptors, ticks, turn};
use phalanx_runtime::{Call, DType, Error, Worker};
use std::collections::BTreeSet;
use std::time::Instant;

/// The resources that a worker and its children use.
#[derive(Debug)]
struct Usage {
    /// Memory of all processes that no file backs, in KiB.
    memory: u64,
    descriptors: usize,
    threads: usize,
    /// Processor time so far, in ticks.
    ticks: u64,
}

impl Usage {
    fn of(worker: &Worker) -> Self {
        let mut all: Vec<u32> =
            worker.startup().children.iter().map(|child| child.process).collect();
        all.push(std::process::id());
        let threads = std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
        let memory = all.iter().map(|process| memory(*process)).sum();
        let ticks = all.iter().map(|process| ticks(*process)).sum();
        Self { memory, descriptors: descriptors(), threads, ticks }
    }
}

/// Returns the memory of a process that no file backs, in KiB, whether it was swapped out or not.
fn memory(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it is there");
    let line = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
    let number = |name: &str| line(name).trim().trim_end_matches(" kB").parse::<u64>();
    ["RssAnon:", "VmSwap:"].map(|name| number(name).expect("a number")).iter().sum()
}

#[test]
fn very_many_runs_leave_memory_descriptors_and_threads_as_they_were() -> Result<(), Error> {
    let _turn = turn();
    let left = Leftovers::before();
    let worker = builder().sub_workers(2).memory(1 << 22).ring(64, 1 << 20).init()?;
    let number = worker.tensor(DType::I64, &[1])?;
    let runs = count(10_000, 1_000_000);
    let mut usages = Vec::new();
    let begun = Instant::now();
    for _ in 0..10 {
        for at in 0..runs / 10 {
            match at % 4 {
                0 => worker.call(&Call::new(&WHO).args([number.output()]))?,
                1 => worker.run("group", |graph| {
                    Ok(graph
                        .submit_sub_group(&[Call::new(&NOTHING), Call::new(&NOTHING)])
                        .map(drop)?)
                })?,
                _ => worker.call(&Call::new(&NOTHING))?,
            };
        }
        usages.push(Usage::of(&worker));
    }
    let used: Vec<u64> = usages.windows(2).map(|two| two[1].ticks - two[0].ticks).collect();
    let memory: Vec<u64> = usages.iter().map(|usage| usage.memory).collect();
    println!("{runs} of {runs} runs in {:.1?}; KiB after each tenth {memory:?}", begun.elapsed());
    println!("ticks of processor time in each tenth but the first: {used:?}");
    // The first use of memory lasts; nothing grows after it.
    let (first, last) = (&usages[4], &usages[9]);
    assert!(last.memory <= first.memory + 1024, "memory grows: {usages:?}");
    assert_eq!(last.descriptors, first.descriptors);
    assert_eq!(last.threads, first.threads);
    let stats = worker.stats();
    assert_eq!((stats.tasks, stats.running, stats.queued, stats.stale), (0, 0, 0, 0));
    drop(number);
    worker.close()?;
    left.check();
    Ok(())
}

#[test]
fn sixty_four_children_get_on_whatever_the_number_of_cores() -> Result<(), Error> {
    const CHILDREN: u32 = 64;
    let _turn = turn();
    let left = Leftovers::before();
    let worker = builder().sub_workers(CHILDREN).memory(1 << 22).ring(1024, 1 << 20).init()?;
    let numbers = worker.tensor(DType::I64, &[u64::from(CHILDREN)])?;
    let rounds = count(4, 50);
    for _ in 0..rounds {
        let finished = worker.run("many", |graph| {
            for _ in 0..20 * CHILDREN {
                graph.submit_sub(&Call::new(&NOTHING))?;
            }
            let who = |at: u64| -> Result<Call, Error> {
                Ok(Call::new(&WHO).args([numbers.rows(at, at + 1)?.output()]))
            };
            let group: Vec<Call> = (0..u64::from(CHILDREN)).map(who).collect::<Result<_, _>>()?;
            graph.submit_sub_group(&group)?;
            Ok(())
        })?;
        assert_eq!(finished.report.completed, u64::from(20 * CHILDREN) + 1);
        let found: BTreeSet<i64> = worker.read::<i64>(&numbers)?.into_iter().collect();
        assert_eq!(found.len(), CHILDREN as usize, "every child was in the group");
    }
    println!("{rounds} of {rounds} graphs over {CHILDREN} children");
    drop(numbers);
    worker.close()?;
    left.check();
    Ok(())
}
