//! Streams that cannot be written to, and paths that are no files.
#![cfg(target_os = "linux")]

use crate::{directory, phalanx};
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Output, Stdio};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The output of the program on a disk that is full.
fn on_a_full_disk(words: &[&str]) -> Output {
    let full = OpenOptions::new().write(true).open("/dev/full").expect("a full device");
    phalanx().args(words).stdout(full).output().expect("the program starts")
}

#[test]
fn cli_1_a_full_disk_is_an_error_of_every_command() {
    for words in [
        &["--help"][..],
        &["--version"],
        &["help", "run"],
        &["node", "list", "--help"],
        &["run"],
        &["run", "ping"],
        &["run", "ping", "--json"],
        &["run", "ping", "--op-log", "-"],
        &["ccl", "all_reduce", "-e", "1K", "-a", "ring"],
        &["ccl", "all_reduce", "-e", "1K", "-a", "ring", "--json"],
        &["node", "list"],
        &["machines"],
        &["machines", "show", "bare"],
        &["check", "../../machines/bare.yaml"],
        &["completions", "bash"],
    ] {
        let output = on_a_full_disk(words);
        assert_eq!(output.status.code(), Some(1), "CLI-1: {words:?}: {}", text(&output.stderr));
        let expected = "error: cannot print: No space left on device";
        assert!(
            text(&output.stderr).contains(expected),
            "CLI-1: {words:?}: {}",
            text(&output.stderr)
        );
    }
}

#[test]
fn cli_1_a_reader_that_stops_is_fine_for_help_too() {
    for words in [&["--help"][..], &["--version"], &["machines"], &["run", "ping", "--json"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = phalanx().args(words).stdout(writer).output().expect("the program starts");
        let got = (output.status.code(), text(&output.stderr));
        assert_eq!(got, (Some(0), String::new()), "CLI-1: {words:?}");
    }
}

#[test]
fn what_is_no_file_is_refused_as_a_configuration() {
    let place = directory("no-file");
    let fifo = place.join("machine.yaml");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
    let fifo = fifo.to_str().expect("a path of letters");
    let place = place.to_str().expect("a path of letters");
    for (words, what) in [
        (["check", fifo].to_vec(), "a FIFO"),
        (["run", "ping", "--machine", fifo].to_vec(), "a FIFO"),
        (["run", "ping", "--ccl", fifo].to_vec(), "a FIFO"),
        (["ccl", "all_reduce", "--ccl", fifo].to_vec(), "a FIFO"),
        (["machines", "show", fifo].to_vec(), "a FIFO"),
        (["check", "/dev/zero"].to_vec(), "a device"),
        (["run", "ping", "--machine", place].to_vec(), "a directory"),
    ] {
        let output = phalanx().args(&words).output().expect("the program starts");
        let path = words.last().expect("a path");
        let expected = format!("error: cannot read `{path}`: it is {what}, not a file\n\n");
        let hint = "hint: allowed: a file, or `-` for stdin\n";
        assert_eq!(
            (output.status.code(), text(&output.stderr)),
            (Some(2), expected + hint),
            "{words:?}"
        );
    }
}

#[test]
fn streams_that_are_open_already_are_read() {
    let machine = phalanx().args(["machines", "show", "bare"]).output().expect("it runs").stdout;
    for path in ["-", "/dev/stdin", "/dev/fd/0"] {
        let show = phalanx().args(["machines", "show", "bare"]).stdout(Stdio::piped()).spawn();
        let mut show = show.expect("the program starts");
        let pipe = show.stdout.take().expect("a pipe");
        let output = phalanx().args(["machines", "show", path]).stdin(pipe).output();
        assert_eq!(text(&output.expect("it runs").stdout), text(&machine), "{path}");
        assert!(show.wait().expect("it ends").success());
    }
}

#[test]
fn out_1_a_signal_that_is_ignored_stays_ignored() {
    let log = directory("nohup").join("run.log");
    let words = r#"trap "" HUP; echo ready; exec "$0" run ring --machine bare -p bytes=16MiB --op-log "$1""#;
    let mut child = Command::new("sh")
        .args([
            "-c",
            words,
            env!("CARGO_BIN_EXE_phalanx"),
            log.to_str().expect("a path of letters"),
        ])
        .stdout(Stdio::piped())
        .spawn()
        .expect("a shell");
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    let (mut ready, mut report) = (String::new(), String::new());
    stdout.read_line(&mut ready).expect("a line");
    let id = child.id().to_string();
    while child.try_wait().expect("a child").is_none() {
        let _ = Command::new("kill").args(["-s", "HUP", &id]).stderr(Stdio::null()).status();
    }
    stdout.read_to_string(&mut report).expect("text");
    assert!(child.wait().expect("it ends").success() && report.contains("ring on bare"), "OUT-1");
}
