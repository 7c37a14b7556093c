//! The speed of value computation on this computer: one thread, best of several runs.
#![expect(clippy::print_stdout, reason = "a report")]
#![expect(clippy::disallowed_types, reason = "wall time is what is measured")]

use phalanx_sim::value::{Binary, DType, Evaluator, Inline, Unary, Value};
use std::hint::black_box;
use std::time::Instant;

/// Prints and returns the shortest time of one call, in microseconds.
fn best(name: &str, rounds: u32, calls: u32, mut call: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..rounds {
        let start = Instant::now();
        (0..calls).for_each(|_| call());
        best = best.min(start.elapsed().as_secs_f64() / f64::from(calls) * 1e6);
    }
    println!("{name:<44} {best:>12.2} us");
    best
}

/// Returns varied ordinary numbers.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn numbers(len: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 7919) % 2003) as f32 / 1001.0 - 1.0).collect()
}

fn slots() {
    for dtype in DType::ALL {
        let len = 16384 / dtype.size();
        let a = Value::from_f32(dtype, &numbers(len));
        let b = Value::from_f32(dtype, &numbers(len));
        best(&format!("add of a 16 KiB slot, {dtype}"), 40, 200, || {
            Inline.force(&[black_box(Value::binary(Binary::Add, &a, &b))]);
        });
    }
    let a = Value::from_f32(DType::F32, &numbers(4096));
    for op in [Unary::Exp, Unary::Log, Unary::Tanh, Unary::Gelu] {
        best(&format!("{op:?} of a 16 KiB slot, f32"), 20, 50, || {
            Inline.force(&[black_box(Value::unary(op, &a))]);
        });
    }
}

fn dots() {
    for dtype in [DType::F16, DType::Bf16, DType::F32] {
        let a = Value::from_f32(dtype, &numbers(128 * 128));
        let us = best(&format!("dot 128^3, {dtype}"), 40, 20, || {
            Inline.force(&[black_box(Value::dot(&a, &a, [128; 3], None))]);
        });
        println!("{:>57.1} GFLOP/s", 2.0 * 128f64.powi(3) / us / 1e3);
    }
}

/// Measures `C = A * B` of n*n f16 matrices as a kernel records it: tiles of 128.
fn tiled(a: &Value, b: &Value, n: usize) -> Vec<Value> {
    let tile = |x: &Value, i: usize, j: usize| x.strided((i * n + j) * 128, &[128; 2], &[n, 1]);
    let tiles = n / 128;
    let mut out = Vec::new();
    for (i, j) in (0..tiles).flat_map(|i| (0..tiles).map(move |j| (i, j))) {
        let mut sum = Value::zeros(DType::F32, 128 * 128);
        for k in 0..tiles {
            sum = Value::dot(&tile(a, i, k), &tile(b, k, j), [128; 3], Some(&sum));
        }
        out.push(sum);
    }
    out
}

fn gemm() {
    let n = 2048;
    let a = Value::from_f32(DType::F16, &numbers(n * n));
    let us = best("gemm 2048^3, f16, in 128^3 dots", 7, 1, || {
        Inline.force(&tiled(&a, &a, n));
    });
    let flop = 2.0 * 2048f64.powi(3);
    println!("{:>57.1} GFLOP/s", flop / us / 1e3);
    let x = ndarray::Array2::from_shape_vec((n, n), numbers(n * n)).expect("n * n numbers");
    let us = best("gemm 2048^3, f32, ndarray (matrixmultiply)", 7, 1, || {
        drop(black_box(x.dot(&x)));
    });
    println!("{:>57.1} GFLOP/s", flop / us / 1e3);
}

/// Measures the reduce-scatter of a ring all-reduce: 64 ranks, 16 MiB each, slots of 16 KiB.
fn ring() {
    let (ranks, slot) = (64, 4096);
    let rank: Vec<Value> = (0..ranks).map(|_| Value::from_vec_f32(numbers(4 << 20))).collect();
    let record = || {
        let sum_of = |s: usize| {
            let part = |r: usize| rank[(s + r) % ranks].slice(s * slot, slot);
            (1..ranks).fold(part(0), |sum, r| Value::binary(Binary::Add, &sum, &part(r)))
        };
        (0..(4 << 20) / slot).map(sum_of).collect::<Vec<_>>()
    };
    best("ring all-reduce, 64 ranks x 16 MiB, recorded", 5, 1, || drop(black_box(record())));
    best("ring all-reduce, 64 ranks x 16 MiB, computed", 5, 1, || Inline.force(&record()));
    let all: Vec<&[f32]> = rank.iter().map(|r| r.elements().of()).collect();
    best("reading the same 1 GiB once", 5, 1, || {
        black_box(all.iter().map(|r| sum(r)).sum::<f32>());
    });
}

/// Measures a sum with sixteen accumulators, so that memory is the limit.
fn sum(x: &[f32]) -> f32 {
    let mut strands = [0.0; 16];
    for chunk in x.as_chunks::<16>().0 {
        strands.iter_mut().zip(chunk).for_each(|(s, x)| *s += x);
    }
    strands.iter().sum()
}

/// Runs all sections, or those named on the command line.
fn main() {
    let sections: [(&str, fn()); 4] =
        [("slots", slots), ("dots", dots), ("ring", ring), ("gemm", gemm)];
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    for (name, section) in sections {
        if wanted.is_empty() || wanted.iter().any(|w| w == name) {
            section();
        }
    }
}
