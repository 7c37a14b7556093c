//! Waiting: who makes time pass, in which order, and how often (seeds T3, g13 to g19).

use super::{both, is_over_now, machine, nap, quad, recorded};
use phalanx_sim::executor::PartitionOrder;
use phalanx_sim::ipcq::EdgeSpec;
use phalanx_sim::kernel::Tl;
use phalanx_sim::machine::Options;
use phalanx_sim::topology::PeId;
use phalanx_sim::{DType, Time};
use phalanx_torch::{Arg, Args, Context, Grid, distributed as dist, multiprocessing};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

#[test]
fn t3_a_a_wait_gives_way_and_goes_on_when_the_request_is_over() {
    let mut context = quad();
    let log = Rc::new(RefCell::new(Vec::new()));
    let lines = log.clone();
    let ended = multiprocessing::spawn(&mut context, 2, move |rank, cx| {
        let log = lines.clone();
        async move {
            let x = cx.zeros([8], DType::F32)?;
            let handle = nap(&cx, &x, Time::us(10));
            assert!(!handle.is_over(), "asking is not waiting");
            log.borrow_mut().push(format!("{rank} waits"));
            cx.wait(&handle).await?;
            assert!(handle.is_over());
            log.borrow_mut().push(format!("{rank} goes on"));
            Ok(cx.now())
        }
    });
    let ends = ended.unwrap();
    assert!(ends[0] > Time::us(10) && ends[0] == ends[1]);
    assert_eq!(*log.borrow(), ["0 waits", "1 waits", "0 goes on", "1 goes on"]);
}

#[test]
fn t3_c_mps_5_every_rank_reaches_its_first_wait_before_time_moves() {
    let mut context = quad();
    for _ in 0..2 {
        let began = context.now();
        let log = Rc::new(RefCell::new(Vec::new()));
        let lines = log.clone();
        multiprocessing::spawn(&mut context, 4, move |rank, cx| {
            let log = lines.clone();
            async move {
                log.borrow_mut().push((rank, cx.now()));
                let x = cx.zeros([8], DType::F32)?;
                x.ready().await?;
                log.borrow_mut().push((rank, cx.now()));
                Ok(())
            }
        })
        .unwrap();
        let log = log.take();
        let first: Vec<_> = (0..4).map(|rank| (rank, began)).collect();
        assert_eq!(log[..4], first, "MPS-5");
        assert_eq!(log[4..].iter().map(|(rank, _)| *rank).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert!(log[4].1 > began);
    }
}

#[test]
fn t3_f_req_2_g19_a_request_is_driven_once_whoever_waits() {
    let mut context = recorded();
    let runs = Rc::new(Cell::new(0));
    let counted = runs.clone();
    context
        .run(move |cx| {
            let runs = counted.clone();
            async move {
                let x = cx.zeros([8], DType::F32)?;
                let kernel = move |tl: Tl, _| {
                    let runs = runs.clone();
                    async move {
                        tl.compute(Time::us(1)).await;
                        runs.set(runs.get() + 1);
                        Ok(())
                    }
                };
                let handle = cx.launch("once", Grid::Pes(1), &[Arg::write(&x)], kernel)?;
                let (one, other) = both(handle.wait(), handle.wait()).await;
                one.and(other)?;
                let over = cx.now();
                handle.wait().await?;
                assert_eq!(cx.now(), over, "REQ-2");
                Ok(())
            }
        })
        .unwrap();
    assert_eq!(runs.get(), 1, "REQ-2");
    let requests = context.report().requests;
    assert_eq!(requests.iter().filter(|request| request.what == "launch").count(), 1);
}

#[test]
fn g17_waiting_for_what_is_over_does_not_give_way() {
    quad()
        .run(|cx| async move {
            let x = cx.zeros([8], DType::F32)?;
            let handle = nap(&cx, &x, Time::ns(1));
            assert!(!is_over_now(handle.wait()).await);
            handle.wait().await?;
            assert!(is_over_now(handle.wait()).await, "REQ-2");
            assert!(is_over_now(cx.wait(&handle)).await && is_over_now(x.ready()).await);
            Ok(())
        })
        .unwrap();
}

/// Returns the logs of a run with some of everything.
fn logs(partition_order: PartitionOrder) -> (String, String) {
    let options = Options { record: true, partition_order, ..Options::default() };
    let mut context = Context::new(machine("quad-sip", &[]), options);
    multiprocessing::spawn(&mut context, 4, |rank, cx| async move {
        dist::init_process_group(&cx)?;
        let x = cx.rand([64], DType::F16)?;
        let y = cx.zeros([64], DType::F16)?;
        let work = dist::all_reduce_async(&cx, &x, dist::ReduceOp::Max, None)?;
        y.copy_(&x)?;
        dist::isend(&cx, &y, (rank + 1) % 4, 3, None)?.wait().await?;
        let z = cx.zeros([64], DType::F16)?;
        dist::recv(&cx, &z, (rank + 3) % 4, 3, None).await?;
        work.wait().await?;
        z.to_vec().await
    })
    .unwrap();
    let report = context.report();
    let ops: usize = report.ops.iter().map(|log| log.len()).sum();
    assert!(ops > 20 && report.requests.len() > 20);
    assert!(report.op_log().contains(" all_reduce("), "a collective has its algorithm's name");
    (format!("{:?}", report.ops), format!("{:?}", report.requests))
}

#[test]
fn g13_two_runs_give_the_same_logs() {
    let first = logs(PartitionOrder::Queued);
    assert!(first == logs(PartitionOrder::Queued));
    for seed in 0..5 {
        assert!(first == logs(PartitionOrder::Shuffled(seed)), "SIM-2: seed {seed}");
    }
}

#[test]
fn g14_one_program_needs_nobody_else() {
    let numbers = quad().run(|cx| async move { cx.full([3], 2.5, DType::Bf16)?.to_vec().await });
    assert_eq!(numbers.unwrap(), [2.5; 3]);
}

/// Sends a number to another rank's kernel and waits for its.
async fn meet(tl: Tl, args: Args, other: u32) -> Result<(), phalanx_sim::kernel::KernelError> {
    let peer = PeId { sip: other, ..tl.pe() };
    let (to, from) =
        (tl.sender(peer, EdgeSpec::default())?, tl.receiver(peer, EdgeSpec::default())?);
    let own = tl.load(&args.view(0)?).await?;
    drop(tl.send(&to, &own));
    let got = tl.recv(&from, DType::F32, 4).await?;
    let sum = tl.add(&own, &got).await?;
    tl.store(&args.view(0)?, &sum).await
}

#[test]
fn g15_g16_launches_of_two_ranks_that_need_each_other_are_driven_while_both_wait() {
    for order in [[0, 1], [1, 0]] {
        let sums = multiprocessing::spawn(&mut quad(), 2, move |rank, cx| async move {
            // Whoever begins late finds the other waiting.
            cx.sleep(Time::us(order[rank] * 50)).await;
            let x = cx.full([4], f64::from(super::number(rank)) + 1.0, DType::F32)?;
            let other = 1 - u32::try_from(rank).expect("small");
            let kernel = move |tl, args| meet(tl, args, other);
            cx.launch("meet", Grid::Pes(1), &[Arg::write(&x)], kernel)?.wait().await?;
            x.to_vec().await
        });
        assert_eq!(sums.unwrap(), [[3.0; 4]; 2]);
    }
}

#[test]
fn g18_everything_that_was_asked_for_is_driven_to_its_end() {
    let runs = Rc::new(Cell::new(0));
    let counted = runs.clone();
    let mut context = quad();
    multiprocessing::spawn(&mut context, 3, move |_, cx| {
        let runs = counted.clone();
        async move {
            let x = cx.zeros([8], DType::F32)?;
            for _ in 0..40 {
                let runs = runs.clone();
                let kernel = move |tl: Tl, _| {
                    let runs = runs.clone();
                    async move {
                        tl.compute(Time::us(1)).await;
                        runs.set(runs.get() + 1);
                        Ok(())
                    }
                };
                cx.launch("count", Grid::Pes(1), &[Arg::write(&x)], kernel)?;
            }
            Ok(())
        }
    })
    .unwrap();
    assert_eq!(runs.get(), 120);
    assert!(context.now() > Time::us(40));
}
