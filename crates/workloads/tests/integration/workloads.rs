//! Workloads: checked before they run, verified after, and whole in their reports.

use phalanx_sim::MachineSpec;
use phalanx_sim::executor::PartitionOrder;
use phalanx_sim::machine::Options;
use phalanx_workloads::{self as workload, Outcome, ParameterError, WorkloadError};
use proptest::prelude::*;

pub(crate) fn machine(name: &str, overrides: &[String]) -> MachineSpec {
    let machine = MachineSpec::preset(name).and_then(|machine| machine.with_all(overrides));
    machine.unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn attempt(
    machine: MachineSpec,
    name: &str,
    parameters: &[(&str, &str)],
    options: Options,
) -> Result<Outcome, WorkloadError> {
    let workload = workload::find(name).unwrap();
    let settings = workload.settings(&machine, parameters)?;
    workload.run(machine, options, &settings)
}

fn refused(name: &str, parameters: &[(&str, &str)]) -> ParameterError {
    match attempt(machine("pair", &[]), name, parameters, Options::default()) {
        Err(WorkloadError::Parameter(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn wkl_1_parameters_are_checked_for_name_kind_and_range() {
    let unknown = refused("ring", &[("slotsize", "4 KiB")]);
    assert_eq!(unknown.message, "unknown parameter `slotsize`", "WKL-1");
    assert!(unknown.help.starts_with("did you mean `slot_size`?"), "WKL-1: {}", unknown.help);
    for (name, value) in [
        ("m", "0"),
        ("m", "-1"),
        ("m", "2.5"),
        ("m", "99999999999"),
        ("buffers", "65"),
        ("tile", "128x128"),
        ("tile", "atuo"),
        ("tile", "0x1x1"),
        ("split_k", "0"),
        ("split_k", "many"),
        ("split_k", "9"),
        ("dtype", "f63"),
        ("dtype", "bool"),
        ("pes", "1000"),
        ("seed", ""),
    ] {
        let error = refused("gemm", &[(name, value)]);
        assert!(
            error.message.starts_with(&format!("parameter `{name}`")),
            "WKL-1: {}",
            error.message
        );
        assert!(!error.help.is_empty(), "WKL-1: {}", error.message);
    }
    for (name, value) in
        [("slot_size", "3"), ("slot_size", "4 kb/s"), ("n_slots", "0"), ("consume", "5")]
    {
        assert!(refused("queue", &[(name, value)]).message.contains(name), "WKL-1");
    }
    assert_eq!(
        refused("ring", &[("seed", "1"), ("seed", "1")]).message,
        "parameter `seed` is set twice"
    );
    assert!(refused("ping", &[("to", "2")]).message.contains("to"), "WKL-1: `pair` has two SIPs");
}

#[test]
fn wkl_1_settings_show_every_parameter_with_its_value() {
    let bare = machine("bare", &[]);
    for workload in workload::all() {
        let settings = workload.settings(&bare, &[("seed", "7")]).unwrap();
        let names: Vec<&str> = settings.iter().map(|(name, _)| name).collect();
        assert!(
            names.iter().eq(workload.parameters.iter().map(|parameter| &parameter.name)),
            "WKL-1"
        );
        assert_eq!(settings.number("seed"), Some(7));
        let given: Vec<(&str, String)> = settings.iter().collect();
        let given: Vec<(&str, &str)> =
            given.iter().map(|(name, value)| (*name, value.as_str())).collect();
        assert!(workload.settings(&bare, &given).is_ok(), "WKL-1: what is shown can be set");
    }
    assert_eq!(workload::suggestion("vectoradd"), Some("vector-add"));
}

/// Small parameters for every workload.
const SMALL: [(&str, &[(&str, &str)]); 7] = [
    ("ping", &[("bytes", "5000"), ("messages", "7"), ("chunk", "512")]),
    ("queue", &[("chunks", "40"), ("slot_size", "1 KiB"), ("n_slots", "3"), ("consume", "70 ns")]),
    ("ring", &[("bytes", "10000"), ("slot_size", "1 KiB")]),
    ("vector-add", &[("elements", "10007")]),
    ("gemm", &[("m", "200"), ("n", "130"), ("k", "70")]),
    ("tp-mlp", &[("hidden", "48"), ("ffn", "160"), ("tokens", "20")]),
    (
        "tp-block",
        &[("hidden", "64"), ("ffn", "96"), ("sequence", "12"), ("batch", "2"), ("causal", "yes")],
    ),
];

#[test]
fn wkl_2_and_rpt_1_every_workload_is_right_and_adds_up_on_every_machine() {
    let options = Options { critical_path: true, ..Options::default() };
    for (name, parameters) in SMALL {
        for preset in ["pair", "quad-sip", "octo-ring", "torus-16", "bare"] {
            let outcome = attempt(machine(preset, &[]), name, parameters, options.clone())
                .unwrap_or_else(|error| panic!("{name} on {preset}: {error}"));
            let check = outcome.check.expect("data is on");
            assert!(check.correct, "WKL-2: {name} on {preset}: {check:?}");
            let report = &outcome.report;
            assert_eq!(
                report.critical_path.spent.total(),
                report.simulated,
                "RPT-1: {name} on {preset}"
            );
            for stalls in &report.stalls {
                let idle = stalls.stack.idle(report.simulated);
                assert_eq!(
                    stalls.stack.total() + idle,
                    report.simulated,
                    "RPT-1: {name} on {preset}"
                );
            }
            assert!(report.utilisation.iter().all(|usage| usage.busy <= report.simulated));
        }
    }
}

#[test]
fn mch_3_and_par_2_every_workload_is_the_same_without_data_and_in_any_order() {
    for (name, parameters) in SMALL {
        let run = |data, partition_order| {
            let options = Options { data, partition_order, record: true, ..Options::default() };
            let report =
                attempt(machine("quad-sip", &[]), name, parameters, options).unwrap().report;
            (report.simulated, report.events, report.op_log())
        };
        let usual = run(true, PartitionOrder::default());
        assert!(run(false, PartitionOrder::default()) == usual, "MCH-3: {name}");
        for seed in 0..5 {
            assert!(
                run(false, PartitionOrder::Shuffled(seed)) == usual,
                "PAR-2: {name}, seed {seed}"
            );
        }
    }
}

#[test]
fn tensor_parallel_workloads_say_what_their_ranks_did() {
    for (name, parameters) in &SMALL[5..] {
        let outcome = attempt(machine("bare", &[]), name, parameters, Options::default()).unwrap();
        let ranks = outcome.ranks.expect("a program of ranks");
        assert_eq!(ranks.finished.len(), 8);
        assert_eq!(ranks.finished.iter().max(), Some(&outcome.report.simulated));
        assert!(phalanx_torch::ccl::Algorithm::find(&ranks.algorithm).is_some());
        let alone = [&[("ranks", "1")], *parameters].concat();
        let outcome = attempt(machine("bare", &[]), name, &alone, Options::default()).unwrap();
        let ranks = outcome.ranks.expect("a program of ranks");
        assert_eq!((ranks.algorithm.as_str(), ranks.finished.len()), ("none", 1));
        assert!(outcome.check.unwrap().correct);
    }
}

#[test]
fn wkl_1_tensor_parallel_workloads_refuse_what_ranks_cannot_share() {
    for (name, parameter, value) in [
        ("tp-mlp", "ffn", "7"),
        ("tp-mlp", "ranks", "3"),
        ("tp-mlp", "dtype", "i32"),
        ("tp-mlp", "activation", "swish"),
        ("tp-block", "heads", "3"),
        ("tp-block", "hidden", "510"),
        ("tp-block", "causal", "maybe"),
    ] {
        let error = refused(name, &[(parameter, value)]);
        assert!(
            error.message.starts_with(&format!("parameter `{parameter}`")),
            "WKL-1: {}",
            error.message
        );
        assert!(error.help.starts_with("allowed: "), "WKL-1: {}", error.help);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn wkl_2_a_ring_of_any_size_reduces_right(ranks in 1..9u32, words in 1..300u32, slot in 1..64u32, slots in 1..5u32) {
        let count = format!("system.sips.count={ranks}");
        let text = [words * 4, slot * 4, slots].map(|number| number.to_string());
        let parameters = [("bytes", &*text[0]), ("slot_size", &*text[1]), ("n_slots", &*text[2])];
        let outcome = attempt(machine("bare", &[count]), "ring", &parameters, Options::default()).unwrap();
        prop_assert!(outcome.check.unwrap().correct, "WKL-2");
    }

    #[test]
    fn wkl_2_a_product_of_any_size_on_any_pes_is_right(
        dims in prop::array::uniform3(1..300u32), pes in 1..129u32, buffers in 1..3u32,
        dtype in prop::sample::select(vec!["f32", "f16", "bf16", "i32"]),
    ) {
        let text = [dims[0], dims[1], dims[2], pes, buffers].map(|number| number.to_string());
        let names = ["m", "n", "k", "pes", "buffers"];
        let mut parameters: Vec<(&str, &str)> = names.into_iter().zip(text.iter().map(String::as_str)).collect();
        parameters.push(("dtype", dtype));
        let outcome = attempt(machine("quad-sip", &[]), "gemm", &parameters, Options::default()).unwrap();
        prop_assert!(outcome.check.unwrap().correct, "WKL-2");
    }

    #[test]
    fn wkl_2_a_product_by_any_plan_is_right(
        dims in prop::array::uniform3(1..300u32), pes in 1..129u32,
        tile in prop::sample::select(vec!["auto", "engine", "64x32x16", "100x60x30"]),
        parts in prop::sample::select(vec!["auto", "1"]),
        name in prop::sample::select(vec!["quad-sip", "hgx-h100"]),
        dtype in prop::sample::select(vec!["f32", "bf16", "i32"]),
    ) {
        let text = [dims[0], dims[1], dims[2], pes].map(|number| number.to_string());
        let mut parameters: Vec<(&str, &str)> =
            ["m", "n", "k", "pes"].into_iter().zip(text.iter().map(String::as_str)).collect();
        parameters.extend([("tile", tile), ("split_k", parts), ("dtype", dtype)]);
        let outcome = attempt(machine(name, &[]), "gemm", &parameters, Options::default()).unwrap();
        prop_assert!(outcome.check.unwrap().correct, "WKL-2");
    }
}

#[test]
fn wkl_2_parts_of_k_are_added() {
    let parameters =
        [("m", "3"), ("n", "70"), ("k", "1000"), ("tile", "64x32x16"), ("split_k", "5")];
    for name in ["quad-sip", "hgx-h100"] {
        let outcome = attempt(machine(name, &[]), "gemm", &parameters, Options::default()).unwrap();
        assert!(outcome.check.unwrap().correct, "WKL-2: {name}");
    }
}

#[test]
fn a_product_of_4096_on_an_h100_takes_what_was_measured() {
    let parameters = [("m", "4096"), ("n", "4096"), ("k", "4096"), ("dtype", "bf16")];
    let options = Options { data: false, ..Options::default() };
    let report = attempt(machine("hgx-h100", &[]), "gemm", &parameters, options).unwrap().report;
    let operations = 2 * 4096_u64.pow(3);
    // 789 TFLOP/s, within a tenth.
    let gflops = operations * 1_000 / report.simulated.as_ps();
    assert!((710_000..868_000).contains(&gflops), "{gflops} GFLOP/s");
}

fn quad_sip() -> MachineSpec {
    MachineSpec::preset("quad-sip").expect("a preset")
}

#[test]
fn mch_3_an_all_reduce_takes_the_same_time_without_numbers() {
    let workload = workload::find("all-reduce").unwrap();
    let times = [true, false].map(|data| {
        let machine = quad_sip();
        let settings = workload.settings(&machine, &[("algorithm", "ring")]).unwrap();
        let options = Options { data, ..Options::default() };
        workload.run(machine, options, &settings).unwrap().report.simulated
    });
    assert_eq!(times[0], times[1], "MCH-3");
}
