//! Tasks that wait for ever, tasks that are slow, and nothing at all going on.

use super::*;
use crate::support::assert_usable;
use phalanx_device::graph::{GraphFailure, Member, TaskError};
use phalanx_sim::ipcq::EdgeSpec;

/// A task on PE 1 that waits for a message that PE 0 never sends.
fn stuck() -> KernelTask {
    let kernel = |tl: Tl, _| async move {
        let from = tl.receiver(pe(0), EdgeSpec::default())?;
        drop(tl.recv(&from, DType::F32, [4]).await?);
        Ok(())
    };
    KernelTask::new("stuck", kernel).label("of two").on(pe(1))
}

fn watched(budget: Time) -> GraphOptions {
    GraphOptions { budget: Some(budget), ..free(2) }
}

#[test]
fn grf_6_a_task_that_waits_for_its_whole_budget_is_named_with_what_it_waits_for() {
    let mut context = chip();
    let failure = context.run(|cx| async move {
        let x = matrix(&cx, 1, 4)?;
        let graph = cx.graph("watched", watched(Time::us(10)))?;
        graph.submit(stuck().output(&x)).await?;
        graph.submit(nap(10).input(&x)).await?;
        // Something goes on all the time.
        submit_all(&graph, (0..20).map(|_| nap(1000).on(pe(0)))).await?;
        let error = graph.finish().await.expect_err("it is stuck");
        let failure = error.downcast_ref::<GraphFailure>().expect("a failure of the graph").clone();
        let next = cx.graph("next", free(2))?;
        submit_all(&next, [nap(10), nap(10)]).await?;
        assert_eq!(next.finish().await?.simulated(), Time::ns(10), "GRF-5: its PE is free");
        Ok(failure)
    });
    let failure = failure.expect("a failure");
    assert_eq!(
        failure.to_string(),
        "graph `watched`: task #0 `stuck of two` failed on sip0.cube0.pe1 at 10000 ns: stuck since 0 ns\n    \
         `stuck@sip0.cube0.pe1` waits for a message on sip0.cube0.pe0->sip0.cube0.pe1 (4 slots of 16 KiB); could come from \
         `sip0.cube0.pe0`\n  \
         20 of 22 tasks completed, 1 never started: #1 `nap`",
        "GRF-6"
    );
    assert!(matches!(failure.roots[0].error, TaskError::Stalled { since: Time::ZERO, .. }));
    assert_usable(&mut context);
}

#[test]
fn grf_6_a_task_that_computes_is_not_stuck_however_long_it_takes() {
    let outcome = chip().run(|cx| async move {
        let graph = cx.graph("slow", watched(Time::us(1)))?;
        // One long operation, many short ones, and a member that waits for a slow one.
        graph.submit(nap(100_000)).await?;
        let steady = |tl: Tl, _| async move {
            for _ in 0..300 {
                tl.compute(Time::ns(900)).await;
            }
            Ok(())
        };
        graph.submit(KernelTask::new("steady", steady)).await?;
        let uneven = |tl: Tl, args: Args| async move {
            let edge = EdgeSpec::default();
            if tl.program_id() == 1 {
                let from = tl.receiver(args.pes()[0], edge)?;
                drop(tl.recv(&from, DType::F32, [4]).await?);
                return Ok(());
            }
            tl.compute(Time::us(500)).await;
            let to = tl.sender(args.pes()[1], edge)?;
            tl.send(&to, &tl.zeros(DType::F32, [4])?).await;
            Ok(())
        };
        graph
            .submit(KernelTask::new("uneven", uneven).member(Member::any()).member(Member::any()))
            .await?;
        graph.finish().await
    });
    let outcome = outcome.expect("GRF-6: slow is not stuck");
    assert_eq!(outcome.simulated(), Time::ns(270_000 + 500_000));
}

#[test]
fn grf_6_a_task_may_be_expected_to_wait_longer_than_others() {
    let outcome = chip().run(|cx| async move {
        let graph = cx.graph("patient", watched(Time::us(1)))?;
        graph.submit(stuck().expected(Time::us(30))).await?;
        let late = |tl: Tl, _| async move {
            tl.compute(Time::us(20)).await;
            let to = tl.sender(pe(1), EdgeSpec::default())?;
            tl.send(&to, &tl.zeros(DType::F32, [4])?).await;
            Ok(())
        };
        graph.submit(KernelTask::new("late", late).on(pe(0))).await?;
        graph.finish().await
    });
    assert_eq!(outcome.expect("GRF-6").simulated(), Time::us(20));
}

#[test]
fn grf_6_if_nothing_can_happen_any_more_that_is_a_deadlock_immediately() {
    let mut context = chip();
    let error = context
        .run(|cx| async move {
            let x = matrix(&cx, 1, 4)?;
            let graph = cx.graph("dead", watched(Time::us(1000)))?;
            graph.submit(stuck().output(&x)).await?;
            graph.submit(nap(10).input(&x)).await?;
            graph.submit(nap(10).on(pe(0))).await?;
            graph.finish().await
        })
        .expect_err("a deadlock");
    let deadlock = &error.desync.as_ref().expect("a wait-for graph").deadlock;
    assert_eq!(deadlock.time, Time::ns(10), "GRF-6: at once, not after the budget");
    let text = error.to_string();
    for part in [
        "the end of graph `dead`: running #0 `stuck of two` on sip0.cube0.pe1; 1 behind",
        "`stuck@sip0.cube0.pe1` waits for a message on sip0.cube0.pe0->sip0.cube0.pe1",
    ] {
        assert!(text.contains(part), "GRF-6: {text}");
    }
    assert!(!text.contains("watchdog"), "the watchdog waits for nothing: {text}");
    assert_usable(&mut context);
}

#[test]
fn grf_6_the_watchdog_takes_no_simulated_time() {
    let time = |budget| {
        let mut context = chip();
        let ended = context.run(move |cx| async move {
            let graph = cx.graph("quiet", GraphOptions { budget, ..free(2) })?;
            submit_all(&graph, (0..5).map(|_| nap(777))).await?;
            Ok(graph.finish().await?.ended)
        });
        (ended.expect("naps"), context.now())
    };
    assert_eq!(time(None), time(Some(Time::ns(100))));
}
