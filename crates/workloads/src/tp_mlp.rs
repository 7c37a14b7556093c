//! `tp-mlp`: a two-layer perceptron with its weights spread over ranks, one all-reduce for both layers.
//!
//! The reference computes some tokens without ranks, in f64, and rounds the inner activations. A result is right if it is
//! bitwise equal on all ranks and within `ranks + 8` roundings of the largest number of the reference: each rank's product is
//! rounded, and so is each sum of the all-reduce.

use super::parameters::{Default, Parameter, SEED, Settings};
use super::tp_ranks::{
    ACTIVATION, CHECKED, DTYPE, FFN, RANKS, SIDE, Source, activated, activation, check,
    check_capacity, compare, ffn, run as run_ranks,
};
use super::{Outcome, Setup, Workload, WorkloadError};
use phalanx_torch::Rank;
use phalanx_torch::tp::{Activation, Compute, Config, Mlp, MlpOptions};

pub(super) const WORKLOAD: Workload = Workload {
    name: "tp-mlp",
    summary: "a two-layer MLP with its weights spread over ranks (Megatron's way)",
    parameters: &[
        RANKS,
        Parameter {
            name: "hidden",
            help: "the features of a token",
            kind: SIDE,
            default: Default::Text("1024"),
        },
        FFN,
        Parameter {
            name: "tokens",
            help: "how many tokens",
            kind: SIDE,
            default: Default::Text("512"),
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
    ranks: usize,
    hidden: usize,
    ffn: usize,
    tokens: usize,
    activation: Activation,
    source: Source,
}

fn run(setup: Setup, settings: &Settings) -> Result<Outcome, WorkloadError> {
    let ffn = ffn(settings);
    check(&setup.machine, settings, &[("ffn", ffn)])?;
    let problem = Problem {
        ranks: settings.size("ranks"),
        hidden: settings.size("hidden"),
        ffn,
        tokens: settings.size("tokens"),
        activation: activation(settings),
        source: Source { seed: settings.count("seed"), dtype: settings.dtype("dtype") },
    };
    problem.check_capacity(&setup)?;
    let (outcome, output) = run_ranks(setup, problem.ranks, move |cx: &Rank| problem.forward(cx))?;
    let Some(output) = output else { return Ok(outcome) };
    let checked = settings.size("checked").min(problem.tokens);
    let want = problem.reference(checked);
    let tolerance = problem.source.tolerance(&want, problem.ranks + 8);
    Ok(compare(outcome, &output[..checked * problem.hidden], &want, tolerance))
}

impl Problem {
    fn forward(&self, cx: &Rank) -> Result<phalanx_torch::Tensor, phalanx_torch::Error> {
        let Self { hidden, ffn, tokens, activation, source, .. } = *self;
        let options = MlpOptions {
            activation,
            bias: true,
            init: [source.init(1, hidden), source.init(2, ffn)],
            config: Config { dtype: source.dtype, ..Config::default() },
        };
        let mlp = Mlp::new(cx, hidden, ffn, &options)?;
        let placed = cx.placed(Compute::all(cx).activations());
        let x = placed.resident([tokens, hidden], source.dtype, |index| source.input(index))?;
        mlp.forward(&x)
    }

    fn check_capacity(&self, setup: &Setup) -> Result<(), WorkloadError> {
        let Self { ranks, hidden, ffn, tokens, source, .. } = *self;
        let inner = ffn / ranks;
        let activations = [tokens * hidden, tokens * inner, tokens * hidden];
        check_capacity(setup, ranks, source.dtype, &activations, &[hidden * inner, hidden * inner])
    }

    /// The first tokens, without ranks.
    fn reference(&self, tokens: usize) -> Vec<f64> {
        let Self { hidden, ffn, activation, source, .. } = *self;
        let x: Vec<f64> =
            (0..tokens * hidden).map(|index| f64::from(source.input(index))).collect();
        let x = source.round(&x);
        let inner = source.round(&source.linear(&x, 1, [ffn, hidden]));
        let inner: Vec<f64> = inner.into_iter().map(|x| activated(activation, x)).collect();
        source.linear(&source.round(&inner), 2, [hidden, ffn])
    }
}
