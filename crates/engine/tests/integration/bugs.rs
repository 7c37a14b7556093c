//! Bug classes that no other module is about.

use crate::support::Bench;
use phalanx_engine::{Event, Time};

/// One owner: the engine can be handed to another thread, but what could be shared is only what `&Engine` can do, and that
/// changes nothing.
#[test]
fn b_04_only_one_owner_changes_the_maps() {
    fn is_send<T: Send>(_: &T) {}
    let mut bench = Bench::new(1);
    is_send(&bench.engine);
    let run = bench.begin();
    let task = bench.task(run, 1, &[]);
    let before = bench.engine.stats();
    let _ = (
        bench.engine.why(task),
        bench.engine.graph(run),
        bench.engine.outcome(run),
        bench.engine.error(run),
    );
    assert_eq!(bench.engine.stats(), before, "reading changes nothing");
}

/// Nothing is tried again and again: while no worker is free, events that free none cost no step and change no queue.
#[test]
fn b_12_ready_tasks_wait_in_their_queue_and_are_not_moved_about() {
    let mut bench = Bench::new(2);
    let workers = bench.workers.clone();
    let run = bench.begin();
    for work in 0..100 {
        bench.task(run, work, &[]);
    }
    bench.look();
    bench.actions.clear();
    let before = bench.engine.stats();
    for now in 0..1000 {
        bench.engine.step(Time(now), Event::Tick);
        bench.engine.step(Time(now), Event::Progress(workers[0]));
        bench.engine.step(Time(now), Event::Ready(workers[1]));
    }
    assert_eq!(bench.engine.actions().next(), None);
    assert_eq!(bench.engine.stats(), before);
    bench.now = 1000;
    bench.seal_and_finish(run);
    assert!(bench.started.iter().copied().eq(0..100), "in the order of submission");
}
