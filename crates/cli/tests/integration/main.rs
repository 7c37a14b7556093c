//! The program as its users meet it: text, JSON, files and exit codes.

mod collisions;
mod determinism;
mod docs;
mod files;
mod node;
mod processes;
mod reports;
mod streams;
mod sweeps;
mod triton;
mod truths;

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

/// The program.
fn phalanx() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    // Tests neither use nor leave results that are kept between runs.
    command.env("PHALANX_CACHE", "off");
    command
}

/// Its output, run with these words.
fn run(words: &[&str]) -> Output {
    phalanx().args(words).output().expect("the program starts")
}

/// The JSON it prints; it must succeed.
fn json(words: &[&str]) -> Value {
    let output = run(&[words, &["--json"]].concat());
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

/// A directory for one test.
fn directory(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a directory");
    path
}

#[test]
fn cli_1_every_command_says_what_the_manual_shows() {
    trycmd::TestCases::new()
        .env("COLUMNS", "100")
        .env("PHALANX_CACHE", "off")
        .case("tests/cmd/*.trycmd");
}
