//! Tasks that are sent behind what they wait for.

use crate::support::{Bench, Random, view};
use phalanx_engine::*;

/// A bench whose workers keep order and take so many tasks.
fn ordered(workers: usize, depth: usize) -> Bench {
    let mut bench = Bench::new(0);
    let pool = bench.pool;
    bench.workers = (0..workers).map(|_| bench.engine.add_worker(Some(pool), depth)).collect();
    for worker in bench.workers.clone() {
        bench.engine.keeps_order(worker);
        bench.engine.step(Time(0), Event::Ready(worker));
    }
    bench
}

/// The task that a task was sent behind.
fn behind(bench: &Bench, task: TaskId) -> Vec<u64> {
    let mut behind = Vec::new();
    bench.engine.behind(task, |dispatch| behind.push(dispatch));
    behind
}

/// The work of what each worker has, in order.
fn dispatched(bench: &mut Bench) -> Vec<Vec<u64>> {
    bench.look();
    let of = |worker: &WorkerId| {
        let mine = bench.running.iter().filter(|start| start.worker == *worker);
        mine.map(|start| start.work).collect()
    };
    bench.workers.iter().map(of).collect()
}

#[test]
fn que_5_a_chain_is_sent_to_one_worker_as_deep_as_that_goes() {
    let mut bench = ordered(2, 4);
    let data = bench.buffer(8);
    let run = bench.begin();
    for work in 1..=10 {
        bench.task(run, work, &[view(data, 0, 8).in_out()]);
    }
    assert_eq!(dispatched(&mut bench), [vec![1, 2, 3, 4], vec![]], "QUE-5");
    let is_behind = |start: &Start| behind(&bench, start.task).len() == 1;
    assert!(bench.running[1..].iter().all(is_behind), "QUE-5");
    bench.done(1);
    assert_eq!(dispatched(&mut bench), [vec![2, 3, 4, 5], vec![]], "QUE-5: room is used at once");
    let second = bench.running[1].task;
    let before = behind(&bench, second);
    assert_eq!(before, [bench.running[0].dispatch], "QUE-5: what it is behind");
    let outcome = bench.seal_and_finish(run);
    assert_eq!((outcome.report.completed, outcome.report.critical), (10, 10), "QUE-5");
    bench.assert_empty();
}

#[test]
fn que_5_only_the_first_of_several_consumers_is_sent_behind_their_producer() {
    let mut bench = ordered(2, 4);
    let data = bench.buffer(8);
    let run = bench.begin();
    bench.task(run, 1, &[view(data, 0, 8).output()]);
    for work in 2..=4 {
        bench.task(run, work, &[view(data, 0, 8).input()]);
    }
    assert_eq!(dispatched(&mut bench), [vec![1, 2], vec![]], "QUE-5");
    bench.done(1);
    assert_eq!(dispatched(&mut bench), [vec![2, 4], vec![3]], "QUE-4: the others are spread");
    bench.finish();
}

#[test]
fn que_5_what_waits_for_tasks_of_two_workers_waits() {
    let mut bench = ordered(2, 4);
    let (one, other) = (bench.buffer(8), bench.buffer(8));
    let run = bench.begin();
    bench.task(run, 1, &[view(one, 0, 8).output()]);
    bench.task(run, 2, &[view(other, 0, 8).output()]);
    bench.task(run, 3, &[view(one, 0, 8).input(), view(other, 0, 8).input()]);
    assert_eq!(dispatched(&mut bench), [vec![1], vec![2]], "QUE-5");
    bench.done(2);
    // Nobody looks at what waits for the first because the second has ended; it is sent when the first ends.
    bench.done(1);
    assert_eq!(bench.works(), [3], "QUE-5");
    bench.finish();
}

#[test]
fn que_5_ready_tasks_go_first() {
    let mut bench = ordered(1, 2);
    let [one, second, third] = [(); 3].map(|()| bench.buffer(8));
    let run = bench.begin();
    for (work, data) in (1..).zip([one, second, third, one, one]) {
        bench.task(run, work, &[view(data, 0, 8).in_out()]);
    }
    assert_eq!(dispatched(&mut bench), [[1, 2]], "QUE-1: the third is ready and waits");
    bench.done(1);
    assert_eq!(dispatched(&mut bench), [[2, 3]], "QUE-5");
    bench.done(2);
    assert_eq!(dispatched(&mut bench), [[3, 4]], "QUE-5");
    bench.done(3);
    assert_eq!(
        dispatched(&mut bench),
        [[4, 5]],
        "QUE-5: nothing is ready, so what waits may follow"
    );
    bench.finish();
}

#[test]
fn que_5_que_6_a_task_that_is_alone_is_not_sent_behind_and_nothing_behind_it() {
    let mut bench = ordered(1, 4);
    let data = bench.buffer(8);
    let run = bench.begin();
    let pool = bench.pool;
    for (work, is_alone) in [(1, false), (2, true), (3, false)] {
        let args = [view(data, 0, 8).in_out()];
        bench.spec(
            run,
            &TaskSpec::new(Placement::Pool(pool)).args(&args).work(work).alone(is_alone),
        );
    }
    for work in 1..=3 {
        assert_eq!(bench.works(), [work], "QUE-6");
        bench.done(work);
    }
}

#[test]
fn que_5_a_task_for_one_worker_is_sent_behind_its_producer_there() {
    let mut bench = ordered(2, 4);
    let data = bench.buffer(8);
    let run = bench.begin();
    let (here, there) = (bench.workers[0], bench.workers[1]);
    for (work, worker) in [(1, here), (2, here), (3, there)] {
        let args = [view(data, 0, 8).in_out()];
        bench.spec(run, &TaskSpec::new(Placement::Worker(worker)).args(&args).work(work));
    }
    assert_eq!(dispatched(&mut bench), [vec![1, 2], vec![]], "QUE-2, QUE-5");
    bench.done(1);
    bench.done(2);
    assert_eq!(dispatched(&mut bench), [vec![], vec![3]], "QUE-2");
    bench.finish();
}

#[test]
fn que_5_what_is_behind_a_failure_fails_of_it_and_never_counts_as_done() {
    for ending in [Ending::Skipped, Ending::Done] {
        let mut bench = ordered(1, 4);
        let data = bench.buffer(8);
        let run = bench.begin();
        let root = bench.task(run, 1, &[view(data, 0, 8).in_out()]);
        let second = bench.task(run, 2, &[view(data, 0, 8).in_out()]);
        bench.end(1, Ending::Failed(7));
        assert!(bench.engine.is_doomed(second), "QUE-5");
        // Its worker should skip it; if it does not, that makes no difference.
        bench.end(2, ending);
        let outcome = bench.seal_and_finish(run);
        let cause = outcome.error.expect("QUE-5: it failed");
        assert_eq!((cause.task, cause.reason), (Some(root), Reason::Failed(7)), "RUN-5");
        assert_eq!((outcome.report.tasks, outcome.report.completed), (2, 0), "QUE-5");
        bench.assert_empty();
    }
}

#[test]
fn que_5_a_lost_worker_loses_what_was_behind() {
    let mut bench = ordered(2, 4);
    let data = bench.buffer(8);
    let run = bench.begin();
    for work in 1..=6 {
        bench.task(run, work, &[view(data, 0, 8).in_out()]);
    }
    let first = bench.workers[0];
    bench.look();
    bench.lose(first);
    let outcome = bench.seal_and_finish(run);
    let reason = outcome.error.map(|cause| cause.reason);
    assert_eq!(reason, Some(Reason::WorkerLost(first)), "QUE-5");
    bench.assert_empty();
}

/// The state of a task, as far as the model knows.
struct Sent {
    worker: usize,
    dispatch: u64,
    work: u64,
}

/// Random graphs: each start is the next of its queue or behind all it waits for, and nothing waits that a worker can take.
fn assert_work_conserving(seed: u64) {
    let mut random = Random::new(seed);
    let workers = 2 + usize::try_from(random.below(3)).expect("few");
    let depth = 1 + usize::try_from(random.below(4)).expect("few");
    let mut bench = ordered(workers, depth);
    let (pool, run) = (bench.pool, bench.begin());
    let data: Vec<BufferId> = (0..4).map(|_| bench.buffer(8)).collect();
    let mut sent: Vec<Sent> = Vec::new();
    let mut tasks: Vec<(TaskId, bool)> = Vec::new();
    let mut queue: Vec<usize> = Vec::new();
    let of_alone = random.below(4);
    for step in 0..120u64 {
        if tasks.len() < 40 {
            let (write, read) = (random.pick(&data), random.pick(&data));
            let args = [view(write, 0, 8).in_out(), view(read, 0, 8).input()];
            let args = if read == write { &args[..1] } else { &args[..] };
            let is_alone = random.below(10) < of_alone;
            let work = tasks.len() as u64;
            let spec = TaskSpec::new(Placement::Pool(pool)).args(args).work(work).alone(is_alone);
            tasks.push((bench.spec(run, &spec), is_alone));
        }
        let actions: Vec<Action> = bench.engine.actions().collect();
        for action in actions {
            let Action::Start(start) = action else { continue };
            let worker = start.worker.index();
            let behind = behind(&bench, start.task);
            let has = |one: &u64| sent.iter().any(|s| s.worker == worker && s.dispatch == *one);
            assert!(behind.iter().all(has), "QUE-5");
            let last = sent.iter().rev().find(|sent| sent.worker == worker);
            let is_direct = last.is_some_and(|last| behind.contains(&last.dispatch));
            assert_eq!(!behind.is_empty(), is_direct, "QUE-5: directly behind one of them");
            sent.push(Sent { worker, dispatch: start.dispatch, work: start.work });
        }
        // Those that became ready together stand in the order of submission (QUE-1).
        let ready = |at: &usize| bench.engine.state(tasks[*at].0) == State::Ready;
        queue.retain(ready);
        queue.extend(
            (0..tasks.len()).filter(|at| ready(at) && !queue.contains(at)).collect::<Vec<_>>(),
        );
        if let Some(first) = queue.first() {
            assert_first_waits_rightly(tasks[*first].1, &tasks, &sent, (workers, depth));
        }
        if !sent.is_empty() && (tasks.len() >= 40 || random.below(2) == 0) {
            // Each worker ends what it has in order.
            let worker =
                sent[usize::try_from(random.below(sent.len() as u64)).expect("few")].worker;
            let at = sent.iter().position(|sent| sent.worker == worker).expect("it has some");
            let Sent { dispatch, .. } = sent.remove(at);
            let worker = bench.workers[worker];
            let event = Event::Finished { worker, dispatch, ending: Ending::Done, took: 1 };
            bench.engine.step(Time(step), event);
        }
    }
    assert!(sent.is_empty(), "QUE-3: all have ended");
}

/// QUE-3 and QUE-6: while the first task of the queue waits, no worker can take it.
fn assert_first_waits_rightly(
    is_first_alone: bool,
    tasks: &[(TaskId, bool)],
    sent: &[Sent],
    (workers, depth): (usize, usize),
) {
    let is_alone = |work: u64| tasks[usize::try_from(work).expect("few")].1;
    for worker in 0..workers {
        let its: Vec<u64> = sent.iter().filter(|s| s.worker == worker).map(|s| s.work).collect();
        assert!(!its.is_empty(), "QUE-3: {worker} is idle");
        let is_full = its.len() == depth || its.iter().any(|work| is_alone(*work));
        assert!(is_full || is_first_alone, "QUE-3, QUE-6: {worker} can take the first task");
    }
}

#[test]
fn que_3_que_5_que_6_nothing_waits_that_a_worker_can_take() {
    (0..4_000).for_each(assert_work_conserving);
}
