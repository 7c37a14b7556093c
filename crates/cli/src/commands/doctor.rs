//! `phalanx doctor`: looks for all that a run in several processes needs.

use crate::args::{DoctorArgs, DoctorCommand};
use crate::{printer, processes};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// One thing that was looked at.
struct Finding {
    name: &'static str,
    /// The finding; or the missing thing, with the remedy.
    result: Result<String, String>,
}

pub(crate) fn doctor(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let DoctorCommand::Mpi = args.command;
    if processes::launched().is_some() {
        #[cfg(feature = "mpi")]
        tell_of_meeting()?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut findings = vec![program(), mpirun(), compiler(), libclang(), root()];
    if findings[0].result.is_ok() && findings[1].result.is_ok() {
        findings.push(meeting());
    }
    let is_well = findings.iter().all(|finding| finding.result.is_ok());
    if args.json {
        printer::json(&DoctorJson::new(&findings, is_well))?;
    } else {
        printer::data(&text(&findings))?;
    }
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A word for a thing that is there, or is not.
fn word(is_there: bool) -> &'static str {
    if is_there { "ok" } else { "missing" }
}

fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for Finding { name, result } in findings {
        let (Ok(words) | Err(words)) = result;
        let _ = writeln!(text, "{name:<12} {:<8} {words}", word(result.is_ok()));
    }
    text
}

#[derive(Serialize)]
struct DoctorJson<'a> {
    status: &'static str,
    checks: Vec<FindingView<'a>>,
}

#[derive(Serialize)]
struct FindingView<'a> {
    name: &'static str,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<&'a str>,
}

impl<'a> DoctorJson<'a> {
    fn new(findings: &'a [Finding], is_well: bool) -> Self {
        let check = |Finding { name, result }: &'a Finding| FindingView {
            name,
            status: word(result.is_ok()),
            found: result.as_deref().ok(),
            advice: result.as_ref().err().map(String::as_str),
        };
        Self { status: word(is_well), checks: findings.iter().map(check).collect() }
    }
}

/// Lets one of two processes meet the other, and tell of it.
#[cfg(feature = "mpi")]
fn tell_of_meeting() -> anyhow::Result<()> {
    if let Some((library, time)) = processes::two_meet() {
        printer::data(&format!("{library}; {time:.1} us a meeting\n"))?;
    }
    Ok(())
}

fn program() -> Finding {
    let result = if cfg!(feature = "mpi") {
        Ok("this program was built with MPI".to_owned())
    } else {
        Err("this program was built without MPI: `cargo build --release --features mpi`".to_owned())
    };
    Finding { name: "phalanx", result }
}

/// The first line that a program prints.
fn first_line(program: &str, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then(|| text.lines().next().unwrap_or_default().to_owned())
}

fn mpirun() -> Finding {
    let result = first_line("mpirun", "--version")
        .ok_or_else(|| "no `mpirun`: `apt-get install openmpi-bin`".to_owned());
    Finding { name: "mpirun", result }
}

fn compiler() -> Finding {
    let result = first_line("mpicc", "--version").ok_or_else(|| {
        "no `mpicc`, which a build needs: `apt-get install libopenmpi-dev`".to_owned()
    });
    Finding { name: "mpicc", result }
}

fn libclang() -> Finding {
    let found = directories().into_iter().find_map(|directory| library_in(&directory));
    let result = found.map(|path| path.display().to_string()).ok_or_else(|| {
        "no libclang, which a build needs: `apt-get install libclang-dev`".to_owned()
    });
    Finding { name: "libclang", result }
}

/// Returns the directories in which libclang may be.
fn directories() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        std::env::var_os("LIBCLANG_PATH").map(PathBuf::from).into_iter().collect();
    for root in ["/usr/lib", "/usr/local/lib"] {
        let mut inner: Vec<PathBuf> = entries(Path::new(root));
        inner.sort();
        let nested: Vec<PathBuf> = inner.iter().map(|path| path.join("lib")).collect();
        found.push(PathBuf::from(root));
        found.extend(inner.into_iter().chain(nested));
    }
    found.extend(["/usr/lib64", "/opt/homebrew/opt/llvm/lib"].map(PathBuf::from));
    found
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn library_in(directory: &Path) -> Option<PathBuf> {
    let is_clang = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let version = name.strip_prefix("libclang-").unwrap_or_default();
        name.starts_with("libclang.")
            || version.starts_with(|c: char| c.is_ascii_digit()) && name.contains(".so")
    };
    entries(directory).into_iter().filter(is_clang).min()
}

/// Open MPI refuses to work for root unless it is told to.
fn root() -> Finding {
    let names = ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"];
    let is_root = std::env::var("USER").is_ok_and(|user| user == "root") || home_is_roots();
    let is_allowed = names.iter().all(|name| std::env::var(name).is_ok_and(|value| value == "1"));
    let result = match (is_root, is_allowed) {
        (false, _) => Ok("not root".to_owned()),
        (true, true) => Ok("root, and Open MPI may run as root".to_owned()),
        (true, false) => {
            Err(format!("root: Open MPI wants `export {}=1 {}=1`", names[0], names[1]))
        }
    };
    Finding { name: "user", result }
}

fn home_is_roots() -> bool {
    std::env::var_os("HOME").is_some_and(|home| home == "/root")
}

/// Starts two processes and lets them meet.
fn meeting() -> Finding {
    let result = std::env::current_exe().map_err(|error| error.to_string()).and_then(|program| {
        let mut command = Command::new("mpirun");
        command.args(["-n", "2", "--oversubscribe"]).arg(program).args(["doctor", "mpi"]);
        let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if output.status.success() && !text.is_empty() {
            return Ok(text);
        }
        let words = String::from_utf8_lossy(&output.stderr);
        let words = words.lines().find(|line| line.chars().any(char::is_alphabetic));
        Err(format!("two processes do not meet: {}", words.unwrap_or("mpirun says nothing").trim()))
    });
    Finding { name: "meeting", result }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_says_what_is_there_and_what_to_do() {
        let findings = [
            Finding { name: "mpirun", result: Ok("mpirun 4".to_owned()) },
            Finding { name: "mpicc", result: Err("no `mpicc`".to_owned()) },
        ];
        let json = serde_json::to_value(DoctorJson::new(&findings, false)).unwrap();
        let expected = serde_json::json!({
            "status": "missing",
            "checks": [
                {"name": "mpirun", "status": "ok", "found": "mpirun 4"},
                {"name": "mpicc", "status": "missing", "advice": "no `mpicc`"},
            ],
        });
        assert_eq!(json, expected);
        assert_eq!(text(&findings[..1]), "mpirun       ok       mpirun 4\n");
    }
}
