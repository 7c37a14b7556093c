//! `mpirun -n N phalanx ..`: the bytes and the exit codes of one process, and ends without a hang.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_phalanx");

fn directory(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a directory for the test");
    path
}

fn alone(words: &[&str]) -> Output {
    Command::new(PROGRAM).args(words).env("PHALANX_CACHE", "off").output().expect("it runs")
}

/// Runs a command in so many processes. A process that hangs fails by the limit of `timeout`.
fn together(processes: u32, command: &[&str]) -> Output {
    let mut mpirun = Command::new("timeout");
    mpirun.args(["300", "mpirun", "--oversubscribe", "-n", &processes.to_string()]).args(command);
    // Processes that wait for others leave the core to them, however busy the host is.
    mpirun.env("PHALANX_CACHE", "off").env("OMPI_MCA_mpi_yield_when_idle", "1");
    mpirun.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
    mpirun.output().expect("mpirun starts")
}

/// All but the time that the run took. The terminal of `mpirun` may end lines in its own way.
fn lasting(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n");
    let is_lasting = |line: &&str| !line.trim_start().trim_start_matches('"').starts_with("wall");
    text.lines().filter(is_lasting).collect::<Vec<_>>().join("\n")
}

#[test]
fn mpi_1_reports_and_errors_are_those_of_one_process() {
    let commands: &[&[&str]] = &[
        &["run", "tp-mlp", "-p", "hidden=64", "-p", "tokens=32"],
        &["run", "ring", "--machine", "octo-ring", "-p", "bytes=64KiB", "--json"],
        &["run", "all-reduce", "-p", "bytes=16KiB", "--op-log", "-", "--shards", "2"],
        &["run", "gemm", "--data", "off", "--advice", "off"],
        &["ccl", "all_gather", "-b", "4K", "-e", "16K", "--machine", "octo-ring", "--check"],
        &["ccl", "all_reduce", "-b", "1K", "-e", "1K", "-a", "all", "--json"],
        &["run", "all-reduce", "-p", "bytes=1TiB"],
        &["run", "all-reduce", "-p", "bytes=1TiB", "--json"],
        &["run", "rung"],
        &["run", "ring", "-p", "bytes=many"],
        &["run", "ring", "--range", "none"],
    ];
    for words in commands {
        let one = alone(words);
        for processes in [2, 4] {
            let all = together(processes, &[&[PROGRAM], *words].concat());
            let what = format!("MPI-1: {words:?} in {processes} processes");
            assert_eq!(lasting(&all.stdout), lasting(&one.stdout), "{what}");
            assert_eq!(all.status.code(), one.status.code(), "{what}");
            let (said, expected) = (lasting(&all.stderr), lasting(&one.stderr));
            assert!(said.starts_with(&expected), "{what}\n{said}\n{expected}");
        }
    }
}

#[test]
fn mpi_1_files_are_those_of_one_process() {
    let place = directory("mpi-files");
    let file = |name: &str| place.join(name).display().to_string();
    let run = |trace: &str, log: &str| {
        let words = ["run", "all-reduce", "-p", "bytes=16KiB", "--trace", trace, "--op-log", log];
        words.map(ToOwned::to_owned)
    };
    let words = run(&file("one.json"), &file("one.log"));
    assert!(alone(&words.each_ref().map(String::as_str)).status.success());
    let words = run(&file("all.json"), &file("all.log"));
    let command = [&[PROGRAM][..], &words.each_ref().map(String::as_str)].concat();
    let all = together(4, &command);
    assert!(all.status.success(), "MPI-1: {}", String::from_utf8_lossy(&all.stderr));
    for (one, all) in [("one.json", "all.json"), ("one.log", "all.log")] {
        assert!(fs::read(file(one)).unwrap() == fs::read(file(all)).unwrap(), "MPI-1: {all}");
    }
    let left = fs::read_dir(&place).unwrap().count();
    assert_eq!(left, 4, "MPI-1: no other process has written");
}

#[test]
fn mpi_2_a_process_that_fails_alone_is_named() {
    let script = format!(
        "if [ $OMPI_COMM_WORLD_RANK = 1 ]; then cd /; machine=nowhere.yaml; else machine=quad-sip; fi; \
         exec {PROGRAM} run ring --machine $machine"
    );
    let ended = together(3, &["sh", "-c", &script]);
    let said = lasting(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "MPI-2: {said}");
    assert!(said.contains("error: process 1 of 3 has ended: "), "MPI-2: {said}");
    assert!(said.contains("nowhere.yaml"), "MPI-2: {said}");
}

#[test]
fn mpi_2_a_process_that_dies_ends_the_run() {
    // The run lasts for minutes if nobody ends it.
    let script = format!(
        "if [ $OMPI_COMM_WORLD_RANK = 1 ]; then (sleep 1; kill -9 $$) & fi; \
         exec {PROGRAM} run ring --machine pod-64 --data off -p bytes=16GiB"
    );
    let ended = together(2, &["sh", "-c", &script]);
    let said = lasting(&ended.stderr);
    assert!(!ended.status.success() && ended.status.code() != Some(124), "MPI-2: {said}");
    assert_eq!(lasting(&ended.stdout), "", "MPI-2: no report of a run that did not end");
    // `mpirun` names a process that dies before it has met the others in most runs, not in all.
    assert!(said.contains("rank 1") || said.contains("the job has been aborted"), "MPI-2: {said}");
}

#[test]
fn mpi_3_processes_that_differ_are_refused() {
    let script = format!("exec {PROGRAM} run ring -p seed=$OMPI_COMM_WORLD_RANK");
    let ended = together(2, &["sh", "-c", &script]);
    let said = lasting(&ended.stderr);
    assert_eq!(ended.status.code(), Some(2), "MPI-3: {said}");
    assert!(said.contains("process 1 has other arguments than process 0"), "MPI-3: {said}");
}

#[test]
fn swe_4_a_sweep_is_shared_by_processes() {
    let words =
        ["sweep", "run", "ring", "-p", "bytes=1..64KiB:x2", "-p", "seed=1..3:+1", "--jobs", "1"];
    let one = alone(&words);
    assert!(one.status.success());
    let place = directory("mpi-sweep");
    let file = place.join("rows.jsonl").display().to_string();
    let command = [&[PROGRAM][..], &words, &["-o", &file]].concat();
    let all = together(3, &command);
    assert!(all.status.success(), "SWE-4: {}", String::from_utf8_lossy(&all.stderr));
    assert_eq!(lasting(&all.stdout), lasting(&one.stdout), "SWE-4");
}

#[test]
fn the_doctor_finds_what_these_tests_need() {
    let mut command = Command::new(PROGRAM);
    command.args(["doctor", "mpi"]);
    command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
    let ended = command.output().expect("it runs");
    let text = lasting(&ended.stdout);
    assert!(ended.status.success(), "{text}");
    assert!(text.contains("us a meeting"), "{text}");
}
