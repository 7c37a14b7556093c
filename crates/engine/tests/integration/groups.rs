//! Groups and queues.

use crate::support::{Bench, Random, view};
use phalanx_engine::*;

/// Members without arguments.
fn on<'a>(workers: &[WorkerId]) -> Vec<(WorkerId, &'a [Arg])> {
    workers.iter().map(|worker| (*worker, &[] as &[Arg])).collect()
}

#[test]
fn grp_1_grp_2_a_group_starts_whole_and_is_not_starved_by_a_thousand_later_singles() {
    let mut bench = Bench::with(3, Config { slots: 2000, ..Config::default() });
    let run = bench.begin();
    let workers = bench.workers.clone();
    bench.spec(run, &TaskSpec::new(Placement::Worker(workers[0])).work(1));
    bench.spec(run, &TaskSpec::new(Placement::Group(&on(&workers[..2]))).work(2));
    for work in 0..1000 {
        let worker = workers[usize::try_from(work % 3).unwrap_or_default()];
        bench.spec(run, &TaskSpec::new(Placement::Worker(worker)).work(100 + work));
    }
    assert_eq!(bench.works(), [1, 102], "the group keeps worker 1 free; worker 2 goes on");
    bench.done(102);
    assert_eq!(bench.works(), [1, 105]);
    bench.done(1);
    assert_eq!(bench.works(), [105, 2, 2], "then all members at once, before what came later");
    bench.done(2);
    assert_eq!(bench.works(), [105, 2, 100], "a worker whose member has ended is free again");
    assert_eq!(bench.seal_and_finish(run).report.completed, 1002);
}

#[test]
fn b_42_groups_wait_in_order_and_two_members_on_one_worker_are_refused() {
    let mut bench = Bench::new(3);
    let run = bench.begin();
    let workers = bench.workers.clone();
    let twice = on(&[workers[1], workers[0], workers[1]]);
    let error = bench.engine.submit(run, &TaskSpec::new(Placement::Group(&twice)));
    assert_eq!(error, Err(SubmitError::SameWorker(workers[1])));
    bench.spec(run, &TaskSpec::new(Placement::Worker(workers[0])).work(1));
    bench.spec(run, &TaskSpec::new(Placement::Group(&on(&workers[..2]))).work(2));
    bench.spec(run, &TaskSpec::new(Placement::Group(&on(&workers[1..]))).work(3));
    bench.spec(run, &TaskSpec::new(Placement::Worker(workers[2])).work(4));
    assert_eq!(bench.works(), [1, 4], "the second group reserves nothing");
    bench.done(1);
    bench.done(4);
    assert_eq!(bench.works(), [2, 2], "and does not overtake");
    bench.done(2);
    bench.done(2);
    assert_eq!(bench.works(), [3, 3]);
}

#[test]
fn grp_4_a_group_larger_than_its_pool_is_refused_and_one_whose_workers_go_fails() {
    let mut bench = Bench::new(3);
    let run = bench.begin();
    let (workers, pool) = (bench.workers.clone(), bench.pool);
    let members: [&[Arg]; 4] = [&[]; 4];
    let error = bench.engine.submit(run, &TaskSpec::new(Placement::PoolGroup(pool, &members)));
    assert_eq!(error, Err(SubmitError::GroupTooLarge { members: 4, workers: 3 }));
    bench.task(run, 1, &[]);
    bench.spec(run, &TaskSpec::new(Placement::PoolGroup(pool, &members[..3])).work(2));
    assert_eq!(bench.works(), [1]);
    bench.lose(workers[2]);
    let error = bench.engine.error(run).expect("it can never start");
    assert_eq!((error.work, error.reason), (2, Reason::PoolLost(pool)));
    bench.done(1);
    bench.engine.seal(run).expect("no scope is open");
    assert_eq!(bench.engine.outcome(run).map(|outcome| outcome.report.completed), Some(1));
    bench.assert_empty();
}

#[test]
fn grp_3_the_first_failure_decides_and_members_that_never_started_are_skipped() {
    let mut bench = Bench::new(3);
    let buffer = bench.buffer(64);
    let run = bench.begin();
    let token = [view(buffer, 0, 8).output()];
    let members: Vec<(WorkerId, &[Arg])> =
        bench.workers.iter().map(|worker| (*worker, &token[..])).collect();
    let group = bench.spec(run, &TaskSpec::new(Placement::Group(&members)).work(1));
    let reader = bench.task(run, 2, &[view(buffer, 0, 8).input()]);
    assert_eq!(
        bench.engine.why(group).expect("live").dependencies,
        [],
        "members do not wait for each other"
    );
    assert_eq!(bench.engine.why(reader).expect("live").dependencies.len(), 1, "one node, one edge");
    bench.end(1, Ending::Failed(5));
    let recalls =
        bench.actions.iter().filter(|action| matches!(action, Action::Recall { .. })).count();
    assert_eq!(recalls, 2, "those under way are asked not to begin");
    bench.end(1, Ending::Skipped);
    assert_eq!(bench.engine.state(group), State::Running, "one member is still out");
    bench.end(1, Ending::Failed(6));
    let outcome = {
        bench.engine.seal(run).expect("sealed");
        bench.engine.outcome(run).expect("finished")
    };
    let error = outcome.error.expect("it has failed");
    assert_eq!((error.task, error.member, error.reason), (Some(group), 0, Reason::Failed(5)));
    assert_eq!(bench.started, [1, 1, 1], "the reader never began");
    bench.assert_empty();
}

#[test]
fn b_43_a_collective_must_be_a_group() {
    let mut bench = Bench::new(2);
    let run = bench.begin();
    let error = bench.engine.submit(run, &TaskSpec::new(Placement::Pool(bench.pool)).collective());
    assert_eq!(error, Err(SubmitError::CollectiveAlone));
    let members = on(&bench.workers.clone());
    bench.spec(run, &TaskSpec::new(Placement::Group(&members)).collective().work(1));
    assert_eq!(bench.works(), [1, 1]);
    assert_eq!(
        bench.engine.submit(run, &TaskSpec::new(Placement::Group(&[]))),
        Err(SubmitError::BadGroup)
    );
}

#[test]
fn que_1_ready_tasks_of_one_queue_run_in_the_order_of_submission() {
    let mut bench = Bench::new(1);
    let buffer = bench.buffer(64);
    let run = bench.begin();
    bench.task(run, 0, &[view(buffer, 0, 8).output()]);
    for work in 1..20 {
        bench.task(run, work, &[view(buffer, 0, 8).input()]);
    }
    for work in 20..40 {
        bench.task(run, work, &[]);
    }
    bench.spec(run, &TaskSpec::new(Placement::Pool(bench.pool)).work(99).priority(1));
    bench.seal_and_finish(run);
    let expected: Vec<u64> = [0, 99].into_iter().chain(20..40).chain(1..20).collect();
    assert_eq!(
        bench.started, expected,
        "in the order of becoming ready, then of submission; priority first"
    );
}

#[test]
fn que_2_a_directed_task_runs_on_its_worker_or_nowhere() {
    let mut bench = Bench::new(2);
    let run = bench.begin();
    let workers = bench.workers.clone();
    for work in 0..3 {
        bench.spec(run, &TaskSpec::new(Placement::Worker(workers[0])).work(work));
    }
    assert_eq!(bench.works(), [0], "worker 1 is idle, and stays so");
    bench.lose(workers[0]);
    assert!(bench.works().is_empty());
    let error = bench.engine.error(run).expect("it has failed");
    assert_eq!(error.reason, Reason::WorkerLost(workers[0]));
    bench.assert_empty();
}

#[test]
fn b_11_b_12_que_3_what_can_start_has_started_after_every_call() {
    let mut bench = Bench::new(2);
    let late = bench.engine.add_worker(Some(bench.pool), 1);
    let run = bench.begin();
    for work in 0..5 {
        bench.task(run, work, &[]);
    }
    assert_eq!(bench.works(), [0, 1]);
    assert!(bench.engine.actions().next().is_none(), "nothing is repeated while nobody is idle");
    bench.engine.step(Time(1), Event::Tick);
    assert!(bench.engine.actions().next().is_none(), "nor when time passes");
    bench.engine.step(Time(1), Event::Ready(late));
    assert_eq!(bench.works(), [0, 1, 2], "a worker that comes gets work at once");
    bench.done(1);
    assert_eq!(bench.works(), [0, 2, 3]);
}

#[test]
fn que_4_what_a_task_makes_ready_goes_where_it_ran() {
    let mut bench = Bench::new(3);
    let run = bench.begin();
    let data = bench.buffer(8);
    let view = View::bytes(data, 0, 8).expect("small");
    for work in 1..=4 {
        let args = [view.in_out()];
        bench.spec(run, &TaskSpec::new(Placement::Pool(bench.pool)).args(&args).work(work));
    }
    bench.look();
    let first = bench.running[0].worker;
    for work in 1..=4 {
        bench.look();
        assert_eq!(bench.running[0].worker, first, "QUE-4");
        bench.done(work);
    }
}

/// The tasks that a worker was sent and has not ended: dispatch, and true if it is to be alone.
type Flights = Vec<(u64, bool)>;

/// Looks at a start beside what all workers have.
fn assert_fair(flights: &[Flights], of: usize, is_alone: bool) {
    let idle = flights.iter().position(Vec::is_empty);
    let is_first = flights[of].is_empty();
    assert!(is_first || idle.is_none(), "QUE-4: {of} again, {idle:?} idle");
    let is_behind_one = flights[of].iter().any(|(_, is_alone)| *is_alone);
    assert!(is_first || !is_alone && !is_behind_one, "QUE-6: {of} has {:?}", flights[of]);
}

/// Runs a graph of `tasks` over workers that take several at once, a few of them alone; every start must be fair, and
/// nothing may wait that can start.
fn assert_spread(seed: u64, tasks: u64) {
    let mut random = Random::new(seed);
    let mut bench = Bench::new(0);
    let pool = bench.pool;
    let workers: Vec<WorkerId> =
        (0..2 + random.below(3)).map(|_| bench.engine.add_worker(Some(pool), 4)).collect();
    for worker in &workers {
        bench.engine.step(Time(0), Event::Ready(*worker));
    }
    let of_alone = random.below(5);
    let data: Vec<BufferId> = (0..4).map(|_| bench.buffer(8)).collect();
    let run = bench.begin();
    let mut flights: Vec<Flights> = vec![Vec::new(); workers.len()];
    let (mut alone, mut ended) = (std::collections::BTreeSet::new(), 0);
    for work in 0..3 * tasks {
        if work < tasks {
            let (write, read) = (random.pick(&data), random.pick(&data));
            let view = |buffer| View::bytes(buffer, 0, 8).expect("small");
            let args = [view(write).in_out(), view(read).input()];
            let args = if read == write { &args[..1] } else { &args[..] };
            let is_alone = random.below(10) < of_alone;
            let spec = TaskSpec::new(Placement::Pool(pool)).args(args).work(work).alone(is_alone);
            bench.spec(run, &spec);
            if is_alone {
                alone.insert(work);
            }
        }
        let actions: Vec<Action> = bench.engine.actions().collect();
        for action in actions {
            let Action::Start(start) = action else { continue };
            let is_alone = alone.contains(&start.work);
            assert_fair(&flights, start.worker.index(), is_alone);
            flights[start.worker.index()].push((start.dispatch, is_alone));
        }
        let busy: Vec<usize> = (0..flights.len()).filter(|of| !flights[*of].is_empty()).collect();
        let queued = bench.engine.stats().queued;
        assert!(queued == 0 || busy.len() == workers.len(), "QUE-3: {queued} wait");
        if !busy.is_empty() && (work >= tasks || random.below(2) == 0) {
            let of = random.pick(&busy);
            let (worker, (dispatch, _)) = (workers[of], flights[of].remove(0));
            let event = Event::Finished { worker, dispatch, ending: Ending::Done, took: 1 };
            bench.engine.step(Time(work), event);
            ended += 1;
        }
    }
    assert_eq!(ended, tasks, "QUE-3: all have ended");
}

#[test]
fn que_4_que_6_nobody_gets_a_second_task_while_another_has_none_nor_behind_one_that_is_alone() {
    (0..4_000).for_each(|seed| assert_spread(seed, 40));
}

#[test]
fn que_6_what_can_run_nowhere_else_is_sent_behind_one_that_is_alone() {
    let mut bench = Bench::new(0);
    let worker = bench.engine.add_worker(Some(bench.pool), 2);
    bench.engine.step(Time(0), Event::Ready(worker));
    let run = bench.begin();
    bench.spec(run, &TaskSpec::new(Placement::Pool(bench.pool)).work(1).alone(true));
    bench.spec(run, &TaskSpec::new(Placement::Pool(bench.pool)).work(2));
    bench.spec(run, &TaskSpec::new(Placement::Worker(worker)).work(3));
    assert_eq!(bench.works(), [1, 3], "QUE-6");
    bench.done(1);
    assert_eq!(bench.works(), [3, 2], "QUE-6");
    bench.finish();
}
