//! A machine as text again: a tree that serialises to JSON and prints as a machine file.
//!
//! - **PRINT-1 (round trip).** The text of [`to_yaml`] reads back as the same machine.

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::sources::is_below;
use crate::spec::{
    CacheSpec, ChoiceName, CollectivesSpec, DmaSpec, Efficiency, FigureSource, Forwarding,
    GemmSpec, Generation, GridSpec, HbmSpec, InSwitchSpec, LevelSpec, LinkSpec, MachineSpec,
    NumberType, ProtocolSpec, SipsSpec, Topology, VectorClass, VectorCosts, WireSpec,
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
    let lines: String = match value {
        Tree::Map(parts) => parts.iter().map(|(key, value)| line(key, value)).collect(),
        Tree::Sources(sources) => {
            let lines = sources.iter().map(|(figure, text)| format!("  {figure}: {}", quote(text)));
            lines.fold(String::new(), |text, line| text + &line + "\n")
        }
        _ => return format!("{key}: {}\n", flow(value)),
    };
    format!("{key}:\n{lines}")
}

/// One part of a part: a line, or a line for each item of a list.
fn line(key: &str, value: &Tree) -> String {
    let Tree::Items(items) = value else { return format!("  {key}: {}\n", flow(value)) };
    let items = items.iter().map(|item| format!("    - {}\n", flow(item)));
    std::iter::once(format!("  {key}:\n")).chain(items).collect()
}

/// A machine in the shape of its file, quantities as texts with units: what `--json` prints.
#[derive(Clone, Debug)]
pub struct MachineView(Tree);

impl MachineView {
    /// Makes the view of `spec`.
    pub fn new(spec: &MachineSpec) -> Self {
        Self(tree(spec))
    }

    /// Returns every figure with its source, in the order of the file. Name and description are no figures.
    ///
    /// ```
    /// use phalanx_sim::MachineSpec;
    /// use phalanx_sim::config::MachineView;
    /// let figures = MachineView::new(&MachineSpec::preset("bare").unwrap()).figures();
    /// let link = figures.iter().find(|figure| figure.path == "system.sips.link.latency").unwrap();
    /// assert_eq!((link.value.as_str(), link.source.as_deref()), ("500 ns", None));
    /// ```
    pub fn figures(&self) -> Vec<Figure> {
        let Tree::Map(parts) = &self.0 else { return Vec::new() };
        let mut figures: Vec<Figure> = Vec::new();
        for (key, value) in parts {
            match value {
                Tree::Sources(sources) => {
                    let source = |path: &str| {
                        let of = sources.iter().filter(|(of, _)| of == path || is_below(path, of));
                        of.max_by_key(|(of, _)| of.len()).map(|(_, text)| text.clone())
                    };
                    for figure in &mut figures {
                        figure.source = source(&figure.path);
                    }
                }
                _ if matches!(*key, "name" | "description") => {}
                _ => collect(key.to_string(), value, &mut figures),
            }
        }
        figures
    }
}

/// One value of a machine, as its file would say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// Its dotted path: `pe.dma.latency`.
    pub path: String,
    /// Its value, with its unit.
    pub value: String,
    /// Its source, or that of the part that it belongs to; `fitted` for a fitted one.
    pub source: Option<String>,
}

impl Figure {
    /// True for a number, with or without a unit, and for a list of numbers. Words, such as a topology or `unlimited`, are none.
    pub fn is_number(&self) -> bool {
        self.value.starts_with(|first: char| first.is_ascii_digit() || first == '[')
    }
}

/// The name of an item of a list.
fn name_of(item: &Tree) -> Option<&str> {
    let Tree::Map(parts) = item else { return None };
    parts.iter().find_map(|(key, value)| match value {
        Tree::Word(name) if *key == "name" => Some(name.as_str()),
        _ => None,
    })
}

fn collect(path: String, tree: &Tree, figures: &mut Vec<Figure>) {
    match tree {
        Tree::Map(parts) => {
            let is_one = |(key, value): &&(&str, Tree)| {
                matches!(*key, "rows" | "columns") && matches!(value, Tree::Number(1))
            };
            let is_alone = parts.iter().filter(is_one).count() == 2;
            for (key, value) in parts.iter().filter(|(key, _)| *key != "name") {
                // The link of one part alone is no figure: a file need not name it.
                if !(is_alone && *key == "link" && flow(value) == flow(&wire(WireSpec::FREE))) {
                    collect(format!("{path}.{key}"), value, figures);
                }
            }
        }
        Tree::Items(items) => {
            for (number, item) in items.iter().enumerate() {
                let name = name_of(item).map_or_else(|| number.to_string(), str::to_owned);
                collect(format!("{path}.{name}"), item, figures);
            }
        }
        _ => figures.push(Figure { path, value: flow(tree), source: None }),
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
    Items(Vec<Tree>),
    Map(Vec<(&'static str, Tree)>),
    /// Sentences under paths of figures.
    Sources(Vec<(String, String)>),
}

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Sentence(text) | Self::Word(text) => serializer.serialize_str(text),
            Self::Number(number) => serializer.serialize_u32(*number),
            Self::List(numbers) => numbers.serialize(serializer),
            Self::Items(items) => items.serialize(serializer),
            Self::Map(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                entries.iter().try_for_each(|(key, value)| map.serialize_entry(key, value))?;
                map.end()
            }
            Self::Sources(sources) => {
                let mut map = serializer.serialize_map(Some(sources.len()))?;
                sources.iter().try_for_each(|(figure, text)| map.serialize_entry(figure, text))?;
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
    let mut parts = vec![
        ("name", name(&spec.name)),
        ("description", Tree::Sentence(spec.description.clone())),
        ("system", system(spec)),
        ("sip", sip(spec)),
        ("cube", Tree::Map(vec![("pes", grid(&spec.pes)), ("hbm", hbm(&spec.hbm))])),
        ("pe", Tree::Map(pe)),
    ];
    parts.extend(spec.collectives.as_ref().map(|spec| ("collectives", collectives(spec))));
    if !spec.sources.is_empty() {
        let of = |from: &FigureSource| (from.figure.clone(), from.origin.text().to_owned());
        parts.push(("sources", Tree::Sources(spec.sources.iter().map(of).collect())));
    }
    Tree::Map(parts)
}

fn collectives(spec: &CollectivesSpec) -> Tree {
    let costs = |costs: &ProtocolSpec| {
        let mut entries: Vec<_> = time_entry("start", costs.start).into_iter().collect();
        entries.extend(time_entry("step", costs.step));
        entries.extend(efficiency_entry(costs.efficiency));
        entries.extend(costs.copy.map(|copy| ("copy", Tree::Word(show_bandwidth(copy)))));
        if costs.batch != 0 {
            entries.push(("batch", Tree::Word(format!("{} B", costs.batch))));
        }
        Tree::Map(entries)
    };
    let protocols = spec.protocols.iter().map(|own| (own.protocol.name(), costs(own)));
    let mut entries = vec![("profile", Tree::Word(spec.profile.name().to_owned()))];
    if spec.choice != ChoiceName::default() {
        entries.push(("choice", Tree::Word(spec.choice.name().to_owned())));
    }
    if spec.generation != Generation::default() {
        entries.push(("generation", Tree::Word(spec.generation.name().to_owned())));
    }
    entries.push(("channels", Tree::Number(spec.channels)));
    entries.extend(time_entry("spread", spec.spread));
    entries.push(("protocols", Tree::Map(protocols.collect())));
    Tree::Map(entries)
}

/// A name needs no quotes, unless YAML has a meaning of its own for it.
fn name(name: &str) -> Tree {
    if name == "null" { Tree::Sentence(name.to_owned()) } else { Tree::Word(name.to_owned()) }
}

fn system(spec: &MachineSpec) -> Tree {
    let mut entries = vec![("sips", sips(&spec.sips))];
    if !spec.levels.is_empty() {
        let levels = (1..).zip(&spec.levels);
        let items = levels.map(|(number, above)| level(above, spec.part_size(number)));
        entries.push(("levels", Tree::Items(items.collect())));
    }
    let mut host = vec![("link", wire(spec.host))];
    host.extend(time_entry("launch", spec.launch));
    entries.push(("host", Tree::Map(host)));
    Tree::Map(entries)
}

/// The count, the topology with its sides, and the link of a level.
fn between(count: u32, topology: Topology, link: &LinkSpec) -> Vec<(&'static str, Tree)> {
    let mut entries =
        vec![("count", Tree::Number(count)), ("topology", Tree::Word(topology.name().to_owned()))];
    match topology {
        Topology::Mesh2d { rows, columns } | Topology::Torus2d { rows, columns } => {
            entries.extend([("rows", Tree::Number(rows)), ("columns", Tree::Number(columns))]);
        }
        Topology::Mesh3d { layers, rows, columns }
        | Topology::Torus3d { layers, rows, columns } => {
            let sides = [("layers", layers), ("rows", rows), ("columns", columns)];
            entries.extend(sides.map(|(key, side)| (key, Tree::Number(side))));
        }
        Topology::Ring1d | Topology::FullyConnected | Topology::Switch => {}
    }
    // A link that was given has a latency; one SIP alone may have none.
    if link.latency > Time::ZERO {
        entries.push(("link", link_tree(link)));
    }
    entries
}

fn link_tree(link: &LinkSpec) -> Tree {
    let LinkSpec { bandwidth, latency, efficiency, lanes } = *link;
    let Tree::Map(mut entries) = wire(WireSpec { bandwidth, latency }) else {
        unreachable!("PRINT-1: a wire is a mapping")
    };
    if efficiency != Efficiency::FULL {
        entries.push(("efficiency", Tree::Word(show_efficiency(efficiency))));
    }
    if lanes != 1 {
        entries.push(("lanes", Tree::Number(lanes)));
    }
    Tree::Map(entries)
}

/// The costs of multicast and reduction inside a switch.
fn inside_switch(
    multicast: Option<InSwitchSpec>,
    reduction: Option<InSwitchSpec>,
) -> impl Iterator<Item = (&'static str, Tree)> {
    let costs = [("multicast", multicast), ("reduction", reduction)];
    let tree = |InSwitchSpec { efficiency, start }| {
        Tree::Map(
            efficiency_entry(efficiency).into_iter().chain(time_entry("start", start)).collect(),
        )
    };
    costs.into_iter().filter_map(move |(key, cost)| Some((key, tree(cost?))))
}

fn level(spec: &LevelSpec, part: u32) -> Tree {
    let mut entries = vec![("name", Tree::Word(spec.name.clone()))];
    entries.extend(between(spec.count, spec.topology, &spec.link));
    if spec.nics != part {
        entries.push(("nics", Tree::Number(spec.nics)));
    }
    entries.extend(spec.pcie.map(|pcie| ("pcie", wire(pcie))));
    if spec.oversubscription != 1 {
        entries.push(("oversubscription", Tree::Number(spec.oversubscription)));
    }
    entries.extend(inside_switch(spec.multicast, spec.reduction));
    Tree::Map(entries)
}

fn sips(spec: &SipsSpec) -> Tree {
    let mut entries = between(spec.count, spec.topology, &spec.link);
    entries.extend(inside_switch(spec.multicast, spec.reduction));
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

/// A time, unless it is none.
fn time_entry(key: &'static str, time: Time) -> Option<(&'static str, Tree)> {
    (time != Time::ZERO).then(|| (key, Tree::Word(show_time(time))))
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
    // One part alone needs no link, but an override may add parts.
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
        Tree::Items(items) => {
            let items: Vec<String> = items.iter().map(flow).collect();
            format!("[{}]", items.join(", "))
        }
        Tree::Map(entries) if entries.is_empty() => "{}".to_owned(),
        Tree::Map(entries) => {
            let entries: Vec<String> =
                entries.iter().map(|(key, value)| format!("{key}: {}", flow(value))).collect();
            format!("{{ {} }}", entries.join(", "))
        }
        Tree::Sources(sources) => {
            let entries: Vec<String> =
                sources.iter().map(|(figure, text)| format!("{figure}: {}", quote(text))).collect();
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
