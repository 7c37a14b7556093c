//! `phalanx ccl`: a collective over sizes and algorithms.

use super::run::agreed;
use crate::args::CclArgs;
use crate::failure::{Failure, Kind};
use crate::processes::Team;
use crate::progress::Progress;
use crate::report::sweep::{Heading, Table};
use crate::{collectives, machine, printer};
use phalanx_sim::config::suggestion;
use phalanx_sim::machine::Options;
use phalanx_sim::units;
use phalanx_sim::value::DType;
use phalanx_torch::Pool;
use phalanx_torch::ccl::sweep::{Measured, Sweep};
use phalanx_torch::ccl::{Algorithm, CclConfig, Choice, Operation, Plan, ReduceOp};
use phalanx_torch::multiprocessing::SpawnError;
use phalanx_workloads::WorkloadError;
use std::process::ExitCode;
use std::sync::Arc;

pub(crate) fn ccl(args: &CclArgs, team: &Team) -> anyhow::Result<ExitCode> {
    let sweep = sweep(args)?;
    team.agree(&agreed(&sweep.machine, &sweep.ccl))?;
    let mut plans = plans(args, &sweep)?;
    let sizes = sizes(args, &sweep, &plans)?;
    sweep.check_room(sizes.last().copied().unwrap_or(0)).map_err(|error| {
        Failure::new(Kind::Parameter, error.message)
            .hint("without `--check` the times are the same")
    })?;
    let table = Table::new(Heading { sweep: &sweep, sizes: &sizes, check: args.check });
    if !args.json {
        printer::data(&table.heading())?;
    }
    let mut rows: Vec<Measured> = Vec::new();
    for &bytes in &sizes {
        for plan in plans.chosen.clone() {
            let progress = Progress::start(&format!("{} of {bytes} bytes", sweep.operation));
            // Without numbers a row is a trial, in which one SIP may stand for all.
            let sips = if args.check { sweep.machine.devices() } else { 1 };
            let layout = team.layout(args.shards, sips);
            let measured = sweep.measure_on(&layout, bytes, plan.as_ref());
            drop(progress);
            let row = match measured {
                Ok(row) => row,
                // A comparison of several plans leaves a failing one out.
                Err(error) if plans.chosen.len() > 1 => {
                    plans.leave_out(plan, bytes, &error);
                    continue;
                }
                Err(error) => return Err(Failure::from(WorkloadError::Spawn(error)).into()),
            };
            if !args.json {
                printer::data(&table.row(&row))?;
            }
            rows.push(row);
        }
    }
    if args.json {
        printer::json(&Table::json(&rows))?;
    } else {
        printer::data(&table.ending(&rows, &plans.unfit, plans.chosen.len() > 1))?;
    }
    let wrong: u64 = rows.iter().map(Table::wrong_in).sum();
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { wrong_result(wrong) })
}

fn wrong_result(wrong: u64) -> ExitCode {
    let message = format!("{wrong} elements are wrong");
    printer::failure(&Failure::new(Kind::WrongResult, message), false)
}

fn sweep(args: &CclArgs) -> Result<Sweep, Failure> {
    let machine = machine::machine(&args.machine, &args.overrides)?;
    let operations = Operation::ALL.map(Operation::name);
    let operation = Operation::ALL
        .into_iter()
        .find(|operation| operation.name() == args.operation.replace('-', "_"))
        .ok_or_else(|| unknown("collective", &args.operation, &operations))?;
    let combine = ReduceOp::ALL
        .into_iter()
        .find(|combine| combine.name() == args.combine)
        .ok_or_else(|| unknown("reduction", &args.combine, &ReduceOp::ALL.map(ReduceOp::name)))?;
    let dtype = dtype(&args.dtype)?;
    if operation.combines() && combine == ReduceOp::Avg && dtype == DType::I32 {
        return Err(Failure::new(Kind::Parameter, "an average of i32 is no i32")
            .hint("use another type (`-d f32`) or another reduction (`-o sum`)"));
    }
    let evaluator = Arc::new(Pool::new(super::run::cores()));
    let options = Options { data: args.check, evaluator, ..Options::default() };
    let mut ccl = collectives::config(args.ccl.as_deref())?;
    if let Some(channels) = args.channels {
        ccl = ccl.with_channels(channels);
    }
    Ok(Sweep { machine, options, ccl, operation, combine, dtype, ranks: None })
}

/// A type by its own name, or as nccl-tests calls it.
pub(crate) fn dtype(name: &str) -> Result<DType, Failure> {
    let own = match name {
        "float" => "f32",
        "half" => "f16",
        "bfloat16" => "bf16",
        "int32" => "i32",
        other => other,
    };
    let measured = [DType::F32, DType::F16, DType::Bf16, DType::I32];
    let found = measured.into_iter().find(|dtype| dtype.name() == own);
    found.ok_or_else(|| unknown("type", name, &measured.map(DType::name)))
}

/// The plans to measure, and the names of plans that cannot run, with the reason.
struct Plans {
    /// `None` is the configured choice, or the fastest.
    chosen: Vec<Option<Plan>>,
    unfit: Vec<(String, String)>,
}

impl Plans {
    /// A plan has failed at this size: it is not measured any more.
    fn leave_out(&mut self, failed: Option<Plan>, bytes: u64, error: &SpawnError) {
        self.chosen.retain(|plan| *plan != failed);
        let text =
            error.errors.values().next().map_or_else(|| error.to_string(), ToString::to_string);
        let name = failed.map_or_else(|| "auto".to_owned(), |plan| plan.name);
        self.unfit.push((name, format!("at {bytes} bytes: {}", text.replace('\n', " "))));
    }
}

fn plans(args: &CclArgs, sweep: &Sweep) -> Result<Plans, Failure> {
    let names = Algorithm::names();
    let configured = match sweep.ccl.default_choice() {
        Choice::Auto => "auto".to_owned(),
        Choice::Named(name) => name,
    };
    let one = |plan| Ok(Plans { chosen: vec![plan], unfit: Vec::new() });
    match args.algorithm.as_deref().unwrap_or(&configured) {
        "auto" => one(None),
        "all" => all(sweep, &names),
        name => {
            let all = sweep.ccl.plans(&names);
            let known: Vec<&str> = all.iter().map(|plan| plan.name.as_str()).collect();
            let plan = sweep.ccl.plan(name, &names);
            let plan = plan.ok_or_else(|| unknown("algorithm", name, &known))?;
            sweep.fits(&plan).map_err(|reason| unfit(&sweep.ccl, &plan, &reason))?;
            one(Some(plan))
        }
    }
}

/// Every plan that can do the operation, and why the others that fit it cannot.
fn all(sweep: &Sweep, names: &[&str]) -> Result<Plans, Failure> {
    let mut plans = Plans { chosen: Vec::new(), unfit: Vec::new() };
    for plan in sweep.ccl.plans(names) {
        match sweep.fits(&plan) {
            Ok(()) => plans.chosen.push(Some(plan)),
            Err(reason) => plans.unfit.push((plan.name, reason)),
        }
    }
    if plans.chosen.is_empty() {
        return Err(Failure::input(format!("no algorithm can do {} here", sweep.operation)));
    }
    Ok(plans)
}

fn unfit(ccl: &CclConfig, plan: &Plan, reason: &str) -> Failure {
    match ccl.unfit(plan, reason) {
        Some(errors) => Failure::ccl(errors),
        None => Failure::input(format!("algorithm `{}`: {reason}", plan.name))
            .hint("`-a all` measures those that fit"),
    }
}

/// The sizes from the least to the most.
fn sizes(args: &CclArgs, sweep: &Sweep, plans: &Plans) -> Result<Vec<u64>, Failure> {
    let element = sweep.dtype.size() as u64;
    let own = match &*plans.chosen {
        [Some(plan)] => plan.n_elem.map(|elements| elements as u64 * element),
        _ => None,
    };
    let given = |text: &Option<String>, default: u64| {
        text.as_deref().map_or(Ok(own.unwrap_or(default)), size)
    };
    let (least, most) = (given(&args.least, 1 << 10)?, given(&args.most, 64 << 20)?);
    let bad = |message: String, hint: &str| Err(Failure::new(Kind::Parameter, message).hint(hint));
    if least < element || least > most || most > MOST {
        let message = format!("sizes from {least} to {most} bytes cannot be measured");
        let hint = format!("allowed: {element} <= -b <= -e <= {MOST}");
        return bad(message, &hint);
    }
    let step = args.step.as_deref().map(size).transpose()?;
    if step == Some(0) || args.factor.is_some_and(|factor| factor < 2) {
        return bad("a step must lead on".into(), "allowed: `-f 2` or more, `-i 1` or more");
    }
    let next = |bytes: &u64| match step {
        Some(step) => bytes.checked_add(step),
        None => bytes.checked_mul(args.factor.unwrap_or(2)),
    };
    let sizes: Vec<u64> = std::iter::successors(Some(least), next)
        .take_while(|bytes| *bytes <= most)
        .take(ROWS + 1)
        .collect();
    if sizes.len() > ROWS {
        return bad(format!("more than {ROWS} sizes"), "a larger step makes fewer of them");
    }
    Ok(sizes)
}

/// No collective is larger.
const MOST: u64 = 1 << 40;
/// No table is longer.
const ROWS: usize = 10_000;

/// `1K`, `64M`, `2G` as nccl-tests has them, or with a unit, or plain bytes.
fn size(text: &str) -> Result<u64, Failure> {
    let text = text.trim();
    let scaled = text.char_indices().last().and_then(|(at, last)| {
        let shift = match last.to_ascii_uppercase() {
            'K' => 10,
            'M' => 20,
            'G' => 30,
            _ => return None,
        };
        text[..at].trim().parse::<u64>().ok()?.checked_mul(1 << shift)
    });
    let plain = || units::parse_bytes(text).map(|bytes| bytes.0);
    scaled.map_or_else(plain, Ok).map_err(|error| {
        let failure = Failure::new(Kind::Parameter, error.to_string());
        failure.hint("a size is `4096`, `64K`, `2M`, `1G` or `4 MiB`")
    })
}

pub(crate) fn unknown(what: &str, name: &str, known: &[&str]) -> Failure {
    let near = suggestion(name, known.iter().copied())
        .map_or_else(String::new, |near| format!("did you mean `{near}`? "));
    Failure::input(format!("no {what} named `{name}`"))
        .hint(format!("{near}there are {}", known.join(", ")))
}
