//! Shared code of the workloads of tensor-parallel ranks.

use super::check::{Check, number};
use super::parameters::{Default, Parameter, ParameterKind, Settings};
use super::{Outcome, Ranks, Setup, WorkloadError, capacity};
use phalanx_sim::machine::Machine;
use phalanx_sim::memory::MemoryError;
use phalanx_sim::value::{DType, Value};
use phalanx_sim::{MachineSpec, Time};
use phalanx_torch::Context;
use phalanx_torch::Error;
use phalanx_torch::Rank;
use phalanx_torch::Tensor;
use phalanx_torch::distributed as dist;
use phalanx_torch::limits::ParameterError;
use phalanx_torch::multiprocessing::spawn;
use phalanx_torch::tp::{Activation, Init, ModelParallel, parallel_state};
use std::rc::Rc;

pub(super) const RANKS: Parameter = Parameter {
    name: "ranks",
    help: "how many ranks share the layers, one a SIP",
    kind: ParameterKind::Count { least: 1, most: 1 << 20 },
    default: Default::Machine(|machine| machine.devices().to_string()),
};

pub(super) const ACTIVATION: Parameter = Parameter {
    name: "activation",
    help: "none, relu or gelu, between the two layers of the MLP",
    kind: ParameterKind::Word(&["none", "relu", "gelu"]),
    default: Default::Text("gelu"),
};

pub(super) const DTYPE: Parameter = Parameter {
    name: "dtype",
    help: "the type of weights and activations; sums are f32",
    kind: ParameterKind::DType,
    default: Default::Text("f16"),
};

pub(super) const FFN: Parameter = Parameter {
    name: "ffn",
    help: "the features inside of the MLP (0: four times hidden)",
    kind: ParameterKind::Count { least: 0, most: 1 << 20 },
    default: Default::Text("0"),
};

pub(super) const CHECKED: Parameter = Parameter {
    name: "checked",
    help: "how many tokens are compared with the reference",
    kind: ParameterKind::Count { least: 1, most: 1 << 20 },
    default: Default::Text("8"),
};

/// A number of features or tokens.
pub(super) const SIDE: ParameterKind = ParameterKind::Count { least: 1, most: 1 << 20 };

/// The features inside of the MLP.
pub(super) fn ffn(settings: &Settings) -> usize {
    match settings.size("ffn") {
        0 => 4 * settings.size("hidden"),
        ffn => ffn,
    }
}

pub(super) fn activation(settings: &Settings) -> Activation {
    let word = settings.word("activation");
    Activation::ALL.into_iter().find(|one| one.name() == word).expect("checked")
}

/// Refuses more ranks than SIPs, sizes that ranks cannot share, and types other than floats.
pub(super) fn check(
    machine: &MachineSpec,
    settings: &Settings,
    shared: &[(&str, usize)],
) -> Result<(), ParameterError> {
    let (ranks, sips) = (settings.size("ranks"), machine.devices());
    if ranks > sips as usize {
        let message = format!("parameter `ranks`: `{}` has no {ranks} SIPs", machine.name);
        return Err(ParameterError::new(message, format!("allowed: 1 to {sips}")));
    }
    if settings.dtype("dtype") == DType::I32 {
        return Err(ParameterError::new(
            "parameter `dtype`: layers compute with floats",
            "allowed: f32, f16, bf16",
        ));
    }
    match shared.iter().find(|(_, size)| !size.is_multiple_of(ranks)) {
        None => Ok(()),
        Some((name, size)) => Err(ParameterError::new(
            format!("parameter `{name}`: {size} is not divisible by {ranks}, the number of ranks"),
            format!("allowed: multiples of {ranks}"),
        )),
    }
}

/// Refuses tensors that do not fit: on every rank `activations`, a copy in each cube, and `weights`, spread over cubes; all
/// in elements.
pub(super) fn check_capacity(
    setup: &Setup,
    ranks: usize,
    dtype: DType,
    activations: &[usize],
    weights: &[usize],
) -> Result<(), WorkloadError> {
    let machine = Machine::new(setup.machine.clone(), setup.options.clone());
    let cubes = setup.machine.cubes.count();
    let parts = weights.iter().map(|weight| weight.div_ceil(cubes as usize));
    let of_cube: Vec<usize> = activations.iter().copied().chain(parts).collect();
    let sips = u32::try_from(ranks).expect("no more than SIPs");
    let places = (0..sips).flat_map(|sip| (0..cubes).map(move |cube| (sip, cube)));
    let tensors = places.flat_map(|(sip, cube)| {
        let cube = u16::try_from(cube).expect("a cube");
        let tensor = move |elements: &usize| capacity::PlannedTensor {
            sip,
            cube,
            dtype,
            elements: *elements,
        };
        of_cube.iter().map(tensor).collect::<Vec<_>>()
    });
    // On this host one of each for every rank, and the largest once more in f32.
    let numbers = || {
        let all = activations.iter().chain(weights);
        let each = all.clone().fold(0, |sum: usize, elements| sum.saturating_add(*elements));
        let largest = all.max().copied().unwrap_or(0);
        let of_rank =
            capacity::bytes(each, dtype.size() as u64).saturating_add(capacity::bytes(largest, 4));
        of_rank.saturating_mul(ranks as u64)
    };
    capacity::check(&machine, tensors, setup.options.data.then(numbers))
}

/// The result of a rank.
struct Done {
    finished: Time,
    algorithm: Option<String>,
    /// The output, kept alive so that its numbers can be read after the run, outside simulated time.
    output: Tensor,
}

/// Runs `forward` on every rank; returns the outcome and the first rank's output.
pub(super) fn run<F>(
    setup: Setup,
    ranks: usize,
    forward: F,
) -> Result<(Outcome, Option<Vec<f32>>), WorkloadError>
where
    F: Fn(&Rank) -> Result<Tensor, Error> + 'static,
{
    let Setup { machine, options, ccl } = setup;
    let evaluator = options.evaluator.clone();
    let mut context = Context::new(machine, options).with_ccl(ccl);
    let forward = Rc::new(forward);
    let done = spawn(&mut context, ranks, move |_, cx| {
        let forward = forward.clone();
        async move {
            let world = dist::init_process_group(&cx)?;
            parallel_state::initialize_model_parallel(&cx, &ModelParallel::new(ranks, 1))?;
            let output = forward(&cx)?;
            output.ready().await?;
            let finished = cx.now();
            let asked = cx.rank() == 0 && ranks > 1;
            let algorithm =
                if asked { Some(dist::all_reduce_plan(&cx, &world, &output)?.name) } else { None };
            Ok(Done { finished, algorithm, output })
        }
    })?;
    let mut own: Vec<Result<Value, MemoryError>> = Vec::new();
    for shard in done.iter().flat_map(|rank| rank.output.shards()) {
        own.extend(context.machine().read(&shard.region).transpose());
    }
    let outputs: Vec<Value> = context.gather(own).into_iter().collect::<Result<_, _>>()?;
    let ends = done.iter().map(|rank| (rank.finished, rank.algorithm.clone()));
    let ends = context.gather(ends.collect());
    let pending: Vec<Value> = outputs.iter().flat_map(Value::pending_parts).collect();
    evaluator.force(&pending);
    let first = outputs.first().map(Value::to_f32);
    let bits = |value: &Value| value.to_f32().into_iter().map(f32::to_bits).collect::<Vec<u32>>();
    let same = outputs.windows(2).all(|pair| bits(&pair[0]) == bits(&pair[1]));
    let algorithm = ends[0].1.clone().unwrap_or_else(|| "none".to_owned());
    let finished = ends.iter().map(|(finished, _)| *finished).collect();
    let report = context.report();
    let check = first.as_ref().map(|_| Check { correct: same, ..Check::EMPTY });
    let shown = Ranks { algorithm, bandwidth: None, finished };
    Ok((Outcome { report, check, ranks: Some(shown) }, first))
}

/// The source of a workload's input numbers and weights.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    pub(super) seed: u64,
    pub(super) dtype: DType,
}

impl Source {
    /// Number `index` of the input: multiples of 1/4 up to 3/4.
    pub(super) fn input(&self, index: usize) -> f32 {
        number(self.seed, 0, index as u64, 3) / 4.0
    }

    /// Element `index` of a weight of `columns` columns: up to three times the power of two at or above the inverse of
    /// the root of `columns`, so that results stay near the size of inputs and every type holds it.
    pub(super) fn weight(&self, stream: u64, columns: usize, index: usize) -> f32 {
        let exponent = columns.max(1).ilog2() / 2 + 1;
        number(self.seed, stream, index as u64, 3) / f32::from(1_u16 << exponent.min(15))
    }

    /// A whole weight, as a layer takes it.
    pub(super) fn init(self, stream: u64, columns: usize) -> Init {
        Init::Of(Rc::new(move |index| self.weight(stream, columns, index)))
    }

    /// A number as the type holds it.
    pub(super) fn round(&self, numbers: &[f64]) -> Vec<f64> {
        #[expect(clippy::cast_possible_truncation, reason = "rounded on to the type")]
        let single: Vec<f32> = numbers.iter().map(|number| *number as f32).collect();
        let rounded = Value::from_f32(self.dtype, &single).to_f32();
        rounded.into_iter().map(f64::from).collect()
    }

    /// The rows of `x` (`columns` each) by the transpose of weight `stream` (`features` rows), in f64.
    pub(super) fn linear(
        &self,
        x: &[f64],
        stream: u64,
        [features, columns]: [usize; 2],
    ) -> Vec<f64> {
        let rows = x.len() / columns;
        let mut product = vec![0.0; rows * features];
        for feature in 0..features {
            let weight: Vec<f64> = (0..columns)
                .map(|column| f64::from(self.weight(stream, columns, feature * columns + column)))
                .collect();
            for (row, line) in x.chunks_exact(columns).enumerate() {
                product[row * features + feature] =
                    line.iter().zip(&weight).map(|(a, b)| a * b).sum();
            }
        }
        product
    }

    /// The tolerance of a result: `units` times the rounding of the largest number of the reference.
    pub(super) fn tolerance(&self, reference: &[f64], units: usize) -> f64 {
        let largest = reference.iter().fold(0.0_f64, |most, number| most.max(number.abs()));
        let rounding = match self.dtype {
            DType::F16 => 1.0 / 2048.0,
            DType::Bf16 => 1.0 / 256.0,
            // Sums of thousands in f32 are off by some units themselves.
            _ => 1.0 / 1_048_576.0,
        };
        #[expect(clippy::cast_precision_loss, reason = "few")]
        let units = units as f64;
        units * rounding * largest
    }
}

/// An activation in f64.
pub(super) fn activated(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::None => x,
        Activation::Relu => x.max(0.0),
        Activation::Gelu => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
            0.5 * x * (1.0 + inner.tanh())
        }
    }
}

/// Adds a comparison with a reference to an outcome.
pub(super) fn compare(outcome: Outcome, got: &[f32], want: &[f64], tolerance: f64) -> Outcome {
    #[expect(clippy::cast_possible_truncation, reason = "compared with a tolerance")]
    let want = want.iter().map(|number| *number as f32);
    let check = outcome.check.map(|check| check.and_within(got, want, tolerance));
    Outcome { check, ..outcome }
}
