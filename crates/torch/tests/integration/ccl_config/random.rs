//! Random configurations and mutilated files.

use phalanx_sim::Bytes;
use phalanx_sim::Time;
use phalanx_sim::ipcq::{Backpressure, BufferKind, EdgeSpec};
use phalanx_torch::ccl::TopologyKind;
use phalanx_torch::ccl::{CclConfig, Channels, Choice, Plan};
use proptest::prelude::*;

use super::{BUILTIN, EXAMPLE};

/// The keys that a part of the file sets; the rest is inherited.
#[derive(Clone, Debug, Default)]
struct Edge {
    n_slots: Option<u32>,
    slot_size: Option<u64>,
    hbm: Option<bool>,
    poll: Option<bool>,
    chunk: Option<u64>,
    credit: Option<u64>,
    /// True if sizes are written with units.
    units: bool,
}

/// One of `algorithms`.
#[derive(Clone, Debug)]
struct Algorithm {
    name: String,
    module: &'static str,
    edge: Edge,
    n_elem: Option<usize>,
    channels: Option<Channels>,
    /// As written.
    topology: Option<&'static str>,
}

fn edges() -> impl Strategy<Value = Edge> {
    use prop::option::of;
    // No slot is of too many chunks.
    let sizes = (of(4_u64..=1 << 30), of(prop_oneof![Just(0_u64), 1_024_u64..=4 << 30]));
    let rest = (of(any::<bool>()), of(any::<bool>()), of(0_u64..=4 << 30), any::<bool>());
    (of(1_u32..=1 << 20), sizes, rest).prop_map(|(n_slots, (slot_size, chunk), rest)| {
        let (hbm, poll, credit, units) = rest;
        Edge { n_slots, slot_size, hbm, poll, chunk, credit, units }
    })
}

fn channels() -> impl Strategy<Value = Channels> {
    prop_oneof![Just(Channels::All), (1..=Channels::MOST).prop_map(Channels::Number)]
}

fn algorithms() -> impl Strategy<Value = Vec<Algorithm>> {
    use prop::option::of;
    let names = "[a-zA-Z0-9][a-zA-Z0-9._-]{0,19}|ring|tree|null|true|1";
    let names = names.prop_filter("auto has its own meaning", |name| name != "auto");
    let mut topologies = TopologyKind::ALL.map(TopologyKind::name).to_vec();
    topologies.push("any");
    let one = (
        0..BUILTIN.len(),
        edges(),
        of(1_usize..=1 << 38),
        of(prop::sample::select(topologies)),
        of(channels()),
    );
    prop::collection::btree_map(names, one, 0..6).prop_map(|all| {
        let algorithm = |(name, (module, edge, n_elem, topology, channels))| Algorithm {
            name,
            module: BUILTIN[module],
            edge,
            n_elem,
            channels,
            topology,
        };
        all.into_iter().map(algorithm).collect()
    })
}

impl Edge {
    fn print(&self) -> Vec<String> {
        let size =
            |bytes: u64| if self.units { Bytes(bytes).to_string() } else { bytes.to_string() };
        let word = |yes: bool, words: [&str; 2]| words[usize::from(!yes)].to_owned();
        let fields = [
            ("n_slots", self.n_slots.map(|n| n.to_string())),
            ("slot_size", self.slot_size.map(size)),
            ("buffer_kind", self.hbm.map(|hbm| word(hbm, ["hbm", "tcm"]))),
            ("backpressure", self.poll.map(|poll| word(poll, ["poll", "sleep"]))),
            ("vc_chunk_size", self.chunk.map(size)),
            ("ipcq_credit_size_bytes", self.credit.map(size)),
        ];
        let fields = fields.into_iter();
        fields.filter_map(|(key, value)| value.map(|value| format!("{key}: {value}"))).collect()
    }

    fn over(&self, base: EdgeSpec) -> EdgeSpec {
        let kind = |hbm| if hbm { BufferKind::Hbm } else { BufferKind::Tcm };
        let poll = Backpressure::Poll(Backpressure::POLL_PERIOD);
        let pressure = |polls| if polls { poll } else { Backpressure::Sleep };
        EdgeSpec {
            n_slots: self.n_slots.unwrap_or(base.n_slots),
            slot_size: self.slot_size.unwrap_or(base.slot_size),
            buffer_kind: self.hbm.map_or(base.buffer_kind, kind),
            backpressure: self.poll.map_or(base.backpressure, pressure),
            vc_chunk_size: self.chunk.unwrap_or(base.vc_chunk_size),
            ipcq_credit_size_bytes: self.credit.unwrap_or(base.ipcq_credit_size_bytes),
            ..base
        }
    }
}

impl Algorithm {
    fn print(&self) -> String {
        let mut fields = self.edge.print();
        if self.module != self.name {
            fields.push(format!("module: {}", self.module));
        }
        fields.extend(self.n_elem.map(|n| format!("n_elem: {n}")));
        fields.extend(self.channels.map(|channels| format!("channels: {channels}")));
        fields.extend(self.topology.map(|name| format!("topology: {name}")));
        format!("  \"{}\": {{ {} }}\n", self.name, fields.join(", "))
    }

    fn plan(&self, base: EdgeSpec) -> Plan {
        Plan {
            name: self.name.clone(),
            module: self.module.to_owned(),
            edge: self.edge.over(base),
            channels: self.channels,
            start: Time::ZERO,
            in_loops: false,
            n_elem: self.n_elem,
            topology: self.topology.and_then(TopologyKind::from_name),
            own: None,
        }
    }
}

/// Cuts, repeats and replaces: what an editor, a merge or a bad disk do to a file.
fn mutilate(text: &str, edits: &[(usize, usize, String)]) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for (at, length, put) in edits {
        let start = at % (chars.len() + 1);
        let end = (start + length).min(chars.len());
        chars.splice(start..end, put.chars());
    }
    chars.into_iter().collect()
}

/// Checks that an accepted file can be used, and that the error of a refused file can be shown.
fn check(text: &str) {
    match CclConfig::parse("any.yaml", text, BUILTIN) {
        Ok(config) => {
            if let Choice::Named(name) = config.default_choice() {
                assert!(config.plan(&name, BUILTIN).is_some(), "CCF-1: {name}");
            }
            for plan in config.plans(BUILTIN) {
                assert!(plan.edge.n_slots > 0 && plan.edge.slot_size >= 4, "CCF-4: {plan:?}");
                assert!(BUILTIN.contains(&plan.module.as_str()), "CCF-1: {plan:?}");
                let shown = config.unfit(&plan, "why").map(|errors| errors.to_string());
                assert!(shown.is_none_or(|shown| shown.contains("any.yaml:")), "CCF-5");
            }
        }
        Err(errors) => {
            let places = errors.errors().iter().map(|error| (error.line(), error.column()));
            assert!(places.is_sorted(), "CCF-2: {errors}");
            assert!(errors.to_string().contains("any.yaml:"), "CCF-2: {errors}");
        }
    }
}

proptest! {
    #[test]
    fn ccf_3_any_configuration_reads_back(
        defaults in edges(),
        algorithms in algorithms(),
        choice in prop::option::of(any::<prop::sample::Index>()),
        defaults_last: bool,
    ) {
        let known = algorithms.iter().map(|one| one.name.as_str()).chain(BUILTIN.iter().copied());
        let choice = choice.map(|index| *index.get(&known.collect::<Vec<_>>()));
        let mut fields = defaults.print();
        fields.extend(choice.map(|name| format!("algorithm: \"{name}\"")));
        let first = format!("defaults: {{ {} }}\n", fields.join(", "));
        let second = format!("algorithms:\n{}", algorithms.iter().map(Algorithm::print).collect::<String>());
        let text = if defaults_last { second + &first } else { first + &second };

        let config = CclConfig::parse("printed", &text, BUILTIN);
        let config = config.map_err(|errors| TestCaseError::fail(format!("{errors}\n{text}")))?;
        let edge = defaults.over(EdgeSpec::default());
        prop_assert_eq!(config.edge(), edge, "CCF-3");
        let named = choice.map_or(Choice::Auto, |name| Choice::Named(name.to_owned()));
        prop_assert_eq!(config.default_choice(), named, "CCF-3");
        let plans: Vec<Plan> = algorithms.iter().map(|one| one.plan(edge)).collect();
        prop_assert_eq!(&config.plans(BUILTIN)[..plans.len()], &plans[..], "CCF-3");
        check(&text);
    }

    #[test]
    fn ccf_4_any_mutilated_file_is_read_or_refused(
        edits in prop::collection::vec((any::<usize>(), 0_usize..12, "[-{}\\[\\],:#&*!|>%@`\"' \t\n\r0-9a-z]{0,4}|\\PC{0,2}"), 1..5),
    ) {
        check(&mutilate(EXAMPLE, &edits));
    }

    #[test]
    fn ccf_4_any_text_is_read_or_refused(text in "(?s).{0,200}") {
        check(&text);
    }
}
