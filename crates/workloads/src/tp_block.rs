//! `tp-block`: a transformer block with its heads and weights spread over ranks, two all-reduces.
//!
//! The reference computes the first sequence without ranks, in f64. A result is right if it is bitwise equal on all
//! ranks and within `8 (ranks + 8)` roundings of the largest number of the reference: a norm and a softmax pass the
//! roundings before them on, several-fold.

use super::parameters::{Default, Parameter, ParameterKind, SEED, Settings};
use super::tp_ranks::{
    ACTIVATION, CHECKED, DTYPE, FFN, RANKS, SIDE, Source, activated, activation, check,
    check_capacity, compare, ffn, run as run_ranks,
};
use super::{Outcome, Setup, Workload, WorkloadError};
use crate::ParameterError;
use phalanx_torch::Rank;
use phalanx_torch::tp::{Activation, BlockOptions, Compute, Config, TransformerBlock};

pub(super) const WORKLOAD: Workload = Workload {
    name: "tp-block",
    summary: "a transformer block with its heads and weights spread over ranks",
    parameters: &[
        RANKS,
        Parameter {
            name: "hidden",
            help: "the features of a token",
            kind: SIDE,
            default: Default::Text("512"),
        },
        Parameter {
            name: "heads",
            help: "the heads of the attention, over all ranks (0: two a rank)",
            kind: ParameterKind::Count { least: 0, most: 1 << 16 },
            default: Default::Text("0"),
        },
        FFN,
        Parameter {
            name: "sequence",
            help: "the tokens of a sequence",
            kind: ParameterKind::Count { least: 1, most: 1 << 16 },
            default: Default::Text("128"),
        },
        Parameter {
            name: "batch",
            help: "how many sequences",
            kind: ParameterKind::Count { least: 1, most: 1 << 16 },
            default: Default::Text("1"),
        },
        Parameter {
            name: "causal",
            help: "whether a token sees only itself and those before it",
            kind: ParameterKind::Word(&["no", "yes"]),
            default: Default::Text("no"),
        },
        ACTIVATION,
        DTYPE,
        CHECKED,
        SEED,
    ],
    knobs: &["ranks"],
    one_sip: false,
    run,
};

#[derive(Clone, Copy, Debug)]
struct Problem {
    hidden: usize,
    heads: usize,
    ffn: usize,
    sequence: usize,
    batch: usize,
    causal: bool,
    activation: Activation,
    source: Source,
}

fn run(setup: Setup, settings: &Settings) -> Result<Outcome, WorkloadError> {
    let (ranks, hidden, ffn) = (settings.size("ranks"), settings.size("hidden"), ffn(settings));
    let heads = match settings.size("heads") {
        0 => 2 * ranks,
        heads => heads,
    };
    check(&setup.machine, settings, &[("hidden", hidden), ("heads", heads), ("ffn", ffn)])?;
    if !hidden.is_multiple_of(heads) {
        let message = format!("parameter `hidden`: {hidden} is not divisible by {heads} heads");
        let help = format!("allowed: multiples of {heads}");
        return Err(ParameterError::new(message, help).into());
    }
    let problem = Problem {
        hidden,
        heads,
        ffn,
        sequence: settings.size("sequence"),
        batch: settings.size("batch"),
        causal: settings.word("causal") == "yes",
        activation: activation(settings),
        source: Source { seed: settings.count("seed"), dtype: settings.dtype("dtype") },
    };
    problem.check_capacity(&setup, ranks)?;
    let (outcome, output) = run_ranks(setup, ranks, move |cx: &Rank| problem.forward(cx))?;
    let Some(output) = output else { return Ok(outcome) };
    let checked = settings.size("checked").min(problem.sequence);
    let want = problem.reference(checked);
    let tolerance = problem.source.tolerance(&want, 8 * (ranks + 8));
    let row = problem.batch * hidden;
    let got: Vec<f32> =
        output.chunks_exact(row).take(checked).flat_map(|row| row[..hidden].to_vec()).collect();
    Ok(compare(outcome, &got, &want, tolerance))
}

impl Problem {
    fn forward(&self, cx: &Rank) -> Result<phalanx_torch::Tensor, phalanx_torch::Error> {
        let Self { hidden, heads, ffn, sequence, batch, source, .. } = *self;
        let options = BlockOptions {
            causal: self.causal,
            activation: self.activation,
            init: [
                source.init(1, hidden),
                source.init(2, hidden),
                source.init(3, hidden),
                source.init(4, ffn),
            ],
            config: Config { dtype: source.dtype, ..Config::default() },
            ..BlockOptions::new(heads, ffn)
        };
        let block = TransformerBlock::new(cx, hidden, &options)?;
        let placed = cx.placed(Compute::all(cx).activations());
        let shape = [sequence, batch, hidden];
        let x = placed.resident(shape, source.dtype, |index| source.input(index))?;
        block.forward(&x)
    }

    fn check_capacity(&self, setup: &Setup, ranks: usize) -> Result<(), WorkloadError> {
        let Self { hidden, heads, ffn, sequence, batch, source, .. } = *self;
        let (x, part) = (sequence * batch * hidden, sequence * batch * hidden / ranks);
        let inner = sequence * batch * (ffn / ranks);
        let scores = (batch * heads / ranks).saturating_mul(sequence * sequence);
        let activations = [x, x, 3 * part, scores, part, x, x, x, inner, x, x];
        let [narrow, wide] = [hidden * hidden / ranks, hidden * ffn / ranks];
        check_capacity(setup, ranks, source.dtype, &activations, &[3 * narrow, narrow, wide, wide])
    }

    /// The first tokens of the first sequence, without ranks.
    fn reference(&self, tokens: usize) -> Vec<f64> {
        let Self { hidden, ffn, sequence, batch, source, .. } = *self;
        let x: Vec<f64> = (0..sequence * hidden)
            .map(|index| {
                let (row, column) = (index / hidden, index % hidden);
                f64::from(source.input(row * batch * hidden + column))
            })
            .collect();
        let mixed = source.linear(&norm(&x, hidden), 1, [3 * hidden, hidden]);
        let attended = source.linear(&self.attention(&mixed, tokens), 2, [hidden, hidden]);
        let x: Vec<f64> = x.iter().zip(&attended).map(|(a, b)| a + b).collect();
        let inner = source.linear(&norm(&x, hidden), 3, [ffn, hidden]);
        let inner: Vec<f64> = inner.iter().map(|x| activated(self.activation, *x)).collect();
        let inner = source.linear(&inner, 4, [hidden, ffn]);
        x.iter().zip(&inner).map(|(a, b)| a + b).collect()
    }

    /// The attention of the first tokens.
    fn attention(&self, mixed: &[f64], tokens: usize) -> Vec<f64> {
        let width = self.hidden / self.heads;
        let part = |token: usize, head: usize, part: usize| {
            let start = token * 3 * self.hidden + (head * 3 + part) * width;
            &mixed[start..start + width]
        };
        #[expect(clippy::cast_precision_loss, reason = "a number of features")]
        let scale = 1.0 / (width as f64).sqrt();
        let mut seen = Vec::with_capacity(tokens * self.hidden);
        for (token, head) in (0..tokens).flat_map(|t| (0..self.heads).map(move |h| (t, h))) {
            let others = if self.causal { token + 1 } else { self.sequence };
            let query = part(token, head, 0);
            let score = |other: usize| {
                let products = query.iter().zip(part(other, head, 1)).map(|(a, b)| a * b);
                (products.sum::<f64>() * scale).exp()
            };
            let weights: Vec<f64> = (0..others).map(score).collect();
            let sum: f64 = weights.iter().sum();
            let value = |column: usize| {
                let all = weights.iter().enumerate();
                all.map(|(other, weight)| weight * part(other, head, 2)[column]).sum::<f64>() / sum
            };
            seen.extend((0..width).map(value));
        }
        seen
    }
}

/// Every row with mean 0 and variance 1.
fn norm(x: &[f64], width: usize) -> Vec<f64> {
    #[expect(clippy::cast_precision_loss, reason = "a number of features")]
    let count = width as f64;
    x.chunks_exact(width)
        .flat_map(|row| {
            let mean = row.iter().sum::<f64>() / count;
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
            row.iter().map(move |x| (x - mean) / (variance + 1e-5).sqrt()).collect::<Vec<_>>()
        })
        .collect()
}
