//! The promises of a run's JSON.

use crate::{json, run};
use serde_json::Value;

const KEYS: [&str; 14] = [
    "workload",
    "machine",
    "parameters",
    "simulated_ps",
    "events",
    "wall_ns",
    "correct",
    "max_abs_error",
    "utilisation",
    "stalls",
    "critical_path",
    "seed",
    "edges",
    "advice",
];
const KINDS: [&str; 8] = [
    "compute_ps",
    "dma_ps",
    "hbm_ps",
    "mesh_ps",
    "latency_ps",
    "link_ps",
    "credit_ps",
    "dependency_ps",
];
const SMALL: [&[&str]; 6] = [
    &["run", "ping"],
    &["run", "queue", "--machine", "pair"],
    &["run", "ring", "--machine", "octo-ring", "-p", "bytes=256KiB"],
    &["run", "vector-add", "-p", "elements=5000", "-p", "seed=7"],
    &["run", "gemm", "-p", "m=300", "-p", "n=200", "-p", "k=100"],
    &["run", "ping", "--machine", "bare"],
];

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("`{key}` is a whole number: {value}"))
}

fn sum(value: &Value, keys: &[&str]) -> u64 {
    keys.iter().map(|key| number(value, key)).sum()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().unwrap_or_else(|| panic!("`{key}` is a list"))
}

#[test]
fn a_report_has_exactly_the_stable_keys() {
    for words in SMALL {
        let report = json(words);
        let mut keys: Vec<&String> = report.as_object().expect("an object").keys().collect();
        let mut expected = KEYS;
        keys.sort();
        expected.sort_unstable();
        assert_eq!(keys, expected, "{words:?}");
    }
}

#[test]
fn stalls_and_the_critical_path_add_up_to_the_simulated_time() {
    for words in SMALL {
        let report = json(words);
        let simulated = number(&report, "simulated_ps");
        assert!(!list(&report, "stalls").is_empty(), "{words:?}");
        for stalls in list(&report, "stalls") {
            let whole = sum(stalls, &KINDS) + number(stalls, "idle_ps");
            assert_eq!(whole, simulated, "{words:?}: {stalls}");
        }
        let path = &report["critical_path"];
        assert_eq!(sum(path, &KINDS), simulated, "{words:?}: {path}");
        assert_eq!(number(path, "total_ps"), simulated, "{words:?}");
        for usage in list(&report, "utilisation") {
            let share = usage["utilisation"].as_f64().expect("a fraction");
            assert!((0.0..=1.0).contains(&share), "{words:?}: {usage}");
        }
    }
}

#[test]
fn results_are_right_with_data_and_null_without() {
    for words in SMALL {
        let report = json(words);
        assert_eq!(report["correct"], true, "{words:?}");
        assert_eq!(report["max_abs_error"], 0.0, "{words:?}");
        let report = json(&[words, &["--data=off"]].concat());
        assert_eq!(report["correct"], Value::Null, "{words:?}");
        assert_eq!(report["max_abs_error"], Value::Null, "{words:?}");
    }
}

#[test]
fn simulated_time_and_events_do_not_depend_on_data() {
    for words in SMALL {
        let (on, off) = (json(words), json(&[words, &["--data=off"]].concat()[..]));
        for key in ["simulated_ps", "events", "utilisation", "stalls", "critical_path", "edges"] {
            assert_eq!(on[key], off[key], "{words:?}: {key}");
        }
    }
}

#[test]
fn parameters_are_numbers_where_they_are_numbers() {
    let report =
        json(&["run", "queue", "--machine", "bare", "-p", "consume=10 ns", "-p", "seed=3"]);
    let expected = serde_json::json!({
        "chunks": 64, "slot_size": 16384, "n_slots": 4, "consume": "10 ns", "seed": 3
    });
    assert_eq!(report["parameters"], expected);
    assert_eq!((number(&report, "seed"), &report["machine"]), (3, &Value::from("bare")));
    let gemm = json(&["run", "gemm", "-p", "m=8", "-p", "n=8", "-p", "k=8", "-p", "dtype=bf16"]);
    assert_eq!(gemm["parameters"]["dtype"], "bf16");
}

#[test]
fn advice_is_data_and_can_be_followed() {
    let words = ["run", "queue", "--machine", "bare"];
    let report = json(&words);
    let advice = list(&report, "advice");
    let expected = serde_json::json!({
        "target": "setting", "name": "n_slots", "from": "4", "to": "9",
        "kind": "credit", "before_ps": 17_932_000, "after_ps": 8_692_000
    });
    assert_eq!(advice[0], expected);
    for advice in advice {
        let text = |key: &str| advice[key].as_str().unwrap_or_else(|| panic!("{key}: {advice}"));
        let change = format!("{}={}", text("name"), text("to"));
        let option = if text("target") == "setting" { "-p" } else { "--set" };
        let followed = json(&[&words[..], &[option, &change]].concat());
        assert_eq!(number(&followed, "simulated_ps"), number(advice, "after_ps"), "{change}");
    }
}

#[test]
fn advice_is_looked_for_if_the_run_is_short_or_if_it_is_asked_for() {
    let words = ["run", "queue", "--machine", "bare", "--data=off", "-p", "chunks=9000"];
    let advice = |more: &[&str]| json(&[&words[..], more].concat())["advice"].clone();
    assert!(advice(&[]).is_null() && advice(&["--advice=on"]).is_array());
    assert!(advice(&["-p", "consume=0 ns", "--advice=off"]).is_null());
    let short = ["run", "queue", "--machine", "bare", "--data=off", "--advice=off"];
    assert!(json(&short)["advice"].is_null());
    assert!(json(&short[..5])["advice"].is_array());
}

#[test]
fn a_report_is_cut_to_a_range_and_files_are_not() {
    let words = ["run", "tp-block", "-p", "hidden=64", "-p", "sequence=8", "--data", "off"];
    let whole = json(&words);
    let ranges = whole["ranges"].as_array().expect("ranges");
    let names: Vec<&str> = ranges.iter().filter_map(|range| range["range"].as_str()).collect();
    assert_eq!(names, ["attention", "mlp"]);
    let cut = json(&[&words[..], &["--range", "mlp"]].concat());
    let number = |report: &Value, key: &str| report[key].as_u64().expect("a number");
    assert!(number(&cut, "simulated_ps") > 0);
    assert!(number(&cut, "simulated_ps") < number(&whole, "simulated_ps"));
    assert_eq!(cut["critical_path"]["total_ps"], cut["simulated_ps"]);
    let log = |more: &[&str]| run(&[&words[..], &["--op-log", "-"], more].concat()).stdout;
    assert_eq!(log(&["--range", "mlp"]), log(&[]));
}
