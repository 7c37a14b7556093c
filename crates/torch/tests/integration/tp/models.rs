use super::reference::{Matrix, close};
use super::{bare, init, numbers, parallel, parallel_on};
use phalanx_sim::machine::Options;
use phalanx_sim::{DType, Time};
use phalanx_torch::tp::{
    Activation, BlockOptions, Compute, Config, Init, Mlp, MlpOptions, TransformerBlock,
};
use phalanx_torch::{Context, Error, Rank};
use std::rc::Rc;

/// Weights small enough that results stay near 1.
fn scaled(stream: usize, scale: f32) -> Init {
    let Init::Of(number) = init(stream) else { unreachable!() };
    Init::Of(Rc::new(move |index| number(index) * scale))
}

fn scaled_numbers(stream: usize, len: usize, scale: f32) -> Vec<f32> {
    super::rounded((0..len).map(|index| super::number(stream, index) * scale).collect())
}

async fn mlp(cx: Rank, activation: Activation) -> Result<Vec<f32>, Error> {
    let init = [scaled(1, 0.25), scaled(2, 0.25)];
    let options = MlpOptions { activation, init, ..MlpOptions::default() };
    let mlp = Mlp::new(&cx, 16, 64, &options)?;
    let x = cx.from_slice(&numbers(0, 10 * 16), [5, 2, 16], DType::F16)?;
    let y = mlp.forward(&x)?;
    assert_eq!(y.shape(), [5, 2, 16]);
    y.to_vec().await
}

#[test]
fn t6_an_mlp_is_what_plain_code_computes_and_the_same_on_all_ranks() {
    let x = Matrix::new(16, &numbers(0, 10 * 16));
    let up = Matrix::new(16, &scaled_numbers(1, 64 * 16, 0.25));
    let down = Matrix::new(64, &scaled_numbers(2, 64 * 16, 0.25));
    for ranks in [1, 2, 4, 8] {
        for activation in [Activation::None, Activation::Gelu] {
            let outputs = parallel(ranks, move |_, cx| mlp(cx, activation));
            assert!(outputs.iter().all(|output| *output == outputs[0]), "the same on all ranks");
            let inner = x.linear(&up);
            let inner = if activation == Activation::Gelu { inner.gelu() } else { inner };
            // Results of about 1, each a sum of up to 8 rounded parts: some units of 2^-11.
            close(&outputs[0], &inner.linear(&down).to_f32(), 0.01);
        }
    }
}

#[test]
fn t6_and_tpk_1_an_mlp_is_the_same_on_all_pes_of_a_full_machine() {
    let on = |compute| {
        let context = Context::new(crate::ranks::machine("quad-sip", &[]), Options::default());
        let ring = crate::ranks::ccl(super::RING.replace("1 MiB", "16 KiB").as_str());
        parallel_on(context.with_ccl(ring), 4, 4, move |_, cx| async move {
            let config = Config { compute, ..Config::default() };
            let init = [scaled(1, 0.25), scaled(2, 0.25)];
            let options =
                MlpOptions { activation: Activation::Relu, init, config, ..MlpOptions::default() };
            let mlp = Mlp::new(&cx, 136, 280, &options)?;
            let x = cx.from_slice(&numbers(0, 130 * 136), [130, 136], DType::F16)?;
            mlp.forward(&x)?.to_vec().await
        })
    };
    let one = on(Some(Compute::one()));
    assert_eq!(on(None), one, "TPK-1");
    assert_eq!(on(Some(Compute { cubes: 3, pes: 5 })), one, "TPK-1");
    assert!(one.iter().all(|output| *output == one[0]));
}

#[test]
fn t6_a_megatron_mlp_takes_what_the_formula_says() {
    for data in [false, true] {
        let spec = crate::ranks::machine("bare", &["system.sips.count=4"]);
        let options = Options { data, ..Options::default() };
        let context = Context::new(spec, options).with_ccl(crate::ranks::ccl(super::RING));
        let (hidden, tokens) = (1024, 2048);
        let ends = parallel_on(context, 4, 4, move |_, cx| async move {
            let options = MlpOptions {
                activation: Activation::None,
                bias: false,
                init: [Init::Zeros, Init::Zeros],
                ..MlpOptions::default()
            };
            let mlp = Mlp::new(&cx, hidden, 4 * hidden, &options)?;
            let x = cx.zeros([tokens, hidden], DType::F16)?;
            mlp.forward(&x)?.ready().await?;
            Ok(cx.now())
        });
        assert_eq!(ends, [Time::ns(1_106_872); 4]);
    }
}

async fn block(cx: Rank, causal: bool) -> Result<Vec<f32>, Error> {
    let init = [scaled(1, 0.25), scaled(2, 0.25), scaled(3, 0.25), scaled(4, 0.25)];
    let options = BlockOptions { causal, init, ..BlockOptions::new(4, 64) };
    let block = TransformerBlock::new(&cx, 32, &options)?;
    let x = cx.from_slice(&numbers(0, 14 * 32), [7, 2, 32], DType::F16)?;
    let y = block.forward(&x)?;
    assert_eq!(y.shape(), [7, 2, 32]);
    y.to_vec().await
}

#[test]
fn t6_a_block_is_what_plain_code_computes_and_the_same_on_all_ranks() {
    let x = Matrix::new(32, &numbers(0, 14 * 32));
    let weight = |stream, rows: usize, columns| {
        Matrix::new(columns, &scaled_numbers(stream, rows * columns, 0.25))
    };
    let (mixed, projection) = (weight(1, 96, 32), weight(2, 32, 32));
    let (up, down) = (weight(3, 64, 32), weight(4, 32, 64));
    for causal in [false, true] {
        let attended = x.norm().linear(&mixed).attention(4, 2, causal).linear(&projection);
        let x = x.add(&attended);
        let want = x.add(&x.norm().linear(&up).gelu().linear(&down)).to_f32();
        for ranks in [1, 2, 4] {
            let outputs = parallel(ranks, move |_, cx| block(cx, causal));
            assert!(outputs.iter().all(|output| *output == outputs[0]), "the same on all ranks");
            close(&outputs[0], &want, 0.03);
        }
    }
}

#[test]
fn t6_a_block_spreads_tokens_between_its_layers_if_told() {
    let shares = parallel(2, |rank, cx| async move {
        let config = Config { sequence_parallel: true, ..Config::default() };
        let init = [scaled(1, 0.25), scaled(2, 0.25), scaled(3, 0.25), scaled(4, 0.25)];
        let options = BlockOptions { config, init, ..BlockOptions::new(4, 64) };
        let block = TransformerBlock::new(&cx, 32, &options)?;
        let x = cx.from_slice(&numbers(0, 12 * 32), [6, 2, 32], DType::F16)?;
        block.forward(&x.narrow(0, 3 * rank, 3)?)?.to_vec().await
    });
    let whole = parallel_on(bare(2, super::RING), 2, 2, |_, cx| async move {
        let init = [scaled(1, 0.25), scaled(2, 0.25), scaled(3, 0.25), scaled(4, 0.25)];
        let options = BlockOptions { init, ..BlockOptions::new(4, 64) };
        let block = TransformerBlock::new(&cx, 32, &options)?;
        let x = cx.from_slice(&numbers(0, 12 * 32), [6, 2, 32], DType::F16)?;
        block.forward(&x)?.to_vec().await
    });
    close(&shares.concat(), &whole[0], 0.02);
}
