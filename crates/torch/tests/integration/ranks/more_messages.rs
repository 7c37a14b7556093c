//! Receives from any rank, batches, monitored barriers, and split sizes that do not agree.

use super::{assert_usable, bare, number, quad};
use phalanx_sim::{DType, Time};
use phalanx_torch::distributed::P2pOp;
use phalanx_torch::multiprocessing::{SpawnError, spawn};
use phalanx_torch::{Error, distributed as dist};

#[test]
fn dst_4_a_receive_from_any_rank_takes_what_comes_first() {
    let results = spawn(&mut quad(), 4, |rank, cx| async move {
        dist::init_process_group(&cx)?;
        let x = cx.full([1000], f64::from(number(rank)), DType::F16)?;
        if rank > 0 {
            cx.sleep(Time::us([0, 70, 10, 40][rank])).await;
            dist::send(&cx, &x, 0, 3, None).await?;
            return Ok(Vec::new());
        }
        let mut sources = Vec::new();
        for _ in 1..4 {
            let source = dist::recv_any(&cx, &x, 3, None).await?.expect("a sender");
            assert_eq!(x.to_vec().await?, vec![number(source); 1000]);
            sources.push(source);
        }
        Ok(sources)
    });
    assert_eq!(results.unwrap()[0], [2, 3, 1]);
}

#[test]
fn dst_4_receives_from_any_and_from_one_rank_keep_their_order() {
    // Several receives wait at once; messages of one rank with one tag are taken in the order of sending.
    let results =
        spawn(&mut bare(3, "defaults: { n_slots: 1, slot_size: 64 }"), 3, |rank, cx| async move {
            dist::init_process_group(&cx)?;
            let mut works = Vec::new();
            if rank > 0 {
                for round in 0..3_usize {
                    let x = cx.full([100], f64::from(number(10 * rank + round)), DType::F32)?;
                    works.push(dist::isend(&cx, &x, 0, 0, None)?);
                    cx.sleep(Time::us(rank as u64)).await;
                }
                for work in works {
                    work.wait().await?;
                }
                return Ok(Vec::new());
            }
            let mut tensors = Vec::new();
            for receive in 0..6 {
                let x = cx.zeros([100], DType::F32)?;
                works.push(match receive {
                    0 | 3 => dist::irecv(&cx, &x, 2, 0, None)?,
                    _ => dist::irecv_any(&cx, &x, 0, None)?,
                });
                tensors.push(x);
            }
            let mut seen = Vec::new();
            for (work, x) in works.iter().zip(&tensors) {
                work.wait().await?;
                let source = work.source_rank().expect("a sender");
                seen.push((source, x.to_vec().await?[99]));
            }
            Ok(seen)
        });
    let seen = results.unwrap().swap_remove(0);
    assert_eq!((seen[0], seen[3].0), ((2, 20.0), 2));
    for rank in [1, 2] {
        let own: Vec<f32> = seen.iter().filter(|seen| seen.0 == rank).map(|seen| seen.1).collect();
        assert_eq!(own, [0, 1, 2].map(|round| number(10 * rank + round)), "DST-4: in order");
    }
}

#[test]
fn mps_4_a_receive_from_any_rank_that_never_ends_is_reported() {
    let mut context = quad();
    let error = spawn(&mut context, 3, |rank, cx| async move {
        dist::init_process_group(&cx)?;
        let x = cx.zeros([8], DType::F32)?;
        if rank == 1 {
            dist::recv_any(&cx, &x, 7, None).await?;
        }
        Ok(())
    });
    let text = error.unwrap_err().to_string();
    let words =
        "rank 1 waits for a message from any rank with tag 7 in the world, and nobody has sent it";
    assert!(text.starts_with(words), "{text}");
    assert_usable(&mut context);
}

#[test]
fn a_batch_is_sent_and_received_in_any_order_or_not_at_all() {
    let results = spawn(&mut quad(), 2, |rank, cx| async move {
        dist::init_process_group(&cx)?;
        let x = cx.full([500], f64::from(number(rank)), DType::F32)?;
        let (y, other) = (cx.zeros([500], DType::F32)?, 1 - rank);
        let send = P2pOp::Send { tensor: x.clone(), peer: other, tag: 1 };
        let recv = P2pOp::Recv { tensor: y.clone(), peer: other, tag: 1 };
        let bad = P2pOp::Send { tensor: x.clone(), peer: 9, tag: 1 };
        let refused = dist::batch_isend_irecv(&cx, &[send.clone(), recv.clone(), bad], None);
        let refused = refused.err().map(|error| error.to_string()).unwrap_or_default();
        // Had the first two begun, this would not be the only message.
        let ops = if rank == 0 { [send, recv] } else { [recv, send] };
        let works = dist::batch_isend_irecv(&cx, &ops, None)?;
        let mut sources = Vec::new();
        for work in works {
            work.wait().await?;
            sources.push(work.source_rank());
        }
        Ok((y.to_vec().await?[499], sources, refused))
    });
    let results = results.unwrap();
    assert_eq!((results[0].0, results[1].0), (1.0, 0.0));
    assert_eq!(
        (&results[0].1[..], &results[1].1[..]),
        (&[None, Some(1)][..], &[Some(0), None][..])
    );
    let words = "batch_isend_irecv: message 2: send: rank 9 is not part of the world";
    assert!(results[0].2.starts_with(words), "{}", results[0].2);
}

/// A monitored barrier of 50 us, which each rank reaches after so long; `None` returns without it.
fn barrier(delays: [Option<u64>; 4]) -> Result<Vec<Time>, SpawnError> {
    let mut context = quad();
    let done = spawn(&mut context, 4, move |rank, cx| async move {
        dist::init_process_group(&cx)?;
        for _ in 0..2 {
            let Some(delay) = delays[rank] else { return Ok(Time::ZERO) };
            cx.sleep(Time::us(delay)).await;
            dist::monitored_barrier(&cx, Time::us(50), None).await?;
        }
        Ok(cx.now())
    });
    assert_usable(&mut context);
    done
}

#[test]
fn a_monitored_barrier_holds_everybody_until_the_last() {
    let times = barrier([Some(5), Some(0), Some(40), Some(20)]).unwrap();
    assert!(times.iter().all(|time| (Time::us(80)..Time::us(110)).contains(time)), "{times:?}");
}

#[test]
fn a_message_on_its_way_is_none_of_a_monitored_barrier() {
    let results = spawn(&mut quad(), 2, |rank, cx| async move {
        dist::init_process_group(&cx)?;
        let x = cx.full([100], f64::from(number(rank)), DType::F32)?;
        if rank == 1 {
            dist::isend(&cx, &x, 0, 0, None)?.wait().await?;
        }
        dist::monitored_barrier(&cx, Time::us(50), None).await?;
        if rank == 0 {
            dist::recv(&cx, &x, 1, 0, None).await?;
        }
        Ok(x.to_vec().await?[99])
    });
    assert_eq!(results.unwrap(), [1.0, 1.0]);
}

#[test]
fn a_monitored_barrier_names_the_ranks_that_do_not_come_in_time() {
    let error = barrier([Some(0), Some(300), Some(1), Some(300)]).unwrap_err();
    let missing =
        Error::Missing { operation: "monitored_barrier", ranks: vec![1, 3], timeout: Time::us(50) };
    assert_eq!(error.errors[&0], missing);
    let words = "monitored_barrier: ranks 1, 3 have not come within 50000 ns";
    assert_eq!(missing.to_string(), words);
    assert!(error.errors.keys().all(|rank| [0, 2].contains(rank)), "{error}");
}

#[test]
fn mps_4_a_monitored_barrier_names_a_rank_that_has_returned() {
    let error = barrier([Some(0), Some(0), None, Some(0)]).unwrap_err();
    assert_eq!(error.desync.as_ref().expect("a report").missing(), [2], "{error}");
    let words = "rank 2 returned without joining monitored_barrier #1 of the world";
    assert!(error.to_string().starts_with(words), "{error}");
}

/// An all-to-all of three ranks in which rank 1 sends `sends` rows to rank 0, which expects `expects`.
fn exchange(sends: usize, expects: usize) -> Result<Vec<()>, SpawnError> {
    let mut context = quad();
    let done = spawn(&mut context, 3, move |rank, cx| async move {
        dist::init_process_group(&cx)?;
        let sent = if rank == 1 { vec![sends, 1, 1] } else { vec![1; 3] };
        let received = if rank == 0 { vec![1, expects, 1] } else { vec![1; 3] };
        let input = cx.full([sent.iter().sum(), 40], 1.0, DType::F32)?;
        let output = cx.zeros([received.iter().sum(), 40], DType::F32)?;
        dist::all_to_all(&cx, &output, &input, Some(&received), Some(&sent), None).await
    });
    assert_usable(&mut context);
    done
}

#[test]
fn dst_2_split_sizes_that_do_not_agree_are_named_by_rank() {
    exchange(2, 2).unwrap();
    for (sends, expects) in [(3, 2), (2, 3), (0, 2), (2, 0), (5000, 4), (1, 2)] {
        let error = exchange(sends, expects).unwrap_err();
        let noun = if sends == 1 { "row" } else { "rows" };
        let words =
            format!("all_to_all: rank 1 sends {sends} {noun} to rank 0, which expects {expects}");
        assert_eq!(error.errors[&0], Error::Argument(words), "{error}");
        assert_eq!(error.errors.len(), 1);
    }
}

#[test]
fn an_error_that_all_ranks_have_is_written_once() {
    let mut context = bare(4, "defaults: { algorithm: torus_2d }");
    let error = spawn(&mut context, 4, |rank, cx| async move {
        if rank == 2 {
            return Err("its own\nof two lines".into());
        }
        dist::init_process_group(&cx)?;
        let x = cx.zeros([8], DType::F32)?;
        dist::all_reduce(&cx, &x, dist::ReduceOp::Sum, None).await
    });
    let error = error.unwrap_err();
    assert_eq!(error.errors.len(), 4, "each rank has its error");
    let text = error.to_string();
    assert_eq!(text.matches("torus_2d` needs SIPs in a grid").count(), 1, "{text}");
    assert!(text.starts_with("[rank 0, 1, 3] "), "{text}");
    assert!(text.contains("\n[rank 2] its own\n[rank 2] of two lines"), "{text}");
}
