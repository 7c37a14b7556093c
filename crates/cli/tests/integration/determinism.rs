//! The same words give the same bytes, in any process and with any number of threads.

use crate::{directory, run};
use std::fs;

const RUNS: [&[&str]; 4] = [
    &["run", "ring", "--machine", "bare", "-p", "bytes=256KiB"],
    &["run", "gemm", "--machine", "pair", "-p", "m=256", "-p", "n=256", "-p", "k=256"],
    &["run", "vector-add", "--machine", "pair", "-p", "elements=100000"],
    &["run", "queue", "-p", "n_slots=2"],
];

/// Without the lines that say how long it took.
fn timeless(stdout: &[u8]) -> String {
    let text = String::from_utf8(stdout.to_vec()).expect("text");
    let kept =
        text.lines().filter(|line| !line.starts_with("wall") && !line.contains("\"wall_ns\""));
    kept.collect::<Vec<_>>().join("\n")
}

#[test]
fn stdout_is_the_same_twice_except_for_wall_time() {
    for words in RUNS {
        for format in [&[][..], &["--json"]] {
            let words = [words, format].concat();
            let [one, two] = [run(&words), run(&words)].map(|output| timeless(&output.stdout));
            assert!(one.len() > 200, "{one}");
            assert_eq!(one, two, "{words:?}");
        }
    }
}

#[test]
fn traces_and_op_logs_are_the_same_in_every_process_and_with_any_threads() {
    let directory = directory("determinism");
    let bytes = |words: &[&str], threads: &str, number: usize| {
        ["a.pftrace", "a.json", "a.log"].map(|name| {
            let path = directory.join(format!("{number}{name}"));
            let option = if name == "a.log" { "--op-log" } else { "--trace" };
            let path_text = path.to_str().expect("a path of letters");
            let output = run(&[words, &["--threads", threads, option, path_text]].concat());
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            fs::read(path).expect("the file was written")
        })
    };
    for words in RUNS {
        let first = bytes(words, "1", 0);
        assert!(first.iter().all(|file| file.len() > 1_000), "{words:?}");
        assert!(first == bytes(words, "1", 1), "{words:?}: in another process");
        assert!(first == bytes(words, "3", 2), "{words:?}: with three threads");
    }
}
