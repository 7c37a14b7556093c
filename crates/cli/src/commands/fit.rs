//! `phalanx fit`: figures of a machine that are fitted to measured times.

use super::validate::failed;
use crate::args::FitArgs;
use crate::failure::{Failure, Kind};
use crate::machine::Source;
use crate::output::TextFile;
use crate::progress::Progress;
use crate::report::fitting;
use crate::{collectives, printer, tables};
use phalanx_workloads::truth::{self, FitError};
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn fit(args: &FitArgs) -> anyhow::Result<ExitCode> {
    let source = Source::find(&args.tables.machine)?;
    let machine = source.parse()?;
    let tables = tables::tables(&args.tables)?;
    let to_stdout = args.output.as_deref() == Some(Path::new("-"));
    if to_stdout && args.json {
        return Err(Failure::input("`--json` and `-o -` both write to stdout")
            .hint("give one of them a file, as in `-o fitted.yaml`")
            .into());
    }
    let inputs = tables::inputs(&args.tables);
    let prepare = |path| TextFile::prepare("-o", path, &inputs);
    let file = args.output.as_deref().filter(|_| !to_stdout).map(prepare).transpose()?;
    let ccl = collectives::config(args.tables.ccl.as_deref())?;
    let progress = Progress::start("simulations");
    let threads = tables::threads(&args.tables);
    let text = (source.file.as_str(), source.text.as_str());
    let fitted = truth::fit(text, &ccl, &tables, threads, &|done| {
        progress.tell(&done.done.to_string());
    });
    drop(progress);
    let fitted = fitted.map_err(refused)?;
    if let Some(file) = file {
        file.write(&fitted.text)?;
    }
    if args.json {
        printer::json(&fitting::json(&machine.name, &fitted))?;
    } else if to_stdout {
        printer::note(&fitting::text(&machine.name, &fitted))?;
        printer::data(&fitted.text)?;
    } else {
        printer::data(&fitting::text(&machine.name, &fitted))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn refused(error: FitError) -> Failure {
    let text = error.to_string();
    match error {
        FitError::Invalid(errors) => Failure::machine(vec![errors]),
        FitError::Point(error) => failed(&error),
        FitError::NothingMarked(_) => Failure::new(Kind::Parameter, text).hint(
            "mark figures in the file, as in `sources: { system.sips.link.latency: fitted }`",
        ),
        FitError::NoNumber { .. } => Failure::new(Kind::Parameter, text)
            .hint("give a number above zero to begin with, as in `1 us` or `0.8`"),
    }
}
