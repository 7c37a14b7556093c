use super::reference::{close, columns, product, ring_sum};
use super::{RING, bare, init, numbers, parallel, parallel_on, refusal, rounded};
use phalanx_sim::DType;
use phalanx_sim::machine::Options;
use phalanx_torch::tp::{
    ColumnOptions, ColumnParallelLinear, Compute, Config, EmbeddingOptions, Init, RowOptions,
    RowParallelLinear, VocabParallelEmbedding,
};
use phalanx_torch::{Context, Error, Rank};

const M: usize = 6;
const IN: usize = 20;
const OUT: usize = 24;

fn column(
    cx: &Rank,
    change: impl FnOnce(&mut ColumnOptions),
) -> Result<ColumnParallelLinear, Error> {
    let mut options = ColumnOptions { init: init(1), ..ColumnOptions::default() };
    change(&mut options);
    ColumnParallelLinear::new(cx, IN, OUT, &options)
}

fn row(
    cx: &Rank,
    parallel: bool,
    change: impl FnOnce(&mut RowOptions),
) -> Result<RowParallelLinear, Error> {
    let mut options = RowOptions { init: init(1), ..RowOptions::new(true, parallel, false) };
    change(&mut options);
    RowParallelLinear::new(cx, IN, OUT, &options)
}

fn input(cx: &Rank) -> Result<phalanx_torch::Tensor, Error> {
    cx.from_slice(&numbers(0, M * IN), [M / 2, 2, IN], DType::F16)
}

/// The whole product, rounded once.
fn whole() -> Vec<f32> {
    rounded(product(&numbers(0, M * IN), &numbers(1, OUT * IN), IN))
}

/// The ranks' outputs side by side.
fn concatenated(parts: &[Vec<f32>], width: usize) -> Vec<f32> {
    (0..parts[0].len() / width)
        .flat_map(|row| {
            parts.iter().flat_map(move |part| part[row * width..(row + 1) * width].to_vec())
        })
        .collect()
}

/// The ranks' products, each rounded, summed as a ring does.
fn row_sum(ranks: usize) -> Vec<f32> {
    let width = IN / ranks;
    let part = |rank: usize| {
        let x = columns(&numbers(0, M * IN), IN, rank * width, (rank + 1) * width);
        let w = columns(&numbers(1, OUT * IN), IN, rank * width, (rank + 1) * width);
        rounded(product(&x, &w, width))
    };
    ring_sum(&(0..ranks).map(part).collect::<Vec<_>>())
}

#[test]
fn t2_and_tps_1_columns_side_by_side_are_the_whole_product_bit_for_bit() {
    for ranks in [1, 2, 4] {
        let parts = parallel(ranks, move |_, cx| async move {
            let layer = column(&cx, |_| ())?;
            assert_eq!(layer.weight().unwrap().shape(), [OUT / ranks, IN]);
            assert_eq!(layer.bias().unwrap().shape(), [OUT / ranks]);
            let (y, bias) = layer.forward(&input(&cx)?)?;
            assert_eq!(y.shape(), [M / 2, 2, OUT / ranks]);
            assert!(bias.is_none());
            y.to_vec().await
        });
        assert_eq!(concatenated(&parts, OUT / ranks), whole(), "TPS-1: {ranks} ranks");
    }
}

#[test]
fn t2_and_tps_1_columns_are_the_same_on_all_pes_of_a_full_machine() {
    let quad = crate::ranks::machine("quad-sip", &[]);
    let context = Context::new(quad, Options::default());
    let parts = parallel_on(context, 4, 4, |_, cx| async move {
        let layer = column(&cx, |_| ())?;
        layer.forward(&input(&cx)?)?.0.to_vec().await
    });
    assert_eq!(concatenated(&parts, OUT / 4), whole(), "TPS-1");
}

#[test]
fn t2_gathered_columns_are_the_whole_product_on_every_rank() {
    let outputs = parallel(4, |_, cx| async move {
        let layer = column(&cx, |options| options.gather_output = true)?;
        let (spread, _) = layer.forward_with(&input(&cx)?, None, Some(false))?;
        assert_eq!(spread.shape(), [M / 2, 2, OUT / 4]);
        let (y, _) = layer.forward(&input(&cx)?)?;
        assert_eq!(y.shape(), [M / 2, 2, OUT]);
        y.to_vec().await
    });
    assert!(outputs.iter().all(|output| *output == whole()));
}

#[test]
fn t2_a_skipped_bias_is_given_back_and_is_the_partitions() {
    parallel(4, |_, cx| async move {
        let layer = column(&cx, |options| {
            options.skip_bias_add = true;
            options.gather_output = true;
        })?;
        layer.bias().unwrap().fill_(3.0)?;
        let (y, bias) = layer.forward(&input(&cx)?)?;
        assert_eq!(bias.unwrap().shape(), [OUT / 4]);
        assert_eq!(y.to_vec().await?, whole());
        let layer = row(&cx, false, |options| options.skip_bias_add = true)?;
        layer.bias().unwrap().fill_(3.0)?;
        let (y, bias) = layer.forward(&input(&cx)?)?;
        assert_eq!(bias.unwrap().shape(), [OUT]);
        assert_eq!(y.to_vec().await?, row_sum(4));
        Ok(())
    });
}

#[test]
fn t2_a_bias_is_added_by_each_rank_to_its_columns() {
    let parts = parallel(2, |rank, cx| async move {
        let layer = column(&cx, |_| ())?;
        layer.bias().unwrap().fill_(f64::from(u8::try_from(rank).unwrap()) + 1.0)?;
        layer.forward(&input(&cx)?)?.0.to_vec().await
    });
    let biased = |(index, y): (usize, &f32)| y + if index % OUT < OUT / 2 { 1.0 } else { 2.0 };
    let want = rounded(whole().iter().enumerate().map(biased).collect());
    assert_eq!(concatenated(&parts, OUT / 2), want);
}

#[test]
fn t2_and_tps_2_rows_are_the_sum_of_the_ranks_products_in_the_rings_order_bit_for_bit() {
    for ranks in [1, 2, 4] {
        let outputs = parallel(ranks, move |rank, cx| async move {
            let scattered = row(&cx, false, |_| ())?;
            assert_eq!(scattered.weight().shape(), [OUT, IN / ranks]);
            let (y, bias) = scattered.forward(&input(&cx)?)?;
            assert!(bias.is_none());
            assert_eq!(y.shape(), [M / 2, 2, OUT]);
            let split = row(&cx, true, |_| ())?;
            let width = IN / ranks;
            let own = input(&cx)?.narrow(2, rank * width, width)?;
            let (same, _) = split.forward(&own)?;
            let y = y.to_vec().await?;
            assert_eq!(y, same.to_vec().await?, "TPS-2: split before or in the layer");
            Ok(y)
        });
        assert!(outputs.iter().all(|output| *output == row_sum(ranks)), "TPS-2: {ranks} ranks");
        let exact = product(&numbers(0, M * IN), &numbers(1, OUT * IN), IN);
        // Up to `ranks` partial products and `ranks - 1` sums of less than 8 are rounded, each by at most 2^-9.
        close(&outputs[0], &exact, 2.0 * 4.0 / 512.0);
    }
}

#[test]
fn t2_a_bias_is_added_once_after_the_reduction() {
    let outputs = parallel(4, |_, cx| async move {
        let layer = row(&cx, false, |_| ())?;
        layer.bias().unwrap().fill_(0.75)?;
        layer.forward(&input(&cx)?)?.0.to_vec().await
    });
    let want = rounded(row_sum(4).iter().map(|y| y + 0.75).collect());
    assert!(outputs.iter().all(|output| *output == want));
}

#[test]
fn t2_with_sequence_parallel_tokens_are_gathered_before_and_scattered_after() {
    let outputs = parallel(2, |rank, cx| async move {
        let sequence = Config { sequence_parallel: true, ..Config::default() };
        // [4, 1, IN]: two tokens a rank.
        let x = cx.from_slice(&numbers(0, 4 * IN), [4, 1, IN], DType::F16)?;
        let own = x.narrow(0, 2 * rank, 2)?;
        let up = column(&cx, |options| options.config = sequence.clone())?;
        let (y, _) = up.forward(&own)?;
        assert_eq!(y.shape(), [4, 1, OUT / 2]);
        let all = product(&numbers(0, 4 * IN), &numbers(1, OUT * IN), IN);
        assert_eq!(
            y.to_vec().await?,
            columns(&rounded(all), OUT, OUT / 2 * rank, OUT / 2 * (rank + 1))
        );
        let down = row(&cx, true, |options| options.config = sequence)?;
        let part = x.narrow(2, IN / 2 * rank, IN / 2)?;
        let (z, _) = down.forward(&part)?;
        assert_eq!(z.shape(), [2, 1, OUT]);
        z.to_vec().await
    });
    let exact = product(&numbers(0, 4 * IN), &numbers(1, OUT * IN), IN);
    close(&outputs.concat(), &exact, 2.0 * 2.0 / 512.0);
}

#[test]
fn t2_a_stride_interleaves_the_pieces_of_the_master() {
    let weights = parallel(2, |_, cx| async move {
        let by_row = column(&cx, |options| options.stride = 3)?;
        let by_column = row(&cx, true, |options| options.stride = 5)?;
        Ok((by_row.weight().unwrap().to_vec().await?, by_column.weight().to_vec().await?))
    });
    let master = numbers(1, OUT * IN);
    for (rank, (rows, cols)) in weights.into_iter().enumerate() {
        // Pieces of 24/2/3 = 4 rows, every second one; of 20/2/5 = 2 columns.
        let want: Vec<f32> = (0..3)
            .flat_map(|piece| {
                let first = (2 * piece + rank) * 4;
                master[first * IN..(first + 4) * IN].to_vec()
            })
            .collect();
        assert_eq!(rows, want);
        let mine = |column: usize| column / 2 % 2 == rank;
        let want: Vec<f32> = master
            .iter()
            .enumerate()
            .filter(|(index, _)| mine(index % IN))
            .map(|(_, number)| *number)
            .collect();
        assert_eq!(cols, want);
    }
}

#[test]
fn t2_and_tps_3_one_seed_gives_one_master_on_every_number_of_ranks() {
    fn drawn(ranks: usize, seed: Option<u64>) -> Vec<Vec<f32>> {
        parallel(ranks, move |_, cx| async move {
            cx.manual_seed(5);
            let config = Config { seed, ..Config::default() };
            let options =
                ColumnOptions { init: Init::Normal(0.5), config, ..ColumnOptions::default() };
            let layers = [
                ColumnParallelLinear::new(&cx, IN, OUT, &options)?,
                ColumnParallelLinear::new(&cx, IN, OUT, &options)?,
            ];
            let first = layers[0].weight().unwrap().to_vec().await?;
            let second = layers[1].weight().unwrap().to_vec().await?;
            assert_eq!(first == second, seed.is_some(), "a stream goes on, a seed begins anew");
            Ok(first)
        })
    }
    let master = drawn(1, None).concat();
    assert!(master.iter().any(|number| number.abs() > 0.5));
    for ranks in [2, 4] {
        assert_eq!(drawn(ranks, None).concat(), master, "TPS-3");
        assert_eq!(drawn(ranks, Some(5)).concat(), master, "TPS-3");
    }
}

#[test]
fn tps_3_without_data_nothing_is_drawn_and_the_time_is_the_same() {
    let time = |data: bool| {
        let spec = crate::ranks::machine("quad-sip", &[]);
        let context = Context::new(spec, Options { data, ..Options::default() });
        parallel_on(context, 4, 4, move |_, cx| async move {
            let never = Init::Of(std::rc::Rc::new(move |_| {
                assert!(data, "TPS-3");
                1.0
            }));
            let layer = column(&cx, |options| options.init = never)?;
            let (y, _) = layer.forward(&cx.full([M, IN], 1.0, DType::F16)?)?;
            y.ready().await?;
            Ok(cx.now())
        })
    };
    assert_eq!(time(true), time(false), "TPS-3");
}

#[test]
fn t2_what_does_not_fit_is_refused() {
    parallel(4, |_, cx| async move {
        let uneven = |n| refusal(ColumnParallelLinear::new(&cx, 8, n, &ColumnOptions::default()));
        assert_eq!(uneven(6), "6 is not divisible by 4");
        assert_eq!(refusal(column(&cx, |options| options.stride = 5)), "6 is not divisible by 5");
        assert_eq!(
            refusal(row(&cx, false, |options| options.config.sequence_parallel = true)),
            "To enable `sequence_parallel`, `input_is_parallel` must be `True`"
        );
        let none = column(&cx, |options| options.skip_weight_param_allocation = true)?;
        assert_eq!(
            refusal(none.forward(&input(&cx)?)),
            "weight was not supplied to ColumnParallelLinear forward pass and skip_weight_param_allocation is True."
        );
        let wrong = cx.zeros([4, 9], DType::F16)?;
        assert_eq!(
            refusal(none.forward_with(&input(&cx)?, Some(&wrong), None)),
            "supplied weight's shape is (4, 9), not (6, 20) as expected"
        );
        let narrow = cx.zeros([M, 7], DType::F16)?;
        assert!(
            refusal(none.forward_with(&narrow, Some(&cx.zeros([6, 20], DType::F16)?), None))
                .contains("20 features")
        );
        let many = Config { compute: Some(Compute { cubes: 9, pes: 1 }), ..Config::default() };
        assert!(refusal(column(&cx, |options| options.config = many)).contains("grid of 9 cubes"));
        Ok(())
    });
}

#[test]
fn t2_a_supplied_weight_is_used() {
    let parts = parallel(2, |rank, cx| async move {
        let layer = column(&cx, |options| options.skip_weight_param_allocation = true)?;
        let own = &numbers(1, OUT * IN)[OUT / 2 * IN * rank..OUT / 2 * IN * (rank + 1)];
        let weight = cx.from_slice(own, [OUT / 2, IN], DType::F16)?;
        layer.forward_with(&input(&cx)?, Some(&weight), None)?.0.to_vec().await
    });
    assert_eq!(concatenated(&parts, OUT / 2), whole());
}

fn embedded(ranks: usize, scatter: bool) -> Vec<(Vec<usize>, Vec<f32>)> {
    parallel_on(bare(ranks, RING), ranks, ranks, move |_, cx| async move {
        let options = EmbeddingOptions {
            reduce_scatter_embeddings: scatter,
            init: init(2),
            ..EmbeddingOptions::default()
        };
        let layer = VocabParallelEmbedding::new(&cx, 12, 5, &options)?;
        assert_eq!(layer.weight().shape(), [12 / ranks, 5]);
        let ids = cx.placed(phalanx_torch::DpPolicy::default());
        let ids = ids.from_i32(&[0, 11, 5, 3, 3, 7, 2, 9], [2, 4])?;
        let y = layer.forward(&ids)?;
        Ok((y.shape().to_vec(), y.to_vec().await?))
    })
}

#[test]
fn t2_an_embedding_looks_up_rows_that_other_ranks_have() {
    let table = numbers(2, 12 * 5);
    let row = |id: usize| table[id * 5..(id + 1) * 5].to_vec();
    let want: Vec<f32> = [0, 11, 5, 3, 3, 7, 2, 9].into_iter().flat_map(row).collect();
    for ranks in [1, 2, 4] {
        for (shape, got) in embedded(ranks, false) {
            assert_eq!((&*shape, &got), (&[2, 4, 5][..], &want), "{ranks} ranks");
        }
    }
    let turned: Vec<f32> = [0, 3, 11, 7, 5, 2, 3, 9].into_iter().flat_map(row).collect();
    for (rank, (shape, got)) in embedded(2, true).into_iter().enumerate() {
        assert_eq!((&*shape, &*got), (&[2, 2, 5][..], &turned[rank * 20..(rank + 1) * 20]));
    }
}

#[test]
fn t2_an_embedding_refuses_what_is_no_number_of_its() {
    parallel(1, |_, cx| async move {
        let options = EmbeddingOptions::default();
        let layer = VocabParallelEmbedding::new(&cx, 12, 5, &options)?;
        assert!(refusal(layer.forward(&cx.zeros([2], DType::F16)?)).contains("must be i32"));
        let ids = cx.placed(phalanx_torch::DpPolicy::default()).from_i32(&[3, 12], [2])?;
        let text = refusal(layer.forward(&ids)?.ready().await);
        assert!(text.contains("12 is not one of the 12 numbers from 0 on"), "{text}");
        Ok(())
    });
}
