//! `ccl.yaml`, good and bad.

use phalanx_sim::Time;
use phalanx_sim::ipcq::{Backpressure, BufferKind, EdgeSpec};
use phalanx_torch::ccl::TopologyKind;
use phalanx_torch::ccl::{CclConfig, Choice, Plan};

mod bad;
mod random;

/// The algorithms of these tests.
const BUILTIN: &[&str] = &["ring", "tree", "direct"];
/// The file of the documentation.
const EXAMPLE: &str = include_str!("../../../../docs/examples/ccl.yaml");

fn parse(text: &str) -> CclConfig {
    CclConfig::parse("ccl.yaml", text, BUILTIN).unwrap_or_else(|errors| panic!("{errors}"))
}

fn plan(config: &CclConfig, name: &str) -> Plan {
    config.plan(name, BUILTIN).unwrap_or_else(|| panic!("no plan {name}"))
}

fn names(config: &CclConfig) -> Vec<String> {
    config.plans(BUILTIN).into_iter().map(|plan| plan.name).collect()
}

#[test]
fn ccf_3_the_example_says_what_is_built_in_and_adds_two_algorithms() {
    let config = parse(EXAMPLE);
    let builtin = CclConfig::builtin();
    assert_eq!(config.edge(), builtin.edge(), "CCF-3");
    assert_eq!(config.default_choice(), builtin.default_choice(), "CCF-3");
    assert_eq!(names(&config), ["ring_small", "ring_1mib", "ring", "tree", "direct"]);
    let edge = EdgeSpec {
        n_slots: 8,
        slot_size: 1 << 20,
        buffer_kind: BufferKind::Hbm,
        ..EdgeSpec::default()
    };
    let large = Plan {
        name: "ring_1mib".into(),
        module: "ring".into(),
        edge,
        channels: None,
        start: Time::ZERO,
        in_loops: false,
        n_elem: Some(1 << 20),
        topology: Some(TopologyKind::Ring1d),
        own: None,
    };
    assert_eq!(plan(&config, "ring_1mib"), large, "CCF-3");
    let small = plan(&config, "ring_small");
    assert_eq!(small.edge.backpressure, Backpressure::Poll(Time::ns(100)));
    assert_eq!((small.topology, small.n_elem), (None, Some(4096)));
}

#[test]
fn ccf_3_other_defaults_reach_the_entries_that_do_not_override_them() {
    let text = |n_slots: u32, slot_size: u64| {
        format!(
            "defaults: {{ n_slots: {n_slots}, slot_size: {slot_size}, vc_chunk_size: 512 }}\n\
             algorithms:\n  own: {{ module: ring, n_slots: 4 }}\n  tree: {{ buffer_kind: hbm }}"
        )
    };
    let before = parse(&text(4, 1 << 14));
    let edge = EdgeSpec { n_slots: 8, slot_size: 1 << 15, ..before.edge() };
    let (changed, written) = (before.with_edge(edge), parse(&text(8, 1 << 15)));
    assert_eq!(changed.edge(), written.edge(), "CCF-3");
    assert_eq!(changed.plans(BUILTIN), written.plans(BUILTIN), "CCF-3");
    assert_eq!(plan(&changed, "own").edge.n_slots, 4, "CCF-3");
}

#[test]
fn ccf_3_nothing_changes_nothing() {
    let nothing = [
        "",
        "# a comment",
        "---",
        "{}",
        "defaults:",
        "defaults: {}\nalgorithms:\n",
        "algorithms: {}",
    ];
    for text in nothing {
        let config = parse(text);
        assert_eq!(config.edge(), EdgeSpec::default(), "CCF-3: {text}");
        assert_eq!(config.default_choice(), Choice::Auto, "CCF-3: {text}");
        assert_eq!(config.plans(BUILTIN), CclConfig::builtin().plans(BUILTIN), "CCF-3: {text}");
    }
}

#[test]
fn ccf_3_an_algorithm_stands_over_the_defaults_wherever_they_are() {
    let algorithms = "algorithms:\n  tree: { n_slots: 2 }\n  mine: { module: direct, slot_size: 512, topology: any }\n";
    let defaults = "defaults: { n_slots: 16, vc_chunk_size: 256, backpressure: poll, ipcq_credit_size_bytes: 8 }\n";
    for text in [format!("{algorithms}{defaults}"), format!("{defaults}{algorithms}")] {
        let config = parse(&text);
        let edge = EdgeSpec {
            n_slots: 16,
            vc_chunk_size: 256,
            backpressure: Backpressure::Poll(Backpressure::POLL_PERIOD),
            ipcq_credit_size_bytes: 8,
            ..EdgeSpec::default()
        };
        assert_eq!(config.edge(), edge, "CCF-3");
        assert_eq!(plan(&config, "tree").edge, EdgeSpec { n_slots: 2, ..edge }, "CCF-3");
        assert_eq!(plan(&config, "mine").edge, EdgeSpec { slot_size: 512, ..edge }, "CCF-3");
        assert_eq!(plan(&config, "mine").topology, None);
        assert_eq!(plan(&config, "ring").edge, edge, "CCF-3: built in, with the defaults");
        assert_eq!(names(&config), ["tree", "mine", "ring", "direct"]);
    }
}

#[test]
fn an_algorithm_is_chosen_by_its_name() {
    let choice = |text: &str| parse(text).default_choice();
    assert_eq!(choice("defaults: { algorithm: auto }"), Choice::Auto);
    assert_eq!(choice("defaults: { algorithm: tree }"), Choice::Named("tree".into()));
    let mine = "defaults: { algorithm: mine }\nalgorithms: { mine: { module: tree } }";
    assert_eq!(choice(mine), Choice::Named("mine".into()));
    assert_eq!(plan(&parse(mine), "mine").module, "tree");
    assert_eq!(parse(mine).plan("yours", BUILTIN), None);
    assert_eq!(parse(mine).plan("auto", BUILTIN), None);
    let own = parse("algorithms: { ring: }");
    assert_eq!(
        plan(&own, "ring"),
        plan(&CclConfig::builtin(), "ring"),
        "its own name is its module"
    );
}

#[test]
fn sizes_are_bytes_or_have_units() {
    for size in ["16384", "16 KiB", "16KiB", "'16 KiB'", "16K", "0.015625 MiB"] {
        assert_eq!(parse(&format!("defaults: {{ slot_size: {size} }}")).edge().slot_size, 16_384);
    }
}
