//! The engine infers these edges, and no others.

use super::*;
use phalanx_device::graph::{Kinds, Mode, TaskState};

#[test]
fn grf_1_tiles_that_share_no_byte_have_no_edge_and_run_side_by_side() {
    let outcome = chip().run(|cx| async move {
        let x = matrix(&cx, 4, 4)?;
        let graph = cx.graph("tiles", free(4))?;
        for (row, column) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            graph.submit(nap(100).output(&tile(&x, row, column, 2)?)).await?;
        }
        graph.finish().await
    });
    let outcome = outcome.expect("four tiles");
    assert_eq!(pairs(&outcome), [], "GRF-1");
    assert_eq!(outcome.simulated(), Time::ns(100), "GRF-1: four PEs at once");
    assert!(outcome.tasks().iter().all(|task| task.state == TaskState::Completed));
}

#[test]
fn a_ready_task_of_higher_priority_starts_first() {
    let outcome = chip().run(|cx| async move {
        let x = matrix(&cx, 4, 4)?;
        let graph = cx.graph("priorities", free(1))?;
        graph.submit(nap(10)).await?; // 0: keeps the PE busy
        graph.submit(nap(10).output(&x)).await?; // 1
        graph.submit(nap(10).priority(1)).await?; // 2: overtakes 1
        graph.submit(nap(10).output_existing(&tile(&x, 0, 0, 2)?)).await?; // 3: after 1
        graph.finish().await
    });
    let outcome = outcome.expect("four tasks");
    let started: Vec<Option<Time>> = outcome.tasks().iter().map(|task| task.started).collect();
    assert_eq!(started, [0, 20, 10, 30].map(|at| Some(Time::ns(at))));
    assert_eq!(pairs(&outcome), [(1, 3)], "GRF-1");
}

#[test]
fn grf_1_edges_are_those_of_overlapping_strided_views() {
    let outcome = chip().run(|cx| async move {
        let x = matrix(&cx, 4, 6)?;
        let graph = cx.graph("views", free(4))?;
        let column = |at| x.narrow(1, at, 1);
        let row = |at| x.narrow(0, at, 1);
        graph.submit(nap(10).output(&column(0)?)).await?; // 0
        graph.submit(nap(10).output(&column(1)?)).await?; // 1
        graph.submit(nap(10).input(&column(0)?)).await?; // 2: reads 0
        graph.submit(nap(10).in_out(&row(2)?)).await?; // 3: crosses both, and the reader of the first
        graph.submit(nap(10).input(&x.narrow(1, 2, 4)?.narrow(0, 0, 2)?)).await?; // 4: beside all
        graph.submit(nap(10).output(&x.transpose(0, 1)?.narrow(0, 1, 1)?)).await?; // 5: column 1 again
        graph.finish().await
    });
    let outcome = outcome.expect("views");
    assert_eq!(pairs(&outcome), [(0, 2), (0, 3), (1, 3), (1, 5), (2, 3), (3, 5)], "GRF-1");
    let kinds = |from, to| {
        let edge = outcome
            .edges()
            .iter()
            .find(|edge| (edge.from.number(), edge.to.number()) == (from, to));
        edge.map(|edge| edge.kinds).expect("an edge")
    };
    assert_eq!(kinds(0, 2), Kinds::READ_AFTER_WRITE);
    assert_eq!(kinds(2, 3), Kinds::WRITE_AFTER_READ);
    assert_eq!(kinds(1, 5), Kinds::WRITE_AFTER_WRITE);
}

#[test]
fn grf_1_what_is_said_explicitly_counts_and_what_is_unordered_waits_for_nobody() {
    let outcome = chip().run(|cx| async move {
        let x = matrix(&cx, 2, 2)?;
        let graph = cx.graph("explicit", free(4))?;
        let first = graph.submit(nap(50).output(&x)).await?;
        let beside = graph.submit(nap(10).in_out(&x).unordered()).await?;
        graph.submit(nap(10).no_dep(&x)).await?;
        graph.submit(nap(10).after([first, beside])).await?;
        let manual = graph.open("manual", Mode::Manual)?;
        graph.submit(nap(10).output(&x)).await?;
        graph.close(manual)?;
        graph.finish().await
    });
    let outcome = outcome.expect("a graph");
    assert_eq!(pairs(&outcome), [(0, 3), (1, 3)], "GRF-1");
    assert!(outcome.unordered > 0, "what was left unordered is counted");
    assert_eq!(outcome.simulated(), Time::ns(60));
}

#[test]
fn the_critical_path_is_a_chain_of_edges_and_no_number_of_pes_beats_it() {
    let outcome = chip().run(|cx| async move {
        let x = matrix(&cx, 3, 4)?;
        let graph = cx.graph("chain", free(3))?;
        let row = |at| x.narrow(0, at, 1);
        graph.submit(nap(30).label("a").output(&row(0)?)).await?;
        graph.submit(nap(10).label("b").output(&row(1)?)).await?;
        graph.submit(nap(40).label("c").input(&row(0)?).output(&row(2)?)).await?;
        graph.submit(nap(5).label("d").input(&row(1)?).in_out(&row(2)?)).await?;
        graph.finish().await
    });
    let outcome = outcome.expect("a chain");
    let names: Vec<_> = outcome.critical_path().map(|task| task.label.clone()).collect();
    assert_eq!(names, ["a", "c", "d"]);
    assert_eq!(outcome.critical_time(), Time::ns(75));
    assert_eq!(outcome.simulated(), Time::ns(75));
    let last = outcome.tasks()[3].id;
    let why = outcome.why(last).expect("a task").to_string();
    assert_eq!(
        why,
        "task #3 `nap d` ended on sip0.cube0.pe0 at 75 ns\n  behind #1 `nap b` (RaW by argument 0), over\n  \
         behind #2 `nap c` (RaW+WaW by argument 1), over"
    );
    let dot = outcome.to_dot();
    assert!(dot.contains("t2 -> t3 [label=\"RaW+WaW arg 1\"];"), "{dot}");
    let json: serde_json::Value = serde_json::from_str(&outcome.to_json()).expect("JSON");
    assert_eq!(json["simulated_ps"], 75_000);
    assert_eq!(json["critical"], serde_json::json!([0, 2, 3]));
    assert_eq!(json["tasks"][3]["pes"][0], "sip0.cube0.pe0");
}

#[test]
fn why_says_what_a_task_waits_for() {
    let texts = chip().run(|cx| async move {
        let x = matrix(&cx, 2, 2)?;
        cx.synchronize().await?;
        let graph = cx.graph("why", free(1))?;
        let first = graph.submit(nap(10).label("first").output(&x)).await?;
        let second = graph.submit(nap(10).label("second").in_out(&x)).await?;
        let third = graph.submit(nap(10).label("third").on(pe(0))).await?;
        let ids = [first, second, third];
        let texts = ids.map(|id| graph.why(id).expect("a task").to_string());
        graph.finish().await?;
        Ok(texts)
    });
    let [first, second, third] = texts.expect("three tasks");
    assert_eq!(first, "task #0 `nap first` runs on sip0.cube0.pe0");
    assert_eq!(
        second,
        "task #1 `nap second` waits for #0 `nap first`\n  \
         behind #0 `nap first` (RaW+WaW by argument 0), not over"
    );
    assert_eq!(third, "task #2 `nap third` waits for sip0.cube0.pe0, which has #0 `nap first`");
}

#[test]
fn what_cannot_be_is_refused_with_a_way_out() {
    let texts = chip().run(|cx| async move {
        let x = matrix(&cx, 2, 2)?;
        let graph = cx.graph("bad", free(2))?;
        let other = cx.graph("other", free(1))?;
        let foreign = other.submit(nap(1)).await?;
        let mut texts = Vec::new();
        let tasks = [
            nap(1).on(pe(3)),
            nap(1).target(phalanx_device::graph::TaskTarget::Cube(0)),
            nap(1).input(&x).output(&x),
            nap(1).after([foreign]),
        ];
        for task in tasks {
            texts.push(graph.submit(task).await.expect_err("refused").to_string());
        }
        let none = GraphOptions { slots: 0, ..GraphOptions::default() };
        texts.push(cx.graph("none", none).err().expect("refused").to_string());
        let zero = GraphOptions { budget: Some(Time::ZERO), ..GraphOptions::default() };
        texts.push(cx.graph("zero", zero).err().expect("refused").to_string());
        other.finish().await?;
        assert_eq!(graph.finish().await?.tasks().len(), 0, "refusals leave nothing");
        Ok(texts)
    });
    assert_eq!(
        texts.expect("texts"),
        [
            "graph `bad`: task `nap`: sip0.cube0.pe3 is none of the 2 PEs of the graph; see `GraphOptions::pes`",
            "graph `bad`: task `nap`: there is no pool of cube 0: use `Pools::Cubes` and a cube of the graph",
            "graph `bad`: task `nap`: arguments 0 and 1 of member 0 share bytes and one writes; use one `InOut`",
            "graph `bad`: task `nap`: `after` names #0, a task of another graph",
            "graph `none`: `slots` and `depth` are at least 1",
            "graph `zero`: `budget` is 0 ns: use at least 1 ns, or none",
        ]
    );
}
