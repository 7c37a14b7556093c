//! `all-reduce`: a program of ranks that combines a vector, by any algorithm.

use super::capacity::{self, PlannedTensor};
use super::check::{Check, number};
use super::parameters::{Default, Parameter, ParameterKind, SEED, Settings};
use super::{Outcome, Ranks, Setup, Workload, WorkloadError};
use phalanx_sim::config;
use phalanx_sim::value::DType;
use phalanx_sim::{MachineSpec, Time};
use phalanx_torch::Context;
use phalanx_torch::DpPolicy;
use phalanx_torch::Error;
use phalanx_torch::Rank;
use phalanx_torch::ccl::sweep::{bandwidth, bus_factor};
use phalanx_torch::ccl::{Algorithm, Operation, Plan, ReduceOp};
use phalanx_torch::distributed;
use phalanx_torch::limits::{MOST_BYTES, ParameterError};
use phalanx_torch::multiprocessing::spawn;
use std::rc::Rc;

pub(super) const WORKLOAD: Workload = Workload {
    name: "all-reduce",
    summary: "ranks that sum a vector with `distributed::all_reduce`, by any algorithm",
    parameters: &[
        Parameter {
            name: "bytes",
            help: "the size of each rank's vector",
            kind: ParameterKind::Bytes { least: 4, most: MOST_BYTES, multiple: 4 },
            default: Default::Text("1 MiB"),
        },
        Parameter {
            name: "dtype",
            help: "the type of its elements",
            kind: ParameterKind::DType,
            default: Default::Text("f32"),
        },
        Parameter {
            name: "op",
            help: "how elements are combined",
            kind: ParameterKind::Word(&["sum", "prod", "min", "max"]),
            default: Default::Text("sum"),
        },
        Parameter {
            name: "algorithm",
            help: "a name of `ccl.yaml`, a built-in algorithm, or `auto` for the fastest",
            kind: ParameterKind::Name,
            default: Default::Text("auto"),
        },
        Parameter {
            name: "ranks",
            help: "how many ranks take part, from SIP 0 on",
            kind: ParameterKind::Count { least: 1, most: 1 << 16 },
            default: Default::Machine(|machine| machine.devices().to_string()),
        },
        SEED,
    ],
    knobs: &["algorithm"],
    one_sip: false,
    run,
};

/// The work of every rank.
struct Job {
    elements: usize,
    dtype: DType,
    combine: ReduceOp,
    plan: Option<Plan>,
    seed: u64,
    data: bool,
}

/// Inputs are whole numbers up to this, so that sums are exact in eight bits.
const SPAN: u16 = 2;

fn run(setup: Setup, settings: &Settings) -> Result<Outcome, WorkloadError> {
    let Setup { machine, options, ccl } = setup;
    let (ranks, data) = (settings.size("ranks"), options.data);
    check_ranks(&machine, ranks)?;
    let plan = plan(settings.word("algorithm"), &ccl, &machine, ranks)?;
    let dtype = settings.dtype("dtype");
    let job = Job {
        elements: settings.size("bytes") / dtype.size(),
        dtype,
        combine: combine(settings.word("op")),
        plan,
        seed: settings.count("seed"),
        data,
    };
    let mut context = Context::new(machine, options).with_ccl(ccl);
    let vector = |sip| PlannedTensor { sip, cube: 0, dtype, elements: job.elements };
    let sips = 0..u32::try_from(ranks).expect("no more than SIPs");
    // Inputs and results of every rank, as made and as compared.
    let needed = capacity::bytes(4 * ranks, capacity::bytes(job.elements, 4));
    capacity::check(context.machine(), sips.map(vector), data.then_some(needed))?;
    execute(&mut context, &Rc::new(job), ranks)
}

fn execute(context: &mut Context, job: &Rc<Job>, ranks: usize) -> Result<Outcome, WorkloadError> {
    let own = job.clone();
    let results = spawn(context, ranks, move |rank, cx| {
        let job = own.clone();
        async move { job.rank(rank, &cx).await }
    })?;
    let results = context.gather(results);
    let report = context.report();
    let took = results.iter().map(|result| result.took).max().unwrap_or_default();
    let algbw = bandwidth((job.elements * job.dtype.size()) as u64, took);
    let algorithm = results.first().map(|result| result.algorithm.clone()).unwrap_or_default();
    let finished = results.iter().map(|result| result.finished).collect();
    let busbw = algbw * bus_factor(Operation::AllReduce, ranks);
    let check = job.data.then(|| {
        let expected = job.expected(ranks);
        results.iter().fold(Check::EMPTY, |check, result| {
            check.and(&result.numbers, expected.iter().copied())
        })
    });
    let ranks = Ranks { algorithm, bandwidth: Some((algbw, busbw)), finished };
    Ok(Outcome { report, check, ranks: Some(ranks) })
}

/// The result of a rank.
#[derive(Clone)]
struct Done {
    took: Time,
    finished: Time,
    algorithm: String,
    numbers: Vec<f32>,
}

phalanx_sim::portable!(struct Done { took, finished, algorithm, numbers });

impl Job {
    async fn rank(&self, rank: usize, cx: &Rank) -> Result<Done, Error> {
        let world = distributed::init_process_group(cx)?;
        // Written over the host link also without data: the time is the same.
        let tensor =
            cx.placed(DpPolicy::default())
                .from_fn([self.elements], self.dtype, |index| self.number(rank, index))?;
        tensor.ready().await?;
        let plan = match &self.plan {
            Some(plan) => plan.clone(),
            None => distributed::all_reduce_plan(cx, &world, &tensor)?,
        };
        let start = cx.now();
        let algorithm = plan.name.clone();
        distributed::all_reduce_by(cx, &world, &tensor, self.combine, plan)?.wait().await?;
        let finished = cx.now();
        let numbers = if self.data { tensor.to_vec().await? } else { Vec::new() };
        Ok(Done { took: finished - start, finished, algorithm, numbers })
    }

    fn number(&self, rank: usize, index: usize) -> f32 {
        let number = number(self.seed, rank as u64, index as u64, SPAN);
        // Products of ones stay exact.
        match self.combine {
            ReduceOp::Product if number < 0.0 => -1.0,
            ReduceOp::Product => 1.0,
            _ => number,
        }
    }

    fn expected(&self, ranks: usize) -> Vec<f32> {
        let binary = self.combine.binary();
        let all = |index: usize| {
            let numbers = (0..ranks).map(|rank| self.number(rank, index));
            numbers.reduce(|one, other| binary.apply(one, other)).unwrap_or_default()
        };
        (0..self.elements).map(all).collect()
    }
}

fn combine(word: &str) -> ReduceOp {
    let named = ReduceOp::ALL.into_iter().find(|combine| combine.name() == word);
    named.expect("WKL-1: one of its words")
}

fn check_ranks(machine: &MachineSpec, ranks: usize) -> Result<(), ParameterError> {
    let most = machine.devices() as usize;
    if ranks <= most {
        return Ok(());
    }
    let message = format!("parameter `ranks`: `{}` has no {ranks} SIPs", machine.name);
    Err(ParameterError::new(message, format!("allowed: 1 to {most}; `--set system.sips.count=N`")))
}

/// The plan of a name; `None` for the configured choice.
fn plan(
    name: &str,
    ccl: &phalanx_torch::ccl::CclConfig,
    machine: &MachineSpec,
    ranks: usize,
) -> Result<Option<Plan>, ParameterError> {
    if name == "auto" {
        return Ok(None);
    }
    let names = Algorithm::names();
    let Some(plan) = ccl.plan(name, &names) else {
        let plans = ccl.plans(&names);
        let known: Vec<&str> = plans.iter().map(|plan| plan.name.as_str()).collect();
        let near = config::suggestion(name, known.iter().copied());
        let near = near.map_or_else(String::new, |near| format!("did you mean `{near}`? "));
        let message = format!("parameter `algorithm`: there is no `{name}`");
        return Err(ParameterError::new(
            message,
            format!("{near}allowed: auto, {}", known.join(", ")),
        ));
    };
    let members: Vec<u32> = (0..u32::try_from(ranks).unwrap_or(u32::MAX)).collect();
    plan.check(Operation::AllReduce, machine, &members).map_err(|reason| {
        ParameterError::new(format!("parameter `algorithm`: `{name}` cannot run here"), reason)
    })?;
    Ok(Some(plan))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_of_ones() {
        let job = Job {
            elements: 64,
            dtype: DType::F16,
            combine: ReduceOp::Product,
            plan: None,
            seed: 1,
            data: true,
        };
        assert!((0..64).all(|index| [-1.0, 1.0].contains(&job.number(3, index))));
    }
}
