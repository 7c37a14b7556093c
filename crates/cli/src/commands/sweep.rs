//! `phalanx sweep`: a workload at many points.

use super::{cache, run};
use crate::args::{SweepArgs, SweepCommand, SweepRunArgs, Switch};
use crate::collisions::{self, Named};
use crate::failure::{Failure, Kind};
use crate::machine::{self, Source};
use crate::output::TextFile;
use crate::progress::Bar;
use crate::report::points::{Form, Layout};
use crate::{collectives, printer};
use phalanx_torch::ccl::tuner::use_threads;
use phalanx_workloads::sweep::{
    Axis, Journal, JournalError, MachineText, Point, Row, SetupError, Sweep, Team, read_points,
    sample, svg,
};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) fn sweep(args: &SweepArgs, no_cache: bool) -> anyhow::Result<ExitCode> {
    let SweepCommand::Run(args) = &args.command;
    let sweep = described(args)?;
    let points = points(args, &sweep)?;
    sweep.check(&points).map_err(unusable)?;
    let files = Files::prepare(args)?;
    let team = team(args);
    let mut journal = journal(args, no_cache, &sweep, &points, &team)?;
    // Points run beside each other: their trials need no threads of their own.
    use_threads(NonZero::<usize>::MIN);
    let layout = Layout::new(form(args), &sweep, &points);
    let rows = carry_out(args, &sweep, &points, &team, journal.as_mut(), &layout)?;
    let is_complete = write_all(&sweep, &points, &rows, journal.as_ref(), &files)?;
    if let Some(journal) = journal {
        let remove = is_complete && args.output.is_some();
        journal.close(&team, remove).map_err(|error| no_journal(&error))?;
    }
    exit_code(args, &rows)
}

/// Runs the points, and prints the rows that this process gives.
fn carry_out(
    args: &SweepRunArgs,
    sweep: &Sweep,
    points: &[Point],
    team: &Team,
    journal: Option<&mut Journal>,
    layout: &Layout,
) -> anyhow::Result<Vec<Row>> {
    let given = (0..points.len()).filter(|index| team.gives(*index)).count();
    let mut printed = if given > 0 { printer::data(&layout.heading()) } else { Ok(()) };
    let bar = Bar::start(given as u64, "points");
    let mut rows = Vec::with_capacity(given);
    let jobs = args.jobs.map_or_else(run::cores, usize::from);
    sweep
        .run_with(points, jobs, journal, team, &mut |row| {
            // Rows go on although nobody reads them: the journal and the files want them.
            if printed.is_ok() {
                printed = bar.aside(|| printer::data(&layout.row(row)));
            }
            bar.advance();
            rows.push(row.clone());
        })
        .map_err(|error| no_journal(&error))?;
    drop(bar);
    printed?;
    Ok(rows)
}

/// Writes the files, if all rows are there; true if they are.
fn write_all(
    sweep: &Sweep,
    points: &[Point],
    rows: &[Row],
    journal: Option<&Journal>,
    files: &Files,
) -> Result<bool, Failure> {
    if rows.is_empty() {
        return Ok(false);
    }
    if rows.len() == points.len() {
        files.write(sweep, points, rows)?;
        return Ok(true);
    }
    let all = whole(sweep, points, journal);
    all.as_ref().map_or(Ok(()), |all| files.write(sweep, points, all))?;
    Ok(all.is_some())
}

/// Says how many points failed, and chooses the exit code: 1 if every point has failed.
fn exit_code(args: &SweepRunArgs, rows: &[Row]) -> anyhow::Result<ExitCode> {
    let failed = rows.iter().filter(|row| row.outcome.is_err()).count();
    if failed > 0 && !args.json && !args.csv {
        printer::note(&format!("{failed} of the points failed\n"))?;
    }
    let is_failure = failed > 0 && failed == rows.len();
    Ok(if is_failure { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// The rows of all shares, if the journal has them.
fn whole(sweep: &Sweep, points: &[Point], journal: Option<&Journal>) -> Option<Vec<Row>> {
    let journal = journal?;
    let row = |point: &Point| {
        let outcome = journal.row(&sweep.key(point))?.clone();
        Some(Row { point: point.clone(), outcome })
    };
    points.iter().map(row).collect()
}

fn described(args: &SweepRunArgs) -> Result<Sweep, Failure> {
    let workload = phalanx_workloads::find(&args.workload);
    let workload = workload.ok_or_else(|| run::unknown(&args.workload))?;
    let mut machines: Vec<MachineText> = Vec::new();
    for name in &args.machine {
        let Source { file, text } = Source::find(name)?;
        if machines.iter().any(|machine| machine.file == file) {
            return Err(Failure::input(format!("machine `{file}` is there twice")));
        }
        machines.push(MachineText { file, text });
    }
    let mut sweep = Sweep::new(workload, machines);
    for text in &args.overrides {
        sweep.axes.push(axis(text, true)?);
    }
    for text in &args.parameters {
        sweep.axes.push(axis(text, false)?);
    }
    sweep.data = args.data == Switch::On;
    sweep.ccl = collectives::config(args.ccl.as_deref())?;
    sweep.ccl_text = collectives::text(args.ccl.as_deref())?;
    Ok(sweep)
}

fn axis(text: &str, of_machine: bool) -> Result<Axis, Failure> {
    let wrong = |message: String| {
        Failure::new(Kind::Parameter, message)
            .hint("as in `hidden=1024,4096`, `bytes=1..64MiB:x4` or `n=1..9:+2`")
    };
    let axis = Axis::parse(text).map_err(|error| wrong(error.to_string()))?;
    match (axis.name.contains('.'), of_machine) {
        (false, true) => {
            Err(wrong(format!("`--set {text}`: a figure of a machine has a dotted name"))
                .hint("parameters of the workload are set with `-p`"))
        }
        (true, false) => Err(wrong(format!("`-p {text}`: a parameter has no dot in its name"))
            .hint("figures of the machine are set with `--set`")),
        _ => Ok(axis),
    }
}

fn points(args: &SweepRunArgs, sweep: &Sweep) -> Result<Vec<Point>, Failure> {
    let wrong = |message: String| Failure::new(Kind::Parameter, message);
    let points = match &args.points {
        None => sweep.grid().map_err(|error| wrong(error.to_string()))?,
        Some(path) => {
            let Source { file, text } = Source::read(path)?;
            let machines: Vec<String> =
                sweep.machines.iter().map(|machine| machine.file.clone()).collect();
            let mut points =
                read_points(&text, &machines).map_err(|error| wrong(format!("{file}: {error}")))?;
            add_fixed(&mut points, &sweep.axes)?;
            points
        }
    };
    let count = args.sample.map(|count| usize::try_from(count).unwrap_or(usize::MAX));
    Ok(match count {
        Some(count) => sample(points, count, args.seed),
        None => points,
    })
}

/// Beside a file of points, `--set` and `-p` give values that all points have in common.
fn add_fixed(points: &mut [Point], axes: &[Axis]) -> Result<(), Failure> {
    for axis in axes {
        let name = &axis.name;
        let [value] = axis.values.as_slice() else {
            return Err(Failure::input(format!("`{name}` has several values beside `--points`"))
                .hint("vary it in the file of points"));
        };
        if points.iter().any(|point| point.value(name).is_some()) {
            return Err(Failure::input(format!(
                "the points vary `{name}`, and the command sets it"
            ))
            .hint("set it in one place"));
        }
        for point in &mut *points {
            point.settings.push((name.clone(), value.clone()));
        }
    }
    Ok(())
}

fn unusable(error: SetupError) -> Failure {
    match error {
        SetupError::Machine(errors) => Failure::machine(vec![errors]),
        SetupError::Parameter(error) => error.into(),
    }
}

fn team(args: &SweepRunArgs) -> Team {
    args.shard.map_or_else(|| Team::from_environment(|name| std::env::var(name).ok()), Team::Share)
}

fn form(args: &SweepRunArgs) -> Form {
    match (args.json, args.csv) {
        (true, _) => Form::Json,
        (_, true) => Form::Csv,
        _ => Form::Text,
    }
}

/// The journal: beside the output, or among the results that are kept.
fn journal(
    args: &SweepRunArgs,
    no_cache: bool,
    sweep: &Sweep,
    points: &[Point],
    team: &Team,
) -> Result<Option<Journal>, Failure> {
    let directory = match (&args.output, no_cache) {
        (Some(output), _) => Some(beside(output)),
        (None, false) => {
            cache::directory().map(|directory| directory.join("sweeps").join(name(sweep, points)))
        }
        (None, true) => None,
    };
    let Some(directory) = directory else {
        if matches!(team, Team::Member { .. }) {
            return Err(Failure::input(
                "several processes share points by files, and there is no place for them",
            )
            .hint("name a file with `-o`, in a directory that all processes see"));
        }
        return Ok(None);
    };
    if no_cache && *team == Team::Alone {
        // Files of an earlier run are neither used nor kept.
        let _ = std::fs::remove_dir_all(&directory);
    }
    match Journal::open(&directory, &team.who()) {
        Ok(journal) => Ok(Some(journal)),
        // Results that cannot be kept are not needed; an output is.
        Err(_) if args.output.is_none() && *team == Team::Alone => Ok(None),
        Err(error) => Err(no_journal(&error)),
    }
}

/// The directory of the journal of an output.
fn beside(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(".sweep");
    PathBuf::from(name)
}

/// A name for the journal of a sweep: the same for the same points.
fn name(sweep: &Sweep, points: &[Point]) -> String {
    let first = points.first().map_or_else(String::new, |point| sweep.key(point));
    let last = points.last().map_or_else(String::new, |point| sweep.key(point));
    format!(
        "{}-{}-{}-{}",
        sweep.workload.name,
        points.len(),
        &first[..first.len().min(12)],
        &last[..last.len().min(12)]
    )
}

fn no_journal(error: &JournalError) -> Failure {
    let path = error.path.display();
    Failure::output(format!(
        "cannot keep finished points in `{path}`: {}",
        machine::reason(&error.error)
    ))
}

/// The files that a sweep writes.
struct Files {
    output: Option<(TextFile, Form)>,
    plot: Option<TextFile>,
}

impl Files {
    fn prepare(args: &SweepRunArgs) -> Result<Self, Failure> {
        let inputs: Vec<Named> = args
            .machine
            .iter()
            .filter_map(|name| machine::file(name))
            .chain(collectives::file(args.ccl.as_deref()))
            .chain(args.points.as_deref().map(|path| Named::new("--points", path)))
            .collect();
        let named = [("--output", &args.output), ("--plot", &args.plot)];
        let outputs: Vec<Named> = named
            .iter()
            .filter_map(|(option, path)| path.as_deref().map(|path| Named::new(option, path)))
            .collect();
        collisions::refuse(&inputs, &outputs)?;
        let output = args.output.as_deref().map(|path| -> Result<_, Failure> {
            let form = Form::of_file(path).ok_or_else(|| {
                Failure::input(format!("`{}` is neither `.jsonl` nor `.csv`", path.display()))
                    .hint("the ending of the file chooses its form")
            })?;
            Ok((TextFile::prepare("--output", path, &inputs)?, form))
        });
        let plot = args.plot.as_deref().map(|path| TextFile::prepare("--plot", path, &inputs));
        Ok(Self { output: output.transpose()?, plot: plot.transpose()? })
    }

    fn write(&self, sweep: &Sweep, points: &[Point], rows: &[Row]) -> Result<(), Failure> {
        if let Some((file, form)) = &self.output {
            let layout = Layout::new(*form, sweep, points);
            let text = rows.iter().map(|row| layout.row(row));
            file.write(&(layout.heading() + &text.collect::<String>()))?;
        }
        self.plot.as_ref().map_or(Ok(()), |file| file.write(&svg(sweep, rows)))
    }
}
