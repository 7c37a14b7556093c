//! A transformer block over four ranks, against the same block in plain Rust.
//!
//! Run with `cargo run --release -p phalanx-torch --example tp_block`.
#![expect(clippy::print_stdout, reason = "an example")]
#![expect(clippy::cast_precision_loss, reason = "small sizes")]

use phalanx_sim::{DType, MachineSpec, machine::Options};
use phalanx_torch::tp::{
    BlockOptions, Compute, Init, ModelParallel, TransformerBlock, parallel_state,
};
use phalanx_torch::{Context, distributed as dist, multiprocessing};
use std::rc::Rc;

const RANKS: usize = 4;
const TOKENS: usize = 96;
const HIDDEN: usize = 128;
const HEADS: usize = 8;
const WIDTH: usize = HIDDEN / HEADS;
const FFN: usize = 4 * HIDDEN;

/// The source of all numbers: multiples of 1/64, which f16 holds exactly.
fn number(stream: usize, index: usize) -> f32 {
    let small = (index.wrapping_mul(7919).wrapping_add(stream * 104_729) % 17) as f32;
    (small - 8.0) / 64.0
}

fn linear(x: &[f32], stream: usize, features: usize, columns: usize) -> Vec<f32> {
    let weight: Vec<f32> = (0..features * columns).map(|index| number(stream, index)).collect();
    let dot = |row: &[f32], line: &[f32]| row.iter().zip(line).map(|(a, b)| a * b).sum();
    x.chunks(columns)
        .flat_map(|row| weight.chunks(columns).map(move |line| dot(row, line)))
        .collect()
}

fn norm(x: &[f32]) -> Vec<f32> {
    let one = |row: &[f32]| -> Vec<f32> {
        let mean = row.iter().sum::<f32>() / HIDDEN as f32;
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / HIDDEN as f32;
        row.iter().map(|x| (x - mean) / (variance + 1e-5).sqrt()).collect()
    };
    x.chunks(HIDDEN).flat_map(one).collect()
}

fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + (0.797_884_6 * (x + 0.044_715 * x.powi(3))).tanh())
}

fn add(a: &[f32], b: &[f32]) -> Vec<f32> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

/// The columns of a token are ordered head by head: query, key, value.
fn attention(mixed: &[f32]) -> Vec<f32> {
    let part = |token: usize, head: usize, part: usize| {
        let start = token * 3 * HIDDEN + (head * 3 + part) * WIDTH;
        &mixed[start..start + WIDTH]
    };
    let mut out = Vec::new();
    for (token, head) in (0..TOKENS).flat_map(|t| (0..HEADS).map(move |h| (t, h))) {
        let score = |other: usize| {
            let dot: f32 =
                part(token, head, 0).iter().zip(part(other, head, 1)).map(|(a, b)| a * b).sum();
            (dot / (WIDTH as f32).sqrt()).exp()
        };
        let weights: Vec<f32> = (0..TOKENS).map(score).collect();
        let sum: f32 = weights.iter().sum();
        out.extend((0..WIDTH).map(|column| {
            let all = weights.iter().enumerate();
            all.map(|(other, weight)| weight * part(other, head, 2)[column]).sum::<f32>() / sum
        }));
    }
    out
}

/// The whole block on the host.
fn reference(x: &[f32]) -> Vec<f32> {
    let attended = attention(&linear(&norm(x), 1, 3 * HIDDEN, HIDDEN));
    let x = add(x, &linear(&attended, 2, HIDDEN, HIDDEN));
    let inner: Vec<f32> = linear(&norm(&x), 3, FFN, HIDDEN).into_iter().map(gelu).collect();
    add(&x, &linear(&inner, 4, HIDDEN, FFN))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let machine = MachineSpec::preset("quad-sip")?;
    let mut context = Context::new(machine, Options::default());

    let outputs = multiprocessing::spawn(&mut context, RANKS, |_, cx| async move {
        dist::init_process_group(&cx)?;
        parallel_state::initialize_model_parallel(&cx, &ModelParallel::new(RANKS, 1))?;
        let master = |stream| Init::Of(Rc::new(move |index| number(stream, index)));
        let options = BlockOptions {
            init: [master(1), master(2), master(3), master(4)],
            ..BlockOptions::new(HEADS, FFN)
        };
        let block = TransformerBlock::new(&cx, HIDDEN, &options)?;
        let placed = cx.placed(Compute::all(&cx).activations());
        let x = placed.resident([TOKENS, 1, HIDDEN], DType::F16, |index| number(0, index))?;

        let y = block.forward(&x)?;
        y.ready().await?;
        let took = cx.now();
        Ok((took, y.to_vec().await?))
    })?;

    let x: Vec<f32> = (0..TOKENS * HIDDEN).map(|index| number(0, index)).collect();
    let want = reference(&x);
    let (took, first) = &outputs[0];
    let same = outputs.iter().all(|(_, output)| output == first);
    let error = first.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    let largest = want.iter().fold(0.0_f32, |most, y| most.max(y.abs()));
    println!(
        "a block of {HEADS} heads and {HIDDEN} features, {TOKENS} tokens, over {RANKS} ranks: {took}"
    );
    println!("the same on all ranks: {same}");
    println!("largest difference from the unsharded f32 reference: {error} of {largest}");
    if !same || error > largest / 50.0 {
        return Err("the sharded block is not the unsharded one".into());
    }
    Ok(())
}
