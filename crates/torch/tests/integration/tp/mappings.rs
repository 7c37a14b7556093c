use super::{RING, bare, parallel, parallel_on, refusal};
use phalanx_sim::DType;
use phalanx_torch::tp::mappings as map;
use phalanx_torch::{DpPolicy, Error, Rank, Tensor};

/// A mapping of one tensor a rank on 8 ranks, 4 a group.
fn mapped(
    input: fn(usize, &Rank) -> Result<Tensor, Error>,
    map: fn(&Rank, &Tensor) -> Result<Tensor, Error>,
) -> Vec<(Vec<usize>, Vec<f32>)> {
    parallel_on(bare(8, RING), 8, 4, move |rank, cx| async move {
        let output = map(&cx, &input(rank, &cx)?)?;
        Ok((output.shape().to_vec(), output.to_vec().await?))
    })
}

#[expect(clippy::cast_precision_loss, reason = "small")]
fn ones_times_rank(rank: usize, cx: &Rank) -> Result<Tensor, Error> {
    cx.full([8], rank as f64, DType::F32)
}

fn four_columns(_: usize, cx: &Rank) -> Result<Tensor, Error> {
    cx.arange(0.0, 8.0, 1.0, DType::F32)?.reshape([2, 4])
}

#[test]
fn t2_reducing_gives_the_sums_of_the_oracle() {
    let reduce = |cx: &Rank, x: &Tensor| map::reduce_from_tensor_model_parallel_region(cx, x, None);
    for (rank, (_, got)) in mapped(ones_times_rank, reduce).into_iter().enumerate() {
        assert_eq!(got, [if rank < 4 { 6.0 } else { 22.0 }; 8]);
    }
}

#[test]
fn t2_reducing_is_in_place_if_contiguous_and_in_a_new_tensor_otherwise() {
    let both = parallel(2, |_, cx| async move {
        let x = cx.full([2, 3], 1.0, DType::F32)?;
        let sum = map::reduce_from_tensor_model_parallel_region(&cx, &x, None)?;
        assert_eq!(x.to_vec().await?, [2.0; 6]);
        let turned = x.transpose(0, 1)?;
        let other = map::reduce_from_tensor_model_parallel_region(&cx, &turned, None)?;
        assert_eq!((other.shape(), other.to_vec().await?), (&[3, 2][..], vec![4.0; 6]));
        sum.to_vec().await
    });
    assert_eq!(both, [[2.0; 6]; 2]);
}

#[test]
fn t2_copying_gives_the_tensor_itself() {
    let copy = |cx: &Rank, x: &Tensor| map::copy_to_tensor_model_parallel_region(cx, x, None);
    for (rank, (_, got)) in mapped(ones_times_rank, copy).into_iter().enumerate() {
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let own = rank as f32;
        assert_eq!(got, [own; 8]);
    }
}

#[test]
fn t2_scattering_keeps_the_ranks_share_of_the_last_dimension() {
    let scatter = |cx: &Rank, x: &Tensor| map::scatter_to_tensor_model_parallel_region(cx, x, None);
    for (rank, (shape, got)) in mapped(four_columns, scatter).into_iter().enumerate() {
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let column = (rank % 4) as f32;
        assert_eq!((&*shape, got), (&[2, 1][..], vec![column, column + 4.0]));
    }
}

#[test]
fn t2_gathering_puts_ranks_side_by_side_as_in_the_oracle() {
    let gather = |cx: &Rank, x: &Tensor| map::gather_from_tensor_model_parallel_region(cx, x, None);
    for (rank, (shape, got)) in mapped(ones_times_rank, gather).into_iter().enumerate() {
        let first = if rank < 4 { 0 } else { 4 };
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let want: Vec<f32> = (0..32).map(|index| (first + index / 8) as f32).collect();
        assert_eq!((&*shape, got), (&[32][..], want));
    }
    let round = |cx: &Rank, x: &Tensor| {
        let share = map::scatter_to_tensor_model_parallel_region(cx, x, None)?;
        map::all_gather_last_dim_from_tensor_parallel_region(cx, &share, None)
    };
    let all: Vec<f32> = (0..8_u8).map(f32::from).collect();
    for (shape, got) in mapped(four_columns, round) {
        assert_eq!((&*shape, got), (&[2, 4][..], all.clone()));
    }
}

#[test]
fn t2_sequence_regions_are_shares_of_dimension_0() {
    fn rows(rank: usize, cx: &Rank) -> Result<Tensor, Error> {
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let first = (rank / 4 * 100) as f64;
        cx.arange(first, first + 8.0, 1.0, DType::F32)?.reshape([4, 2])
    }
    let there_and_back = |cx: &Rank, x: &Tensor| {
        let share = map::scatter_to_sequence_parallel_region(cx, x, None)?;
        assert_eq!(share.shape(), [1, 2]);
        map::gather_from_sequence_parallel_region(cx, &share, None)
    };
    for (rank, (shape, got)) in mapped(rows, there_and_back).into_iter().enumerate() {
        let first = if rank < 4 { 0.0 } else { 100.0 };
        let want: Vec<f32> = (0..8_u8).map(|index| first + f32::from(index)).collect();
        assert_eq!((&*shape, got), (&[4, 2][..], want));
    }
}

#[test]
fn t2_reduce_scatter_gives_the_sums_of_the_oracle() {
    fn stack(_: usize, cx: &Rank) -> Result<Tensor, Error> {
        let rows: Vec<f32> = (0..4_u8).flat_map(|row| [f32::from(row); 2]).collect();
        cx.from_slice(&rows, [4, 2], DType::F32)
    }
    let scatter =
        |cx: &Rank, x: &Tensor| map::reduce_scatter_to_sequence_parallel_region(cx, x, None);
    for (rank, (shape, got)) in mapped(stack, scatter).into_iter().enumerate() {
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let want = (4 * (rank % 4)) as f32;
        assert_eq!((&*shape, got), (&[1, 2][..], vec![want; 2]));
    }
    let columns =
        |cx: &Rank, x: &Tensor| map::reduce_scatter_last_dim_to_tensor_parallel_region(cx, x, None);
    for (rank, (shape, got)) in mapped(four_columns, columns).into_iter().enumerate() {
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let column = (rank % 4) as f32;
        assert_eq!((&*shape, got), (&[2, 1][..], vec![4.0 * column, 4.0 * (column + 4.0)]));
    }
}

#[test]
fn t2_all_to_all_exchanges_tokens_for_features_and_back() {
    let outputs = parallel(4, |rank, cx| async move {
        // Tokens 2r and 2r + 1 of [8, 4]; element [t, f] is 10 t + f.
        let own: Vec<f32> = (0..8)
            .map(|i| f32::from(u8::try_from(10 * (2 * rank + i / 4) + i % 4).unwrap()))
            .collect();
        let x = cx.from_slice(&own, [2, 4], DType::F32)?;
        let heads = map::all_to_all_sp2hp(&cx, &x, None)?;
        assert_eq!(heads.shape(), [8, 1]);
        let want: Vec<f32> =
            (0..8).map(|t| f32::from(u8::try_from(10 * t + rank).unwrap())).collect();
        assert_eq!(heads.to_vec().await?, want);
        let back = map::all_to_all_hp2sp(&cx, &heads, None)?;
        assert_eq!((back.shape(), back.to_vec().await?), (&[2, 4][..], own));
        let x = cx.full([4], f64::from(u8::try_from(rank).unwrap()), DType::F32)?;
        map::all_to_all(&cx, &x, None)?.to_vec().await
    });
    assert_eq!(outputs, [[0.0, 1.0, 2.0, 3.0]; 4]);
}

#[test]
fn t2_one_rank_gets_the_same_tensor_back() {
    let done = parallel(1, |_, cx| async move {
        let x = cx.full([3, 5], 1.0, DType::F16)?;
        let before = cx.now();
        for mapping in [
            map::copy_to_tensor_model_parallel_region,
            map::reduce_from_tensor_model_parallel_region,
            map::scatter_to_tensor_model_parallel_region,
            map::gather_from_tensor_model_parallel_region,
            map::scatter_to_sequence_parallel_region,
            map::gather_from_sequence_parallel_region,
            map::reduce_scatter_to_sequence_parallel_region,
            map::all_gather_last_dim_from_tensor_parallel_region,
            map::reduce_scatter_last_dim_to_tensor_parallel_region,
            map::all_to_all,
            map::all_to_all_sp2hp,
            map::all_to_all_hp2sp,
        ] {
            let same = mapping(&cx, &x, None)?;
            assert_eq!(format!("{same:?}"), format!("{x:?}"));
        }
        Ok(cx.now() == before)
    });
    assert_eq!(done, [true]);
}

#[test]
fn t2_what_cannot_be_divided_is_refused() {
    parallel(4, |_, cx| async move {
        let x = cx.full([3, 6], 1.0, DType::F32)?;
        let last = "6 is not divisible by 4";
        let first = "First dimension of the tensor should be divisible by tensor parallel size";
        assert_eq!(refusal(map::scatter_to_tensor_model_parallel_region(&cx, &x, None)), last);
        assert_eq!(
            refusal(map::reduce_scatter_last_dim_to_tensor_parallel_region(&cx, &x, None)),
            last
        );
        assert_eq!(refusal(map::all_to_all_sp2hp(&cx, &x, None)), last);
        assert_eq!(refusal(map::all_to_all_hp2sp(&cx, &x, None)), "3 is not divisible by 4");
        assert_eq!(refusal(map::scatter_to_sequence_parallel_region(&cx, &x, None)), first);
        assert_eq!(refusal(map::reduce_scatter_to_sequence_parallel_region(&cx, &x, None)), first);
        Ok(())
    });
}

#[test]
fn tpm_1_what_a_mapping_makes_has_as_many_copies_as_what_it_was_given() {
    let quad = crate::ranks::machine("quad-sip", &[]);
    let context = phalanx_torch::Context::new(quad, phalanx_sim::machine::Options::default());
    let sums = parallel_on(context, 4, 4, |rank, cx| async move {
        let placed = cx.placed(DpPolicy::replicated(3));
        let x = placed.full([4, 8], f64::from(u8::try_from(rank).unwrap()), DType::F16)?;
        let share = map::scatter_to_tensor_model_parallel_region(&cx, &x, None)?;
        let all = map::gather_from_tensor_model_parallel_region(&cx, &share, None)?;
        assert_eq!((share.shards().len(), all.shards().len()), (3, 3), "TPM-1");
        all.to_vec().await
    });
    let row = [0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0];
    assert_eq!(sums, [[row; 4].concat(), [row; 4].concat(), [row; 4].concat(), [row; 4].concat()]);
}
