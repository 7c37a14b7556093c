//! Limits of descriptors, threads and memory: a worker starts whole, or fails whole and says why.

use crate::support::{FIXTURE, eventually, turn};
use std::io::Read;
use std::process::{Command, Stdio};

/// Returns the words of the fixture when it is started like this.
fn said(arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new(FIXTURE);
    // Each thread takes so much of the addresses that the next one cannot be had.
    command.env("RUST_MIN_STACK", (1u64 << 30).to_string());
    command.env_remove("RUST_BACKTRACE");
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut fixture = command.spawn().expect("the fixture starts");
    let mut status = None;
    let is_done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        eventually("the fixture ends", || {
            status = fixture.try_wait().expect("our child");
            status.is_some()
        });
    }));
    let _ = fixture.kill();
    let (mut lines, mut errors) = (String::new(), String::new());
    let _ = fixture.stdout.take().map(|mut out| out.read_to_string(&mut lines));
    let _ = fixture.stderr.take().map(|mut out| out.read_to_string(&mut errors));
    let is_well = is_done.is_ok() && status.is_some_and(|status| status.success());
    assert!(is_well, "{arguments:?}: {status:?}\n{lines}\n{errors}");
    lines.lines().map(str::to_owned).collect()
}

/// Low limits fail with words that name the limit, high ones work; the fixture checks that nothing is left behind.
fn check(isolation: &str, what: &str, hint: &str) {
    let _turn = turn();
    let lines = said(&["limited", isolation, what]);
    let failed: Vec<_> = lines.iter().filter(|line| !line.ends_with(": ok")).collect();
    println!("{isolation}, {what}: {} of {} limits are too low", failed.len(), lines.len());
    assert!(lines.last().is_some_and(|line| line.ends_with(": ok")), "{lines:#?}");
    assert!(!failed.is_empty(), "{lines:#?}");
    for line in failed {
        assert!(line.contains(hint), "{line}");
    }
}

#[test]
fn wrk_8_threads_that_run_out_of_descriptors_fail_whole() {
    check("threads", "descriptors", "ulimit -n");
}

#[test]
fn wrk_8_threads_that_cannot_be_had_fail_whole() {
    check("threads", "addresses", "ulimit -v");
}

#[test]
fn prc_3_processes_that_run_out_of_descriptors_fail_whole() {
    check("processes", "descriptors", "ulimit -n");
}

#[test]
fn prc_3_processes_whose_progress_thread_cannot_be_had_fail_whole() {
    check("processes", "addresses", "ulimit -v");
}

#[test]
fn seg_5_shared_memory_beyond_the_limit_of_file_sizes_is_refused_with_words() {
    check("threads", "file size", "ulimit -f");
    check("processes", "file size", "ulimit -f");
}

#[test]
fn doc_4_the_doctor_survives_a_limit_of_file_sizes_and_says_what_it_means() {
    let _turn = turn();
    for (bytes, status) in [("0", "Broken"), ("5000", "Broken"), ("4000000", "Doubtful")] {
        let lines = said(&["examine", bytes]);
        let limit = lines.iter().find(|line| line.starts_with("RLIMIT_FSIZE"));
        let limit = limit.expect("DOC-4: it is looked at");
        assert!(limit.contains(status) && limit.contains("ulimit -f"), "DOC-4: {limit}");
        let child = lines.iter().find(|line| line.starts_with("child")).expect("a child is tried");
        assert_eq!(child.contains("Fine"), status == "Doubtful", "DOC-4: {child}");
    }
}
