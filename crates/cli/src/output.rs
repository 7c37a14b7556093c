//! Files that a run leaves behind.
//!
//! - **OUT-1 (whole or not at all).** A file appears under its name when it is complete: a run that fails or is
//!   interrupted, or a disk that is full, leaves what was there before, and nothing else.
//! - **OUT-2 (early).** Errors that can be known before the run, such as a missing directory, are reported before it.
//! - **OUT-3 (apart).** No output takes the place of another output or of an input, whatever names and links lead to it.

use crate::args::RunArgs;
use crate::collisions::{self, Named};
use crate::drafts::Draft;
use crate::failure::Failure;
use crate::machine::{self, reason};
use crate::{collectives, printer};
use phalanx_sim::report::Report;
use phalanx_sim::timeline;
use phalanx_trace::{Format, Writer};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The files that a run writes.
pub(crate) struct Outputs {
    trace: Option<Trace>,
    op_log: Option<OpLog>,
}

enum OpLog {
    Stdout,
    File(Target),
}

impl Outputs {
    /// Checks names and places before the run (OUT-2).
    pub(crate) fn prepare(args: &RunArgs) -> Result<Self, Failure> {
        refuse_collisions(args)?;
        let trace = args.trace.as_deref().map(Trace::prepare).transpose()?;
        let op_log = match args.op_log.as_deref() {
            Some(path) if path != Path::new("-") => Some(OpLog::File(Target::prepare(path)?)),
            Some(_) if args.json => return Err(both_on_stdout()),
            other => other.map(|_| OpLog::Stdout),
        };
        Ok(Self { trace, op_log })
    }

    /// True if the run must record every operation.
    pub(crate) fn record(&self) -> bool {
        self.trace.is_some() || self.op_log.is_some()
    }

    /// True if a file goes to stdout.
    pub(crate) fn on_stdout(&self) -> bool {
        matches!(self.op_log, Some(OpLog::Stdout))
    }

    pub(crate) fn write(&self, report: &Report) -> anyhow::Result<()> {
        if let Some(trace) = &self.trace {
            trace.fill(|writer| timeline::write(report, writer))?;
        }
        match &self.op_log {
            None => Ok(()),
            Some(OpLog::Stdout) => Ok(printer::data(&report.op_log())?),
            Some(OpLog::File(target)) => {
                Ok(target.fill(|mut file| file.write_all(report.op_log().as_bytes()))?)
            }
        }
    }
}

/// A timeline to be written.
pub(crate) struct Trace {
    target: Target,
    format: Format,
}

impl Trace {
    /// Checks name and place (OUT-2).
    pub(crate) fn prepare(path: &Path) -> Result<Self, Failure> {
        let format = Format::from_path(path);
        let format = format.map_err(|unknown| Failure::input(unknown.to_string()))?;
        Ok(Self { target: Target::prepare(path)?, format })
    }

    /// Lets `write` fill it (OUT-1).
    pub(crate) fn fill(
        &self,
        write: impl FnOnce(&mut Writer<&File>) -> io::Result<()>,
    ) -> Result<(), Failure> {
        self.target.fill(|file| {
            let mut writer = Writer::new(file, self.format)?;
            write(&mut writer)?;
            writer.finish().map(drop)
        })
    }
}

/// A text file to be written.
pub(crate) struct TextFile(Target);

impl TextFile {
    /// Checks the place (OUT-2), and that no input is overwritten (OUT-3).
    pub(crate) fn prepare(
        option: &str,
        path: &Path,
        inputs: &[Named<'_>],
    ) -> Result<Self, Failure> {
        collisions::refuse(inputs, &[Named::new(option, path)])?;
        Ok(Self(Target::prepare(path)?))
    }

    /// Writes it (OUT-1).
    pub(crate) fn write(&self, text: &str) -> Result<(), Failure> {
        self.0.fill(|mut file| file.write_all(text.as_bytes()))
    }
}

/// Refuses an output that is another output, the machine file or the configuration of collectives (OUT-3).
fn refuse_collisions(args: &RunArgs) -> Result<(), Failure> {
    let inputs =
        machine::file(&args.machine).into_iter().chain(collectives::file(args.ccl.as_deref()));
    let inputs: Vec<Named> = inputs.collect();
    let trace = args.trace.as_deref().map(|path| Named::new("--trace", path));
    let op_log = args.op_log.as_deref().filter(|path| *path != Path::new("-"));
    let op_log = op_log.map(|path| Named::new("--op-log", path));
    let outputs: Vec<Named> = trace.into_iter().chain(op_log).collect();
    collisions::refuse(&inputs, &outputs)
}

fn both_on_stdout() -> Failure {
    Failure::input("`--json` and `--op-log -` both write to stdout")
        .hint("give one of them a file, as in `--op-log run.log`")
}

/// A file to be written.
struct Target {
    typed: PathBuf,
    path: PathBuf,
    /// A device or a pipe is written to, not replaced.
    special: bool,
}

impl Target {
    fn prepare(typed: &Path) -> Result<Self, Failure> {
        // The target of a link is replaced, not the link.
        let path = collisions::end_of_links(typed);
        let special = fs::metadata(&path).is_ok_and(|found| !found.is_file() && !found.is_dir());
        let target = Self { typed: typed.to_owned(), path, special };
        if target.path.is_dir() {
            return Err(target.failure("it is a directory"));
        }
        if !special {
            target.check_writable()?;
            drop(target.draft()?);
        }
        Ok(target)
    }

    /// Lets `write` fill the file (OUT-1).
    fn fill(&self, write: impl FnOnce(&File) -> io::Result<()>) -> Result<(), Failure> {
        let fail = |error: io::Error| self.failure(&reason(&error));
        if self.special {
            let file = OpenOptions::new().write(true).open(&self.path).map_err(fail)?;
            return write(&file).map_err(fail);
        }
        let draft = self.draft()?;
        write(&draft.file).map_err(fail)?;
        draft.replace(&self.path).map_err(fail)
    }

    /// A file that must not be written to must not be replaced either.
    fn check_writable(&self) -> Result<(), Failure> {
        match OpenOptions::new().write(true).open(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(self.failure(&reason(&error)))
            }
            _ => Ok(()),
        }
    }

    fn draft(&self) -> Result<Draft, Failure> {
        Draft::beside(&self.path).map_err(|error| self.failure(&reason(&error)))
    }

    fn failure(&self, reason: &str) -> Failure {
        Failure::output(format!("cannot write `{}`: {reason}", self.typed.display()))
    }
}
