//! Ranks that cannot go on: the whole text (MPS-4, g12).

use super::{assert_usable, bare, number};
use phalanx_sim::ipcq::EdgeSpec;
use phalanx_sim::kernel::{KernelError, Tl};
use phalanx_sim::topology::PeId;
use phalanx_sim::{DType, Time};
use phalanx_torch::distributed::{self as dist, ReduceOp};
use phalanx_torch::multiprocessing::{SpawnError, spawn};
use phalanx_torch::{Arg, Args, Context, Error, Grid, Rank};

fn four() -> Context {
    bare(4, "defaults: { algorithm: ring }")
}

/// Runs a program that cannot succeed; the context can be used afterwards.
fn stuck<F>(
    context: &mut Context,
    ranks: usize,
    program: impl Fn(usize, Rank) -> F + 'static,
) -> SpawnError
where
    F: Future<Output = Result<(), Error>> + 'static,
{
    let error = spawn(context, ranks, program).expect_err("it cannot succeed");
    assert_usable(context);
    error
}

async fn sum(cx: &Rank, len: usize, dtype: DType, op: ReduceOp) -> Result<(), Error> {
    dist::all_reduce(cx, &cx.full([len], 1.0, dtype)?, op, None).await
}

#[test]
fn mps_4_g12_a_rank_that_returned_without_joining() {
    let error = stuck(&mut four(), 4, |rank, cx| async move {
        dist::init_process_group(&cx)?;
        if rank == 2 { Ok(()) } else { sum(&cx, 8, DType::F32, ReduceOp::Sum).await }
    });
    insta::assert_snapshot!("returned", error.to_string());
}

#[test]
fn g12_a_rank_that_returned_one_collective_early() {
    let error = stuck(&mut four(), 2, |rank, cx| async move {
        dist::init_process_group(&cx)?;
        sum(&cx, 8, DType::F32, ReduceOp::Sum).await?;
        if rank == 0 { Ok(()) } else { dist::barrier(&cx, None).await }
    });
    insta::assert_snapshot!("returned_early", error.to_string());
}

#[test]
fn g12_ranks_that_are_in_collectives_of_different_groups() {
    let error = stuck(&mut four(), 2, |rank, cx| async move {
        dist::init_process_group(&cx)?;
        let group = dist::new_group(&cx, &[0, 1])?;
        let x = cx.zeros([4], DType::F32)?;
        let first = if rank == 0 { None } else { Some(&group) };
        dist::all_reduce(&cx, &x, ReduceOp::Sum, first).await
    });
    insta::assert_snapshot!("other_group", error.to_string());
}

#[test]
fn dst_2_ranks_that_differ_show_both_sides() {
    let cases: [(&str, usize, DType, ReduceOp); 3] = [
        ("shape", 9, DType::F32, ReduceOp::Sum),
        ("dtype", 8, DType::F16, ReduceOp::Sum),
        ("op", 8, DType::F32, ReduceOp::Max),
    ];
    for (name, len, dtype, op) in cases {
        let error = stuck(&mut four(), 2, move |rank, cx| async move {
            dist::init_process_group(&cx)?;
            if rank == 0 {
                return sum(&cx, 8, DType::F32, ReduceOp::Sum).await;
            }
            sum(&cx, len, dtype, op).await
        });
        assert!(error.errors.values().all(|error| matches!(error, Error::Mismatch(_))), "DST-2");
        insta::assert_snapshot!(format!("differ_{name}"), error.to_string());
    }
}

#[test]
fn dst_2_ranks_in_another_order_show_both_sides() {
    let error = stuck(&mut four(), 2, |rank, cx| async move {
        dist::init_process_group(&cx)?;
        let (x, y) = (cx.zeros([4], DType::F32)?, cx.zeros([6], DType::F32)?);
        let order = if rank == 0 { [&x, &y] } else { [&y, &x] };
        for tensor in order {
            dist::all_reduce(&cx, tensor, ReduceOp::Sum, None).await?;
        }
        Ok(())
    });
    insta::assert_snapshot!("differ_order", error.to_string());
}

async fn receive(tl: Tl, _: Args) -> Result<(), KernelError> {
    let from = PeId { sip: 1 - tl.pe().sip, ..tl.pe() };
    let from = tl.receiver(from, EdgeSpec::default())?;
    tl.recv(&from, DType::F32, 4).await.map(drop)
}

#[test]
fn a_kernel_that_waits_for_a_message_nobody_sends() {
    let error = stuck(&mut four(), 2, |rank, cx| async move {
        if rank == 0 {
            return Ok(());
        }
        let x = cx.zeros([4], DType::F32)?;
        cx.launch("lonely", Grid::Pes(1), &[Arg::read(&x)], receive)?.wait().await
    });
    insta::assert_snapshot!("lonely_kernel", error.to_string());
}

#[test]
fn a_message_that_nobody_sends() {
    let error = stuck(&mut four(), 2, |rank, cx| async move {
        dist::init_process_group(&cx)?;
        let x = cx.zeros([4], DType::F32)?;
        if rank == 0 { Ok(()) } else { dist::recv(&cx, &x, 0, 7, None).await.map(drop) }
    });
    insta::assert_snapshot!("no_message", error.to_string());
}

async fn send_first(tl: Tl, _: Args) -> Result<(), KernelError> {
    let peer = PeId { sip: 1 - tl.pe().sip, ..tl.pe() };
    let (to, from) =
        (tl.sender(peer, EdgeSpec::default())?, tl.receiver(peer, EdgeSpec::default())?);
    let tile = tl.zeros(DType::F32, 4)?;
    for _ in 0..5 {
        tl.send(&to, &tile).await;
    }
    for _ in 0..5 {
        drop(tl.recv(&from, DType::F32, 4).await?);
    }
    Ok(())
}

#[test]
fn two_kernels_that_fill_their_queues_before_they_receive() {
    let error = stuck(&mut four(), 2, |_, cx| async move {
        let x = cx.zeros([4], DType::F32)?;
        cx.launch("eager", Grid::Pes(1), &[Arg::read(&x)], send_first)?.wait().await
    });
    insta::assert_snapshot!("full_queues", error.to_string());
}

#[test]
fn looking_for_ever_whether_work_is_completed() {
    let error = stuck(&mut four(), 2, |rank, cx| async move {
        dist::init_process_group(&cx)?;
        if rank == 1 {
            return Ok(());
        }
        let x = cx.full([4], f64::from(number(rank)), DType::F32)?;
        let work = dist::all_reduce_async(&cx, &x, ReduceOp::Sum, None)?;
        while !work.is_completed().await {}
        work.wait().await
    });
    insta::assert_snapshot!("looking", error.to_string());
}

#[test]
fn looking_whether_work_is_completed_sees_that_it_is() {
    let looks = spawn(&mut four(), 4, |rank, cx| async move {
        dist::init_process_group(&cx)?;
        let x = cx.full([1000], f64::from(number(rank)), DType::F32)?;
        let work = dist::all_reduce_async(&cx, &x, ReduceOp::Sum, None)?;
        let mut looks = 0;
        while !work.is_completed().await {
            looks += 1;
        }
        work.wait().await?;
        assert_eq!(x.to_vec().await?, [6.0; 1000]);
        Ok(looks)
    });
    assert!(looks.unwrap().iter().all(|looks| *looks > 1));
}

#[test]
fn looking_whether_a_request_is_completed_sees_that_it_is() {
    let looks = spawn(&mut four(), 1, |_, cx| async move {
        let x = cx.full([1000], 1.0, DType::F32)?;
        let request = cx.launch("slow", Grid::Pes(1), &[Arg::read(&x)], |tl, _| async move {
            tl.compute(Time::us(5)).await;
            Ok(())
        })?;
        let mut looks = 0;
        while !request.is_completed().await {
            looks += 1;
        }
        assert!(request.is_over() && cx.now() >= Time::us(5));
        Ok(looks)
    });
    assert!(looks.unwrap().iter().all(|looks| *looks > 0));
}

#[test]
fn dst_2_a_rank_that_joined_another_collective() {
    let error = stuck(&mut four(), 4, |rank, cx| async move {
        dist::init_process_group(&cx)?;
        let x = cx.zeros([8], DType::F32)?;
        if rank == 2 {
            return dist::broadcast(&cx, &x, 0, None).await;
        }
        dist::all_reduce(&cx, &x, ReduceOp::Sum, None).await
    });
    insta::assert_snapshot!("differ_collective", error.to_string());
}

#[test]
fn dst_2_ranks_that_mean_different_roots() {
    let error = stuck(&mut four(), 3, |rank, cx| async move {
        dist::init_process_group(&cx)?;
        let x = cx.zeros([8], DType::F32)?;
        // Everybody waits for somebody else.
        dist::broadcast(&cx, &x, usize::from(rank == 0), None).await
    });
    insta::assert_snapshot!("differ_root", error.to_string());
}

#[test]
fn dst_2_a_message_that_its_receiver_did_not_want_shows_both_sides() {
    let error = stuck(&mut four(), 4, |rank, cx| async move {
        dist::init_process_group(&cx)?;
        let x = cx.zeros([8], DType::F32)?;
        // Rank 3 thinks that it is the root.
        dist::broadcast(&cx, &x, if rank == 3 { 3 } else { 0 }, None).await
    });
    let text = error.to_string();
    assert!(text.contains("the ranks do not do the same"), "DST-2: {text}");
    for side in ["broadcast #1 of the world: f32[8], root 0", "rank 3 is in broadcast"] {
        assert!(text.contains(side), "DST-2: {text}");
    }
}

#[test]
fn g12_a_rank_that_waits_for_a_message_instead_of_joining() {
    let error = stuck(&mut four(), 3, |rank, cx| async move {
        dist::init_process_group(&cx)?;
        let x = cx.zeros([8], DType::F32)?;
        if rank == 1 {
            dist::recv(&cx, &x, 0, 2, None).await?;
        }
        dist::barrier(&cx, None).await
    });
    insta::assert_snapshot!("message_first", error.to_string());
}

#[test]
fn ranks_that_wait_for_messages_of_each_other() {
    let error = stuck(&mut four(), 2, |rank, cx| async move {
        dist::init_process_group(&cx)?;
        let x = cx.zeros([8], DType::F32)?;
        dist::recv(&cx, &x, 1 - rank, 0, None).await?;
        dist::send(&cx, &x, 1 - rank, 0, None).await
    });
    insta::assert_snapshot!("messages_of_each_other", error.to_string());
}
