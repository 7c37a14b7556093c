//! Parameters: which are refused, and when.

use phalanx_sim::machine::Options;
use phalanx_sim::memory::MemoryError;
use phalanx_sim::{Bytes, MachineSpec};
use phalanx_workloads::{self as workload, Outcome, ParameterError, WorkloadError};

fn preset(name: &str, overrides: &[&str]) -> MachineSpec {
    let machine = MachineSpec::preset(name).and_then(|machine| machine.with_all(overrides));
    machine.unwrap_or_else(|error| panic!("{error}"))
}

fn run(
    machine: MachineSpec,
    name: &str,
    given: &[(&str, &str)],
    data: bool,
) -> Result<Outcome, WorkloadError> {
    let workload = workload::find(name).unwrap();
    let settings = workload.settings(&machine, given)?;
    workload.run(machine, Options { data, ..Options::default() }, &settings)
}

/// The error of refused parameters.
fn refusal(name: &str, given: &[(&str, &str)]) -> ParameterError {
    match run(preset("bare", &[]), name, given, false) {
        Err(WorkloadError::Parameter(error)) => error,
        other => panic!("WKL-1: {name} {given:?} gives {other:?}"),
    }
}

#[test]
fn wkl_1_names_kinds_and_ranges_are_checked() {
    for (name, given, message, help) in [
        ("ping", ("byte", "1"), "unknown parameter `byte`", "did you mean `bytes`?"),
        ("ping", ("bytes", "2 s"), "parameter `bytes`: `2 s` is a time, not a number", ""),
        ("ping", ("bytes", "3"), "parameter `bytes`: 3 bytes cannot be used", "multiple of 2"),
        ("ping", ("bytes", "2 TiB"), "cannot be used", "allowed: at most 4 GiB"),
        ("ping", ("to", "8"), "parameter `to`: there is no sip8 in `bare`", "allowed: 0 to 7"),
        ("ping", ("to", "sip8"), "there is no sip8 in `bare`", "allowed: 0 to 7, or sip0 to sip7"),
        ("ping", ("to", "spi3"), "parameter `to`: `spi3` is not a SIP", "did you mean `sip3`?"),
        ("ping", ("to", "sip2.cube0.pe1"), "is not a SIP", "did you mean `sip2`? allowed: 0 to 7"),
        ("ping", ("to", "-1"), "parameter `to`: `-1` is not a SIP", "allowed: 0 to 7"),
        ("ping", ("to", "0"), "sip0 cannot send to itself", "must differ"),
        ("queue", ("chunks", "0"), "parameter `chunks`: 0 is out of range", "allowed: 1 to"),
        ("gemm", ("m", "1048577"), "parameter `m`: 1048577 is out of range", "1 to 1048576"),
        ("gemm", ("dtype", "f8"), "parameter `dtype`: `f8` is not a type", "bf16"),
        ("gemm", ("pes", "9"), "parameter `pes`: `bare` has no 9 PEs", "allowed: 1 to 8"),
        ("vector-add", ("elements", "-1"), "parameter `elements`", ""),
    ] {
        let error = refusal(name, &[given]);
        assert!(error.message.contains(message), "WKL-1: {given:?}: {error}");
        assert!(error.help.contains(help), "WKL-1: {given:?}: {}", error.help);
    }
    assert_eq!(refusal("ping", &[("to", "1"), ("to", "2")]).message, "parameter `to` is set twice");
}

#[test]
fn wkl_1_a_sip_has_its_number_and_the_name_that_reports_print() {
    let machine = preset("bare", &[]);
    let settings = |given: &[(&str, &str)]| {
        let settings = workload::find("ping").unwrap().settings(&machine, given);
        settings
            .unwrap_or_else(|error| panic!("WKL-1: {given:?}: {error}"))
            .iter()
            .collect::<Vec<_>>()
    };
    let by_name = settings(&[("from", "sip7"), ("to", "sip0")]);
    assert_eq!(by_name, settings(&[("from", "7"), ("to", "0")]), "WKL-1");
}

#[test]
fn wkl_1_simulated_time_does_not_run_out() {
    let error = refusal("queue", &[("consume", "18000000 s")]);
    assert_eq!(error.message, "parameter `consume`: 18000000 s is out of range");
    assert_eq!(error.help, "allowed: at most 1000 s");
    let error = refusal("queue", &[("consume", "1000 s"), ("chunks", "100000000")]);
    assert_eq!(error.message, "parameter `consume`: 100000000 chunks take too long at 1000 s each");
    assert_eq!(error.help, "allowed: at most 25 ms");
    let given = [("consume", "1000 s"), ("chunks", "2500")];
    let outcome = run(preset("bare", &[]), "queue", &given, false).unwrap();
    assert_eq!(outcome.report.simulated.as_ps() / 1_000_000_000_000, 2_500_000);
}

const HUGE: [(&str, &[(&str, &str)]); 2] = [
    ("ring", &[("bytes", "1 TiB"), ("slot_size", "1 GiB")]),
    ("gemm", &[("m", "1048576"), ("n", "1048576"), ("k", "1048576")]),
];

#[test]
fn wkl_1_tensors_that_the_machine_cannot_hold_are_refused_before_their_numbers_are_made() {
    let vectors: (&str, &[(&str, &str)]) = ("vector-add", &[("elements", "68719476736")]);
    for (name, given) in HUGE.into_iter().chain([vectors]) {
        for data in [true, false] {
            let error = run(preset("quad-sip", &[]), name, given, data).unwrap_err();
            let WorkloadError::Memory(MemoryError::Full { capacity, .. }) = error else {
                panic!("WKL-1: {name}: {error}")
            };
            assert_eq!(capacity, Bytes(16 << 30), "WKL-1: {name}");
        }
    }
}

#[test]
fn wkl_1_numbers_that_the_host_cannot_hold_are_refused() {
    for (name, given) in HUGE {
        let error = run(preset("bare", &[]), name, given, true).unwrap_err();
        let WorkloadError::Parameter(error) = error else { panic!("WKL-1: {name}: {error}") };
        assert!(error.message.contains("do not fit on this host"), "WKL-1: {name}: {error}");
        assert!(error.help.contains("`--data off`"), "WKL-1: {name}: {}", error.help);
    }
}

#[test]
fn without_data_no_numbers_are_made() {
    for (name, given) in [
        ("ping", &[("bytes", "4 GiB")][..]),
        ("ring", &[("bytes", "1 TiB"), ("slot_size", "1 GiB")]),
        ("queue", &[("slot_size", "4 GiB"), ("chunks", "3")]),
        ("vector-add", &[("elements", "4294967296")]),
        ("gemm", &[("m", "65536"), ("n", "128"), ("k", "65536")]),
    ] {
        let outcome = run(preset("bare", &[]), name, given, false);
        let outcome = outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(outcome.check.is_none() && outcome.report.simulated.as_ps() > 0, "{name}");
    }
}

#[test]
fn wkl_1_messages_chunks_and_slots_have_limits() {
    for (name, given, message) in [
        ("ping", &[("bytes", "8 GiB")][..], "parameter `bytes`: 8589934592 bytes cannot be used"),
        (
            "queue",
            &[("slot_size", "8 GiB")],
            "parameter `slot_size`: 8589934592 bytes cannot be used",
        ),
    ] {
        let error = refusal(name, given);
        assert_eq!(
            (error.message.as_str(), error.help.as_str()),
            (message, "allowed: at most 4 GiB")
        );
    }
    for (name, given, message) in [
        (
            "ping",
            &[("bytes", "1 GiB"), ("chunk", "1")][..],
            "parameter `chunk`: 1073741824 chunks are too many",
        ),
        (
            "ring",
            &[("bytes", "1 TiB")],
            "parameter `slot_size`: a vector of 67108864 slots is too many",
        ),
    ] {
        let error = run(preset("bare", &[]), name, given, false).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn a_run_longer_than_time_is_an_error() {
    let slow = |set: &str| preset("bare", &[set]);
    for (machine, name, given) in [
        (slow("system.sips.link.bandwidth=1 B/s"), "ping", &[("bytes", "32 MiB")][..]),
        (slow("system.sips.link.bandwidth=1 B/s"), "queue", &[("slot_size", "1 MiB")]),
        (slow("pe.vector.bandwidth=1 B/s"), "vector-add", &[("elements", "67108864")]),
        (slow("pe.gemm.rate=1 FLOP/s"), "gemm", &[("m", "32768")]),
    ] {
        let error = run(machine, name, given, false).unwrap_err();
        let text = "the run takes more than 213 days of simulated time, which is all there is";
        assert_eq!(error.to_string(), text, "{name}");
    }
}
