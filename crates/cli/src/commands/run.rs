//! `phalanx run`: a workload on a machine, and its report.

use super::workloads;
use crate::args::{RunArgs, Switch};
use crate::failure::{Failure, Kind};
use crate::output::Outputs;
use crate::processes::Team;
use crate::progress::Progress;
use crate::report::Finished;
use crate::{collectives, machine, printer};
use phalanx_sim::MachineSpec;
use phalanx_sim::machine::Options;
use phalanx_sim::names::Names;
use phalanx_sim::report::RangeError;
use phalanx_torch::Pool;
use phalanx_torch::ccl::CclConfig;
use phalanx_workloads::{self as workload, Settings, Setup, Workload};
use std::num::NonZero;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

pub(crate) fn run(args: &RunArgs, team: &Team) -> anyhow::Result<ExitCode> {
    let spec = machine::machine(&args.machine, &args.overrides)?;
    let Some(name) = &args.workload else {
        workloads::list(&spec, args.json)?;
        return Ok(ExitCode::SUCCESS);
    };
    let workload = workload::find(name).ok_or_else(|| unknown(name))?;
    let settings = settings(workload, &spec, &args.parameters)?;
    let outputs = team.is_first().then(|| Outputs::prepare(args)).transpose()?;
    let ccl = collectives::config(args.ccl.as_deref())?;
    team.agree(&agreed(&spec, &ccl))?;
    let Some(outputs) = outputs else {
        let record = args.trace.is_some() || args.op_log.is_some() || args.range.is_some();
        let setup = Setup { machine: spec, options: options(args, record), ccl };
        return share(args, team, workload, &setup, &settings);
    };
    let finished = execute(args, team, workload, &spec, ccl, settings, &outputs)?;
    print(args, &finished, &outputs)?;
    Ok(finished.outcome.check.map_or(ExitCode::SUCCESS, |check| {
        if check.correct { ExitCode::SUCCESS } else { wrong(check.max_abs_error) }
    }))
}

/// The settings that all processes of one run must share (MPI-3).
pub(super) fn agreed(spec: &MachineSpec, ccl: &CclConfig) -> [(&'static str, String); 4] {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let endian = if cfg!(target_endian = "big") { "big" } else { "little" };
    [
        ("another version of this program", format!("{} {endian}", env!("CARGO_PKG_VERSION"))),
        ("other arguments", format!("{arguments:?}")),
        ("another machine", format!("{spec:?}")),
        ("another configuration of collectives", format!("{ccl:?}")),
    ]
}

/// Runs the part of a process that is not the first, which prints and writes.
fn share(
    args: &RunArgs,
    team: &Team,
    workload: &Workload,
    setup: &Setup,
    settings: &Settings,
) -> anyhow::Result<ExitCode> {
    let outcome =
        workload.run_on(&team.layout(args.shards, setup.machine.devices()), setup, settings);
    outcome.map_err(|error| Failure::from(error).named(&Names::new(&setup.machine)))?;
    Ok(ExitCode::SUCCESS)
}

/// Runs it, and writes the files that were asked for.
fn execute<'a>(
    args: &RunArgs,
    team: &Team,
    workload: &'a Workload,
    spec: &'a MachineSpec,
    ccl: CclConfig,
    settings: Settings,
    outputs: &Outputs,
) -> anyhow::Result<Finished<'a>> {
    let options = options(args, outputs.record() || args.range.is_some());
    let progress = Progress::start(workload.name);
    let start = Instant::now();
    let setup = Setup { machine: spec.clone(), options, ccl };
    let named = |error| Failure::from(error).named(&Names::new(spec));
    let outcome = workload.run_on(&team.layout(args.shards, spec.devices()), &setup, &settings);
    let mut outcome = outcome.map_err(named)?;
    let wall = start.elapsed();
    outputs.write(&outcome.report)?;
    let advice = is_advised(args, outcome.report.events).then(|| {
        progress.tell("looking for advice");
        workload.advise(&setup, &settings, &outcome)
    });
    if let Some(name) = &args.range {
        outcome.report = outcome.report.within(name).map_err(|error| no_range(&error))?;
    }
    if let Some(advice) = advice {
        outcome.report.advice = Some(advice);
    }
    drop(progress);
    Ok(Finished { workload, spec, settings, outcome, wall })
}

/// The refusal of a range that the program does not name, with those that it does.
fn no_range(error: &RangeError) -> Failure {
    let text = error.to_string();
    let RangeError::Unknown { name, .. } = error else { return Failure::input(text) };
    let message = format!("no range named `{name}`");
    let hint = text.strip_prefix(&message).map_or("", |hint| hint.trim_start_matches(": "));
    Failure::input(message).hint(hint)
}

/// True if advice is wanted: as typed, or for a short run. The length is counted in events, so that the same run always
/// prints the same.
fn is_advised(args: &RunArgs, events: u64) -> bool {
    args.advice.map_or(events <= workload::SHORT, |advice| advice == Switch::On)
}

fn options(args: &RunArgs, record: bool) -> Options {
    let threads = args.threads.map_or_else(cores, usize::from);
    let (data, evaluator) = (args.data == Switch::On, Arc::new(Pool::new(threads)));
    Options { data, record, critical_path: true, evaluator, ..Options::default() }
}

/// Number of threads that this host can run at the same time.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

fn print(args: &RunArgs, finished: &Finished, outputs: &Outputs) -> std::io::Result<()> {
    if args.json {
        printer::json(&finished.json())
    } else if outputs.on_stdout() {
        printer::note(&finished.text())
    } else {
        printer::data(&finished.text())
    }
}

/// The JSON, if that was wanted, has said so already.
fn wrong(max_abs_error: f64) -> ExitCode {
    let message = format!("the result is wrong: max abs error {max_abs_error}");
    printer::failure(&Failure::new(Kind::WrongResult, message), false)
}

fn settings(
    workload: &Workload,
    spec: &MachineSpec,
    parameters: &[String],
) -> Result<Settings, Failure> {
    let given: Vec<(&str, &str)> =
        parameters.iter().map(|text| pair(text, "run")).collect::<Result<_, _>>()?;
    Ok(workload.settings(spec, &given)?)
}

/// `NAME=VALUE`, as typed for `command`.
pub(super) fn pair<'a>(text: &'a str, command: &str) -> Result<(&'a str, &'a str), Failure> {
    let pair = text.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
    pair.filter(|(name, value)| !name.is_empty() && !value.is_empty()).ok_or_else(|| {
        Failure::new(Kind::Parameter, format!("a parameter is `NAME=VALUE`: `{text}`"))
            .hint(format!("as in `-p bytes=64KiB`; `phalanx {command}` lists the parameters"))
    })
}

pub(super) fn unknown(name: &str) -> Failure {
    let near = workload::suggestion(name)
        .map_or_else(String::new, |near| format!("did you mean `{near}`? "));
    Failure::input(format!("no workload named `{name}`"))
        .hint(format!("{near}`phalanx run` lists them"))
}
