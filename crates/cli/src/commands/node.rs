//! `phalanx node`: graphs over simulated chips, each a process of its own.
//!
//! - **NDE-1 (same anywhere).** Results and simulated times are the same with threads and with processes.

mod doctor;
mod list;
mod report;

use super::run::pair;
use crate::args::{NodeArgs, NodeCommand};
use crate::collisions::Named;
use crate::failure::{Failure, Kind};
use crate::output::Trace;
use crate::progress::Progress;
use crate::{collisions, machine, printer};
use phalanx_runtime::Isolation;
use phalanx_sim::config;
use phalanx_workloads::node::{self, Check, Setup, Workload};
use report::Finished;
use std::process::ExitCode;
use std::time::Instant;

pub(crate) fn node(args: &NodeArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        Some(NodeCommand::Doctor) => return doctor::doctor(args.json),
        Some(NodeCommand::List) | None if args.workload.is_none() => {
            let spec = machine::machine(&args.machine, &args.overrides)?;
            list::list(&spec, args.json)?;
            return Ok(ExitCode::SUCCESS);
        }
        _ => {}
    }
    let name = args.workload.as_deref().unwrap_or_default();
    let workload = node::find(name).ok_or_else(|| unknown(name))?;
    run(args, workload)
}

fn run(args: &NodeArgs, workload: &Workload) -> anyhow::Result<ExitCode> {
    let spec = machine::machine(&args.machine, &args.overrides)?;
    let given: Vec<(&str, &str)> =
        args.parameters.iter().map(|text| pair(text, "node")).collect::<Result<_, _>>()?;
    let settings = workload.settings(&spec, &given).map_err(Failure::from)?;
    let chips = workload.chips(&spec, args.chips).map_err(Failure::from)?;
    let trace = trace(args)?;
    let isolation = if args.threads { Isolation::Thread } else { Isolation::Process };
    let progress = Progress::start(workload.name);
    let setup = Setup {
        machine: &spec,
        chips,
        sub_workers: args.sub_workers,
        isolation,
        tell: &|doing| progress.tell(doing),
    };
    let begun = Instant::now();
    let outcome = workload.run(&setup, &settings).map_err(Failure::from)?;
    let wall = begun.elapsed();
    if let Some(trace) = trace {
        trace.fill(|writer| outcome.timeline.write(writer))?;
    }
    drop(progress);
    let sub_workers = args.sub_workers;
    let finished =
        Finished { workload, spec: &spec, settings, isolation, sub_workers, outcome, wall };
    if args.json {
        printer::json(&finished.json())?;
    } else {
        printer::data(&finished.text())?;
    }
    Ok(verdict(&finished.outcome.check))
}

/// The timeline that was asked for, which must not take the place of the machine file.
fn trace(args: &NodeArgs) -> Result<Option<Trace>, Failure> {
    let Some(path) = args.trace.as_deref() else { return Ok(None) };
    let inputs: Vec<Named> = machine::file(&args.machine).into_iter().collect();
    collisions::refuse(&inputs, &[Named::new("--trace", path)])?;
    Trace::prepare(path).map(Some)
}

/// The JSON, if that was wanted, has said so already.
fn verdict(check: &Check) -> ExitCode {
    let Some(first) = &check.first else { return ExitCode::SUCCESS };
    printer::failure(
        &Failure::new(Kind::WrongResult, format!("the result is wrong: {first}")),
        false,
    )
}

fn unknown(name: &str) -> Failure {
    let names = node::all().iter().map(|workload| workload.name).chain(["list", "doctor"]);
    let near = config::suggestion(name, names)
        .map_or_else(String::new, |near| format!("did you mean `{near}`? "));
    Failure::input(format!("no node workload named `{name}`"))
        .hint(format!("{near}`phalanx node list` lists them"))
}
