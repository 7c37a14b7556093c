//! Files read and written, pipes, and what is left behind by a failure.

use crate::{directory, phalanx, run};
#[cfg(unix)]
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{Read, Write};
use std::process::{Output, Stdio};
#[cfg(unix)]
use std::time::Duration;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn check_stdin(input: &[u8]) -> Output {
    let mut child = phalanx()
        .args(["check", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    // It stops reading what is too long.
    let _ = stdin.write_all(input);
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

#[test]
fn check_reads_stdin() {
    let machine = run(&["machines", "show", "bare"]).stdout;
    let good = check_stdin(&machine);
    assert_eq!(text(&good.stdout), "stdin: ok (bare, 8 SIPs, ring_1d, 8 PEs)\n");
    let bad = check_stdin(b"name: [");
    assert_eq!((bad.status.code(), text(&bad.stdout)), (Some(2), String::new()));
    assert!(text(&bad.stderr).contains("--> stdin:1:"), "{}", text(&bad.stderr));
}

#[test]
fn check_refuses_what_is_no_text() {
    let output = check_stdin(b"name: caf\xe9\n");
    assert_eq!(output.status.code(), Some(2));
    let expected = "error: cannot read `stdin`: it is not UTF-8 text (byte 9)\n";
    assert_eq!(text(&output.stderr), expected);
    let endless = check_stdin(&vec![b'#'; 300 << 10]);
    assert_eq!(endless.status.code(), Some(2));
    assert!(text(&endless.stderr).contains("longer than 256 KiB"), "{}", text(&endless.stderr));
}

#[test]
fn every_shipped_machine_is_valid() {
    // `chips` has the parts that machines name as their base.
    let machines: Vec<_> = fs::read_dir("../../machines")
        .expect("the machines")
        .map(|entry| entry.expect("a file").path())
        .filter(|path| path.is_file())
        .collect();
    let mut command = phalanx();
    let output = command.arg("check").args(&machines).output().expect("the program starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout).lines().count(), machines.len());
}

#[test]
fn cli_1_a_reader_that_stops_is_fine() {
    let mut child = phalanx()
        .args(["run", "ring", "--machine", "bare", "--op-log", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdout = child.stdout.take().expect("a pipe");
    let mut byte = [0];
    stdout.read_exact(&mut byte).expect("a first byte");
    drop(stdout);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
}

#[test]
fn cli_2_data_is_on_stdout_and_the_rest_on_stderr() {
    let log = run(&["run", "ping", "--machine", "bare", "--op-log", "-"]);
    assert!(text(&log.stdout).lines().all(|line| line.as_bytes()[0].is_ascii_digit()));
    assert!(text(&log.stderr).starts_with("ping on bare"));
    let error = run(&["run", "png"]);
    assert!(error.stdout.is_empty() && !error.stderr.is_empty());
}

#[test]
fn out_1_a_run_that_fails_leaves_what_was_there() {
    let directory = directory("out-1");
    let trace = directory.join("run.json");
    fs::write(&trace, "old").expect("a file");
    let path = trace.to_str().expect("a path of letters");
    let cramped = ["--machine", "pair", "--set", "pe.tcm.capacity=1 KiB"];
    let failed = run(&[&["run", "queue", "--trace", path][..], &cramped].concat());
    assert_eq!(failed.status.code(), Some(1), "{}", text(&failed.stderr));
    assert_eq!(fs::read_to_string(&trace).expect("it is there"), "old");
    let fine = run(&["run", "queue", "--trace", path]);
    assert!(fine.status.success() && fine.stderr.is_empty(), "{}", text(&fine.stderr));
    assert!(fs::read_to_string(&trace).expect("it is there").starts_with('{'));
    let names = fs::read_dir(&directory).expect("the directory");
    assert_eq!(names.count(), 1, "OUT-1: no draft is left");
}

#[test]
fn out_2_a_place_that_cannot_be_written_is_refused_before_the_run() {
    let directory = directory("out-2");
    let path = directory.join("missing/run.json");
    let trace = path.to_str().expect("a path of letters");
    // A run of this size takes minutes.
    let output = run(&["run", "queue", "-p", "chunks=100000000", "--trace", trace]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no such file or directory"), "{}", text(&output.stderr));
}

#[test]
fn a_device_is_written_to_and_not_replaced() {
    let output = run(&["run", "ping", "--op-log", "/dev/null"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(!fs::metadata("/dev/null").expect("it is there").is_file());
}

#[test]
fn colours_add_nothing_but_colours() {
    let words = ["run", "gem", "--set", "foo"];
    let plain = run(&[&words[..], &["--color", "auto"]].concat()).stderr;
    let colored = text(&run(&[&words[..], &["--color", "always"]].concat()).stderr);
    assert!(colored.contains('\u{1b}') && !text(&plain).contains('\u{1b}'));
    assert_eq!(anstream::adapter::strip_str(&colored).to_string(), text(&plain));
}

#[test]
fn completions_are_scripts() {
    for (shell, word) in [("bash", "complete"), ("zsh", "#compdef"), ("fish", "complete")] {
        let output = run(&["completions", shell]);
        assert!(output.status.success() && text(&output.stdout).contains(word), "{shell}");
    }
}

/// Waits until a draft is there, and interrupts; the exit code and what is left. Nothing if the program had ended before.
#[cfg(unix)]
fn interrupted(name: &str, signal: Signal) -> Option<(i32, Vec<String>)> {
    let directory = directory(name);
    let trace = directory.join("run.pftrace");
    fs::write(&trace, "old").expect("a file");
    let mut child = phalanx()
        .args([
            "run",
            "ring",
            "--machine",
            "pod-64",
            "-p",
            "bytes=128MiB",
            "--data",
            "off",
            "--trace",
        ])
        .arg(&trace)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let names = || {
        let entries = fs::read_dir(&directory).expect("the directory");
        let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        entries.map(|entry| name(entry.expect("an entry"))).collect::<Vec<_>>()
    };
    while names().len() < 2 {
        if child.try_wait().expect("a child").is_some() {
            return None;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    kill_process(Pid::from_child(&child), signal).expect("it is there");
    let code = child.wait().expect("it ends").code().expect("CLI-1: an exit code");
    if code == 0 {
        return None;
    }
    assert_eq!(fs::read_to_string(&trace).expect("it is there"), "old", "OUT-1");
    Some((code, names()))
}

#[cfg(unix)]
#[test]
fn out_1_and_cli_1_an_interrupt_leaves_nothing_behind() {
    // A test that was started to ignore a signal (`nohup`, a shell's `&`) starts programs that do, too.
    let status = fs::read_to_string("/proc/self/status").expect("this process");
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = u64::from_str_radix(ignored.unwrap_or("0").trim(), 16).expect("a mask");
    for (name, signal, number) in [
        ("interrupt", Signal::INT, 2),
        ("terminate", Signal::TERM, 15),
        ("hang-up", Signal::HUP, 1),
    ] {
        if ignored & 1 << (number - 1) == 0 {
            // A test that is paused may be too late; one that always is has met a program that ignores the signal.
            let found = (0..20).find_map(|_| interrupted(name, signal)).expect("CLI-1");
            assert_eq!(found, (128 + number, vec!["run.pftrace".to_owned()]), "OUT-1, CLI-1");
        }
    }
}

#[cfg(unix)]
#[test]
fn out_1_a_link_to_nothing_is_written_through() {
    let directory = directory("dangling");
    fs::create_dir(directory.join("far")).expect("a directory");
    for (to, link) in [("far/run.log", "near.log"), ("near.log", "nearer.log")] {
        std::os::unix::fs::symlink(to, directory.join(link)).expect("a link");
    }
    let link = directory.join("nearer.log");
    let output = run(&["run", "ping", "--op-log", link.to_str().expect("a path of letters")]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(fs::symlink_metadata(&link).expect("it is there").is_symlink(), "OUT-1: still a link");
    let log = fs::read_to_string(directory.join("far/run.log")).expect("what it points at");
    assert!(log.lines().count() > 1, "{log}");
}

#[test]
fn cli_2_words_that_are_no_command_are_json_too() {
    for (words, message) in [
        (&["run", "ping", "--jsn", "--json"][..], "unexpected argument '--jsn' found"),
        (
            &["run", "--json", "ping", "--machine"],
            "a value is required for '--machine <NAME|FILE>'",
        ),
        (&["machines", "--json", "shw"], "unrecognized subcommand 'shw'"),
    ] {
        let output = run(words);
        assert_eq!(output.status.code(), Some(2), "CLI-1: {words:?}");
        assert!(text(&output.stderr).contains("try '--help'"), "{}", text(&output.stderr));
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("CLI-2: JSON");
        assert_eq!(json["error"]["kind"], "input");
        let got = json["error"]["message"].as_str().expect("a text");
        assert!(got.starts_with(message), "{got}");
    }
    let plain = run(&["run", "ping", "--jsn"]);
    assert!(plain.stdout.is_empty() && plain.status.code() == Some(2));
    let help = run(&["run", "--json", "--help"]);
    assert!(help.status.success() && text(&help.stdout).contains("Usage: "));
}
