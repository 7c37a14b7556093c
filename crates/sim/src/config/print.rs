//! A machine as text again: a tree that serialises to JSON and prints as a machine file.
//!
//! - **PRINT-1 (round trip).** What [`to_yaml`] prints reads back as the same machine.

use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::spec::{
    CacheSpec, DmaSpec, Efficiency, Forwarding, GemmSpec, GridSpec, HbmSpec, MachineSpec,
    NumberType, SipsSpec, Topology, VectorClass, VectorCosts, WireSpec,
};
use crate::time::{Bandwidth, Capacity, Time};
use crate::units::{show_bandwidth, show_capacity, show_efficiency, show_rate, show_time};

/// Prints a machine as a machine file.
///
/// ```
/// use phalanx_sim::MachineSpec;
/// use phalanx_sim::config::{parse_machine, to_yaml};
/// let spec = MachineSpec::preset("bare").unwrap();
/// assert_eq!(parse_machine("printed", &to_yaml(&spec)), Ok(spec));
/// ```
pub fn to_yaml(spec: &MachineSpec) -> String {
    let Tree::Map(entries) = tree(spec) else { unreachable!("PRINT-1: a machine is a mapping") };
    entries.iter().map(|(key, value)| part(key, value)).collect()
}

/// One part of the file: a line, or a heading with a line for each of its own parts.
fn part(key: &str, value: &Tree) -> String {
    let Tree::Map(parts) = value else { return format!("{key}: {}\n", flow(value)) };
    let lines = parts.iter().map(|(key, value)| format!("  {key}: {}\n", flow(value)));
    std::iter::once(format!("{key}:\n")).chain(lines).collect()
}

/// A machine in the shape of its file, quantities as texts with units: what `--json` prints.
#[derive(Clone, Debug)]
pub struct MachineView(Tree);

impl MachineView {
    /// The view of `spec`.
    pub fn new(spec: &MachineSpec) -> Self {
        Self(tree(spec))
    }
}

impl Serialize for MachineView {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

#[derive(Clone, Debug)]
enum Tree {
    /// A text that people wrote, quoted when printed.
    Sentence(String),
    /// A text of ours that needs no quotes.
    Word(String),
    Number(u32),
    List(Vec<u32>),
    Map(Vec<(&'static str, Tree)>),
}

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Sentence(text) | Self::Word(text) => serializer.serialize_str(text),
            Self::Number(number) => serializer.serialize_u32(*number),
            Self::List(numbers) => numbers.serialize(serializer),
            Self::Map(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                entries.iter().try_for_each(|(key, value)| map.serialize_entry(key, value))?;
                map.end()
            }
        }
    }
}

fn tree(spec: &MachineSpec) -> Tree {
    let pe = vec![
        ("tcm", Tree::Map(vec![("capacity", Tree::Word(show_capacity(spec.tcm)))])),
        ("dma", dma(&spec.dma)),
        ("gemm", gemm(&spec.gemm)),
        ("vector", vector(spec.vector, spec.vector_costs)),
    ];
    Tree::Map(vec![
        ("name", name(&spec.name)),
        ("description", Tree::Sentence(spec.description.clone())),
        (
            "system",
            Tree::Map(vec![
                ("sips", sips(&spec.sips)),
                ("host", Tree::Map(vec![("link", wire(spec.host))])),
            ]),
        ),
        ("sip", sip(spec)),
        ("cube", Tree::Map(vec![("pes", grid(&spec.pes)), ("hbm", hbm(&spec.hbm))])),
        ("pe", Tree::Map(pe)),
    ])
}

/// A name needs no quotes, unless YAML has a meaning of its own for it.
fn name(name: &str) -> Tree {
    if name == "null" { Tree::Sentence(name.to_owned()) } else { Tree::Word(name.to_owned()) }
}

fn sips(spec: &SipsSpec) -> Tree {
    let mut entries = vec![
        ("count", Tree::Number(spec.count)),
        ("topology", Tree::Word(spec.topology.name().to_owned())),
    ];
    if let Topology::Mesh2d { rows, columns } | Topology::Torus2d { rows, columns } = spec.topology
    {
        entries.extend([("rows", Tree::Number(rows)), ("columns", Tree::Number(columns))]);
    }
    // A link that was given has a latency; one SIP alone may have none.
    if spec.link.latency > Time::ZERO {
        entries.push(("link", wire(spec.link)));
    }
    if spec.forwarding != Forwarding::default() {
        entries.push(("forwarding", Tree::Word(spec.forwarding.name().to_owned())));
    }
    Tree::Map(entries)
}

fn sip(spec: &MachineSpec) -> Tree {
    let mut entries = vec![("cubes", grid(&spec.cubes))];
    if let Some(CacheSpec { capacity, bandwidth, latency }) = spec.cache {
        entries.push(("cache", Tree::Map(memory(capacity, WireSpec { bandwidth, latency }))));
    }
    Tree::Map(entries)
}

fn hbm(spec: &HbmSpec) -> Tree {
    let HbmSpec { capacity, bandwidth, latency, efficiency } = *spec;
    let mut entries = memory(capacity, WireSpec { bandwidth, latency });
    entries.extend(efficiency_entry(efficiency));
    Tree::Map(entries)
}

fn memory(
    capacity: Capacity,
    WireSpec { bandwidth, latency }: WireSpec,
) -> Vec<(&'static str, Tree)> {
    vec![
        ("capacity", Tree::Word(show_capacity(capacity))),
        ("bandwidth", Tree::Word(show_bandwidth(bandwidth))),
        ("latency", Tree::Word(show_time(latency))),
    ]
}

/// The efficiency, unless it is everything.
fn efficiency_entry(efficiency: Efficiency) -> Option<(&'static str, Tree)> {
    (efficiency != Efficiency::FULL)
        .then(|| ("efficiency", Tree::Word(show_efficiency(efficiency))))
}

fn dma(spec: &DmaSpec) -> Tree {
    let mut entries = vec![
        ("bandwidth", Tree::Word(show_bandwidth(spec.bandwidth))),
        ("latency", Tree::Word(show_time(spec.latency))),
    ];
    if spec.outstanding != 1 {
        entries.push(("outstanding", Tree::Number(spec.outstanding)));
    }
    if spec.burst != 0 {
        entries.push(("burst", Tree::Word(format!("{} B", spec.burst))));
    }
    Tree::Map(entries)
}

fn gemm(spec: &GemmSpec) -> Tree {
    let mut entries =
        vec![("rate", Tree::Word(show_rate(spec.rate))), ("tile", Tree::List(spec.tile.to_vec()))];
    entries.extend(efficiency_entry(spec.efficiency));
    let rates = NumberType::ALL.into_iter().zip(spec.rates);
    let rates: Vec<_> = rates
        .filter_map(|(number, rate)| Some((number.name(), Tree::Word(show_rate(rate?)))))
        .collect();
    if !rates.is_empty() {
        entries.push(("rates", Tree::Map(rates)));
    }
    Tree::Map(entries)
}

fn vector(bandwidth: Bandwidth, costs: VectorCosts) -> Tree {
    let mut entries = vec![("bandwidth", Tree::Word(show_bandwidth(bandwidth)))];
    let costs = VectorClass::ALL.into_iter().zip(costs.0);
    let costs: Vec<_> = costs
        .filter(|(_, cost)| *cost != 1)
        .map(|(class, cost)| (class.name(), Tree::Number(cost)))
        .collect();
    if !costs.is_empty() {
        entries.push(("costs", Tree::Map(costs)));
    }
    Tree::Map(entries)
}

fn grid(spec: &GridSpec) -> Tree {
    Tree::Map(vec![
        ("rows", Tree::Number(spec.rows)),
        ("columns", Tree::Number(spec.columns)),
        ("link", wire(spec.link)),
    ])
}

fn wire(spec: WireSpec) -> Tree {
    Tree::Map(vec![
        ("bandwidth", Tree::Word(show_bandwidth(spec.bandwidth))),
        ("latency", Tree::Word(show_time(spec.latency))),
    ])
}

/// On one line.
fn flow(tree: &Tree) -> String {
    match tree {
        Tree::Sentence(text) => quote(text),
        Tree::Word(text) => text.clone(),
        Tree::Number(number) => number.to_string(),
        Tree::List(numbers) => format!("{numbers:?}"),
        Tree::Map(entries) => {
            let entries: Vec<String> =
                entries.iter().map(|(key, value)| format!("{key}: {}", flow(value))).collect();
            format!("{{ {} }}", entries.join(", "))
        }
    }
}

/// In double quotes, with everything escaped that YAML might read otherwise.
fn quote(text: &str) -> String {
    let escape = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        ' ' => c.to_string(),
        c if c.is_ascii_graphic() || c.is_alphanumeric() => c.to_string(),
        c => format!("\\U{:08X}", u32::from(c)),
    };
    format!("\"{}\"", text.chars().map(escape).collect::<String>())
}
