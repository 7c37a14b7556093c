//! Explanations, graphs and critical paths.

use crate::support::{Bench, view};
use phalanx_engine::*;

#[test]
fn why_1_every_edge_is_listed_with_its_argument_and_kind() {
    let mut bench = Bench::new(1);
    let (a, b) = (bench.buffer(64), bench.buffer(64));
    let run = bench.begin();
    let write = bench.task(run, 1, &[view(a, 0, 8).output()]);
    let read = bench.task(run, 2, &[view(a, 0, 8).input()]);
    let args = [view(b, 0, 8).input(), view(a, 0, 8).in_out()];
    let both = bench
        .spec(run, &TaskSpec::new(Placement::Pool(bench.pool)).args(&args).after(&[write]).work(3));
    let why = bench.engine.why(both).expect("live");
    let told: Vec<_> = why
        .dependencies
        .iter()
        .map(|edge| (edge.producer, edge.argument, edge.kinds.to_string()))
        .collect();
    let expected = [(write, Some(1), "RaW+WaW"), (read, Some(1), "WaR"), (write, None, "after")];
    assert_eq!(told, expected.map(|(task, argument, kinds)| (task, argument, kinds.to_owned())));
    bench.done(1);
    let why = bench.engine.why(both).expect("live");
    let satisfied: Vec<bool> = why.dependencies.iter().map(|edge| edge.is_satisfied).collect();
    assert_eq!((satisfied, why.waiting), (vec![true, false, true], Waiting::Tasks(vec![read])));
}

#[test]
fn why_2_what_a_task_waits_for_now_is_told_at_every_stage() {
    let mut bench = Bench::new(2);
    let workers = bench.workers.clone();
    let run = bench.begin();
    let first = bench.spec(run, &TaskSpec::new(Placement::Worker(workers[0])).work(1));
    let second = bench.spec(run, &TaskSpec::new(Placement::Worker(workers[0])).work(2));
    let waiting = |bench: &Bench, task| bench.engine.why(task).expect("live").waiting;
    assert_eq!(waiting(&bench, first), Waiting::Ending(vec![workers[0]]));
    assert_eq!(waiting(&bench, second), Waiting::Worker(workers[0], first));
    let members: Vec<(WorkerId, &[Arg])> =
        workers.iter().map(|worker| (*worker, &[] as &[Arg])).collect();
    let group = bench.spec(run, &TaskSpec::new(Placement::Group(&members)).work(3));
    let pooled = bench.task(run, 4, &[]);
    assert_eq!(
        waiting(&bench, group),
        Waiting::Group(vec![(workers[0], Some(first)), (workers[1], None)])
    );
    assert_eq!(waiting(&bench, second), Waiting::Reserved(workers[0], group));
    assert_eq!(waiting(&bench, pooled), Waiting::Pool(bench.pool));
    let (slab, _) = {
        bench.finish();
        bench.slab(run, 5, 8)
    };
    bench.done(5);
    assert_eq!(waiting(&bench, slab), Waiting::Holders(1));
    assert_eq!(bench.engine.why(first), None);
}

fn diamond(is_recording: bool) -> (Bench, RunId) {
    let mut bench = Bench::with(2, Config { is_recording, ..Config::default() });
    let buffer = bench.buffer(64);
    let run = bench.begin();
    bench.task(run, 1, &[view(buffer, 0, 16).output()]);
    bench.task(run, 2, &[view(buffer, 0, 8).in_out()]);
    bench.task(run, 3, &[view(buffer, 8, 16).in_out()]);
    bench.task(run, 4, &[view(buffer, 0, 16).input()]);
    (bench, run)
}

#[test]
fn the_graph_is_told_as_dot_and_json() {
    let (mut bench, run) = diamond(true);
    let dot = bench.engine.graph(run).to_dot();
    assert_eq!(dot.lines().filter(|line| line.contains("->")).count(), 5, "{dot}");
    assert!(dot.contains("\"t0.1\" -> \"t1.1\" [label=\"RaW+WaW arg 0\"];"), "{dot}");
    bench.finish();
    let json: serde_json::Value =
        serde_json::from_str(&bench.engine.graph(run).to_json()).expect("JSON");
    assert_eq!(json["run"], "test");
    assert_eq!(json["tasks"].as_array().map(Vec::len), Some(4));
    assert_eq!(json["tasks"][3]["state"], "Completed");
    assert_eq!(json["edges"][0]["kinds"], "RaW+WaW");
    let (bench, run) = diamond(false);
    assert_eq!(bench.engine.graph(run).edges.len(), 5, "without recording: what is live");
}

#[test]
fn why_3_the_critical_path_adds_up_to_the_report() {
    let (mut bench, run) = diamond(true);
    let took = [0, 5, 7, 20, 1];
    bench.look();
    while !bench.running.is_empty() {
        let Start { worker, dispatch, work, .. } = bench.running.remove(0);
        let took = took[usize::try_from(work).unwrap_or_default()];
        bench
            .engine
            .step(Time(0), Event::Finished { worker, dispatch, ending: Ending::Done, took });
        bench.look();
    }
    bench.engine.seal(run).expect("no scope is open");
    let path = bench.engine.critical_path(run);
    let works: Vec<u64> = path.iter().map(|(_, work, _)| *work).collect();
    let report = bench.engine.outcome(run).expect("finished").report;
    assert_eq!(works, [1, 3, 4]);
    assert_eq!((report.critical, report.work), (26, 33));
    assert_eq!(
        path.iter().map(|(_, _, took)| took).sum::<u64>(),
        report.critical,
        "P10: the spans add up"
    );
}

#[test]
fn why_3_a_recording_engine_knows_edges_from_tasks_that_had_ended() {
    let mut bench = Bench::with(1, Config { is_recording: true, slots: 2, ..Config::default() });
    let buffer = bench.buffer(64);
    let run = bench.begin();
    let write = bench.task(run, 1, &[view(buffer, 0, 64).output()]);
    bench.done(1);
    let halves = [(2, 0, 32), (3, 32, 64)].map(|(work, start, end)| {
        let half = bench.task(run, work, &[view(buffer, start, end).in_out()]);
        bench.done(work);
        half
    });
    assert_eq!(bench.engine.state(write), State::Consumed, "nobody waits for anybody here");
    let read = [view(buffer, 16, 48).input()];
    let after = [write];
    let spec = TaskSpec::new(Placement::Pool(bench.pool)).args(&read).after(&after).work(4);
    let last = bench.spec(run, &spec);
    bench.done(4);
    let (_, slab) = bench.slab(run, 5, 8);
    bench.done(5);
    let named = [View::bytes(slab.buffer, 0, 8).expect("a small view").input()];
    let reader = bench.task(run, 6, &named);
    bench.done(6);
    let graph = bench.engine.graph(run);
    let told: Vec<_> = graph
        .edges
        .iter()
        .map(|edge| (edge.from, edge.to, edge.argument, edge.kinds.to_string()))
        .collect();
    let edge = |from, to, argument, kinds: &str| (from, to, argument, kinds.to_owned());
    let owner = graph.nodes[4].task;
    let expected = [
        edge(write, halves[0], Some(0), "RaW+WaW"),
        edge(write, halves[1], Some(0), "RaW+WaW"),
        edge(write, last, Some(0), "RaW"),
        edge(halves[0], last, Some(0), "RaW"),
        edge(halves[1], last, Some(0), "RaW"),
        edge(write, last, None, "after"),
        edge(owner, reader, Some(0), "RaW"),
    ];
    assert_eq!(told, expected);
    let works: Vec<u64> =
        bench.engine.critical_path(run).iter().map(|(_, work, _)| *work).collect();
    let report = bench.seal_and_finish(run).report;
    assert_eq!((works.len(), works[0], works[2]), (3, 1, 4), "{works:?}");
    assert_eq!(report.critical, 3, "along all edges, though nobody waited");
}
