//! Critical paths of the workloads: whole, and explained.

use crate::workloads::{attempt, machine};
use phalanx_sim::Time;
use phalanx_sim::config;
use phalanx_sim::machine::Options;
use phalanx_sim::report::{CriticalPath, Report};
use phalanx_sim::stall::Kind;

/// A workload and its parameters.
type Case = (&'static str, &'static [(&'static str, &'static str)]);

/// Every workload, at a size that is cheap to simulate.
const CASES: [Case; 10] = [
    ("ping", &[]),
    ("queue", &[]),
    ("ring", &[("bytes", "64 KiB")]),
    ("vector-add", &[]),
    ("gemm", &[("m", "512"), ("n", "512"), ("k", "512")]),
    ("chip-gemm", &[("m", "512"), ("n", "512"), ("k", "128")]),
    ("chip-gemm", &[("m", "256"), ("n", "256"), ("k", "256")]),
    ("all-reduce", &[("bytes", "64 KiB"), ("algorithm", "ring")]),
    ("tp-mlp", &[("hidden", "64"), ("tokens", "16")]),
    ("tp-block", &[("hidden", "64"), ("heads", "64"), ("sequence", "8")]),
];

/// Every preset.
fn presets() -> Vec<&'static str> {
    config::presets().iter().map(|preset| preset.name).collect()
}

fn run((name, parameters): Case, preset: &str, options: Options) -> Report {
    let outcome = attempt(machine(preset, &[]), name, parameters, options);
    outcome.unwrap_or_else(|error| panic!("{name} on {preset}: {error}")).report
}

/// Returns the share of the run that the path names, in percent.
fn named(report: &Report) -> u64 {
    let CriticalPath { parts, latency, .. } = &report.critical_path;
    let named = parts.iter().fold(*latency, |sum, part| sum + part.time);
    assert!(named <= report.simulated, "REC-1: {named} of {}", report.simulated);
    named.as_ps() * 100 / report.simulated.as_ps().max(1)
}

/// Returns the time of a kind that the parts of a path name.
fn time_of(path: &CriticalPath, kind: Kind) -> Time {
    let parts = path.parts.iter().filter(|part| part.kind == kind);
    parts.fold(Time::ZERO, |sum, part| sum + part.time)
}

#[test]
fn rec_2_rec_6_the_path_of_every_workload_is_whole_and_explains_nine_tenths_of_the_run() {
    let mut unexplained = Vec::new();
    for case in CASES {
        for preset in presets() {
            let report = run(
                case,
                preset,
                Options { data: false, critical_path: true, ..Options::default() },
            );
            let path = &report.critical_path;
            assert!(path.complete && path.forgotten == 0, "REC-2: {} on {preset}", case.0);
            assert_eq!(path.spent.total(), report.simulated, "REC-1: {} on {preset}", case.0);
            for kind in [Kind::Credit, Kind::Latency] {
                let (parts, whole) = (time_of(path, kind), path.spent.get(kind));
                assert_eq!(parts, whole, "REC-6: {kind} of {} on {preset}", case.0);
            }
            if named(&report) < 90 {
                unexplained.push(format!("{} on {preset}: {} %", case.0, named(&report)));
            }
        }
    }
    assert!(unexplained.is_empty(), "REC-2: {unexplained:#?}");
}

#[test]
fn rec_2_the_path_of_every_workload_can_be_folded_all_the_time() {
    for case in CASES {
        for preset in ["bare", "pair", "quad-sip"] {
            let options = Options { data: false, critical_path: true, ..Options::default() };
            let folded = run(case, preset, Options { steps: 1, ..options.clone() }).critical_path;
            let whole = run(case, preset, Options { record: true, ..options }).critical_path;
            assert!(folded.complete && whole.complete, "REC-2: {} on {preset}", case.0);
            assert_eq!(folded.parts, whole.parts, "REC-2: {} on {preset}", case.0);
            assert_eq!(folded.latency, whole.latency, "REC-2: {} on {preset}", case.0);
        }
    }
}

#[test]
fn rec_2_a_long_run_on_a_torus_is_folded_and_keeps_its_whole_path() {
    let case: Case = ("all-reduce", &[("bytes", "1 MiB"), ("algorithm", "ring")]);
    let options =
        Options { data: false, critical_path: true, steps: 1 << 12, ..Options::default() };
    let folded = run(case, "torus-16", options.clone()).critical_path;
    let whole = run(case, "torus-16", Options { record: true, ..options }).critical_path;
    assert!(folded.complete && folded.forgotten == 0, "REC-2");
    assert_eq!((&folded.parts, folded.latency), (&whole.parts, whole.latency), "REC-2");
    assert!(folded.kept < 1 << 13 && folded.kept < whole.kept, "REC-2: {} steps", folded.kept);
}
