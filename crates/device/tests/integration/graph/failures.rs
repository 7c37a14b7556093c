//! A task that fails: who is told, who goes on, and what is left.

use super::*;
use phalanx_device::graph::{GraphFailure, Member, TaskState};
use phalanx_sim::ipcq::EdgeSpec;

fn failure(error: &Error) -> GraphFailure {
    let failure = error.downcast_ref::<GraphFailure>();
    failure.unwrap_or_else(|| panic!("another error: {error}")).clone()
}

/// Rows 0 to 2 are written one after the other from each other; the first fails. Rows 3 and 4 have nothing to do with it.
async fn half_bad(cx: &Rank) -> Result<(GraphFailure, Tensor), Error> {
    let x = matrix(cx, 5, 4)?;
    let row = |at| x.narrow(0, at, 1);
    let graph = cx.graph("half", free(2))?;
    graph.submit(nap(10).label("good").output(&row(3)?)).await?;
    graph.submit(failing().label("bad").on(pe(1)).output(&row(0)?)).await?;
    graph.submit(nap(10).label("behind").input(&row(0)?).output(&row(1)?)).await?;
    graph.submit(nap(10).label("far behind").input(&row(1)?).output(&row(2)?)).await?;
    graph.submit(nap(30).label("good too").input(&row(3)?).output(&row(4)?)).await?;
    let error = graph.finish().await.expect_err("one fails");
    Ok((failure(&error), x))
}

#[test]
fn grf_4_a_failure_poisons_those_behind_it_with_its_root_and_others_go_on() {
    let failure = chip().run(|cx| async move { Ok(half_bad(&cx).await?.0) }).expect("a failure");
    assert_eq!(
        failure.to_string(),
        "graph `half`: task #1 `failing bad` failed on sip0.cube0.pe1 at 0 ns: no luck\n  \
         2 of 5 tasks completed, 2 never started: #2 `nap behind`, #3 `nap far behind`"
    );
    let root = failure.roots[0].task;
    let states: Vec<_> = failure.outcome.tasks().iter().map(|task| task.state).collect();
    let never = TaskState::NeverStarted(Some(root));
    let done = TaskState::Completed;
    assert_eq!(states, [done, TaskState::Failed, never, never, done], "GRF-4");
    assert_eq!(failure.outcome.simulated(), Time::ns(40), "GRF-4: others go on");
    let why = failure.outcome.why(failure.never_started[1]).expect("a task").to_string();
    assert_eq!(
        why,
        "task #3 `nap far behind` was never started because #1 `failing bad` failed\n  \
         behind #2 `nap behind` (RaW by argument 0), not over"
    );
}

#[test]
fn grf_4_every_root_is_named_and_later_submissions_are_never_started() {
    let failure = chip().run(|cx| async move {
        let graph = cx.graph("two", free(2))?;
        submit_all(&graph, [failing().on(pe(0)), failing().on(pe(1))]).await?;
        cx.sleep(Time::ns(5)).await;
        submit_all(&graph, [nap(10), nap(10)]).await?;
        Ok(failure(&graph.finish().await.expect_err("two fail")))
    });
    let failure = failure.expect("a failure");
    assert_eq!(failure.roots.len(), 2, "GRF-4");
    assert_eq!(failure.never_started.len(), 2, "GRF-4");
    assert_eq!(
        failure.outcome.tasks()[3].state,
        TaskState::NeverStarted(Some(failure.roots[0].task))
    );
}

#[test]
fn grf_4_a_panic_is_a_failure_of_its_task() {
    let failure = chip().run(|cx| async move {
        let graph = cx.graph("panic", free(1))?;
        let task = KernelTask::new("careless", |_: Tl, args: Args| async move {
            args.tensor(7);
            Ok(())
        });
        graph.submit(task).await?;
        Ok(failure(&graph.finish().await.expect_err("it panics")).to_string())
    });
    let text = failure.expect("a failure");
    assert!(
        text.starts_with("graph `panic`: task #0 `careless` failed on sip0.cube0.pe0"),
        "{text}"
    );
    assert!(text.contains("panicked"), "{text}");
}

#[test]
fn grf_5_reads_of_what_a_failed_task_would_have_written_learn_why() {
    let texts = chip().run(|cx| async move {
        let (x, y) = (matrix(&cx, 1, 2)?, matrix(&cx, 1, 2)?);
        let graph = cx.graph("half", free(2))?;
        let zeros = matrix(&cx, 1, 2)?;
        graph.submit(KernelTask::new("increment", increment).input(&zeros).output(&y)).await?;
        graph.submit(failing().output(&x)).await?;
        assert!(graph.finish().await.is_err());
        assert_eq!(y.to_vec().await?, [1.0, 1.0], "GRF-4: others go on");
        Ok(x.to_vec().await.expect_err("nobody wrote it").to_string())
    });
    let text = texts.expect("the program goes on");
    assert!(text.contains("was not begun: graph `half`: task #1 `failing` failed"), "{text}");
}

#[test]
fn grf_5_after_a_failure_the_next_graph_has_everything_for_itself() {
    let simulated = chip().run(|cx| async move {
        // A group whose first member sends, then fails: its message and the waiting receiver stay behind.
        let graph = cx.graph("broken", free(2))?;
        let task = KernelTask::new("broken", |tl: Tl, args: Args| async move {
            let (edge, pes) = (EdgeSpec::default(), args.pes().to_vec());
            if tl.program_id() == 1 {
                let from = tl.receiver(pes[0], edge)?;
                drop(tl.recv(&from, DType::F32, [4]).await?);
                drop(tl.recv(&from, DType::F32, [4]).await?);
                return Ok(());
            }
            let to = tl.sender(pes[1], edge)?;
            tl.send(&to, &tl.zeros(DType::F32, [4])?).await;
            tl.send(&to, &tl.zeros(DType::F32, [4])?).await;
            Err(KernelError::Other("half way".to_owned()))
        });
        graph.submit(task.member(Member::any()).member(Member::any())).await?;
        let text = graph.finish().await.expect_err("it fails").to_string();
        assert!(text.contains("failed on sip0.cube0.pe0 at 0 ns: half way"), "{text}");
        let again = cx.graph("again", free(2))?;
        again.submit(super::groups::exchange()).await?;
        submit_all(&again, [nap(10), nap(10)]).await?;
        Ok(again.finish().await?.simulated())
    });
    assert_eq!(simulated.expect("GRF-5: no credit is away"), Time::ns(10));
}

#[test]
fn grf_5_a_graph_that_is_dropped_leaves_nothing_and_says_so() {
    let mut context = chip();
    let text = context.run(|cx| async move {
        let x = matrix(&cx, 1, 2)?;
        let graph = cx.graph("dropped", free(1))?;
        graph.submit(nap(1000).output(&x)).await?;
        graph.submit(nap(1000).in_out(&x)).await?;
        cx.sleep(Time::ns(5)).await;
        drop(graph);
        let text = x.to_vec().await.expect_err("nobody wrote it").to_string();
        assert_eq!(cx.now(), Time::ns(5), "GRF-5: nobody waits for the dropped task");
        let graph = cx.graph("next", free(1))?;
        graph.submit(nap(10)).await?;
        // The operation that was under way keeps its engine; the task behind it never began.
        assert_eq!(graph.finish().await?.ended, Time::ns(1010), "GRF-5: the PE is free");
        Ok(text)
    });
    let error = text.expect_err("a failure that nobody looked at is told at the end");
    assert!(
        error
            .to_string()
            .contains("graph `dropped` was dropped before it was over; await `finish`"),
        "{error}"
    );
    crate::support::assert_usable(&mut context);
}
