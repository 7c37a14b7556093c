//! Nodes: chips that are simulated in processes of their own, driven from the command line.

use crate::{directory, json, run};
use serde_json::Value;
use std::fs;

/// Every workload, small.
const SMALL: [(&str, &[&str]); 6] = [
    ("multi-chip-add", &["-p", "elements=1000", "--chips", "3"]),
    ("ffn-tp", &["-p", "m=9", "-p", "n=130", "-p", "k=65", "--chips", "3"]),
    ("allreduce-window", &["-p", "elements=100"]),
    ("domain-rank-map", &["-p", "elements=10"]),
    ("dual-domain", &["-p", "elements=50"]),
    ("moe-dispatch", &["-p", "tokens=7", "-p", "hidden=33", "-p", "experts=3", "--chips", "3"]),
];

fn words<'a>(name: &'a str, rest: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [&["node", name], rest, more].concat()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The results that must not depend on how workers are kept apart.
fn lasting(report: &Value) -> Vec<&Value> {
    let runs = report["runs"].as_array().expect("runs");
    let runs = runs.iter().flat_map(|run| [&run["tasks"], &run["simulated_ps"]]);
    let keys = ["workload", "correct", "compared", "max_abs_error", "chips", "sub_tasks"];
    keys.iter().map(|key| &report[*key]).chain(runs).collect()
}

#[test]
fn nde_1_threads_and_processes_give_the_same_numbers_and_times() {
    for (name, rest) in SMALL {
        let processes = json(&words(name, rest, &["-p", "repeats=2"]));
        let threads = json(&words(name, rest, &["-p", "repeats=2", "--threads"]));
        assert_eq!(lasting(&processes), lasting(&threads), "NDE-1: {name}");
        let isolation = [&processes, &threads].map(|report| report["isolation"].clone());
        assert_eq!(isolation, ["process", "thread"]);
        assert_eq!(processes["correct"], true, "{name}");
        assert!(processes["start_ns"].is_u64() && threads["start_ns"].is_null());
        let runs = processes["runs"].as_array().expect("runs");
        assert_eq!(runs.len(), 2);
        assert_eq!(runs[0]["simulated_ps"], runs[1]["simulated_ps"], "NDE-1: {name}");
        let chips = processes["chips"].as_array().expect("chips").iter();
        let sum: u64 = chips.map(|chip| chip["simulated_ps"].as_u64().expect("a time")).sum();
        let each = runs[0]["simulated_ps"].as_u64().expect("a time");
        assert!(each > 0 && sum == 2 * each, "NDE-1: chips and runs add up to the same: {name}");
    }
}

#[test]
fn nde_2_a_check_that_fails_names_the_first_element_and_exits_with_1() {
    for (name, rest) in SMALL {
        let output = run(&words(name, rest, &["-p", "spoil=yes", "--threads", "--json"]));
        assert_eq!(output.status.code(), Some(1), "NDE-2: {name}");
        let error = text(&output.stderr);
        assert!(error.starts_with("error: the result is wrong: element "), "NDE-2: {error}");
        let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
        assert_eq!(report["correct"], false, "NDE-2: {name}");
        let first = &report["first_difference"];
        assert!(first["what"].is_string() && first["index"].is_u64(), "NDE-2: {first}");
        assert_ne!(first["got"], first["expected"], "NDE-2: {name}");
    }
}

#[test]
fn nde_3_what_cannot_be_is_refused_before_anything_starts() {
    let cases: &[(&[&str], &str)] = &[
        (&["multi-chip-add", "-p", "element=5"], "unknown parameter `element`"),
        (&["multi-chip-add", "-p", "elements=0"], "parameter `elements`: 0 is out of range"),
        (&["multi-chip-add", "-p", "elements=many"], "parameter `elements`"),
        (&["multi-chip-add", "-p", "elements"], "a parameter is `NAME=VALUE`: `elements`"),
        (&["multi-chip-add", "-p", "spoil=maybe"], "`maybe` is not one of its words"),
        (&["multi-chip-add", "--chips", "5"], "`quad-sip` has 4 SIPs"),
        (&["domain-rank-map", "--chips", "4"], "`domain-rank-map` does not run on 4 chips"),
        (&["ffn-tp", "--chips", "1"], "`ffn-tp` does not run on 1 chips"),
        (&["moe-dispatch", "-p", "top=33"], "parameter `top`: 33 experts of 32 cannot be chosen"),
        (&["multi-chip-add", "--machine", "quadsip"], "no machine named `quadsip`"),
        (&["ffn-tpp"], "no node workload named `ffn-tpp`"),
    ];
    for (rest, expected) in cases {
        let output = run(&[&["node"], *rest].concat());
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "NDE-3: {rest:?}: {error}");
        assert!(error.contains(expected), "NDE-3: {rest:?}: {error}");
        assert!(output.stdout.is_empty(), "NDE-3: {rest:?}");
    }
}

#[test]
fn nde_3_chips_are_those_of_the_machine_that_was_named() {
    let more = ["--set", "system.sips.count=6", "--machine", "pair", "--threads"];
    let report = json(&words("allreduce-window", &["-p", "elements=8"], &more));
    let devices: Vec<u64> = report["chips"]
        .as_array()
        .expect("chips")
        .iter()
        .map(|chip| chip["device"].as_u64().expect("a number"))
        .collect();
    assert_eq!(devices, [0, 1, 2, 3, 4, 5]);
    let fast = ["--machine", "bare", "--threads", "--chips", "2"];
    let bare = json(&words("multi-chip-add", &["-p", "elements=1000"], &fast));
    let pair = json(&words("multi-chip-add", &["-p", "elements=1000"], &["--machine", "pair"]));
    let time = |report: &Value| report["chips"][0]["simulated_ps"].as_u64().expect("a time");
    assert!(time(&bare) < time(&pair), "where memory and wires cost nothing, time is shorter");
}

/// The slices of a Chrome trace: process name, slice name, begin and end in microseconds.
fn slices(trace: &Value) -> Vec<(String, String, f64, f64)> {
    let events = trace["traceEvents"].as_array().expect("events");
    let named = |pid: &Value| {
        let name = |event: &&Value| event["name"] == "process_name" && event["pid"] == *pid;
        events.iter().find(name).map(|event| event["args"]["name"].as_str().expect("a name"))
    };
    let slices = events.iter().filter(|event| event["ph"] == "X");
    let slice = |event: &Value| {
        let number = |key: &str| event[key].as_f64().expect("a number");
        let process = named(&event["pid"]).expect("a name").to_owned();
        let name = event["name"].as_str().expect("a name").to_owned();
        (process, name, number("ts"), number("ts") + number("dur"))
    };
    slices.map(slice).collect()
}

#[test]
fn a_trace_has_parent_and_children_on_one_clock() {
    let path = directory("node-trace").join("run.json");
    let file = path.to_str().expect("text");
    let more = ["--trace", file, "--chips", "2", "-p", "elements=1000", "-p", "repeats=3"];
    json(&words("multi-chip-add", &more, &[]));
    let trace: Value = serde_json::from_slice(&fs::read(&path).expect("a file")).expect("JSON");
    let all = slices(&trace);
    let of = |what: &str, name: &str| -> Vec<(f64, f64)> {
        let own = all.iter().filter(|(process, slice, ..)| process.contains(what) && slice == name);
        own.map(|(_, _, begun, ended)| (*begun, *ended)).collect()
    };
    let (runs, builds) = (of("parent", "multi-chip-add"), of("parent", "build"));
    let adds = [of("chip 0", "add"), of("chip 1", "add")];
    let checks = of("sub worker 0", "count_wrong");
    assert_eq!((runs.len(), builds.len(), checks.len()), (3, 3, 3));
    assert_eq!(adds.each_ref().map(Vec::len), [3, 3]);
    for (at, (begun, ended)) in runs.iter().enumerate() {
        assert!((builds[at].0 - begun).abs() < 1e-9, "a run begins with its graph");
        for add in &adds {
            assert!(*begun <= add[at].0, "a task begins after its graph");
            assert!(add[at].1 <= checks[at].0, "who reads waits for who writes, across processes");
        }
        assert!(checks[at].1 <= *ended, "a run ends after its last task");
    }
    let named = run(&["node", "ffn-tp", "--trace", "run.txt"]);
    assert_eq!(named.status.code(), Some(2));
}

#[test]
fn the_doctor_looks_at_everything_and_says_what_it_found() {
    let output = run(&["node", "doctor", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let checks = report["checks"].as_array().expect("checks");
    let names: Vec<&str> =
        checks.iter().map(|check| check["name"].as_str().expect("text")).collect();
    let expected = [
        "memfd_create",
        "sealing",
        "shared futex",
        "futex_waitv",
        "robust list",
        "pidfd",
        "child",
        "cores",
        "RLIMIT_NOFILE",
        "RLIMIT_NPROC",
        "RLIMIT_FSIZE",
        "memory",
        "/proc",
        "overcommit",
    ];
    assert_eq!(names, expected);
    for check in checks {
        let status = check["status"].as_str().expect("text");
        assert!(["ok", "warn", "fail"].contains(&status), "{check}");
        assert_eq!(status == "ok", check["advice"].is_null(), "DOC-3: {check}");
        assert!(check["found"].is_string() && check["meaning"].is_string(), "{check}");
    }
    let is_broken = checks.iter().any(|check| check["status"] == "fail");
    assert_eq!(output.status.code(), Some(i32::from(is_broken)));
    let plain = run(&["node", "doctor"]);
    assert!(text(&plain.stdout).starts_with("check          status  found\n"));
}

#[test]
fn a_child_that_is_started_by_hand_says_what_it_is() {
    let output = run(&["phalanx-worker", "chip 0"]);
    assert_eq!(output.status.code(), Some(2));
    let error = text(&output.stderr);
    assert!(error.contains("is how this program starts its own workers"), "{error}");
}
