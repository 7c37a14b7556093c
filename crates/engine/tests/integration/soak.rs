//! Many tasks: memory follows the number of live tasks, not of past ones. The bytes are counted in `tests/memory`.

use crate::support::{Bench, Random, view};
use phalanx_engine::*;

/// The number of tasks, unless `PHALANX_ENGINE_SOAK` says otherwise.
fn tasks() -> u64 {
    std::env::var("PHALANX_ENGINE_SOAK")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(300_000)
}

#[test]
fn b_45_eng_3_what_lives_is_bounded_over_many_tasks_in_an_engine_that_is_never_idle() {
    let config = Config { slots: 256, bytes: 64 * 1024, depth: 4, is_recording: false };
    let mut bench = Bench::with(4, config);
    let buffer = bench.buffer(1 << 20);
    let mut random = Random::new(3);
    let (mut count, mut highest) = (0, bench.engine.stats());
    let mut runs: Vec<RunId> = Vec::new();
    while count < tasks() {
        let run = bench.begin();
        for _ in 0..2000 {
            let start = random.below(1000) * 1024;
            let args = [view(buffer, start, start + 1 + random.below(4096)).in_out()];
            let spec = TaskSpec::new(Placement::Pool(bench.pool)).args(&args).work(count);
            while !matches!(bench.engine.submit(run, &spec), Ok(Submit::Accepted { .. })) {
                let oldest = {
                    bench.look();
                    bench.running[0].work
                };
                bench.done(oldest);
            }
            count += 1;
            let stats = bench.engine.stats();
            highest = Stats {
                tasks: highest.tasks.max(stats.tasks),
                regions: highest.regions.max(stats.regions),
                ..stats
            };
            bench.actions.clear();
            bench.started.clear();
        }
        bench.engine.seal(run).expect("no scope is open");
        runs.push(run);
        // The next run begins while this one is still busy; only the one before is over for certain.
        if runs.len() > 1 {
            while bench.engine.outcome(runs[0]).is_none() {
                let oldest = {
                    bench.look();
                    bench.running[0].work
                };
                bench.done(oldest);
            }
            assert!(bench.engine.forget(runs.remove(0)));
        }
    }
    assert!(highest.tasks <= 256 && highest.regions <= 256, "{highest:?}");
    bench.finish();
    bench.assert_empty();
    assert!(bench.engine.stats().runs <= 2);
}

#[test]
fn a_million_submissions_against_a_full_ring_change_nothing() {
    let mut bench = Bench::with(1, Config { slots: 64, ..Config::default() });
    let run = bench.begin();
    for work in 0..64 {
        bench.task(run, work, &[]);
    }
    bench.look();
    let before = bench.engine.stats();
    let spec = TaskSpec::new(Placement::Pool(bench.pool));
    for _ in 0..1_000_000 {
        assert!(matches!(bench.engine.submit(run, &spec), Ok(Submit::Blocked { .. })));
    }
    assert_eq!(bench.engine.stats(), before);
    assert!(bench.engine.actions().next().is_none());
    assert_eq!(bench.seal_and_finish(run).report.completed, 64);
}
