//! Ranks outside of spawn: a main program drives time in slices.

use super::{assert_usable, failing, machine, nap, number, quad};
use phalanx_sim::executor::PartitionOrder;
use phalanx_sim::machine::{Options, RunError};
use phalanx_sim::{DType, Time};
use phalanx_torch::multiprocessing::spawn;
use phalanx_torch::{Context, DpPolicy, Error, Rank, distributed as dist};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Times at which a program of one rank has done its steps.
async fn program(cx: Rank) -> Result<Vec<Time>, Error> {
    let mut times = Vec::new();
    let x = cx.full([300, 40], 1.0, DType::F16)?;
    let y = cx.full([7], 2.0, DType::F32)?;
    for step in 1..4 {
        nap(&cx, &x, Time::ns(1234 * step)).wait().await?;
        times.push(cx.now());
        y.copy_(&x.reshape([12_000])?.narrow(0, 5, 7)?)?;
        times.push(Time::ns(y.to_vec().await?.len() as u64));
        times.push(cx.now());
    }
    Ok(times)
}

#[test]
fn slc_2_a_main_program_that_is_a_rank_gets_the_times_of_a_spawned_one() {
    let spawned = quad().run(program).unwrap();
    let mut context = quad();
    let cx = context.main();
    assert_eq!(context.block_on(&cx, program(cx.clone())).unwrap(), spawned, "SLC-2: at once");
    // The same, in the main program, one wait after the other.
    let mut context = quad();
    let cx = context.main();
    let mut times = Vec::new();
    let x = cx.full([300, 40], 1.0, DType::F16).unwrap();
    let y = cx.full([7], 2.0, DType::F32).unwrap();
    for step in 1..4 {
        let handle = nap(&cx, &x, Time::ns(1234 * step));
        assert!(!handle.is_over(), "SLC-1");
        context.drive_until(&handle).unwrap();
        times.push(context.now());
        let part = x.reshape([12_000]).unwrap().narrow(0, 5, 7).unwrap();
        y.copy_(&part).unwrap();
        let z = y.clone();
        let numbers = context.block_on(&cx, async move { z.to_vec().await }).unwrap();
        times.push(Time::ns(numbers.len() as u64));
        times.push(context.now());
    }
    assert_eq!(times, spawned, "SLC-2: in slices");
}

#[test]
fn slc_1_a_main_program_plays_all_ranks_of_a_collective() {
    for order in [PartitionOrder::Queued, PartitionOrder::Shuffled(5)] {
        let options = Options { partition_order: order, ..Options::default() };
        let mut context = Context::new(machine("quad-sip", &[]), options);
        let ranks = context.ranks(4).unwrap();
        let mut tensors = Vec::new();
        for cx in &ranks {
            dist::init_process_group(cx).unwrap();
            tensors.push(cx.full([64], f64::from(number(cx.rank())), DType::F32).unwrap());
        }
        for round in 0..3 {
            let works: Vec<_> = ranks
                .iter()
                .zip(&tensors)
                .map(|(cx, x)| dist::all_reduce_async(cx, x, dist::ReduceOp::Max, None).unwrap())
                .collect();
            for (cx, work) in ranks.iter().zip(works).rev() {
                context.block_on(cx, async move { work.wait().await }).unwrap();
            }
            for (cx, x) in ranks.iter().zip(&tensors) {
                let own = x.clone();
                let read = context.block_on(cx, async move { own.to_vec().await }).unwrap();
                assert_eq!(read, [3.0 + number(round); 64]);
                if cx.rank() == 2 {
                    x.fill_(f64::from(number(round)) + 4.0).unwrap();
                }
            }
        }
        assert_usable(&mut context);
    }
}

#[test]
fn slc_3_a_half_joined_collective_is_named_and_can_be_completed() {
    let mut context = quad();
    let ranks = context.ranks(3).unwrap();
    let mut tensors = Vec::new();
    for cx in &ranks {
        dist::init_process_group(cx).unwrap();
        tensors.push(cx.full([8], 1.0, DType::F32).unwrap());
    }
    let join = |rank: usize| {
        let (cx, x) = (&ranks[rank], &tensors[rank]);
        Rc::new(dist::all_reduce_async(cx, x, dist::ReduceOp::Sum, None).unwrap())
    };
    let (first, second) = (join(0), join(2));
    let (early, work) = (context.now(), first.clone());
    let error = context.block_on(&ranks[0], async move { work.wait().await }).unwrap_err();
    let Error::Desync(desync) = &error else { panic!("{error}") };
    assert_eq!(desync.missing(), [1], "SLC-3");
    assert!(error.to_string().contains("all_reduce #1 of the world"), "{error}");
    context.drain().unwrap();
    // A read does not force the collective that nobody asked rank 1 to join.
    let x = tensors[1].clone();
    assert_eq!(context.block_on(&ranks[1], async move { x.to_vec().await }).unwrap(), [1.0; 8]);
    let third = join(1);
    for (rank, work) in [(1, third), (2, second), (0, first)] {
        context.block_on(&ranks[rank], async move { work.wait().await }).unwrap();
        let x = tensors[rank].clone();
        let sum = context.block_on(&ranks[rank], async move { x.to_vec().await }).unwrap();
        assert_eq!(sum, [3.0; 8], "SLC-3: completed");
    }
    assert!(context.now() > early);
    assert_usable(&mut context);
}

#[test]
fn slc_1_tensors_and_requests_of_a_main_program_live_between_runs() {
    let mut context = quad();
    let cx = context.main();
    let x = cx.full([8], 5.0, DType::F32).unwrap();
    let open = nap(&cx, &x, Time::us(50));
    // A spawn drives the open request too, and a failing one cancels it.
    spawn(&mut context, 2, |_, cx| async move {
        cx.sleep(Time::us(1)).await;
        Ok(())
    })
    .unwrap();
    assert!(open.is_over(), "the ranks of spawn wait for what is open");
    let open = nap(&cx, &x, Time::us(50));
    let failed = spawn(&mut context, 2, |rank, cx| async move {
        cx.sleep(Time::us(1)).await;
        if rank == 1 { Err("no".into()) } else { Ok(()) }
    });
    assert_eq!(failed.unwrap_err().errors.len(), 1);
    let error = context.drive_until(&open).unwrap_err().to_string();
    assert!(error.contains("was cancelled with its program"), "{error}");
    x.fill_(6.0).unwrap();
    let read = x.clone();
    assert_eq!(context.block_on(&cx, async move { read.to_vec().await }).unwrap(), [6.0; 8]);
    drop(x);
    assert_usable(&mut context);
}

#[test]
fn slc_1_time_is_driven_to_an_instant_and_no_further_than_there_is_work() {
    let mut context = quad();
    let cx = context.main();
    let x = cx.zeros([8], DType::F32).unwrap();
    let handle = nap(&cx, &x, Time::us(30));
    assert!(context.drive_to(Time::us(10)).unwrap());
    assert_eq!((context.now(), handle.is_over()), (Time::us(10), false));
    assert!(context.drive_to(Time::us(20)).unwrap());
    assert_eq!((context.now(), handle.is_over()), (Time::us(20), false));
    assert!(!context.drive_to(Time::us(500)).unwrap(), "nothing is left before that");
    assert!(handle.is_over() && context.now() < Time::us(40), "{}", context.now());
    context.drive_until(&handle).unwrap();
}

#[test]
fn slc_3_failures_panics_and_interrupts_end_a_slice_only() {
    let flag = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let asked = flag.clone();
    let interrupt = move || asked.load(std::sync::atomic::Ordering::Relaxed);
    let options = Options { interrupt: Some(Arc::new(interrupt)), ..Options::default() };
    let mut context = Context::new(machine("quad-sip", &[]), options);
    let cx = context.main();
    let x = cx.zeros([8], DType::F32).unwrap();
    let error = context.drive_until(&failing(&cx, &x)).unwrap_err();
    assert!(error.to_string().contains("no luck"), "{error}");
    let panicked: Result<(), Error> =
        context.block_on(&cx, async { panic!("a main program's own") });
    assert_eq!(panicked, Err(Error::Panic("a main program's own".to_owned())));
    x.fill_(1.0).unwrap();
    let handle = nap(&cx, &x, Time::us(5));
    flag.store(true, std::sync::atomic::Ordering::Relaxed);
    let error = context.drive_until(&handle).unwrap_err();
    assert!(matches!(error, Error::Run(RunError::Interrupted(_))), "{error}");
    flag.store(false, std::sync::atomic::Ordering::Relaxed);
    context.drive_until(&handle).unwrap();
    assert!(context.ranks(5).unwrap_err().to_string().starts_with("ranks: 5 ranks need 5 SIPs"));
}

#[test]
fn a_tensor_of_another_rank_is_refused() {
    let mut context = quad();
    let shared = Rc::new(RefCell::new(None));
    let failed = spawn(&mut context, 2, move |rank, cx| {
        let shared = shared.clone();
        async move {
            if rank == 0 {
                *shared.borrow_mut() = Some(cx.zeros([4], DType::F32)?);
                cx.sleep(Time::us(100)).await;
                return Ok(());
            }
            cx.sleep(Time::us(50)).await;
            let stolen = shared.take().expect("rank 0 was here");
            stolen.fill_(1.0)?.wait().await
        }
    });
    let text = failed.unwrap_err().errors[&1].to_string();
    assert!(text.contains("of rank 0 was asked for by the program of rank 1"), "{text}");
    assert_usable(&mut context);
}

#[test]
fn slc_4_a_slice_ends_with_the_first_of_what_is_watched() {
    let mut context = quad();
    let ranks = context.ranks(3).unwrap();
    let tensors: Vec<_> = ranks.iter().map(|cx| cx.full([4], 1.0, DType::F32).unwrap()).collect();
    context.drain().unwrap();
    let start = context.now();
    let naps = [Time::us(3), Time::us(1), Time::us(2)];
    let handles: Vec<_> =
        ranks.iter().zip(&tensors).zip(naps).map(|((cx, x), span)| nap(cx, x, span)).collect();
    let mut watches: Vec<_> = ranks
        .iter()
        .zip(&handles)
        .map(|(cx, handle)| {
            let handle = handle.clone();
            Some(cx.watch(async move { handle.wait().await.unwrap() }))
        })
        .collect();
    // Nobody watches the nap of two microseconds any more: it ends unseen.
    watches[2] = None;
    let mut seen = Vec::new();
    for _ in 0..2 {
        context.drain().unwrap();
        let over = watches.iter().position(|watch| {
            watch.as_ref().is_some_and(phalanx_sim::executor::JoinHandle::is_finished)
        });
        let rank = over.unwrap();
        watches[rank] = None;
        seen.push(rank);
        assert!(handles[rank].is_over() && context.now() >= start + naps[rank]);
        assert_eq!(handles[0].is_over(), rank == 0, "SLC-4: not a moment later");
    }
    assert_eq!(seen, [1, 0]);
    assert!(handles[2].is_over());
}

#[test]
fn a_debugger_sees_and_sets_memory_in_no_time() {
    let mut context = quad();
    let cx = context.main();
    let x = cx.full([2, 3], 1.5, DType::F16).unwrap();
    context.drain().unwrap();
    let now = context.now();
    assert_eq!(x.peek().unwrap().to_f32(), [1.5; 6]);
    let other = cx.full([6], 2.0, DType::F16).unwrap();
    context.drain().unwrap();
    assert!(context.now() > now);
    x.place(&other.peek().unwrap()).unwrap();
    assert_eq!(x.peek().unwrap().to_f32(), [2.0; 6]);
    let numbers: Vec<f32> = (0..8_u8).map(f32::from).collect();
    let cut = cx.placed(DpPolicy::row_wise(4)).from_slice(&numbers, [4, 2], DType::F32).unwrap();
    context.drain().unwrap();
    let later = context.now();
    assert_eq!(cut.peek().unwrap().to_f32(), numbers, "RES-1: from several shards");
    assert_eq!(context.now(), later);
}
