//! `phalanx sweep` and `phalanx cache` as users meet them.

use crate::{directory, phalanx};
use std::fs;
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::time::Duration;

const SWEEP: [&str; 10] = [
    "sweep",
    "run",
    "ring",
    "--machine",
    "bare,pair",
    "--set",
    "system.sips.link.bandwidth=64..256GB/s:x2",
    "-p",
    "bytes=16..256KiB:x4",
    "--json",
];

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn output(words: &[&str], more: &[&str]) -> Output {
    phalanx().args(words).args(more).output().expect("the program starts")
}

/// The rows on stdout; it must succeed.
fn rows(more: &[&str]) -> String {
    let output = output(&SWEEP, more);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn swe_1_the_same_bytes_on_any_number_of_jobs_and_shares() {
    let all = rows(&["--jobs", "1"]);
    assert_eq!(all.lines().count(), 18);
    assert!(all.starts_with(
        "{\"point\": {\"machine\": \"bare\", \"system.sips.link.bandwidth\": \"64GB/s\", \"bytes\": \"16KiB\"}, \"simulated_ps\": "
    ));
    assert_eq!(all, rows(&["--jobs", "4"]));
    let file = directory("sweep-shares").join("rows.jsonl");
    let name = file.to_str().expect("a plain name");
    let mut shared = 0;
    for share in ["0/3", "2/3", "1/3"] {
        assert!(!file.exists());
        shared += rows(&["--shard", share, "-o", name]).lines().count();
    }
    assert_eq!(shared, 18);
    assert_eq!(fs::read_to_string(&file).expect("the last share writes it"), all);
    assert!(!Path::new(&format!("{name}.sweep")).exists());
}

/// A process as `mpirun` starts it.
fn member(rank: &str, file: &Path) -> Child {
    let file = file.to_str().expect("a plain name");
    phalanx()
        .args(SWEEP)
        .args(["-o", file, "--jobs", "1"])
        .envs([
            ("OMPI_COMM_WORLD_RANK", rank),
            ("OMPI_COMM_WORLD_SIZE", "2"),
            ("PMIX_NAMESPACE", "job"),
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts")
}

#[test]
fn swe_4_processes_of_a_launcher_share_the_points() {
    let file = directory("sweep-team").join("rows.jsonl");
    let (one, two) = (member("1", &file), member("0", &file));
    let other = one.wait_with_output().expect("it ends");
    let first = two.wait_with_output().expect("it ends");
    assert!(first.status.success() && other.status.success(), "{}", text(&first.stderr));
    assert_eq!((text(&other.stdout), text(&first.stdout)), (String::new(), rows(&[])));
    assert_eq!(fs::read_to_string(&file).expect("process 0 writes it"), rows(&[]));
    assert!(!file.with_extension("jsonl.sweep").exists(), "SWE-5: the last process clears up");
}

#[test]
fn swe_3_a_sweep_that_was_killed_goes_on_where_it_was() {
    let file = directory("sweep-killed").join("rows.csv");
    let words = [
        "sweep",
        "run",
        "ring",
        "--machine",
        "bare",
        "-p",
        "bytes=1..256MiB:x2",
        "-p",
        "seed=1..6:+1",
        "--jobs",
        "1",
        "-o",
    ];
    let name = file.to_str().expect("a plain name");
    let start = || {
        let mut command = phalanx();
        command.args(words).arg(name).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("the program starts")
    };
    let journal = file.with_extension("csv.sweep");
    let done = || {
        let files = fs::read_dir(&journal).into_iter().flatten().flatten();
        let texts = files.filter_map(|file| fs::read_to_string(file.path()).ok());
        texts.map(|text| text.lines().count()).sum::<usize>()
    };
    let mut child = start();
    while done() < 2 && child.try_wait().expect("a child").is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    let _ = child.wait();
    // A machine may be so fast that the sweep had ended: then there is nothing to go on with.
    if !file.exists() {
        assert!(done() >= 2, "finished points are kept");
        assert!(start().wait().expect("it ends").success());
    }
    let whole = fs::read_to_string(&file).expect("the file");
    let again = directory("sweep-whole").join("rows.csv");
    let output = phalanx().args(words).arg(&again).output().expect("the program starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(whole, fs::read_to_string(&again).expect("the file"));
}

#[test]
fn swe_2_rows_tell_what_failed() {
    let words = ["sweep", "run", "ping", "--machine", "bare", "-p", "bytes=64KiB,3", "--csv"];
    let output = output(&words, &[]);
    assert!(output.status.success());
    let text = text(&output.stdout);
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("bytes,simulated_ps,error"));
    assert_eq!(lines.next(), Some("64KiB,1012000,"));
    assert!(lines.next().is_some_and(|line| line.starts_with("3,,")), "{text}");
}

#[test]
fn mistakes_are_pointed_at() {
    let cases: [(&[&str], &str); 8] = [
        (&["ping", "-p", "bytes=1..8"], "a range has a step"),
        (&["pin"], "did you mean `ping`?"),
        (&["ping", "-p", "byte=1KiB,2KiB"], "unknown parameter `byte`"),
        (&["ping", "--set", "system.sips.coutn=2,4"], "did you mean `count`?"),
        (&["ping", "--set", "bytes=2"], "set with `-p`"),
        (&["ping", "-o", "rows.txt"], "neither `.jsonl` nor `.csv`"),
        (&["ping", "--shard", "4/4"], "as in `0/4`"),
        (&["ping", "--machine", "bare,bare"], "twice"),
    ];
    for (words, message) in cases {
        let output = output(&["sweep", "run"], words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(text(&output.stderr).contains(message), "{words:?}: {}", text(&output.stderr));
    }
}

#[test]
fn finished_points_are_kept_and_cleared() {
    let cache = directory("sweep-cache");
    let run = |words: &[&str]| {
        let output =
            phalanx().args(words).env("PHALANX_CACHE", &cache).output().expect("it starts");
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let sweep = ["sweep", "run", "ping", "--machine", "bare", "-p", "bytes=1..4KiB:x2"];
    let (first, second) = (run(&sweep), run(&sweep));
    assert_eq!(first, second);
    assert_eq!(fs::read_dir(cache.join("sweeps")).expect("kept").count(), 1);
    run(&["cache", "clear"]);
    assert!(!cache.join("sweeps").exists());
    run(&[&sweep[..], &["--no-cache"]].concat());
    assert!(!cache.join("sweeps").exists());
}
