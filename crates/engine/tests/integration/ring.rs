//! The ring, scopes, and who keeps what.

use crate::support::{Bench, view};
use phalanx_engine::*;

fn small(slots: u32, bytes: u64) -> Bench {
    Bench::with(2, Config { slots, bytes, ..Config::default() })
}

fn submit(bench: &mut Bench, run: RunId, bytes: u64) -> Result<Submit, SubmitError> {
    let spec = TaskSpec::new(Placement::Pool(bench.pool)).bytes(bytes).work(bytes);
    bench.engine.submit(run, &spec)
}

#[test]
fn b_01_ref_1_sc_1_a_completed_producer_is_kept_for_a_consumer_that_comes_later() {
    let mut bench = small(8, 2048);
    let run = bench.begin();
    let scope = bench.engine.open(run, "inner", Mode::Automatic).expect("room");
    let (producer, slab) = bench.slab(run, 1, 1024);
    bench.done(1);
    assert_eq!(bench.engine.state(producer), State::Completed, "its scope is open");
    let consumer = bench.task(run, 2, &[view(slab.buffer, 0, 1024).input()]);
    assert_eq!(
        bench.engine.why(consumer).expect("live").dependencies,
        [],
        "there is nothing to wait for"
    );
    bench.engine.close(scope).expect("open");
    assert_eq!(
        bench.engine.state(producer),
        State::Completed,
        "the consumer still needs the bytes"
    );
    let (_, other) = bench.slab(run, 3, 1024);
    assert_ne!(other.offset, slab.offset, "so nobody else gets them");
    assert!(matches!(
        submit(&mut bench, run, 1024),
        Ok(Submit::Blocked { slots: 5, bytes: 0, longest: 0 })
    ));
    bench.done(2);
    assert_eq!(bench.engine.state(producer), State::Consumed);
    assert!(bench.actions.contains(&Action::RoomFreed));
    let (_, again) = bench.slab(run, 4, 1024);
    assert_eq!(again.offset, slab.offset);
    bench.seal_and_finish(run);
    bench.assert_empty();
}

#[test]
fn b_02_a_task_is_never_consumed_while_it_runs_and_only_once() {
    let mut bench = small(4, 4096);
    let run = bench.begin();
    let scope = bench.engine.open(run, "inner", Mode::Automatic).expect("room");
    let (task, _) = bench.slab(run, 1, 100);
    bench.look();
    bench.engine.close(scope).expect("open");
    assert_eq!(bench.engine.state(task), State::Running, "nobody else refers to it");
    let Start { worker, dispatch, .. } = bench.running[0];
    bench.done(1);
    assert_eq!(bench.engine.state(task), State::Consumed);
    let event = Event::Finished { worker, dispatch, ending: Ending::Done, took: 0 };
    bench.engine.step(Time(0), event);
    assert_eq!((bench.engine.stats().stale, bench.engine.stats().free_bytes), (1, 4096));
}

#[test]
fn task_1_the_id_of_a_task_that_is_gone_names_no_other() {
    let mut bench = small(1, 0);
    let run = bench.begin();
    let old = bench.task(run, 1, &[]);
    bench.done(1);
    let new = bench.task(run, 2, &[]);
    assert_eq!(
        (bench.engine.state(old), bench.engine.state(new)),
        (State::Consumed, State::Running)
    );
    assert_eq!(bench.engine.why(old), None);
    bench.done(2);
    bench.spec(run, &TaskSpec::new(Placement::Pool(bench.pool)).work(3).after(&[old]));
    assert_eq!(bench.works(), [3], "waiting for a task that is gone is no wait");
}

#[test]
fn b_03_b_46_ring_2_slots_and_bytes_return_in_any_order() {
    let mut bench = small(3, 3 * 1024);
    let run = bench.begin();
    let scopes = ["a", "b", "c"].map(|label| {
        let scope = bench.engine.open(run, label, Mode::Automatic).expect("room");
        bench.slab(run, 1, 1024);
        scope
    });
    bench.finish();
    assert_eq!(bench.engine.stats().tasks, 3);
    let [_a, _b, c] = scopes;
    bench.engine.close(c).expect("open");
    assert_eq!(
        (bench.engine.stats().tasks, bench.engine.stats().free_bytes),
        (2, 1024),
        "the youngest goes first"
    );
    let (_, slab) = bench.slab(run, 2, 1024);
    assert_eq!(slab.offset, 2048, "and only its place is free");
}

#[test]
fn ring_1_ring_3_a_full_ring_is_an_answer_and_room_an_action() {
    let mut bench = small(4, 0);
    let run = bench.begin();
    for work in 0..4 {
        bench.task(run, work, &[]);
    }
    for _ in 0..3 {
        assert_eq!(
            submit(&mut bench, run, 0),
            Ok(Submit::Blocked { slots: 0, bytes: 0, longest: 0 })
        );
    }
    assert_eq!(bench.engine.stats().tasks, 4);
    bench.done(1);
    let freed = bench.actions.iter().filter(|action| **action == Action::RoomFreed).count();
    assert_eq!(freed, 1, "said once");
    bench.task(run, 4, &[]);
    assert_eq!(bench.seal_and_finish(run).report.completed, 5);
}

#[test]
fn b_47_ring_4_a_submitter_that_holds_everything_is_told_immediately_and_only_then() {
    let mut bench = small(8, 4096);
    let run = bench.begin();
    let scope = bench.engine.open(run, "layer 3", Mode::Automatic).expect("room");
    let inner = bench.engine.open(run, "inner", Mode::Automatic).expect("room");
    let (running, _) = bench.slab(run, 1, 2048);
    bench.engine.close(inner).expect("open");
    bench.slab(run, 2, 1024);
    assert!(
        matches!(submit(&mut bench, run, 2048), Ok(Submit::Blocked { .. })),
        "{running} frees 2048 by itself"
    );
    let error = submit(&mut bench, run, 4096).expect_err("1024 of 4096 are held by an open scope");
    let SubmitError::ScopePinned { scope: label, bytes, tasks, knob } = error else {
        panic!("{error}")
    };
    assert_eq!((label, bytes, tasks, knob), ("layer 3", 1024, 1, Knob::Bytes));
    assert_eq!(
        error.to_string(),
        "the ring is full of what only the submitter can free: scope `layer 3` holds 1024 bytes, \
         1 tasks are held; close it earlier or raise `Config::bytes`"
    );
    bench.engine.close(scope).expect("open");
    assert!(
        matches!(submit(&mut bench, run, 4096), Ok(Submit::Blocked { .. })),
        "now it is only a matter of time"
    );
    bench.finish();
    assert!(matches!(submit(&mut bench, run, 4096), Ok(Submit::Accepted { .. })));
}

#[test]
fn slots_held_by_open_scopes_are_reported_with_their_knob() {
    let mut bench = small(2, 1 << 20);
    let run = bench.begin();
    bench.slab(run, 1, 10);
    bench.slab(run, 2, 10);
    bench.look();
    let error = submit(&mut bench, run, 0).expect_err("both slots are held by the run's own scope");
    assert!(
        matches!(
            error,
            SubmitError::ScopePinned { scope: "test", tasks: 2, knob: Knob::Slots, .. }
        ),
        "{error}"
    );
}

#[test]
fn b_47_two_submitters_that_wait_for_each_others_scopes_are_told_and_only_they() {
    let mut bench = small(8, 2048);
    let (a, b) = ([bench.workers[0]], [bench.workers[1]]);
    let one =
        bench.begin_with(&RunSpec { resources: Resources::Only(&a, &[]), ..RunSpec::new("one") });
    let two =
        bench.begin_with(&RunSpec { resources: Resources::Only(&b, &[]), ..RunSpec::new("two") });
    let mut ask = |run, worker| {
        let spec = TaskSpec::new(Placement::Worker(worker)).bytes(1024);
        bench.engine.submit(run, &spec)
    };
    assert!(matches!(ask(one, a[0]), Ok(Submit::Accepted { .. })));
    assert!(matches!(ask(two, b[0]), Ok(Submit::Accepted { .. })));
    assert!(matches!(ask(one, a[0]), Ok(Submit::Blocked { .. })), "run two may let go");
    assert!(
        matches!(ask(two, b[0]), Err(SubmitError::ScopePinned { .. })),
        "it will not: it waits, too"
    );
}

#[test]
fn b_44_an_empty_ring_takes_whatever_fits_its_capacity() {
    let mut bench = small(8, 10 * 1024);
    let run = bench.begin();
    for bytes in [6, 6, 10, 1, 9, 10, 3, 7, 10].map(|kib| kib * 1024) {
        let scope = bench.engine.open(run, "step", Mode::Automatic).expect("room");
        let (_, slab) = bench.slab(run, bytes, bytes);
        assert_eq!(slab.bytes, bytes);
        bench.done(bytes);
        bench.engine.close(scope).expect("open");
        assert_eq!(bench.engine.stats().free_bytes, 10 * 1024);
    }
    let error = submit(&mut bench, run, 10 * 1024 + 1);
    assert_eq!(error, Err(SubmitError::TooLarge { bytes: 10 * 1024 + 1, capacity: 10 * 1024 }));
}

#[test]
fn a_slab_without_task_is_there_immediately_and_can_be_depended_on() {
    let mut bench = small(8, 4096);
    let run = bench.begin();
    let answer = bench.engine.allocate(run, 100).expect("room");
    let Submit::Accepted { task, slab: Some(slab) } = answer else { panic!("{answer:?}") };
    assert_eq!(bench.engine.state(task), State::Completed);
    bench.task(run, 1, &[view(slab.buffer, 0, 100).in_out()]);
    let second =
        bench.spec(run, &TaskSpec::new(Placement::Pool(bench.pool)).work(2).after(&[task]));
    assert_eq!(bench.works(), [1, 2]);
    assert_eq!(bench.engine.why(second).expect("live").dependencies, []);
    assert!(bench.engine.allocate(run, 0).is_ok());
    let report = bench.seal_and_finish(run).report;
    assert_eq!((report.tasks, report.completed), (2, 2), "slabs are no tasks");
    bench.assert_empty();
}

#[test]
fn sc_2_scopes_nest_sixty_four_deep_the_runs_own_included() {
    let mut bench = Bench::new(1);
    let run = bench.begin();
    let scopes: Vec<Scope> =
        (1..64).map(|_| bench.engine.open(run, "s", Mode::Automatic).expect("room")).collect();
    assert_eq!(bench.engine.open(run, "s", Mode::Automatic), Err(ScopeError::TooDeep));
    for scope in scopes.into_iter().rev() {
        bench.engine.close(scope).expect("in order");
    }
    assert!(bench.engine.open(run, "s", Mode::Automatic).is_ok());
}

#[test]
fn sc_3_in_a_manual_scope_only_explicit_dependencies_count() {
    let mut bench = Bench::new(4);
    let buffer = bench.buffer(64);
    let run = bench.begin();
    let write = [view(buffer, 0, 8).output()];
    let outside = bench.task(run, 1, &write);
    let scope = bench.engine.open(run, "by hand", Mode::Manual).expect("room");
    bench.task(run, 2, &write);
    let said = bench.spec(
        run,
        &TaskSpec::new(Placement::Pool(bench.pool)).args(&write).work(3).after(&[outside]),
    );
    assert_eq!(bench.works(), [1, 2], "2 waits for nobody");
    assert_eq!(bench.engine.why(said).expect("live").waiting, Waiting::Tasks(vec![outside]));
    let error = bench.engine.open(run, "inside", Mode::Automatic);
    assert_eq!(error, Err(ScopeError::AutomaticInManual("by hand")));
    let inner = bench.engine.open(run, "inside", Mode::Manual).expect("manual in manual");
    bench.engine.close(inner).expect("open");
    bench.engine.close(scope).expect("open");
    let after = bench.task(run, 4, &[view(buffer, 0, 8).input()]);
    assert_eq!(
        bench.engine.why(after).expect("live").waiting,
        Waiting::Tasks(vec![outside]),
        "2 and 3 are not entered"
    );
    bench.seal_and_finish(run);
}

#[test]
fn b_74_sc_4_a_run_that_ends_with_a_scope_open_is_an_error_that_names_it_and_harms_nobody_else() {
    let mut bench = small(8, 4096);
    let run = bench.begin();
    let _forgotten = bench.engine.open(run, "forgotten", Mode::Automatic).expect("room");
    bench.slab(run, 1, 1024);
    assert_eq!(bench.engine.seal(run), Err(ScopeError::OpenInside("forgotten")));
    bench.finish();
    let outcome = bench.engine.outcome(run).expect("the fence fires");
    assert_eq!(outcome.error.map(|cause| cause.reason), Some(Reason::ScopeOpen("forgotten")));
    assert_eq!(outcome.report.completed, 1);
    bench.assert_empty();
    let next = bench.begin();
    for _ in 1..64 {
        let scope = bench.engine.open(next, "s", Mode::Automatic);
        assert!(scope.is_ok(), "the next run starts at depth one");
    }
}

#[test]
fn a_scope_closed_out_of_order_closes_those_inside_and_names_one() {
    let mut bench = Bench::new(1);
    let run = bench.begin();
    let outer = bench.engine.open(run, "outer", Mode::Automatic).expect("room");
    let inner = bench.engine.open(run, "inner", Mode::Automatic).expect("room");
    assert_eq!(bench.engine.close(outer), Err(ScopeError::OpenInside("inner")));
    assert_eq!(bench.engine.close(inner), Err(ScopeError::NotOpen));
    assert_eq!(bench.engine.seal(run), Ok(()));
    assert_eq!(bench.engine.open(run, "late", Mode::Automatic), Err(ScopeError::NotBuilding));
}
