//! Arguments that are refused, and the words of the refusals.

use super::quad;
use phalanx_sim::DType;
use phalanx_torch::distributed::{self as dist, ReduceOp, Work};
use phalanx_torch::{DpPolicy, Error, Rank, multiprocessing::spawn};

/// Runs four ranks that do nothing together.
fn alone(program: fn(usize, &Rank) -> Result<(), Error>) {
    let ended = spawn(&mut quad(), 4, move |rank, cx| async move { program(rank, &cx) });
    if let Err(error) = ended {
        panic!("{error}");
    }
}

fn refused(result: Result<Work, Error>, words: &str) {
    let Err(error) = result else { panic!("not refused: {words}") };
    assert!(matches!(error, Error::Argument(_)), "{error:?}");
    assert_eq!(error.to_string(), words);
}

#[test]
fn groups_have_to_be_made_first_and_once() {
    alone(|rank, cx| {
        let x = cx.zeros([4], DType::F32)?;
        let words = "Default process group has not been initialized, please make sure to call init_process_group.";
        refused(dist::all_reduce_async(cx, &x, ReduceOp::Sum, None), words);
        refused(dist::barrier_async(cx, None), words);
        refused(dist::isend(cx, &x, 0, 0, None), words);
        assert_eq!(dist::get_rank(cx, None).unwrap_err().to_string(), words);
        assert_eq!(dist::new_group(cx, &[0]).err().unwrap().to_string(), words);
        dist::init_process_group(cx)?;
        let twice = dist::init_process_group(cx).err().unwrap().to_string();
        assert_eq!(twice, "trying to initialize the default process group twice!");
        assert_eq!(dist::get_rank(cx, None)?, Some(rank));
        assert_eq!(dist::get_world_size(cx, None)?, Some(4));
        dist::destroy_process_group(cx, None)?;
        refused(dist::barrier_async(cx, None), words);
        dist::init_process_group(cx).map(drop)
    });
}

#[test]
fn groups_are_made_of_ranks_that_there_are() {
    alone(|rank, cx| {
        dist::init_process_group(cx)?;
        let refused = |ranks: &[usize]| dist::new_group(cx, ranks).err().unwrap().to_string();
        assert_eq!(
            refused(&[1, 4]),
            "Rank 4 is out of range. Valid ranks are 0 to 3 (world_size=4)"
        );
        assert_eq!(
            refused(&[2, 1, 2]),
            "ranks list must not contain duplicate entries, got [2, 1, 2]"
        );
        assert_eq!(refused(&[]), "new_group: a group needs at least one rank");
        let group = dist::new_group(cx, &[3, 1])?;
        assert_eq!(group.members(), [1, 3], "sorted");
        let place = [None, Some(0), None, Some(1)][rank];
        assert_eq!(dist::get_rank(cx, Some(&group))?, place);
        assert_eq!(dist::get_world_size(cx, Some(&group))?, place.map(|_| 2));
        dist::destroy_process_group(cx, Some(&group))?;
        let gone = dist::barrier_async(cx, Some(&group)).err().unwrap().to_string();
        assert_eq!(
            gone,
            format!(
                "group 1 of ranks 1, 3 is none of rank {rank}'s: it was destroyed, or another rank made it; make one with new_group"
            )
        );
        Ok(())
    });
}

#[test]
fn a_rank_that_is_not_in_the_group_has_no_part() {
    let ended = spawn(&mut quad(), 4, |rank, cx| async move {
        dist::init_process_group(&cx)?;
        let group = dist::new_group(&cx, &[0, 1])?;
        let x = cx.full([4], 1.0, DType::F32)?;
        let wrong = cx.zeros([3], DType::I32)?;
        if rank > 1 {
            let group = Some(&group);
            let nothing = [
                dist::all_reduce_async(&cx, &wrong, ReduceOp::Avg, group)?,
                dist::reduce_scatter_async(&cx, &x, &wrong, ReduceOp::Sum, group)?,
                dist::all_gather_async(&cx, &x, &wrong, group)?,
                dist::all_gather_list_async(&cx, &[], &wrong, group)?,
                dist::broadcast_async(&cx, &x, 3, group)?,
                dist::reduce_async(&cx, &x, 3, ReduceOp::Sum, group)?,
                dist::scatter_async(&cx, &x, None, 3, group)?,
                dist::scatter_list_async(&cx, &x, None, 3, group)?,
                dist::gather_async(&cx, &x, None, 3, group)?,
                dist::gather_list_async(&cx, &x, None, 3, group)?,
                dist::all_to_all_async(&cx, &x, &wrong, None, None, group)?,
                dist::barrier_async(&cx, group)?,
                dist::isend(&cx, &x, 3, 0, group)?,
                dist::irecv(&cx, &x, 3, 0, group)?,
            ];
            for work in nothing {
                assert!(work.is_completed().await && work.source_rank().is_none());
                work.wait().await?;
            }
        }
        dist::all_reduce(&cx, &x, ReduceOp::Sum, Some(&group)).await?;
        x.to_vec().await
    });
    assert_eq!(ended.unwrap(), [[2.0; 4], [2.0; 4], [1.0; 4], [1.0; 4]]);
}

#[test]
fn reducing_takes_numbers_of_one_type_and_the_right_size() {
    alone(|_, cx| {
        dist::init_process_group(cx)?;
        let make = |len, dtype| cx.zeros([len], dtype);
        let (small, large) = (make(4, DType::F32)?, make(16, DType::F32)?);
        let whole = make(16, DType::I32)?;
        let average = |name: &str| {
            format!(
                "{name}: Cannot use ReduceOp::Avg with i32 inputs; use Sum, Product, Min or Max, or another type"
            )
        };
        refused(dist::all_reduce_async(cx, &whole, ReduceOp::Avg, None), &average("all_reduce"));
        refused(dist::reduce_async(cx, &whole, 0, ReduceOp::Avg, None), &average("reduce"));
        refused(
            dist::reduce_scatter_async(cx, &make(4, DType::I32)?, &whole, ReduceOp::Avg, None),
            &average("reduce_scatter"),
        );
        refused(
            dist::reduce_scatter_async(cx, &small, &whole, ReduceOp::Sum, None),
            "reduce_scatter: input tensor must be the same type as the output tensor: got i32[16] and f32[4]",
        );
        refused(
            dist::reduce_scatter_async(cx, &large, &large, ReduceOp::Sum, None),
            "reduce_scatter: input tensor must be the same size as output size times world size: f32[16] is not 4 times f32[16]",
        );
        refused(
            dist::reduce_async(cx, &small, 4, ReduceOp::Sum, None),
            "reduce: rank 4 is not part of the world; ranks are those of the world, and this group has 0, 1, 2, 3",
        );
        Ok(())
    });
}

#[test]
fn gathering_takes_tensors_of_one_type_and_the_right_size() {
    alone(|_, cx| {
        dist::init_process_group(cx)?;
        let make = |len, dtype| cx.zeros([len], dtype);
        let (small, large) = (make(4, DType::F32)?, make(16, DType::F32)?);
        refused(
            dist::all_gather_async(cx, &make(16, DType::F16)?, &small, None),
            "all_gather: output tensor must have the same type as input tensor: got f16[16] and f32[4]",
        );
        refused(
            dist::all_gather_async(cx, &make(12, DType::F32)?, &small, None),
            "all_gather: output tensor size must be equal to world_size times input tensor size: f32[12] is not 4 times f32[4]",
        );
        let three = vec![small.clone(), small.clone(), small.clone()];
        refused(
            dist::all_gather_list_async(cx, &three, &small, None),
            "all_gather: `outputs` has 3 tensors; it takes one for each of the 4 ranks of the group",
        );
        let typed = [three.clone(), vec![make(4, DType::Bf16)?]].concat();
        refused(
            dist::all_gather_list_async(cx, &typed, &small, None),
            "all_gather: Invalid usage of tensors with different dtypes: got bf16[4] and f32[4]",
        );
        let sized = [three, vec![large.clone()]].concat();
        refused(
            dist::all_gather_list_async(cx, &sized, &small, None),
            "all_gather: `outputs` holds f32[16]; each of its tensors takes as many elements as f32[4]",
        );
        let cut = cx.placed(DpPolicy::row_wise(2)).zeros([4, 4], DType::F32)?;
        refused(
            dist::all_gather_async(cx, &cut, &small, None),
            "all_gather: f32[4, 4] must be contiguous and in one piece; use `contiguous()`",
        );
        Ok(())
    });
}

#[test]
fn lists_are_given_by_the_root_only() {
    alone(|rank, cx| {
        dist::init_process_group(cx)?;
        let small = cx.zeros([4], DType::F32)?;
        let large = cx.zeros([16], DType::F32)?;
        let list = vec![small.clone(); 4];
        if rank == 2 {
            refused(
                dist::scatter_async(cx, &small, None, 2, None),
                "scatter: Argument `input` must be specified on source rank",
            );
            refused(
                dist::scatter_list_async(cx, &small, None, 2, None),
                "scatter: Argument `scatter_list` must be specified on source rank",
            );
            refused(
                dist::gather_list_async(cx, &small, None, 2, None),
                "gather: Argument `gather_list` must be specified on destination rank",
            );
            refused(
                dist::gather_async(cx, &small, Some(&small), 2, None),
                "gather: output tensor size must be equal to world_size times input tensor size: f32[4] is not 4 times f32[4]",
            );
            return Ok(());
        }
        refused(
            dist::scatter_async(cx, &small, Some(&large), 2, None),
            "scatter: Argument `input` must NOT be specified on non-source ranks; give `None`",
        );
        refused(
            dist::scatter_list_async(cx, &small, Some(&list), 2, None),
            "scatter: Argument `scatter_list` must NOT be specified on non-source ranks; give `None`",
        );
        refused(
            dist::gather_async(cx, &small, Some(&large), 2, None),
            "gather: Argument `output` must NOT be specified on non-destination ranks; give `None`",
        );
        refused(
            dist::gather_list_async(cx, &small, Some(&list), 2, None),
            "gather: Argument `gather_list` must NOT be specified on non-destination ranks; give `None`",
        );
        Ok(())
    });
}

#[test]
fn splits_have_to_add_up() {
    alone(|rank, cx| {
        dist::init_process_group(cx)?;
        let x = cx.zeros([8, 3], DType::F32)?;
        let odd = cx.zeros([6, 3], DType::F32)?;
        let ask = |output: &phalanx_torch::Tensor, to: Option<&[usize]>, from: Option<&[usize]>| {
            dist::all_to_all_async(cx, output, &x, from, to, None)
        };
        refused(
            ask(&x, Some(&[8, 0, 0]), None),
            "all_to_all: Number of tensor splits not equal to group size: 3 for the input, and 4 ranks",
        );
        refused(
            ask(&x, None, Some(&[2, 2, 2, 1])),
            "all_to_all: Split sizes doesn't match total dim 0 size: [2, 2, 2, 1] for the output, which has 8 rows",
        );
        refused(
            ask(&x, Some(&[usize::MAX, 9, 0, 0]), None),
            "all_to_all: Split sizes doesn't match total dim 0 size: [18446744073709551615, 9, 0, 0] for the input, which has 8 rows",
        );
        refused(
            ask(&odd, None, None),
            "all_to_all: Tensor's dim 0 does not divide equally across group size: the output has 6 rows for 4 ranks; give split sizes",
        );
        if rank == 0 {
            refused(
                ask(&x, Some(&[5, 1, 1, 1]), Some(&[2, 2, 2, 2])),
                "all_to_all: rank 0 sends 15 elements to itself and takes 6; both are one part",
            );
        }
        refused(
            dist::all_to_all_async(cx, &cx.zeros([8], DType::F16)?, &x, None, None, None),
            "all_to_all: output tensor must have the same type as input tensor: got f16[8] and f32[8, 3]",
        );
        refused(
            dist::all_to_all_async(cx, &cx.zeros([4, 3], DType::F32)?, &x, None, None, None),
            "all_to_all: Split sizes doesn't match total dim 0 size: f32[4, 3] cannot take the equal parts of f32[8, 3]",
        );
        Ok(())
    });
}

#[test]
fn messages_go_to_others() {
    alone(|rank, cx| {
        dist::init_process_group(cx)?;
        let pair = dist::new_group(cx, &[0, 1, 2, 3])?;
        let x = cx.zeros([8, 8], DType::F32)?;
        refused(
            dist::isend(cx, &x, rank, 0, None),
            "send: Invalid destination rank: destination rank should not be the same as the rank of the current process; use copy_",
        );
        refused(
            dist::irecv(cx, &x, rank, 0, Some(&pair)),
            "recv: Invalid source rank: source rank should not be the same as the rank of the current process; use copy_",
        );
        let other = (rank + 1) % 4;
        refused(
            dist::isend(cx, &x, other, 1024, None),
            "send: tag 1024 is too large; tags are 0 to 1023",
        );
        refused(
            dist::irecv(cx, &x, 9, 0, None),
            "recv: rank 9 is not part of the world; ranks are those of the world, and this group has 0, 1, 2, 3",
        );
        refused(
            dist::isend(cx, &x.transpose(0, 1)?, other, 0, None),
            "send: f32[8, 8] must be contiguous and in one piece; use `contiguous()`",
        );
        Ok(())
    });
}
