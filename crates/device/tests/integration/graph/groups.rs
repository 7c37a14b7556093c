//! Groups: members that start together and exchange messages.

use super::*;
use phalanx_device::graph::Member;
use phalanx_sim::ipcq::EdgeSpec;

/// Each member tells its neighbour its number; nobody can end without the others.
async fn ring(tl: Tl, args: Args) -> Result<(), KernelError> {
    let (own, all, edge) = (tl.program_id(), args.pes(), EdgeSpec::default());
    let to = tl.sender(all[(own + 1) % all.len()], edge)?;
    let from = tl.receiver(all[(own + all.len() - 1) % all.len()], edge)?;
    let number = f64::from(u32::try_from(own).unwrap_or(u32::MAX));
    tl.send(&to, &tl.full(DType::F32, [4], number)?).await;
    let got = tl.recv(&from, DType::F32, [4]).await?;
    let view = args.view(0)?;
    let got = tl.add(&got, &tl.zeros(DType::F32, [4])?).await?;
    tl.store(&view, &got).await
}

/// Two members on any PEs that exchange messages and touch nothing.
pub(super) fn exchange() -> KernelTask {
    let kernel = |tl: Tl, args: Args| async move {
        let (other, edge) = (args.pes()[1 - tl.program_id()], EdgeSpec::default());
        let (to, from) = (tl.sender(other, edge)?, tl.receiver(other, edge)?);
        tl.send(&to, &tl.zeros(DType::F32, [4])?).await;
        drop(tl.recv(&from, DType::F32, [4]).await?);
        Ok(())
    };
    KernelTask::new("exchange", kernel).member(Member::any()).member(Member::any())
}

#[test]
fn grf_8_members_start_together_and_exchange_messages() {
    let (outcome, numbers) = chip()
        .run(|cx| async move {
            let x = matrix(&cx, 3, 4)?;
            let graph = cx.graph("ring", free(4))?;
            // One PE of the group is busy: all wait for it.
            graph.submit(nap(50).on(pe(1))).await?;
            let mut group = KernelTask::new("ring", ring);
            for at in 0..3_u16 {
                let row = x.narrow(0, at.into(), 1)?.reshape([4])?;
                group = group.member(Member::on(pe(at)).output(&row));
            }
            graph.submit(group).await?;
            graph.submit(nap(10).on(pe(0)).input(&x)).await?;
            Ok((graph.finish().await?, x.to_vec().await?))
        })
        .expect("a ring");
    assert_eq!(numbers, [[2.0; 4], [0.0; 4], [1.0; 4]].concat(), "GRF-8");
    let group = &outcome.tasks()[1];
    assert_eq!(group.pes, [pe(0), pe(1), pe(2)]);
    assert_eq!(group.started, Some(Time::ns(50)), "GRF-8: not before all PEs are free");
    assert_eq!(pairs(&outcome), [(1, 2)], "GRF-1: the reader waits for all members");
}

#[test]
fn grf_8_the_arguments_of_all_members_make_edges() {
    let outcome = chip().run(|cx| async move {
        let (x, y) = (matrix(&cx, 1, 4)?, matrix(&cx, 1, 4)?);
        let graph = cx.graph("members", free(4))?;
        graph.submit(nap(10).output(&x)).await?;
        graph.submit(nap(10).output(&y)).await?;
        let group = KernelTask::new("nap", busy(Time::ns(1)));
        graph
            .submit(group.member(Member::any().input(&x)).member(Member::any().in_out(&y)))
            .await?;
        graph.submit(nap(1).input(&y)).await?;
        graph.finish().await
    });
    assert_eq!(pairs(&outcome.expect("no failure")), [(0, 2), (1, 2), (2, 3)], "GRF-8");
}

#[test]
fn grf_8_groups_on_any_pes_wait_for_enough_of_them() {
    let outcome = chip().run(|cx| async move {
        let graph = cx.graph("pairs", free(3))?;
        submit_all(&graph, [nap(20), nap(30), exchange(), exchange(), nap(5)]).await?;
        graph.finish().await
    });
    let outcome = outcome.expect("pairs");
    let started: Vec<_> = outcome.tasks().iter().map(|task| task.started).collect();
    assert_eq!(started[2], Some(Time::ns(20)), "GRF-8");
    assert!(started.iter().all(Option::is_some));
}

#[test]
fn grf_8_a_group_that_can_never_start_is_refused() {
    let texts = chip().run(|cx| async move {
        let graph = cx.graph("large", free(1))?;
        let large = graph.submit(exchange()).await.expect_err("two members, one PE").to_string();
        let twice =
            KernelTask::new("twice", ring).member(Member::on(pe(0))).member(Member::on(pe(0)));
        let twice = graph.submit(twice).await.expect_err("one PE").to_string();
        let mixed = KernelTask::new("mixed", ring).member(Member::on(pe(0))).member(Member::any());
        let mixed = graph.submit(mixed).await.expect_err("mixed").to_string();
        graph.finish().await?;
        Ok([large, twice, mixed])
    });
    assert_eq!(
        texts.expect("texts"),
        [
            "graph `large`: task `exchange`: a group of 2 can never start on 1 workers",
            "graph `large`: task `twice`: two members for worker 0",
            "graph `large`: task `mixed`: either all members of a group name their PE or none does",
        ]
    );
}
