//! More tasks than slots.

use super::*;

#[test]
fn grf_7_a_submitter_waits_for_room_and_everything_runs() {
    for slots in [1, 2, 7] {
        let outcome = chip().run(move |cx| async move {
            let x = matrix(&cx, 1, 4)?;
            let graph = cx.graph("narrow", GraphOptions { slots, ..free(2) })?;
            for at in 0..40 {
                let task = nap(10).label(at.to_string());
                graph.submit(if at % 3 == 0 { task.in_out(&x) } else { task }).await?;
            }
            graph.finish().await
        });
        let outcome = outcome.expect("forty tasks");
        assert_eq!(outcome.tasks().len(), 40, "GRF-7");
        let most = if slots == 1 { 40 } else { 30 };
        assert!(outcome.simulated() <= Time::ns(most * 10), "GRF-7: {slots} slots");
        let late = outcome.tasks().iter().filter(|task| task.submitted > Time::ZERO).count();
        assert!(late > 0, "GRF-7: the submitter waited");
    }
}

#[test]
fn grf_7_a_failure_frees_a_submitter_that_waits_for_room() {
    let failed = chip().run(|cx| async move {
        let x = matrix(&cx, 1, 4)?;
        let graph = cx.graph("narrow", GraphOptions { slots: 2, ..free(2) })?;
        graph.submit(failing().output(&x)).await?;
        submit_all(&graph, (0..10).map(|_| nap(10).in_out(&x))).await?;
        Ok(graph.finish().await.expect_err("the first fails").to_string())
    });
    let text = failed.expect("a failure");
    assert!(text.contains("0 of 11 tasks completed, 10 never started"), "{text}");
}
