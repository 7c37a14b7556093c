//! Reading: what a read waits for, and what it does not (seed T5, g6 to g10).

use super::{assert_usable, machine, nap, number, quad};
use phalanx_sim::kernel::{Tl, View};
use phalanx_sim::machine::Options;
use phalanx_sim::{DType, Time};
use phalanx_torch::{
    Arg, Args, Context, DpPolicy, Error, Grid, Spread, distributed as dist, multiprocessing,
};

#[test]
fn g6_new_tensors_hold_what_was_asked_for() {
    quad()
        .run(|cx| async move {
            assert_eq!(cx.zeros([2, 2], DType::F16)?.to_vec().await?, [0.0; 4]);
            assert_eq!(cx.full([3], -2.0, DType::I32)?.to_vec_i32().await?, [-2; 3]);
            assert_eq!(cx.arange(0.0, 3.0, 1.0, DType::F32)?.to_vec().await?, [0.0, 1.0, 2.0]);
            assert!(cx.empty([4], DType::F32)?.to_vec().await.is_err(), "nobody has written it");
            Ok(())
        })
        .unwrap();
}

#[test]
fn views_share_memory_and_contiguous_copies_them() {
    quad()
        .run(|cx| async move {
            let x = cx.from_slice(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3], DType::F32)?;
            let (row, turned) = (x.select(0, 1)?, x.transpose(0, 1)?);
            assert!(row.is_contiguous() && !turned.is_contiguous());
            let dense = turned.contiguous()?;
            assert!(dense.is_contiguous());
            row.fill_(9.0)?;
            assert_eq!(x.to_vec().await?, [1.0, 2.0, 3.0, 9.0, 9.0, 9.0]);
            assert_eq!(dense.to_vec().await?, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
            Ok(())
        })
        .unwrap();
}

#[test]
fn t5_g7_every_way_to_see_numbers_waits_for_who_writes_them() {
    quad()
        .run(|cx| async move {
            let busy = Time::us(30);
            for way in 0..4 {
                let x = cx.full([1], 7.0, DType::I32)?;
                let start = cx.now();
                nap(&cx, &x, busy);
                match way {
                    0 => assert_eq!(x.to_vec().await?, [7.0]),
                    1 => assert_eq!(x.to_vec_i32().await?, [7]),
                    2 => assert!((x.item().await? - 7.0).abs() < 1e-9),
                    _ => assert_eq!(x.show().await?, "i32[1] [7]"),
                }
                assert!(cx.now() - start > busy, "TEN-1: way {way}");
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn ten_1_g8_a_read_waits_for_nothing_else() {
    quad()
        .run(|cx| async move {
            let (x, y) = (cx.zeros([8], DType::F32)?, cx.full([8], 1.0, DType::F32)?);
            nap(&cx, &x, Time::us(1000));
            assert_eq!(y.to_vec().await?, [1.0; 8]);
            assert!(cx.now() < Time::us(100), "TEN-1");
            x.to_vec().await?;
            assert!(cx.now() > Time::us(1000), "TEN-1");
            Ok(())
        })
        .unwrap();
}

#[test]
fn g9_g10_a_read_neither_runs_a_half_joined_collective_nor_waits_for_it() {
    let late = Time::us(1000);
    let ends = multiprocessing::spawn(&mut quad(), 2, move |rank, cx| async move {
        dist::init_process_group(&cx)?;
        let x = cx.full([8], f64::from(number(rank)) + 1.0, DType::F32)?;
        let (y, z) = (cx.zeros([8], DType::F32)?, cx.full([8], 5.0, DType::F32)?);
        if rank == 1 {
            cx.sleep(late).await;
        }
        let work = dist::all_reduce_async(&cx, &x, dist::ReduceOp::Sum, None)?;
        y.copy_(&z)?;
        assert_eq!(y.to_vec().await?, [5.0; 8]);
        let read = cx.now();
        assert!(rank == 1 || !work.is_completed().await, "nobody runs half of it");
        assert_eq!(x.to_vec().await?, [3.0; 8]);
        work.wait().await?;
        Ok((read, cx.now()))
    });
    let ends = ends.unwrap();
    assert!(ends[0].0 < Time::us(100), "TEN-1: {}", ends[0].0);
    assert!(ends.iter().all(|(_, end)| *end > late));
}

#[test]
fn t5_copy_waits_for_its_source_and_writes_after_earlier_readers_of_its_target() {
    quad()
        .run(|cx| async move {
            let target = cx.full([8], 1.0, DType::F32)?;
            let (source, seen) = (cx.full([8], 2.0, DType::F32)?, cx.zeros([8], DType::F32)?);
            let other = cx.full([8], 3.0, DType::F32)?;
            nap(&cx, &other, Time::us(1000));
            let late = |tl: Tl, args: Args| async move {
                tl.compute(Time::us(20)).await;
                let tile = tl.load(&args.view(0)?).await?;
                tl.store(&args.view(1)?, &tile).await
            };
            // On another PE than the one that is busy.
            let args = [Arg::read(&target), Arg::write(&seen)];
            cx.launch("late", Grid::Pes(1), &args, late)?;
            target.copy_(&source)?;
            assert_eq!(target.to_vec().await?, [2.0; 8]);
            assert_eq!(seen.to_vec().await?, [1.0; 8], "the reader before saw what stood there");
            Ok(())
        })
        .unwrap();
}

#[test]
fn t5_copy_does_not_wait_for_what_it_does_not_touch() {
    quad()
        .run(|cx| async move {
            let (x, y) = (cx.full([8], 1.0, DType::F32)?, cx.zeros([8], DType::F32)?);
            let other = cx.zeros([8], DType::F32)?;
            nap(&cx, &other, Time::us(1000));
            y.copy_(&x)?.wait().await?;
            assert!(cx.now() < Time::us(100), "HST-3: a copy takes no turn");
            Ok(())
        })
        .unwrap();
}

#[test]
fn ten_2_replicas_that_differ_are_named() {
    let error = quad().run(|cx| async move {
        let x = cx.placed(DpPolicy::replicated(3)).full([2, 2], 1.0, DType::F32)?;
        let spoil = |tl: Tl, args: Args| async move {
            let second = &args.tensor(0).shards()[1].region;
            let two = tl.full(DType::F32, 1, 2.0)?;
            tl.store(&View::dense(second, 3, 1), &two).await
        };
        cx.launch("spoil", Grid::Pes(1), &[Arg::write(&x)], spoil)?;
        x.to_vec().await
    });
    let error = error.unwrap_err().errors.remove(&0).unwrap();
    assert!(matches!(error, Error::ReplicasDiffer { index: 3, .. }), "TEN-2");
    assert_eq!(
        error.to_string(),
        "replicas of tensor #0 f32[2, 2] of rank 0 differ at element 3: sip0.cube0.pe0 holds 1, sip0.cube1.pe0 holds 2"
    );
}

/// A context whose SIPs have one cube with a mebibyte.
fn small() -> Context {
    let spec = machine("bare", &["system.sips.count=2", "cube.hbm.capacity=1 MiB"]);
    Context::new(spec, Options::default())
}

/// More than half of what `small` has.
const MUCH: usize = 150_000;

#[test]
fn ten_3_memory_is_freed_with_the_last_tensor_and_request() {
    let mut context = small();
    context
        .run(|cx| async move {
            for _ in 0..10 {
                let x = cx.zeros([MUCH], DType::F32)?;
                x.reshape([2, MUCH / 2])?.to_vec().await?;
            }
            let x = cx.zeros([MUCH], DType::F32)?;
            let handle = nap(&cx, &x, Time::us(1));
            drop(x);
            assert!(cx.zeros([MUCH], DType::F32).is_err(), "TEN-3: a request still uses it");
            handle.wait().await?;
            cx.zeros([MUCH], DType::F32)?.to_vec().await?;
            let halves = DpPolicy { pe: Spread::RowWise, ..DpPolicy::default() };
            assert!(cx.placed(halves).zeros([2, MUCH], DType::F32).is_err());
            cx.zeros([MUCH], DType::F32)?.ready().await
        })
        .unwrap();
}

#[test]
fn ten_3_memory_is_freed_when_ranks_fail() {
    let mut context = small();
    for round in 0..4 {
        let failed = multiprocessing::spawn(&mut context, 2, move |rank, cx| async move {
            dist::init_process_group(&cx)?;
            let x = cx.zeros([MUCH], DType::F32)?;
            nap(&cx, &x, Time::us(5));
            if rank == 0 && round == 0 {
                super::failing(&cx, &x).wait().await?;
            }
            if rank == 0 && round == 1 {
                x.ready().await?;
                panic!("on purpose");
            }
            if rank == 0 && round == 2 {
                return Ok(());
            }
            dist::all_reduce(&cx, &x, dist::ReduceOp::Sum, None).await
        });
        assert_eq!(failed.is_err(), round < 3);
    }
    assert_usable(&mut context);
}

#[test]
fn a_read_without_numbers_says_so() {
    let options = Options { data: false, ..Options::default() };
    let mut context = Context::new(machine("bare", &[]), options);
    let error = context.run(|cx| async move { cx.zeros([2], DType::F32)?.to_vec().await });
    assert_eq!(
        error.unwrap_err().to_string(),
        "[rank 0] tensor #0 f32[2] of rank 0 was read, and this run computes no numbers (data is off)"
    );
}
