//! Runs on several threads: every byte is that of one thread (XCH-1).

use phalanx_sim::machine::Options;
use phalanx_sim::{MachineSpec, timeline};
use phalanx_trace::{Format, Writer};
use phalanx_workloads::{Outcome, Setup, WorkloadError, find};

/// One run: a machine, overrides of it, a workload and its parameters.
type Run<'a> = (&'a str, &'a [&'a str], &'a str, &'a [(&'a str, &'a str)]);

const RUNS: &[Run<'_>] = &[
    ("bare", &["system.sips.count=8"], "ring", &[("bytes", "64 KiB")]),
    ("bare", &["system.sips.count=9"], "ring", &[("bytes", "256 KiB"), ("slot_size", "512 B")]),
    ("quad-sip", &[], "ring", &[("bytes", "64 KiB")]),
    ("torus-16", &[], "ring", &[("bytes", "64 KiB")]),
    ("quad-sip", &[], "ping", &[("bytes", "64 KiB")]),
    ("quad-sip", &[], "queue", &[]),
    ("quad-sip", &[], "gemm", &[("m", "256"), ("n", "256"), ("k", "256")]),
    ("quad-sip", &[], "vector-add", &[]),
    ("quad-sip", &[], "all-reduce", &[("bytes", "64 KiB")]),
    ("torus-16", &[], "all-reduce", &[("bytes", "64 KiB")]),
    (
        "torus-16",
        &["system.sips.forwarding=cut_through"],
        "all-reduce",
        &[("bytes", "64 KiB"), ("algorithm", "ring")],
    ),
    ("quad-sip", &["system.sips.topology=switch"], "all-reduce", &[("bytes", "64 KiB")]),
    (
        "quad-sip",
        &["system.sips.topology=fully_connected"],
        "all-reduce",
        &[("bytes", "64 KiB"), ("ranks", "3")],
    ),
    ("quad-sip", &[], "tp-mlp", &[("hidden", "64"), ("tokens", "32")]),
    ("quad-sip", &[], "tp-block", &[]),
];

/// All that can be seen of a run.
fn everything(outcome: Result<Outcome, WorkloadError>) -> String {
    let Outcome { report, check, ranks } = match outcome {
        Ok(outcome) => outcome,
        Err(error) => return format!("{error}\n{error:?}"),
    };
    let mut trace = Writer::new(Vec::new(), Format::Chrome).unwrap();
    timeline::write(&report, &mut trace).unwrap();
    let trace = String::from_utf8(trace.finish().unwrap()).unwrap();
    let events = report.events;
    let path = &report.critical_path;
    format!("{report}\n{events} {path:?}\n{check:?} {ranks:?}\n{}\n{trace}", report.op_log())
}

fn run((machine, overrides, workload, given): &Run<'_>, shards: usize, options: Options) -> String {
    let machine =
        MachineSpec::preset(machine).unwrap().with_all(overrides.iter().copied()).unwrap();
    let workload = find(workload).unwrap();
    let settings = workload.settings(&machine, given).unwrap();
    everything(workload.run_on(shards, &Setup::new(machine, options), &settings))
}

/// The first lines that differ.
fn assert_same(one: &str, other: &str, what: &str) {
    if let Some((left, right)) = one.lines().zip(other.lines()).find(|(left, right)| left != right)
    {
        panic!("XCH-1: {what}\n  {left}\n  {right}");
    }
    assert_eq!(one.len(), other.len(), "XCH-1: {what}");
}

#[test]
fn xch_1_every_byte_of_a_workload_is_that_of_one_thread() {
    for one in RUNS {
        for (data, record) in [(true, true), (false, false)] {
            let options = || Options { data, record, ..Options::default() };
            let alone = run(one, 1, options());
            for shards in [2, 3, 7] {
                let what = format!("{one:?} data {data} record {record} on {shards} threads");
                assert_same(&alone, &run(one, shards, options()), &what);
            }
        }
    }
}

#[test]
fn xch_1_folding_many_steps_gives_the_same_report() {
    let one =
        &("torus-16", &[][..], "all-reduce", &[("bytes", "64 KiB"), ("algorithm", "ring")][..]);
    let options = || Options { data: false, steps: 500, ..Options::default() };
    let alone = run(one, 1, options());
    for shards in [2, 3, 7] {
        assert_same(&alone, &run(one, shards, options()), &format!("{shards} threads, folded"));
    }
}
