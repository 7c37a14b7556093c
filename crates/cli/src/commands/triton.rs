//! `phalanx triton`: a Python script whose Triton kernels run on a machine, and the report of their launches.
//!
//! Python runs the script; the plugin of the package (`python/phalanx/triton`) runs the kernels and leaves the report in a file.

use crate::args::{Switch, TritonArgs};
use crate::failure::{Failure, Kind};
use crate::machine::Source;
use crate::printer;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};

/// The variable that names the interpreter: the package sets it when it is the program.
const PYTHON: &str = "PHALANX_PYTHON";

pub(crate) fn triton(args: &TritonArgs) -> anyhow::Result<ExitCode> {
    Source::find(&args.machine)?.parse()?;
    if !args.script.is_file() {
        let script = args.script.display();
        return Err(Failure::input(format!("cannot read `{script}`: no such file")).into());
    }
    let file = ReportFile::create()?;
    let python = std::env::var_os(PYTHON).unwrap_or_else(|| "python3".into());
    let status = command(args, &python, &file)?.status().map_err(|error| {
        let words = format!("cannot start `{}`: {error}", python.display());
        Failure::new(Kind::Worker, words).hint(format!("{PYTHON} names another interpreter"))
    })?;
    let report = fs::read_to_string(&file.0).unwrap_or_default();
    printer::data(&report)?;
    if !status.success() {
        return Err(Failure::new(Kind::Kernel, ended(&args.script, status)).into());
    }
    if report.is_empty() {
        let words = format!("no kernel of Triton ran in `{}`", args.script.display());
        let hint = format!(
            "`triton` and `phalanx-sim` must be installed for `{}`, and the script must import triton",
            python.display()
        );
        return Err(Failure::new(Kind::Worker, words).hint(hint).into());
    }
    Ok(ExitCode::SUCCESS)
}

/// The interpreter with the script. Of a run whose stdout is for a program to read, what the script prints goes to stderr.
fn command(args: &TritonArgs, python: &OsString, file: &ReportFile) -> io::Result<Command> {
    let mut command = Command::new(python);
    let kind = if args.json { "json:" } else { "text:" };
    let mut report = OsString::from(kind);
    report.push(&file.0);
    command
        .arg(&args.script)
        .args(&args.arguments)
        .env("TRITON_DEFAULT_BACKEND", "phalanx")
        .env("PHALANX_MACHINE", machine(&args.machine))
        .env("PHALANX_DATA", if args.data == Switch::On { "on" } else { "off" })
        .env("PHALANX_TRITON_REPORT", report);
    if args.json {
        command.stdout(Stdio::from(io::stderr().as_fd().try_clone_to_owned()?));
    }
    Ok(command)
}

/// A preset by its name, a file by its full path.
fn machine(name: &str) -> OsString {
    let path = Path::new(name);
    let full = path.is_file().then(|| path.canonicalize().ok()).flatten();
    full.map_or_else(|| name.into(), PathBuf::into_os_string)
}

fn ended(script: &Path, status: ExitStatus) -> String {
    format!("`{}` failed: {status}", script.display())
}

/// A file of this process, removed at its end.
struct ReportFile(PathBuf);

impl ReportFile {
    fn create() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("phalanx-triton-{}", std::process::id()));
        let refused =
            |error| Failure::output(format!("cannot write `{}`: {error}", path.display()));
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(refused(error)),
            _ => {}
        }
        OpenOptions::new().write(true).create_new(true).open(&path).map_err(refused)?;
        Ok(Self(path))
    }
}

impl Drop for ReportFile {
    fn drop(&mut self) {
        // A file that is gone is as good as removed.
        let _ = fs::remove_file(&self.0);
    }
}
