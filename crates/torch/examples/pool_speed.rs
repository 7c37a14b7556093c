//! The speed-up that a pool gives to the sums of a ring all-reduce: 64 ranks, 16 MiB of `f32` each.
#![expect(clippy::print_stdout, reason = "a report")]

use phalanx_sim::value::{Binary, Evaluator, Value};
use phalanx_torch::Pool;
use std::time::Instant;

const RANKS: usize = 64;
const LEN: usize = 4 << 20;
const SLOT: usize = 4096;

fn record(ranks: &[Value]) -> Vec<Value> {
    let sum = |s: usize| {
        let part = |r: usize| ranks[(s + r) % RANKS].slice(s * SLOT, SLOT);
        (1..RANKS).fold(part(0), |sum, r| Value::binary(Binary::Add, &sum, &part(r)))
    };
    (0..LEN / SLOT).map(sum).collect()
}

fn main() {
    let ranks: Vec<Value> = (0..RANKS).map(|_| Value::from_vec_f32(vec![1.5; LEN])).collect();
    for threads in [1, 2] {
        let pool = Pool::new(threads);
        let time = || {
            let start = Instant::now();
            pool.force(&record(&ranks));
            start.elapsed()
        };
        let best = (0..9).map(|_| time()).min().expect("nine");
        println!("{threads} threads: {best:?}");
    }
}
