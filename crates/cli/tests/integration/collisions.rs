//! Outputs that would overwrite each other or an input.

use crate::{directory, phalanx};
use std::fs;
use std::path::Path;
use std::process::Output;

/// The output of the program in `directory`.
fn run_in(directory: &Path, words: &[&str]) -> Output {
    phalanx().current_dir(directory).args(words).output().expect("the program starts")
}

/// Requires that the program refuses `words` with `message`, and leaves every file as it was.
fn refused(directory: &Path, words: &[&str], message: &str) {
    let before = contents(directory);
    let output = run_in(directory, words);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "OUT-3: {words:?}: {stderr}");
    assert!(
        stderr.starts_with(&format!("error: {message}\n\nhint: ")),
        "OUT-3: {words:?}: {stderr}"
    );
    assert_eq!(contents(directory), before, "OUT-3: {words:?}");
}

/// Every file of a directory and its content.
fn contents(directory: &Path) -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = fs::read_dir(directory)
        .expect("the directory")
        .map(|entry| entry.expect("an entry"))
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, fs::read_to_string(entry.path()).unwrap_or_default())
        })
        .collect();
    files.sort();
    files
}

#[test]
fn out_3_two_outputs_are_not_one_file_whatever_its_name() {
    let place = directory("out-3-outputs");
    fs::create_dir(place.join("sub")).expect("a directory");
    let pair = |trace: &str, log: &str| {
        let words = ["run", "ping", "--trace", trace, "--op-log", log];
        let message = format!("`--trace` and `--op-log` name the same file: `{trace}` and `{log}`");
        refused(&place, &words, &message);
    };
    pair("new.json", "./new.json");
    pair("new.json", "sub/../new.json");
    pair("new.json", place.join("new.json").to_str().expect("a path of letters"));
    fs::write(place.join("old.json"), "old").expect("a file");
    pair("old.json", "./old.json");
}

#[cfg(unix)]
#[test]
fn out_3_links_are_followed() {
    use std::os::unix::fs::symlink;
    let place = directory("out-3-links");
    fs::write(place.join("old.json"), "old").expect("a file");
    fs::hard_link(place.join("old.json"), place.join("hard.log")).expect("a hard link");
    symlink("old.json", place.join("soft.log")).expect("a link");
    symlink("new.json", place.join("dangling.log")).expect("a link");
    for (trace, log) in
        [("old.json", "hard.log"), ("old.json", "soft.log"), ("new.json", "dangling.log")]
    {
        let message = format!("`--trace` and `--op-log` name the same file: `{trace}` and `{log}`");
        refused(&place, &["run", "ping", "--trace", trace, "--op-log", log], &message);
    }
}

#[test]
fn out_3_an_input_is_not_overwritten() {
    let place = directory("out-3-inputs");
    let machine = phalanx().args(["machines", "show", "bare"]).output().expect("it runs").stdout;
    fs::write(place.join("lab.json"), machine).expect("a file");
    fs::write(place.join("ccl.yaml"), "version: 1\n").expect("a file");
    fs::write(place.join("other.yaml"), "version: 1\n").expect("a file");
    let overwrite = |option: &str, file: &str, reader: &str| {
        format!("`{option}` would overwrite `{file}`, which the run reads (`{reader}`)")
    };
    let lab = ["--machine", "./lab.json"];
    let case = |words: &[&str], message: String| refused(&place, &[words, &lab].concat(), &message);
    case(&["run", "ping", "--op-log", "lab.json"], overwrite("--op-log", "lab.json", "--machine"));
    case(&["run", "ping", "--trace", "lab.json"], overwrite("--trace", "lab.json", "--machine"));
    case(&["run", "ping", "--op-log", "ccl.yaml"], overwrite("--op-log", "ccl.yaml", "./ccl.yaml"));
    let ccl = ["run", "ping", "--ccl", "other.yaml", "--op-log", "./other.yaml"];
    case(&ccl, overwrite("--op-log", "./other.yaml", "--ccl"));
    let node = ["node", "multi-chip-add", "--trace", "lab.json"];
    case(&node, overwrite("--trace", "lab.json", "--machine"));
}

#[cfg(unix)]
#[test]
fn out_3_the_file_that_stdout_goes_to_is_not_replaced() {
    let place = directory("out-3-stdout");
    let path = place.join("run.log");
    let stdout = fs::File::create(&path).expect("a file");
    let words = ["run", "ping", "--op-log", "run.log"];
    let child = phalanx().current_dir(&place).args(words).stdout(stdout).output().expect("it runs");
    assert_eq!(child.status.code(), Some(2), "OUT-3");
    let message = "error: `--op-log` and stdout are the same file: `run.log`\n";
    assert!(String::from_utf8_lossy(&child.stderr).starts_with(message), "OUT-3");
}

#[test]
fn out_3_files_of_their_own_are_written() {
    let place = directory("out-3-fine");
    let words = ["run", "ping", "--trace", "run.json", "--op-log", "run.log"];
    let output = run_in(&place, &words);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(contents(&place).len(), 2, "OUT-3");
}
