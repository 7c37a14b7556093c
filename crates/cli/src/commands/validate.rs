//! `phalanx validate`: measured times beside simulated ones.

use crate::args::ValidateArgs;
use crate::failure::{Failure, Kind};
use crate::output::TextFile;
use crate::progress::Progress;
use crate::report::validation;
use crate::{collectives, machine, printer, tables};
use phalanx_workloads::truth::{Bench, Compared, PointError, compare, svg};
use std::process::ExitCode;

pub(crate) fn validate(args: &ValidateArgs) -> anyhow::Result<ExitCode> {
    let machine = machine::machine(&args.tables.machine, &args.overrides)?;
    let tables = tables::tables(&args.tables)?;
    let inputs = tables::inputs(&args.tables);
    let prepare = |path| TextFile::prepare("--svg", path, &inputs);
    let drawing = args.svg.as_deref().map(prepare).transpose()?;
    let bench = Bench { machine, ccl: collectives::config(args.tables.ccl.as_deref())? };
    let progress = Progress::start("the rows of the tables");
    let compared = compare(&bench, &tables, tables::threads(&args.tables), &|done| {
        progress.tell(&tables::told(done.done, done.all));
    });
    drop(progress);
    let compared: Vec<Compared> = compared.map_err(|error| failed(&error))?;
    if let Some(drawing) = drawing {
        drawing.write(&svg(&compared))?;
    }
    if args.json {
        printer::json(&validation::json(&compared))?;
    } else {
        printer::data(&validation::text(&bench.machine.name, &compared))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The failure of a row that cannot be simulated.
pub(crate) fn failed(error: &PointError) -> Failure {
    Failure::new(Kind::Parameter, error.to_string())
        .hint("`--op`, `--ranks` and `--dtype` choose rows")
}
