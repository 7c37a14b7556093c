//! The reader of `ccl.yaml`: turns text into a checked [`CclConfig`].

use phalanx_sim::Time;
use phalanx_sim::config::reader::{Finding, Found, Location, Reader, Section, read_file};
use phalanx_sim::config::{ConfigErrors, suggestion};
use phalanx_sim::ipcq::{Backpressure, BufferKind, EdgeSpec};
use phalanx_sim::spec::{ProfileName, TopologyKind};

use super::{AUTO, CclConfig, Channels, Choice, Entry, Plan, ProfileChoice};
use crate::limits::{MOST_BYTES, MOST_CHUNKS, MOST_MESSAGE};

const ROOT: (&str, &[&str]) = ("a file of collectives", &["profile", "defaults", "algorithms"]);
const DEFAULTS: &[&str] = &[
    "algorithm",
    "buffer_kind",
    "backpressure",
    "n_slots",
    "slot_size",
    "vc_chunk_size",
    "ipcq_credit_size_bytes",
    "channels",
];
const ALGORITHM: &[&str] = &[
    "module",
    "topology",
    "buffer_kind",
    "backpressure",
    "n_slots",
    "slot_size",
    "vc_chunk_size",
    "ipcq_credit_size_bytes",
    "channels",
    "n_elem",
];

/// Most slots of a queue.
const MOST_SLOTS: u64 = 1 << 20;
/// Smallest slot: one element of any type.
const LEAST_SLOT: u64 = 4;
/// The word for an algorithm that takes any topology.
const ANY: &str = "any";
/// The word for no library profile.
const NONE: &str = "none";

/// Reads `text`; the result does not hold the text yet.
pub(super) fn config(file: &str, text: &str, builtin: &[&str]) -> Result<CclConfig, ConfigErrors> {
    read_file(file, text, ROOT, |r, root| {
        let profile = profile(r, root);
        let defaults = r.part(root, "defaults", DEFAULTS);
        let parts = r.named_parts(root, "algorithms", ALGORITHM);
        let names: Vec<&str> = parts.iter().map(|(name, _)| *name).collect();
        let choice = defaults.as_ref().and_then(|defaults| choice(r, defaults, &names, builtin));
        let base = EdgeSpec::default();
        let edge = defaults.as_ref().map_or(base, |defaults| edge(r, defaults, base));
        let channels = defaults.as_ref().and_then(|defaults| channels(r, defaults));
        let inherited = (edge, channels);
        let entry = |(name, part): &(&str, Section<'_>)| entry(r, name, part, inherited, builtin);
        let entries = parts.iter().filter_map(entry).collect();
        let chosen = choice.as_ref().map(|choice| choice.location);
        let choice = choice.map_or(Choice::Auto, |choice| choice.value);
        Some(CclConfig { profile, choice, chosen, edge, channels, entries, ..CclConfig::builtin() })
    })
}

/// `profile`: a library, or `none` where the machine's library is not wanted.
fn profile(r: &mut Reader, root: &Section<'_>) -> ProfileChoice {
    let mut known = ProfileName::ALL.map(ProfileName::name).to_vec();
    known.push(NONE);
    match r.choice(root, "profile", "profile", &known).map(|found| found.value) {
        None => ProfileChoice::Machine,
        Some(name) => ProfileName::from_name(name).map_or(ProfileChoice::Off, ProfileChoice::Named),
    }
}

/// `defaults.algorithm`.
fn choice(
    r: &mut Reader,
    defaults: &Section<'_>,
    names: &[&str],
    builtin: &[&str],
) -> Option<Found<Choice>> {
    let mut known = vec![AUTO];
    known.extend(names);
    known.extend(builtin.iter().filter(|name| !names.contains(name)));
    let Found { value: name, location } = r.choice(defaults, "algorithm", "algorithm", &known)?;
    let value = if name == AUTO { Choice::Auto } else { Choice::Named(name.to_owned()) };
    Some(Found { value, location })
}

/// Reads an entry of `algorithms`. All of it is read before the first `?`, so that all errors are found (CCF-2).
fn entry(
    r: &mut Reader,
    name: &str,
    part: &Section<'_>,
    (edge_before, channels_before): (EdgeSpec, Option<Channels>),
    builtin: &[&str],
) -> Option<Entry> {
    let word = word(r, name, part.location);
    let module = module(r, name, part, builtin);
    let topology = topology(r, part);
    let edge = edge(r, part, edge_before);
    let channels = channels(r, part).or(channels_before);
    let n_elem = r.count(part, "n_elem", 1..=MOST_BYTES / LEAST_SLOT);
    let n_elem = n_elem.map(|n| usize::try_from(n.value).expect("a 64-bit machine"));
    let (name, module) = (word?.to_owned(), module?.to_owned());
    let (start, in_loops) = (Time::ZERO, false);
    let plan = Plan { name, module, edge, channels, start, in_loops, n_elem, topology, own: None };
    let own = DEFAULTS.iter().copied().filter(|key| part.has(key)).collect();
    Some(Entry { plan, location: part.location, own })
}

fn word<'a>(r: &mut Reader, name: &'a str, location: Location) -> Option<&'a str> {
    if name == AUTO {
        let finding = Finding::new(location, format!("no algorithm can be called `{AUTO}`"));
        let help = format!("`{AUTO}` lets the program choose; take another name");
        return r.report(finding.label("has a meaning of its own").help(help));
    }
    r.word("the name of an algorithm", name, location)
}

/// The built-in algorithm: `module`, or the one that has the entry's name.
fn module<'b>(
    r: &mut Reader,
    name: &str,
    part: &Section<'_>,
    builtin: &[&'b str],
) -> Option<&'b str> {
    if part.has("module") {
        return r.choice(part, "module", "module", builtin).map(|module| module.value);
    }
    let same = builtin.iter().find(|known| **known == name).copied();
    if same.is_some() || part.is_misspelt("module") {
        return same;
    }
    let near = suggestion(name, builtin.iter().copied())
        .map_or_else(String::new, |near| format!("did you mean `{near}`? "));
    let finding = Finding::new(part.location, format!("missing `{}`", part.path_of("module")));
    let finding = finding.label("not the name of a built-in algorithm");
    let builtin = builtin.join(", ");
    r.report(finding.help(format!("{near}`module` says which one does it: {builtin}")))
}

fn topology(r: &mut Reader, part: &Section<'_>) -> Option<TopologyKind> {
    let mut names = TopologyKind::ALL.map(TopologyKind::name).to_vec();
    names.push(ANY);
    TopologyKind::from_name(r.choice(part, "topology", "topology", &names)?.value)
}

/// The settings of `part` over those of `base`.
fn edge(r: &mut Reader, part: &Section<'_>, base: EdgeSpec) -> EdgeSpec {
    let value = |found: Option<Found<u64>>, otherwise| found.map_or(otherwise, |found| found.value);
    let n_slots = r.count(part, "n_slots", 1..=MOST_SLOTS);
    let n_slots = u32::try_from(value(n_slots, base.n_slots.into())).expect("at most MOST_SLOTS");
    let credit = r.bytes(part, "ipcq_credit_size_bytes", 0..=MOST_MESSAGE);
    let before = r.reported();
    let slot = r.bytes(part, "slot_size", LEAST_SLOT..=MOST_MESSAGE);
    let chunk = r.bytes(part, "vc_chunk_size", 0..=MOST_MESSAGE);
    let spec = EdgeSpec {
        n_slots,
        slot_size: value(slot, base.slot_size),
        buffer_kind: buffer_kind(r, part).unwrap_or(base.buffer_kind),
        backpressure: backpressure(r, part).unwrap_or(base.backpressure),
        vc_chunk_size: value(chunk, base.vc_chunk_size),
        ipcq_credit_size_bytes: value(credit, base.ipcq_credit_size_bytes),
        ..base
    };
    if let Some(found) = chunk.or(slot).filter(|_| r.reported() == before) {
        check_chunks(r, found.location, &spec);
    }
    spec
}

fn channels(r: &mut Reader, part: &Section<'_>) -> Option<Channels> {
    let Found { value, location } = r.text(part, "channels")?;
    match value.parse() {
        Ok(channels) => Some(channels),
        Err(allowed) => {
            let message = format!("`{}` is no number of channels", part.path_of("channels"));
            r.report(Finding::new(location, message).label("not allowed").help(allowed))
        }
    }
}

fn buffer_kind(r: &mut Reader, part: &Section<'_>) -> Option<BufferKind> {
    let kind = r.choice(part, "buffer_kind", "buffer kind", &["tcm", "hbm"])?;
    Some(if kind.value == "hbm" { BufferKind::Hbm } else { BufferKind::Tcm })
}

fn backpressure(r: &mut Reader, part: &Section<'_>) -> Option<Backpressure> {
    let kind = r.choice(part, "backpressure", "backpressure", &["sleep", "poll"])?;
    Some(match kind.value {
        "poll" => Backpressure::Poll(Backpressure::POLL_PERIOD),
        _ => Backpressure::Sleep,
    })
}

/// Refuses chunks so small that a slot has too many of them.
fn check_chunks(r: &mut Reader, location: Location, spec: &EdgeSpec) {
    let chunks = spec.slot_size.checked_div(spec.vc_chunk_size).unwrap_or(1);
    if chunks > MOST_CHUNKS {
        let message = format!("a slot of {chunks} chunks is too many");
        let help = format!(
            "allowed: at most {MOST_CHUNKS} chunks a slot, or a `vc_chunk_size` of 0 for whole messages"
        );
        let finding = Finding::new(location, message).label("slot_size / vc_chunk_size");
        r.report::<()>(finding.help(help));
    }
}
