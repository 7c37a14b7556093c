//! `phalanx triton` with an interpreter that is no Python: what it is given, and what becomes of its end.
#![cfg(unix)]

use crate::{directory, phalanx};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

/// The output of the program with `body`, a text for the shell, as the interpreter.
fn with_interpreter(name: &str, body: &str, words: &[&str]) -> Output {
    let directory = directory(name);
    let (python, script) = (directory.join("python"), directory.join("script.py"));
    fs::write(&python, format!("#!/bin/sh\n{body}\n")).expect("a file");
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).expect("a mode");
    fs::write(&script, "").expect("a file");
    run(&python, &script, words)
}

fn run(python: &Path, script: &Path, words: &[&str]) -> Output {
    let mut command = phalanx();
    command.env("PHALANX_PYTHON", python).arg("triton").arg(script).args(words);
    command.output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const TELLS: &str = r#"
shift
echo "script: $*"
file=${PHALANX_TRITON_REPORT#*:}
echo "${PHALANX_TRITON_REPORT%%:*} $TRITON_DEFAULT_BACKEND $PHALANX_MACHINE $PHALANX_DATA" > "$file""#;

#[test]
fn a_script_gets_the_machine_and_its_report_is_printed_last() {
    let words = ["one", "--machine", "pair", "--data", "off", "--", "--two"];
    let output = with_interpreter("triton-report", TELLS, &words);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "script: one --two\ntext phalanx pair off\n");
}

#[test]
fn json_is_alone_on_stdout() {
    let output = with_interpreter("triton-json", TELLS, &["--json"]);
    assert_eq!(text(&output.stdout), "json phalanx hgx-h100 on\n");
    assert_eq!(text(&output.stderr), "script: \n");
}

#[test]
fn cli_1_a_script_that_fails_is_a_run_that_failed() {
    let output = with_interpreter("triton-fails", "exit 3", &[]);
    assert_eq!(output.status.code(), Some(1));
    let words = text(&output.stderr);
    assert!(words.contains("script.py` failed: exit status: 3"), "{words}");
}

#[test]
fn a_script_without_kernels_is_told_what_is_missing() {
    let output = with_interpreter("triton-nothing", "exit 0", &[]);
    assert_eq!(output.status.code(), Some(1));
    let words = text(&output.stderr);
    assert!(words.contains("no kernel of Triton ran") && words.contains("phalanx-sim"), "{words}");
}

#[test]
fn cli_1_bad_input_starts_nothing() {
    let output = with_interpreter("triton-machine", "exit 0", &["--machine", "hgx-h101"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("hgx-h100"), "{}", text(&output.stderr));
    let directory = directory("triton-missing");
    let output = run(Path::new("python3"), &directory.join("nothing.py"), &[]);
    assert_eq!(output.status.code(), Some(2));
    let output = run(&directory.join("no-python"), Path::new("Cargo.toml"), &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("PHALANX_PYTHON"), "{}", text(&output.stderr));
}
