//! Spawning ranks: results, failures, and what is left afterwards (seed T4, g1 to g5).

use super::{assert_usable, failing, nap, number, quad};
use phalanx_sim::{DType, Time};
use phalanx_torch::multiprocessing::{SpawnError, spawn};
use phalanx_torch::{Context, Error, Rank, Tensor, distributed as dist};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Counts how often it was dropped.
struct Guard(Rc<Cell<usize>>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn t4_no_ranks_is_nothing_to_do() {
    assert_eq!(spawn(&mut quad(), 0, |_, _| async { Ok(1) }).unwrap(), Vec::<i32>::new());
}

#[test]
fn t4_every_rank_runs_once_and_results_come_in_order() {
    let mut context = quad();
    let calls = Rc::new(RefCell::new(Vec::new()));
    for ranks in [3, 1, 4] {
        let called = calls.clone();
        let results = spawn(&mut context, ranks, move |rank, cx| {
            called.borrow_mut().push(rank);
            async move {
                assert_eq!((cx.rank(), cx.world_size()), (rank, ranks), "g5");
                // The last is the first to end.
                cx.sleep(Time::us((10 - rank) as u64)).await;
                Ok(rank * 10)
            }
        });
        assert_eq!(results.unwrap(), (0..ranks).map(|rank| rank * 10).collect::<Vec<_>>());
        assert_eq!(calls.take(), (0..ranks).collect::<Vec<_>>());
    }
}

#[test]
fn t4_more_ranks_than_sips_is_an_error() {
    let mut context = quad();
    let error = spawn(&mut context, 5, |_, _| async { Ok(()) }).unwrap_err();
    assert_eq!(
        error.to_string(),
        "[rank 4] spawn: 5 ranks need 5 SIPs, and `quad-sip` has 4; set system.sips.count"
    );
    assert_usable(&mut context);
}

/// Runs four ranks of which some fail while the others wait in a collective; how often guards were dropped.
fn with_failures<F>(context: &mut Context, fail: F) -> (SpawnError, usize)
where
    F: Fn(usize, &Rank) -> Result<(), Error> + Copy + 'static,
{
    let dropped = Rc::new(Cell::new(0));
    let count = dropped.clone();
    let failed = spawn(context, 4, move |rank, cx| {
        let guard = Guard(count.clone());
        async move {
            let _guard = guard;
            dist::init_process_group(&cx)?;
            let x = cx.full([16], 1.0, DType::F32)?;
            x.ready().await?;
            fail(rank, &cx)?;
            dist::all_reduce(&cx, &x, dist::ReduceOp::Sum, None).await
        }
    });
    (failed.unwrap_err(), dropped.get())
}

#[test]
fn t4_g1_g2_mps_2_a_failing_rank_cancels_the_others_and_alone_is_the_error() {
    let mut context = quad();
    let (error, dropped) =
        with_failures(
            &mut context,
            |rank, _| if rank == 1 { Err("bad luck".into()) } else { Ok(()) },
        );
    assert_eq!(error.errors.keys().copied().collect::<Vec<_>>(), [1], "MPS-2");
    assert_eq!(error.errors[&1], Error::Other("bad luck".to_owned()));
    assert_eq!(error.cancelled, [0, 2, 3], "MPS-2");
    assert!(error.desync.is_none() && error.secondary.is_empty());
    assert_eq!(dropped, 4, "MPS-1: destructors have run");
    assert_eq!(error.to_string(), "[rank 1] bad luck\ncancelled because of that: rank 0, 2, 3");
    assert_usable(&mut context);
}

#[test]
fn g4_mps_2_all_ranks_that_fail_in_a_round_are_in_the_error() {
    let mut context = quad();
    let (error, dropped) = with_failures(&mut context, |rank, _| {
        if rank % 2 == 0 { Err(Error::other(format!("{rank} fails"))) } else { Ok(()) }
    });
    assert_eq!(
        error.to_string(),
        "[rank 0] 0 fails\n[rank 2] 2 fails\ncancelled because of that: rank 1, 3"
    );
    assert_eq!((error.cancelled, dropped), (vec![1, 3], 4));
    assert_usable(&mut context);
}

#[test]
fn mps_2_a_panic_is_the_error_of_its_rank() {
    let mut context = quad();
    let (error, dropped) = with_failures(&mut context, |rank, _| {
        assert!(rank != 3, "rank {rank} has had enough");
        Ok(())
    });
    assert_eq!(error.errors[&3], Error::Panic("rank 3 has had enough".to_owned()));
    assert_eq!((error.errors.len(), error.cancelled, dropped), (1, vec![0, 1, 2], 4));
    assert_usable(&mut context);
}

/// Panics when it is dropped.
struct Grenade(usize);

impl Drop for Grenade {
    fn drop(&mut self) {
        let quiet = self.0 != 2 || std::thread::panicking();
        assert!(quiet, "the destructor of rank {} panicked", self.0);
    }
}

#[test]
fn mps_2_panics_of_cancelled_ranks_are_kept_apart() {
    let mut context = quad();
    let error = spawn(&mut context, 4, |rank, cx| async move {
        let _grenade = Grenade(rank);
        if rank == 0 {
            return Err("the cause".into());
        }
        cx.sleep(Time::us(1000)).await;
        Ok(())
    });
    let error = error.unwrap_err();
    assert_eq!(
        error.errors.into_iter().collect::<Vec<_>>(),
        [(0, Error::Other("the cause".into()))]
    );
    assert_eq!(error.cancelled, [1, 2, 3]);
    let words = "the destructor of rank 2 panicked".to_owned();
    assert_eq!(error.secondary.into_iter().collect::<Vec<_>>(), [(2, words)]);
    assert_usable(&mut context);
}

#[test]
fn mps_1_a_rank_that_ends_waits_for_what_it_left_under_way() {
    let mut context = quad();
    let done = Rc::new(Cell::new(0));
    let count = done.clone();
    spawn(&mut context, 2, move |_, cx| {
        let done = count.clone();
        async move {
            let x = cx.zeros([4], DType::F32)?;
            let kernel = move |tl: phalanx_sim::kernel::Tl, _| {
                let done = done.clone();
                async move {
                    tl.compute(Time::us(77)).await;
                    done.set(done.get() + 1);
                    Ok(())
                }
            };
            let args = [phalanx_torch::Arg::write(&x)];
            cx.launch("late", phalanx_torch::Grid::Pes(1), &args, kernel)?;
            Ok(())
        }
    })
    .unwrap();
    assert_eq!(done.get(), 2, "MPS-1");
    assert!(context.now() > Time::us(77));
}

#[test]
fn mps_2_a_failure_that_nobody_looked_at_is_the_error_of_its_rank() {
    let mut context = quad();
    let error = spawn(&mut context, 2, |rank, cx| async move {
        let x = cx.zeros([4], DType::F32)?;
        if rank == 1 {
            failing(&cx, &x);
            nap(&cx, &x, Time::us(1));
        }
        Ok(())
    });
    let error = error.unwrap_err();
    assert_eq!(error.errors.keys().copied().collect::<Vec<_>>(), [1]);
    let text = error.errors[&1].to_string();
    assert!(text.starts_with("kernel `failing` on sip1.cube0.pe0 failed at "), "{text}");
    assert_usable(&mut context);
}

#[test]
fn a_failure_that_was_looked_at_is_not_the_error_of_its_rank() {
    let results = spawn(&mut quad(), 2, |rank, cx| async move {
        let x = cx.zeros([4], DType::F32)?;
        Ok(failing(&cx, &x).wait().await.is_err() && rank < 2)
    });
    assert_eq!(results.unwrap(), [true, true]);
}

#[test]
fn mps_3_a_failing_kernel_in_the_middle_of_a_collective_leaves_nothing_behind() {
    let mut context = quad();
    for round in 0..3_u64 {
        let failed = spawn(&mut context, 4, move |rank, cx| async move {
            dist::init_process_group(&cx)?;
            let x = cx.full([100_000], f64::from(number(rank)), DType::F32)?;
            let work = dist::all_reduce_async(&cx, &x, dist::ReduceOp::Sum, None)?;
            if rank == 2 {
                cx.sleep(Time::us(2 + 7 * round)).await;
                return Err("in the middle".into());
            }
            work.wait().await
        });
        let error = failed.unwrap_err();
        assert_eq!(error.errors.keys().copied().collect::<Vec<_>>(), [2]);
        assert_usable(&mut context);
    }
}

#[test]
fn mps_3_a_rank_that_cannot_go_on_leaves_nothing_behind() {
    let mut context = quad();
    let error = spawn(&mut context, 4, |rank, cx| async move {
        dist::init_process_group(&cx)?;
        let x = cx.zeros([8], DType::F32)?;
        if rank == 0 {
            return Ok(());
        }
        dist::all_reduce(&cx, &x, dist::ReduceOp::Sum, None).await
    });
    let error = error.unwrap_err();
    assert_eq!(error.cancelled, [1, 2, 3]);
    assert_eq!(error.desync.unwrap().missing(), [0], "MPS-4");
    assert_usable(&mut context);
}

/// Asks for everything it can when it is dropped.
struct AsksWhenDropped {
    cx: Rank,
    x: Tensor,
    asked: Rc<Cell<usize>>,
}

impl Drop for AsksWhenDropped {
    fn drop(&mut self) {
        let Self { cx, x, asked } = self;
        x.fill_(2.0).expect("a request");
        nap(cx, x, Time::us(1));
        cx.full([8], 1.0, DType::F32).expect("a tensor");
        let _range = cx.range("the end");
        let _ = dist::init_process_group(cx);
        let _ = dist::all_reduce_async(cx, x, dist::ReduceOp::Sum, None);
        let _ = dist::isend(cx, x, (cx.rank() + 1) % 4, 0, None);
        asked.set(asked.get() + 1);
    }
}

#[test]
fn mps_3_a_destructor_that_asks_for_something_leaves_nothing_behind() {
    let mut context = quad();
    let asked = Rc::new(Cell::new(0));
    let kept = Rc::new(RefCell::new(Vec::new()));
    for round in 0..4_usize {
        let (count, tensors) = (asked.clone(), kept.clone());
        let failed = spawn(&mut context, 4, move |rank, cx| {
            let (asked, kept) = (count.clone(), tensors.clone());
            async move {
                let x = cx.full([16], 1.0, DType::F32)?;
                kept.borrow_mut().push(x.clone());
                let _last_wish = AsksWhenDropped { cx: cx.clone(), x: x.clone(), asked };
                if rank == round {
                    return Err("first".into());
                }
                dist::init_process_group(&cx)?;
                dist::all_reduce(&cx, &x, dist::ReduceOp::Sum, None).await
            }
        });
        let error = failed.unwrap_err();
        assert_eq!(error.errors.keys().copied().collect::<Vec<_>>(), [round]);
        assert!(error.secondary.is_empty(), "{:?}", error.secondary);
        assert_eq!(asked.get(), 4 * (round + 1), "every destructor has run");
        assert_usable(&mut context);
        // A tensor that outlives its program can be written by the next one.
        let tensors = kept.take();
        let sums = spawn(&mut context, 4, move |rank, _| {
            let x = tensors.iter().find(|x| x.owner().rank() == rank).cloned();
            async move {
                let x = x.expect("one for each rank");
                x.fill_(3.0)?;
                Ok(x.to_vec().await?[15])
            }
        });
        assert_eq!(sums.unwrap(), [3.0; 4], "MPS-3");
    }
}

#[test]
fn mps_2_panics_of_cancelled_kernels_are_kept_apart() {
    let mut context = quad();
    let error = spawn(&mut context, 4, |rank, cx| async move {
        let x = cx.zeros([4], DType::F32)?;
        let kernel = move |tl: phalanx_sim::kernel::Tl, _| async move {
            let _grenade = Grenade(rank);
            tl.compute(Time::us(100)).await;
            Ok(())
        };
        let args = [phalanx_torch::Arg::write(&x)];
        cx.launch("armed", phalanx_torch::Grid::Pes(1), &args, kernel)?;
        cx.sleep(Time::us(50)).await;
        Err::<(), _>(format!("{rank}").into())
    });
    let error = error.unwrap_err();
    assert_eq!(error.errors.len(), 4);
    assert_eq!(error.secondary[&2], "the destructor of rank 2 panicked");
    assert_usable(&mut context);
}

#[test]
fn mps_2_an_unseen_failure_of_a_rank_that_still_waits_is_a_root_cause() {
    let mut context = quad();
    let error = spawn(&mut context, 2, |rank, cx| async move {
        dist::init_process_group(&cx)?;
        let (x, y) = (cx.zeros([4], DType::F32)?, cx.zeros([4], DType::F32)?);
        if rank == 1 {
            failing(&cx, &x);
            dist::recv(&cx, &y, 0, 0, None).await?;
        }
        Ok(())
    });
    let error = error.unwrap_err();
    assert_eq!(error.errors.keys().copied().collect::<Vec<_>>(), [1]);
    assert!(error.errors[&1].to_string().contains("no luck") && error.cancelled.is_empty());
    assert_usable(&mut context);
}

#[test]
fn mps_3_a_run_that_takes_too_long_leaves_a_usable_context() {
    let mut context = quad();
    let error = context.run(|cx| async move {
        cx.sleep(Time::ps(u64::MAX)).await;
        Ok(())
    });
    let text = error.unwrap_err().to_string();
    assert!(text.contains("the run takes more than"), "{text}");
    assert_usable(&mut context);
}
