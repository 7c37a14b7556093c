//! Runs: order, failure, cancellation, deadlines.

use crate::support::{Bench, view};
use phalanx_engine::*;

#[test]
fn run_1_run_2_runs_that_share_workers_go_one_after_the_other() {
    let mut bench = Bench::new(2);
    let first = bench.begin();
    bench.task(first, 1, &[]);
    let spec = RunSpec::new("second");
    assert_eq!(
        bench.engine.begin(&spec),
        Begin::Blocked { behind: first },
        "the first is still building"
    );
    bench.engine.seal(first).expect("no scope is open");
    bench.look();
    assert!(bench.actions.contains(&Action::AdmissionFreed));
    let second = bench.begin_with(&spec);
    let waiting = bench.task(second, 2, &[]);
    assert_eq!(bench.engine.why(waiting).expect("live").waiting, Waiting::Turn(first));
    bench.engine.seal(second).expect("no scope is open");
    assert_eq!(bench.engine.begin(&spec), Begin::Blocked { behind: first }, "two are unfinished");
    assert_eq!(bench.works(), [1], "worker 1 is idle, and 2 is ready, but it is not its turn");
    bench.done(1);
    assert_eq!(bench.works(), [2]);
    assert!(bench.actions.contains(&Action::RunFinished(first)));
    let third = bench.begin_with(&spec);
    bench.finish();
    assert!(bench.engine.outcome(second).is_some() && bench.engine.outcome(third).is_none());
}

#[test]
fn run_3_runs_that_share_no_worker_execute_side_by_side() {
    let mut bench = Bench::new(2);
    let (a, b) = ([bench.workers[0]], [bench.workers[1]]);
    let one =
        bench.begin_with(&RunSpec { resources: Resources::Only(&a, &[]), ..RunSpec::new("one") });
    let two =
        bench.begin_with(&RunSpec { resources: Resources::Only(&b, &[]), ..RunSpec::new("two") });
    bench.spec(one, &TaskSpec::new(Placement::Worker(a[0])).work(1));
    bench.spec(two, &TaskSpec::new(Placement::Worker(b[0])).work(2));
    assert_eq!(bench.works(), [1, 2]);
    let error = bench.engine.submit(one, &TaskSpec::new(Placement::Worker(b[0])));
    assert_eq!(error, Err(SubmitError::NotMine(b[0])));
    let error = bench.engine.submit(one, &TaskSpec::new(Placement::Pool(bench.pool)));
    assert_eq!(error, Err(SubmitError::PoolNotMine(bench.pool)));
    bench.engine.seal(two).expect("no scope is open");
    bench.done(2);
    assert!(bench.engine.outcome(two).is_some(), "the second may finish first");
}

#[test]
fn run_4_a_run_finishes_once_and_an_empty_one_immediately() {
    let mut bench = Bench::new(1);
    let run = bench.begin();
    bench.engine.seal(run).expect("no scope is open");
    assert_eq!(
        bench.engine.outcome(run),
        Some(Outcome { report: RunReport::default(), error: None })
    );
    assert_eq!(bench.engine.seal(run), Err(ScopeError::NotBuilding));
    assert_eq!(
        bench.engine.submit(run, &TaskSpec::new(Placement::Pool(bench.pool))),
        Err(SubmitError::NotBuilding(run))
    );
    bench.look();
    assert_eq!(bench.actions, [Action::RunFinished(run)]);
    assert!(bench.engine.forget(run) && !bench.engine.forget(run));
    assert_eq!(bench.engine.outcome(run), None);
    assert_ne!(bench.begin(), run);
}

#[test]
fn run_5_the_first_error_is_told_to_every_waiter_and_to_no_other_run() {
    let mut bench = Bench::new(3);
    let buffer = bench.buffer(64);
    let run = bench.begin();
    let bad = bench.task(run, 1, &[view(buffer, 0, 8).output()]);
    bench.task(run, 2, &[view(buffer, 0, 8).input()]);
    bench.task(run, 3, &[]);
    bench.task(run, 4, &[]);
    bench.end(1, Ending::Failed(7));
    bench.end(3, Ending::Failed(8));
    let cause = Cause { task: Some(bad), member: 0, work: 1, reason: Reason::Failed(7) };
    assert_eq!(cause.to_string(), format!("task {bad} (work 1, member 0): failed with code 7"));
    let error = bench.engine.submit(run, &TaskSpec::new(Placement::Pool(bench.pool)));
    assert_eq!(error, Err(SubmitError::RunFailed(cause)), "more is refused, with the reason");
    bench.engine.seal(run).expect("no scope is open");
    let next = bench.begin();
    bench.task(next, 5, &[view(buffer, 0, 8).input()]);
    bench.finish();
    for _ in 0..3 {
        let outcome = bench.engine.outcome(run).expect("finished");
        assert_eq!(
            (outcome.error, outcome.report.completed),
            (Some(cause), 1),
            "4 is independent and ran"
        );
    }
    assert_eq!(bench.seal_and_finish(next).error, None);
    assert!(!bench.started.contains(&2));
}

#[test]
fn a_failure_at_the_head_of_a_million_tasks_reaches_the_last_without_recursion() {
    let length = 1_000_000;
    let mut bench = Bench::with(1, Config { slots: length, ..Config::default() });
    let buffer = bench.buffer(64);
    let run = bench.begin();
    let args = [view(buffer, 0, 8).in_out()];
    let mut last = None;
    for work in 0..u64::from(length) {
        last = Some(bench.task(run, work, &args));
    }
    assert_eq!(bench.works(), [0]);
    bench.end(0, Ending::Failed(3));
    assert_eq!(bench.engine.state(last.expect("a million")), State::Consumed);
    bench.engine.seal(run).expect("no scope is open");
    let outcome = bench.engine.outcome(run).expect("finished");
    assert_eq!(outcome.error.map(|cause| (cause.work, cause.reason)), Some((0, Reason::Failed(3))));
    assert_eq!((outcome.report.completed, bench.started.len()), (0, 1));
    bench.assert_empty();
}

#[test]
fn run_6_a_cancelled_run_leaves_nothing_and_waits_for_what_has_begun() {
    let mut bench = Bench::with(2, Config { bytes: 4096, ..Config::default() });
    let run = bench.begin();
    let scope = bench.engine.open(run, "inner", Mode::Automatic).expect("room");
    let (_, slab) = bench.slab(run, 1, 1024);
    let reader = bench.task(run, 2, &[view(slab.buffer, 0, 8).input()]);
    let members: Vec<(WorkerId, &[Arg])> =
        bench.workers.iter().map(|worker| (*worker, &[] as &[Arg])).collect();
    bench.spec(run, &TaskSpec::new(Placement::Group(&members)).work(3));
    bench.task(run, 4, &[]);
    assert_eq!(bench.works(), [1], "the group keeps worker 1 free");
    assert!(bench.engine.cancel(run));
    bench.look();
    assert!(bench.actions.iter().any(|action| matches!(action, Action::Recall { .. })));
    assert_eq!(
        bench.engine.state(reader),
        State::Failed,
        "its producer has not ended: the slot is kept"
    );
    assert_eq!(bench.engine.outcome(run), None, "1 has begun");
    assert_eq!(bench.engine.close(scope), Err(ScopeError::NotOpen));
    let error = bench.engine.submit(run, &TaskSpec::new(Placement::Pool(bench.pool)));
    assert!(matches!(error, Err(SubmitError::RunFailed(Cause { reason: Reason::Cancelled, .. }))));
    let next = bench.begin();
    bench.task(next, 5, &[]);
    bench.done(1);
    assert_eq!(
        bench.engine.outcome(run).and_then(|outcome| outcome.error).map(|cause| cause.reason),
        Some(Reason::Cancelled)
    );
    assert_eq!(bench.works(), [5]);
    assert!(!bench.engine.cancel(run), "it is over");
    bench.seal_and_finish(next);
    bench.assert_empty();
    assert_eq!(bench.engine.stats().free_bytes, 4096);
}

#[test]
fn run_7_a_run_whose_deadline_has_passed_is_cancelled() {
    let mut bench = Bench::new(1);
    let run = bench.begin_with(&RunSpec { deadline: Some(Time(100)), ..RunSpec::new("late") });
    bench.task(run, 1, &[]);
    bench.task(run, 2, &[]);
    bench.look();
    bench.engine.step(Time(99), Event::Tick);
    assert_eq!(bench.engine.error(run), None);
    bench.engine.step(Time(100), Event::Tick);
    assert_eq!(
        bench.engine.error(run).map(|cause| cause.reason),
        Some(Reason::Deadline(Time(100)))
    );
    bench.now = 101;
    bench.done(1);
    assert!(bench.engine.outcome(run).is_some());
    assert_eq!(bench.started, [1]);
}

#[test]
fn a_deferred_task_frees_its_worker_and_ends_when_it_is_resolved() {
    let mut bench = Bench::new(1);
    let buffer = bench.buffer(64);
    let run = bench.begin();
    let args = [view(buffer, 0, 8).in_out()];
    let waits = bench.task(run, 1, &args);
    bench.task(run, 2, &args);
    bench.task(run, 3, &[]);
    bench.end(1, Ending::Deferred);
    assert_eq!(bench.works(), [3], "the worker does not wait");
    assert_eq!(bench.engine.why(waits).expect("live").waiting, Waiting::Resolution);
    bench.engine.step(Time(0), Event::Resolved { task: waits, ending: Ending::Done });
    bench.engine.step(Time(0), Event::Resolved { task: waits, ending: Ending::Done });
    assert_eq!(bench.engine.stats().stale, 1, "once");
    bench.done(3);
    assert_eq!(bench.works(), [2]);
    assert_eq!(bench.seal_and_finish(run).report.completed, 3);
}

#[test]
fn eng_2_a_dispatch_ends_once_and_a_dead_worker_ends_what_it_had() {
    let mut bench = Bench::new(2);
    let workers = bench.workers.clone();
    let run = bench.begin();
    bench.task(run, 1, &[]);
    bench.look();
    let Start { worker, dispatch, .. } = bench.running[0];
    let wrong = Event::Finished { worker: workers[1], dispatch, ending: Ending::Done, took: 0 };
    bench.engine.step(Time(0), wrong);
    assert_eq!(bench.engine.stats().stale, 1, "another worker cannot end it");
    bench.lose(worker);
    bench.engine.step(Time(0), Event::Finished { worker, dispatch, ending: Ending::Done, took: 0 });
    assert_eq!(bench.engine.stats().stale, 2, "what the dead say late does not count");
    assert_eq!(bench.engine.error(run).map(|cause| cause.reason), Some(Reason::WorkerLost(worker)));
    assert_eq!(bench.engine.health(worker), Some(Health::Lost));
    bench.engine.seal(run).expect("no scope is open");
    let next = bench.begin();
    assert_eq!(
        bench.engine.submit(next, &TaskSpec::new(Placement::Worker(worker))),
        Err(SubmitError::WorkerLost(worker))
    );
    bench.engine.step(Time(0), Event::Ready(worker));
    bench.spec(next, &TaskSpec::new(Placement::Worker(worker)).work(2));
    assert_eq!(bench.works(), [2], "it may come back");
}

#[test]
fn b_40_eng_4_a_refused_submission_leaves_nothing() {
    let mut bench = Bench::with(2, Config { slots: 3, bytes: 2048, ..Config::default() });
    let buffer = bench.buffer(64);
    let run = bench.begin();
    bench.slab(run, 1, 1024);
    bench.look();
    let (workers, pool) = (bench.workers.clone(), bench.pool);
    let out = [view(buffer, 0, 8).output()];
    let alias = [view(buffer, 0, 8).output(), view(buffer, 4, 12).input()];
    let good: &[Arg] = &out;
    let bad: &[Arg] = &alias;
    let same = [(workers[0], good), (workers[0], good)];
    let late = [(workers[0], good), (workers[1], bad)];
    let many = [good; 9];
    let before = bench.engine.stats();
    let specs = [
        TaskSpec::new(Placement::Pool(pool)).args(bad),
        TaskSpec::new(Placement::Group(&same)),
        TaskSpec::new(Placement::Group(&late)),
        TaskSpec::new(Placement::PoolGroup(pool, &many)),
        TaskSpec::new(Placement::Group(&late[..1])).args(good),
        TaskSpec::new(Placement::Pool(pool)).args(good).bytes(4096),
        TaskSpec::new(Placement::Pool(pool)).args(good).bytes(2048),
        TaskSpec::new(Placement::Pool(pool)).args(good).collective(),
    ];
    for spec in &specs {
        let error = bench.engine.submit(run, spec).expect_err("refused");
        assert!(!error.to_string().is_empty());
        assert_eq!(bench.engine.stats(), before, "{error}");
        assert!(bench.engine.actions().next().is_none());
    }
    assert!(bench.engine.error(run).is_none());
    assert_eq!(bench.seal_and_finish(run).report.tasks, 1);
}

#[test]
fn b_41_a_task_is_ready_when_its_last_producer_has_ended_not_before() {
    let mut bench = Bench::new(8);
    let run = bench.begin();
    let buffers: Vec<BufferId> = (0..6).map(|_| bench.buffer(8)).collect();
    for (work, buffer) in (0..).zip(&buffers) {
        bench.task(run, work, &[view(*buffer, 0, 8).output()]);
    }
    // Each producer is met twice: by two arguments and once more by name.
    let ids: Vec<TaskId> = {
        bench.look();
        bench.running.iter().map(|start| start.task).collect()
    };
    let args: Vec<Arg> = buffers
        .iter()
        .flat_map(|buffer| [view(*buffer, 0, 4).input(), view(*buffer, 2, 8).input()])
        .collect();
    bench.spec(run, &TaskSpec::new(Placement::Pool(bench.pool)).args(&args).after(&ids).work(99));
    for work in [3, 0, 5, 1, 4] {
        bench.done(work);
        assert!(!bench.works().contains(&99));
    }
    bench.done(2);
    assert_eq!(bench.works(), [99]);
}

#[test]
fn a_run_that_goes_on_can_be_asked_what_it_has_done_and_names() {
    let mut bench = Bench::new(2);
    let buffer = bench.buffer(64);
    let run = bench.begin();
    bench.task(run, 1, &[view(buffer, 0, 8).in_out()]);
    bench.task(run, 2, &[view(buffer, 8, 16).in_out()]);
    bench.done(1);
    let report = bench.engine.report(run).expect("it is known");
    assert_eq!((report.tasks, report.completed), (2, 1));
    assert!(!bench.engine.is_sealed(run));
    assert!(bench.engine.is_in_use_by(buffer, |one| one == run));
    assert!(!bench.engine.is_in_use_by(buffer, |one| one != run), "no other names it");
    let pool: Vec<WorkerId> = bench.engine.pool_workers(bench.pool).collect();
    assert_eq!(pool, bench.workers, "those that are gone too");
    bench.seal_and_finish(run);
    assert!(bench.engine.is_sealed(run) && !bench.engine.is_in_use_by(buffer, |_| true));
    assert!(bench.engine.forget(run) && bench.engine.report(run).is_none());
}
