//! Collectives, as programs of ranks ask for them (DST-1, DST-3, g11).

use super::{bare, number, quad};
use phalanx_sim::{DType, Time};
use phalanx_torch::distributed::{self as dist, ReduceOp};
use phalanx_torch::multiprocessing::spawn;
use phalanx_torch::{DpPolicy, Error, Rank, Tensor};

/// `rank * 100 + index`.
fn numbers(rank: usize, len: usize) -> Vec<f32> {
    (0..len).map(|index| number(rank * 100 + index)).collect()
}

fn own(cx: &Rank, len: usize) -> Result<Tensor, Error> {
    cx.from_slice(&numbers(cx.rank(), len), [len], DType::F32)
}

/// Every collective once, with roots and lists; each rank checks what it gets.
async fn everything(rank: usize, ranks: usize, cx: Rank) -> Result<(), Error> {
    dist::init_process_group(&cx)?;
    let (root, part) = (ranks - 1, 3);
    let of = |rank: usize| numbers(rank, part);
    let all: Vec<f32> = (0..ranks).flat_map(of).collect();
    let sums: Vec<f32> =
        (0..part * ranks).map(|i| (0..ranks).map(|r| number(r * 100 + i)).sum()).collect();
    let empty = |len| cx.zeros([len], DType::F32);

    let x = own(&cx, part * ranks)?;
    dist::all_reduce(&cx, &x, ReduceOp::Sum, None).await?;
    assert_eq!(x.to_vec().await?, sums, "all_reduce");

    let (x, y) = (own(&cx, part * ranks)?, empty(part)?);
    dist::reduce_scatter(&cx, &y, &x, ReduceOp::Sum, None).await?;
    assert_eq!(y.to_vec().await?, sums[rank * part..(rank + 1) * part], "reduce_scatter");

    dist::reduce(&cx, &x, root, ReduceOp::Sum, None).await?;
    let wanted = if rank == root { sums.clone() } else { numbers(rank, part * ranks) };
    assert_eq!(x.to_vec().await?, wanted, "reduce");

    let (x, y) = (own(&cx, part)?, cx.zeros([ranks, part], DType::F32)?);
    dist::all_gather(&cx, &y, &x, None).await?;
    assert_eq!(y.to_vec().await?, all, "all_gather");

    let list: Vec<Tensor> =
        (0..ranks).map(|_| cx.zeros([part, 1], DType::F32)).collect::<Result<_, _>>()?;
    dist::all_gather_list(&cx, &list, &x, None).await?;
    for (other, tensor) in list.iter().enumerate() {
        assert_eq!(tensor.to_vec().await?, of(other), "all_gather_list");
    }

    let y = empty(part * ranks)?;
    dist::gather(&cx, &x, (rank == root).then_some(&y), root, None).await?;
    let wanted = if rank == root { all.clone() } else { vec![0.0; part * ranks] };
    assert_eq!(y.to_vec().await?, wanted, "gather");

    let y = empty(part)?;
    let whole = cx.from_slice(&all, [part * ranks], DType::F32)?;
    dist::scatter(&cx, &y, (rank == root).then_some(&whole), root, None).await?;
    assert_eq!(y.to_vec().await?, of(rank), "scatter");

    lists(rank, ranks, &cx).await?;

    let y = own(&cx, part)?;
    dist::broadcast(&cx, &y, root, None).await?;
    assert_eq!(y.to_vec().await?, of(root), "broadcast");

    let (x, y) = (own(&cx, part * ranks)?, empty(part * ranks)?);
    dist::all_to_all(&cx, &y, &x, None, None, None).await?;
    let from = |other: usize| numbers(other, part * ranks)[rank * part..(rank + 1) * part].to_vec();
    assert_eq!(y.to_vec().await?, (0..ranks).flat_map(from).collect::<Vec<_>>(), "all_to_all");
    dist::barrier(&cx, None).await
}

async fn lists(rank: usize, ranks: usize, cx: &Rank) -> Result<(), Error> {
    let make = |other: usize| cx.from_slice(&numbers(other, 4), [2, 2], DType::F32);
    let list: Vec<Tensor> = (0..ranks).map(make).collect::<Result<_, _>>()?;
    let y = cx.zeros([4], DType::F32)?;
    dist::scatter_list(cx, &y, (rank == 0).then_some(&list), 0, None).await?;
    assert_eq!(y.to_vec().await?, numbers(rank, 4), "scatter_list");
    let backwards: Vec<Tensor> =
        (0..ranks).map(|_| cx.zeros([4], DType::F32)).collect::<Result<_, _>>()?;
    dist::gather_list(cx, &y, (rank == 0).then_some(&backwards), 0, None).await?;
    for (other, tensor) in backwards.iter().enumerate() {
        let wanted = if rank == 0 { numbers(other, 4) } else { vec![0.0; 4] };
        assert_eq!(tensor.to_vec().await?, wanted, "gather_list");
    }
    Ok(())
}

#[test]
fn every_collective_gives_every_rank_what_is_its() {
    for algorithm in ["ring", "direct", "auto"] {
        for ranks in [1, 2, 3, 4] {
            let text = format!("defaults: {{ algorithm: {algorithm}, slot_size: 16, n_slots: 2 }}");
            let ended =
                spawn(&mut bare(4, &text), ranks, move |rank, cx| everything(rank, ranks, cx));
            if let Err(error) = ended {
                panic!("{algorithm}, {ranks} ranks: {error}");
            }
        }
    }
}

#[test]
fn every_collective_works_where_everything_costs_something() {
    if let Err(error) = spawn(&mut quad(), 4, |rank, cx| everything(rank, 4, cx)) {
        panic!("{error}");
    }
}

#[test]
fn all_to_all_takes_rows_by_split_sizes() {
    for algorithm in ["ring", "direct", "auto"] {
        let text = format!("defaults: {{ algorithm: {algorithm}, slot_size: 16, n_slots: 1 }}");
        let got = spawn(&mut bare(3, &text), 3, |rank, cx| async move {
            dist::init_process_group(&cx)?;
            // Rank r sends r + s rows of two to rank s, and nothing to itself but 2 r rows.
            let to: Vec<usize> = (0..3).map(|other| rank + other).collect();
            let rows: usize = to.iter().sum();
            let x = cx.from_slice(&numbers(rank, rows * 2), [rows, 2], DType::F32)?;
            let y = cx.zeros([rows, 2], DType::F32)?;
            dist::all_to_all(&cx, &y, &x, Some(&to), Some(&to), None).await?;
            y.to_vec().await
        });
        let got = got.unwrap();
        for (rank, got) in got.iter().enumerate() {
            let from = |other: usize| {
                let start: usize = (0..rank).map(|before| (other + before) * 2).sum();
                numbers(other, 40)[start..start + (other + rank) * 2].to_vec()
            };
            assert_eq!(*got, (0..3).flat_map(from).collect::<Vec<_>>(), "{algorithm}");
        }
    }
}

#[test]
fn roots_of_groups_are_ranks_of_the_world() {
    let results = spawn(&mut quad(), 4, |rank, cx| async move {
        dist::init_process_group(&cx)?;
        let group = dist::new_group(&cx, &[1, 3])?;
        assert_eq!((group.size(), group.rank()), (2, [None, Some(0), None, Some(1)][rank]));
        let x = cx.full([4], f64::from(number(rank)), DType::F32)?;
        dist::broadcast(&cx, &x, 3, Some(&group)).await?;
        let y = cx.full([4], 1.0, DType::F32)?;
        dist::reduce(&cx, &y, 1, ReduceOp::Sum, Some(&group)).await?;
        Ok((x.to_vec().await?[3], y.to_vec().await?[0]))
    });
    assert_eq!(results.unwrap(), [(0.0, 1.0), (3.0, 2.0), (2.0, 1.0), (3.0, 1.0)]);
}

#[test]
fn g11_dst_3_a_ring_gives_the_same_bits_on_every_rank() {
    for ranks in [1, 2, 3, 4, 8] {
        for (slots, size) in [(1, 64), (2, 60), (4, 68)] {
            let text =
                format!("defaults: {{ algorithm: ring, n_slots: {slots}, slot_size: {size} }}");
            let got = spawn(&mut bare(8, &text), ranks, move |rank, cx| async move {
                dist::init_process_group(&cx)?;
                cx.manual_seed(rank as u64);
                let x = cx.randn([151], DType::F32)?;
                let mine = x.to_vec().await?;
                dist::all_reduce(&cx, &x, ReduceOp::Sum, None).await?;
                Ok((mine, x.to_vec().await?))
            });
            let got = got.unwrap();
            for (_, sums) in &got {
                assert!(
                    sums.iter().zip(&got[0].1).all(|(a, b)| a.to_bits() == b.to_bits()),
                    "DST-3"
                );
            }
            for index in 0..151 {
                let wanted: f32 = got.iter().map(|(mine, _)| mine[index]).sum();
                assert!((got[0].1[index] - wanted).abs() < 1e-4, "{ranks} ranks, {slots} slots");
            }
        }
    }
}

#[test]
fn dst_1_collectives_of_a_group_run_in_the_order_they_are_asked_for() {
    let results = spawn(&mut quad(), 4, |rank, cx| async move {
        dist::init_process_group(&cx)?;
        let late = cx.full([1000], 1.0, DType::F32)?;
        super::nap(&cx, &late, Time::us(100 * rank as u64));
        let early = cx.full([1000], 2.0, DType::F32)?;
        // The second could begin at once; everybody does it after the first all the same.
        let first = dist::all_reduce_async(&cx, &late, ReduceOp::Sum, None)?;
        let second = dist::all_reduce_async(&cx, &early, ReduceOp::Product, None)?;
        second.wait().await?;
        assert!(first.is_completed().await, "DST-1");
        Ok((late.to_vec().await?[7], early.to_vec().await?[7], cx.now() > Time::us(300)))
    });
    assert_eq!(results.unwrap(), [(4.0, 16.0, true); 4]);
}

#[test]
fn a_barrier_keeps_everybody_until_the_last_has_come() {
    let ends = spawn(&mut quad(), 4, |rank, cx| async move {
        dist::init_process_group(&cx)?;
        cx.sleep(Time::us(50 * rank as u64)).await;
        dist::barrier(&cx, None).await?;
        Ok(cx.now())
    });
    assert!(ends.unwrap().iter().all(|end| *end > Time::us(150)));
}

#[test]
fn dst_2_tensors_that_are_cut_in_other_ways_show_both_sides() {
    let error = spawn(&mut quad(), 2, |rank, cx| async move {
        dist::init_process_group(&cx)?;
        let policy = if rank == 0 { DpPolicy::row_wise(2) } else { DpPolicy::column_wise(2) };
        let x = cx.placed(policy).full([4, 4], 1.0, DType::F32)?;
        dist::all_reduce(&cx, &x, ReduceOp::Sum, None).await
    });
    let error = error.unwrap_err();
    let Error::Mismatch(mismatch) = &error.errors[&0] else { panic!("{error}") };
    assert!(
        mismatch
            .here
            .operation
            .contains("f32[4, 4], row_wise over 2 cubes and replicate over 1 PEs of each, sum")
    );
    assert!(mismatch.there.operation.contains("f32[4, 4], column_wise over 2 cubes"));
}

#[test]
fn tensors_that_are_cut_alike_are_combined_piece_by_piece() {
    for policy in [DpPolicy::row_wise(3), DpPolicy::column_wise(2), DpPolicy::replicated(4)] {
        let sums = spawn(&mut quad(), 3, move |rank, cx| async move {
            dist::init_process_group(&cx)?;
            let x = cx.placed(policy).from_slice(&numbers(rank, 20), [5, 4], DType::F32)?;
            dist::all_reduce(&cx, &x, ReduceOp::Sum, None).await?;
            x.to_vec().await
        });
        let wanted: Vec<f32> = (0..20).map(|i| number(300 + 3 * i)).collect();
        assert_eq!(sums.unwrap(), vec![wanted; 3]);
    }
}
