//! The watchdog: stalls with evidence, and nothing else.

use crate::support::{Bench, Random, view};
use phalanx_engine::*;

fn budgets() -> Budgets {
    let ladder = Ladder {
        progress: Time(10),
        operation: Time(45),
        wait: Time(50),
        startup: Time(300),
        harness: Time(600),
        guard: Time(1),
    };
    ladder.build().expect("in order")
}

fn stall(bench: &Bench, now: u64) -> Stall {
    match watch(&bench.engine, Time(now), &budgets()) {
        Verdict::Stalled(stall) => *stall,
        other => panic!("{other:?}"),
    }
}

#[test]
fn b_28_dog_1_idle_siblings_and_slow_peers_are_no_evidence() {
    let mut random = Random::new(5);
    for _ in 0..1000 {
        let mut bench = Bench::new(3);
        let run = bench.begin();
        let members: Vec<(WorkerId, &[Arg])> =
            bench.workers[..2].iter().map(|worker| (*worker, &[] as &[Arg])).collect();
        bench.spec(run, &TaskSpec::new(Placement::Group(&members)).work(1));
        bench.look();
        // One member is quiet for as long as the other goes on; the third worker has nothing to do.
        let (mut now, busy) = (0, bench.workers[0]);
        for _ in 0..20 {
            now += random.below(45);
            assert!(
                matches!(watch(&bench.engine, Time(now), &budgets()), Verdict::Busy(until) if until > Time(now))
            );
            bench.engine.step(Time(now), Event::Progress(busy));
        }
        assert_eq!(stall(&bench, now + 45).class, Class::RunningStalled, "until both are quiet");
    }
}

#[test]
fn dog_1_who_waits_for_another_is_no_evidence_and_does_not_speak_for_it() {
    let mut bench = Bench::new(2);
    let run = bench.begin();
    let members: Vec<(WorkerId, &[Arg])> =
        bench.workers.iter().map(|worker| (*worker, &[] as &[Arg])).collect();
    bench.spec(run, &TaskSpec::new(Placement::Group(&members)).work(1));
    bench.look();
    let (waits, stuck) = (bench.workers[0], bench.workers[1]);
    bench.engine.hold_up(waits, true);
    bench.engine.step(Time(40), Event::Progress(waits));
    assert_eq!(watch(&bench.engine, Time(44), &budgets()), Verdict::Busy(Time(45)), "DOG-1");
    let found = stall(&bench, 45);
    assert_eq!(
        (found.worker, found.since),
        (Some(stuck), Time(0)),
        "DOG-1: the one that is waited for"
    );
    bench.engine.step(Time(45), Event::Progress(stuck));
    assert_eq!(watch(&bench.engine, Time(46), &budgets()), Verdict::Busy(Time(90)), "DOG-1");
    bench.engine.hold_up(waits, false);
    bench.engine.step(Time(60), Event::Progress(waits));
    assert_eq!(
        watch(&bench.engine, Time(90), &budgets()),
        Verdict::Busy(Time(105)),
        "DOG-1: it speaks"
    );
}

#[test]
fn dog_1_an_idle_engine_and_an_idle_submitter_are_no_stall() {
    let mut bench = Bench::new(1);
    assert_eq!(watch(&bench.engine, Time(1 << 40), &budgets()), Verdict::Idle);
    let run = bench.begin();
    assert_eq!(
        watch(&bench.engine, Time(1 << 40), &budgets()),
        Verdict::Idle,
        "the submitter may think"
    );
    bench.slab(run, 1, 8);
    bench.done(1);
    assert_eq!(
        watch(&bench.engine, Time(1 << 40), &budgets()),
        Verdict::Idle,
        "what is only held is done"
    );
}

#[test]
fn dog_4_forgiven_time_is_part_of_no_budget() {
    let mut bench = Bench::new(1);
    let run = bench.begin();
    bench.task(run, 1, &[]);
    bench.look();
    bench.engine.forgive(Time(1000), Time(990));
    assert_eq!(
        watch(&bench.engine, Time(1034), &budgets()),
        Verdict::Busy(Time(1035)),
        "DOG-4: 990 and a budget of 45"
    );
    assert_eq!(stall(&bench, 1035).since, Time(990), "DOG-4: what is used up is charged");
    // Progress of this moment does not move into the future.
    bench.engine.step(Time(1000), Event::Progress(bench.workers[0]));
    bench.engine.forgive(Time(1010), Time(500));
    assert_eq!(stall(&bench, 1055).since, Time(1010), "DOG-4: no more than until now");
}

#[test]
fn dog_4_time_is_forgiven_when_nobody_runs_anything_too() {
    let mut bench = Bench::new(1);
    let run = bench.begin();
    let (worker, task) = (bench.workers[0], bench.task(run, 1, &[]));
    bench.look();
    let flight = bench.engine.flights(worker).next().expect("it runs");
    let (dispatch, ending, took) = (flight.dispatch, Ending::Deferred, 0);
    bench.engine.step(Time(0), Event::Finished { worker, dispatch, ending, took });
    bench.engine.forgive(Time(100), Time(95));
    assert_eq!(
        watch(&bench.engine, Time(104), &budgets()),
        Verdict::Busy(Time(105)),
        "DOG-4: 95 and a budget of 10"
    );
    assert_eq!(stall(&bench, 105).task, Some(task), "DOG-4");
}

#[test]
fn b_29_only_time_counts_not_how_often_one_looks() {
    let mut bench = Bench::new(1);
    let run = bench.begin();
    bench.task(run, 1, &[]);
    for _ in 0..1_000_000 {
        assert_eq!(watch(&bench.engine, Time(44), &budgets()), Verdict::Busy(Time(45)));
    }
    assert_eq!(stall(&bench, 45).since, Time(0));
    let expected = bench.spec(
        run,
        &TaskSpec::new(Placement::Worker(bench.workers[0])).expected(Time(1000)).work(2),
    );
    bench.done(1);
    assert_eq!(
        watch(&bench.engine, Time(999), &budgets()),
        Verdict::Busy(Time(1000)),
        "{expected} said it takes long"
    );
}

#[test]
fn b_31_a_long_start_is_charged_to_the_start() {
    let mut engine = Engine::new(Config::default());
    let worker = engine.add_worker(None, 1);
    let Begin::Started(run) = engine.begin(&RunSpec::new("skewed")) else {
        panic!("nothing else runs")
    };
    engine.submit(run, &TaskSpec::new(Placement::Worker(worker))).expect("accepted");
    assert!(engine.actions().next().is_none(), "nothing is sent to a worker that is not ready");
    assert_eq!(watch(&engine, Time(299), &budgets()), Verdict::Busy(Time(300)));
    let Verdict::Stalled(stall) = watch(&engine, Time(300), &budgets()) else {
        panic!("never ready")
    };
    assert_eq!(stall.class, Class::ReadyButIdle);
    engine.step(Time(299), Event::Ready(worker));
    assert_eq!(engine.actions().count(), 1);
    assert_eq!(
        watch(&engine, Time(343), &budgets()),
        Verdict::Busy(Time(344)),
        "its budget begins when it begins"
    );
}

#[test]
fn b_30_dog_2_each_class_of_stall_is_told_with_its_task() {
    let mut bench = Bench::with(2, Config { depth: 3, ..Config::default() });
    let buffer = bench.buffer(64);
    let args = [view(buffer, 0, 8).in_out()];
    let run = bench.begin();
    let root = bench.task(run, 1, &args);
    let middle = bench.task(run, 2, &args);
    let last = bench.task(run, 3, &args);
    bench.look();
    let found = stall(&bench, 45);
    assert_eq!(
        (found.class, found.task, found.worker),
        (Class::RunningStalled, Some(root), Some(bench.workers[0]))
    );
    assert_eq!((found.counts.running, found.counts.pending), (1, 2));
    bench.now = 50;
    bench.end(1, Ending::Deferred);
    assert_eq!(watch(&bench.engine, Time(59), &budgets()), Verdict::Busy(Time(60)));
    let found = stall(&bench, 60);
    assert_eq!(
        (found.class, found.chain),
        (Class::DependencyDeadlock, vec![middle, root]),
        "nobody runs, and why"
    );
    assert_eq!(bench.engine.why(last).expect("live").waiting, Waiting::Tasks(vec![middle]));
    bench.engine.step(Time(60), Event::Resolved { task: root, ending: Ending::Done });
    bench.now = 60;
    bench.finish();
    // A task that waits for the driver, and nobody waits for it.
    bench.engine.seal(run).expect("no scope is open");
    let idle = bench.begin();
    let first = bench.task(idle, 4, &[]);
    bench.end(4, Ending::Deferred);
    let found = stall(&bench, 70);
    assert_eq!((found.class, found.task), (Class::DependencyDeadlock, Some(first)));
}

#[test]
fn dog_2_a_submitter_that_waits_for_another_one_is_told_for_whom() {
    let mut bench = Bench::with(2, Config { slots: 4, ..Config::default() });
    let workers = bench.workers.clone();
    let only = |worker: &'static str, at: usize| RunSpec {
        resources: Resources::Only(&workers[at..=at], &[]),
        ..RunSpec::new(worker)
    };
    let (holder, starved) =
        (bench.begin_with(&only("holder", 0)), bench.begin_with(&only("starved", 1)));
    let scope = bench.engine.open(holder, "kept", Mode::Automatic).expect("building");
    for _ in 0..4 {
        bench.engine.allocate(holder, 8).expect("there is room");
    }
    let far = Time(1 << 40);
    assert_eq!(watch(&bench.engine, far, &budgets()), Verdict::Idle, "nobody waits");
    let task = TaskSpec::new(Placement::Worker(workers[1])).work(1);
    assert!(matches!(bench.engine.submit(starved, &task), Ok(Submit::Blocked { .. })));
    assert_eq!(watch(&bench.engine, Time(9), &budgets()), Verdict::Busy(Time(10)));
    let found = stall(&bench, 10);
    assert_eq!((found.class, found.run, found.task), (Class::SubmitterStarved, Some(holder), None));
    bench.engine.close(scope).expect("open");
    assert_eq!(watch(&bench.engine, far, &budgets()), Verdict::Idle, "it has let go");
    assert!(matches!(bench.engine.submit(starved, &task), Ok(Submit::Accepted { .. })));
}

#[test]
fn b_32_dog_3_budgets_in_the_wrong_order_cannot_be_built() {
    let good = Ladder::default();
    assert!(good.build().is_ok_and(|budgets| budgets.ladder() == good));
    // As the ancestor once shipped them: scheduler 5 s, operation 1 s, wait 2 s.
    let shipped =
        Ladder { progress: Time(5), operation: Time(1), wait: Time(2), guard: Time(0), ..good };
    let error = shipped.build().expect_err("inverted");
    assert_eq!(error.to_string(), "`progress` must fire before `operation`: 5 is not below 1");
    // Device budgets above the limit of the start: the device's error was never seen.
    let hidden = Ladder {
        wait: Time(440),
        startup: Time(300),
        progress: Time(320),
        operation: Time(400),
        guard: Time(1),
        ..good
    };
    let error = hidden.build().expect_err("inverted");
    assert_eq!((error.inner.0, error.outer.0), ("wait", "startup"));
    let unguarded =
        Ladder { wait: Time(good.operation.0 + 1), guard: Time(good.operation.0), ..good };
    assert_eq!(unguarded.build().expect_err("inverted").inner.0, "progress + guard");
    assert!(Ladder { progress: Time(0), ..good }.build().is_err());
    assert!(Ladder { harness: good.startup, ..good }.build().is_err());
}
