//! A two-layer MLP over four ranks, the way Megatron-LM spreads it, against the same in plain Rust.
//!
//! Run with `cargo run --release -p phalanx-torch --example tp_mlp`.
#![expect(clippy::print_stdout, reason = "an example")]

use phalanx_sim::{DType, MachineSpec, machine::Options};
use phalanx_torch::tp::{
    Activation, Compute, Init, Mlp, MlpOptions, ModelParallel, parallel_state,
};
use phalanx_torch::{Context, Pool, distributed as dist, multiprocessing};
use std::rc::Rc;
use std::sync::Arc;

const RANKS: usize = 4;
const TOKENS: usize = 256;
const HIDDEN: usize = 256;
const FFN: usize = 4 * HIDDEN;

/// The source of all numbers: multiples of 1/64, which f16 holds exactly.
fn number(stream: usize, index: usize) -> f32 {
    #[expect(clippy::cast_precision_loss, reason = "small")]
    let small = (index.wrapping_mul(7919).wrapping_add(stream * 104_729) % 17) as f32;
    (small - 8.0) / 64.0
}

/// `x W^T`, with nothing but loops.
fn linear(x: &[f32], stream: usize, features: usize, columns: usize) -> Vec<f32> {
    let weight: Vec<f32> = (0..features * columns).map(|index| number(stream, index)).collect();
    let dot = |row: &[f32], line: &[f32]| row.iter().zip(line).map(|(a, b)| a * b).sum();
    x.chunks(columns)
        .flat_map(|row| weight.chunks(columns).map(move |line| dot(row, line)))
        .collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let machine = MachineSpec::preset("quad-sip")?;
    let options = Options { evaluator: Arc::new(Pool::new(2)), ..Options::default() };
    let mut context = Context::new(machine, options);

    // Every rank runs this program. Nothing in it waits until the output is read.
    let outputs = multiprocessing::spawn(&mut context, RANKS, |_, cx| async move {
        dist::init_process_group(&cx)?;
        parallel_state::initialize_model_parallel(&cx, &ModelParallel::new(RANKS, 1))?;
        let master = |stream| Init::Of(Rc::new(move |index| number(stream, index)));
        let options = MlpOptions {
            activation: Activation::Relu,
            init: [master(1), master(2)],
            ..MlpOptions::default()
        };
        let mlp = Mlp::new(&cx, HIDDEN, FFN, &options)?;
        let placed = cx.placed(Compute::all(&cx).activations());
        let x = placed.resident([TOKENS, HIDDEN], DType::F16, |index| number(0, index))?;

        let y = mlp.forward(&x)?;
        y.ready().await?;
        let took = cx.now();
        Ok((took, y.to_vec().await?))
    })?;

    let x: Vec<f32> = (0..TOKENS * HIDDEN).map(|index| number(0, index)).collect();
    let inner: Vec<f32> = linear(&x, 1, FFN, HIDDEN).iter().map(|x| x.max(0.0)).collect();
    let want = linear(&inner, 2, HIDDEN, FFN);
    let (took, first) = &outputs[0];
    let same = outputs.iter().all(|(_, output)| output == first);
    let error = first.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    let largest = want.iter().fold(0.0_f32, |most, y| most.max(y.abs()));
    println!("{TOKENS} tokens, {HIDDEN} -> {FFN} -> {HIDDEN} features over {RANKS} ranks: {took}");
    println!("the same on all ranks: {same}");
    println!("largest difference from the unsharded f32 reference: {error} of {largest}");
    if !same || error > largest / 100.0 {
        return Err("the sharded MLP is not the unsharded one".into());
    }
    Ok(())
}
