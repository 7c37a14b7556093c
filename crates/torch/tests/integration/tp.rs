//! Tensor parallelism: what layers over ranks promise.

mod layers;
mod mappings;
mod models;
mod reference;
mod state;

use crate::ranks::bare;
use phalanx_sim::value::{DType, Value};
use phalanx_torch::tp::{Init, ModelParallel, parallel_state};
use phalanx_torch::{Context, Error, Rank, distributed as dist, multiprocessing};
use std::rc::Rc;

/// Ring collectives through slots that hold a segment.
const RING: &str = "defaults: { algorithm: ring, slot_size: 1 MiB }";

/// Runs a program on `ranks` ranks of `bare` that share the tensors of layers.
fn parallel<T, P, F>(ranks: usize, program: P) -> Vec<T>
where
    T: 'static,
    P: Fn(usize, Rank) -> F + 'static,
    F: Future<Output = Result<T, Error>> + 'static,
{
    parallel_on(bare(ranks, RING), ranks, ranks, program)
}

/// The same on a context, with `tensor` ranks a group.
fn parallel_on<T, P, F>(mut context: Context, ranks: usize, tensor: usize, program: P) -> Vec<T>
where
    T: 'static,
    P: Fn(usize, Rank) -> F + 'static,
    F: Future<Output = Result<T, Error>> + 'static,
{
    let program = Rc::new(program);
    let results = multiprocessing::spawn(&mut context, ranks, move |rank, cx| {
        let program = program.clone();
        async move {
            dist::init_process_group(&cx)?;
            let sizes = ModelParallel { tensor, ..ModelParallel::default() };
            parallel_state::initialize_model_parallel(&cx, &sizes)?;
            program(rank, cx).await
        }
    });
    results.unwrap_or_else(|error| panic!("{error}"))
}

/// The text of what went wrong.
fn refusal<T>(result: Result<T, Error>) -> String {
    result.err().expect("an error").to_string()
}

/// Numbers between -1 and 1, a function of a stream and an index.
fn number(stream: usize, index: usize) -> f32 {
    let mixed = (index.wrapping_mul(2_654_435_761) ^ stream.wrapping_mul(40_503)) % 2011;
    #[expect(clippy::cast_precision_loss, reason = "small")]
    let number = mixed as f32 / 1005.0 - 1.0;
    number
}

fn numbers(stream: usize, len: usize) -> Vec<f32> {
    rounded((0..len).map(|index| number(stream, index)).collect())
}

/// A master weight of such numbers.
fn init(stream: usize) -> Init {
    Init::Of(Rc::new(move |index| number(stream, index)))
}

/// Numbers as f16 holds them.
#[expect(clippy::needless_pass_by_value, reason = "for chains")]
fn rounded(numbers: Vec<f32>) -> Vec<f32> {
    Value::from_f32(DType::F16, &numbers).to_f32()
}
