//! The section `collectives` of a machine file: the library that runs collectives, and its costs.

use crate::spec::{ChoiceName, CollectivesSpec, Generation, ProfileName, Protocol, ProtocolSpec};
use crate::time::Time;
use crate::units;

use super::error::Finding;
use super::machine::{MOST, time};
use super::reader::{Reader, Section};

/// The longest batch of a protocol, in bytes.
const LONGEST_BATCH: u64 = 1 << 30;

/// The section `collectives`, if the file has one.
pub(super) fn collectives(r: &mut Reader, file: &Section<'_>) -> Option<CollectivesSpec> {
    file.find("collectives")?;
    let section = r.section(file, "collectives")?;
    let names = ProfileName::ALL.map(ProfileName::name);
    let profile = r.required_choice(&section, "profile", "profile", &names);
    let choice = optional(r, &section, "choice", &ChoiceName::ALL.map(ChoiceName::name));
    let generation = optional(r, &section, "generation", &Generation::ALL.map(Generation::name));
    let channels = r.number(&section, "channels", MOST);
    let spread =
        if section.has("spread") { time(r, &section, "spread")?.value } else { Time::ZERO };
    let protocols = protocols(r, &section);
    let profile = ProfileName::from_name(profile?.value)?;
    let choice = choice.map_or(ChoiceName::default(), |at| ChoiceName::ALL[at]);
    let generation = generation.map_or(Generation::default(), |at| Generation::ALL[at]);
    let channels = channels?.value;
    Some(CollectivesSpec { profile, choice, generation, channels, spread, protocols })
}

/// The position of a word among `names`, if the file has the key.
fn optional(r: &mut Reader, section: &Section<'_>, key: &str, names: &[&str]) -> Option<usize> {
    if !section.has(key) {
        return None;
    }
    let word = r.required_choice(section, key, key, names)?;
    names.iter().position(|name| *name == word.value)
}

/// The costs of each protocol that the file names, in the order of [`Protocol::ALL`].
fn protocols(r: &mut Reader, section: &Section<'_>) -> Vec<ProtocolSpec> {
    let Some(all) = r.section(section, "protocols") else { return Vec::new() };
    if Protocol::ALL.iter().all(|protocol| all.find(protocol.name()).is_none()) {
        let names = Protocol::ALL.map(Protocol::name).join(", ");
        let message = format!("`{}` names no protocol", section.path_of("protocols"));
        let finding = Finding::new(all.location, message).label("at least one must be given here");
        r.findings.push(finding.help(format!("protocols: {names}")));
    }
    Protocol::ALL.into_iter().filter_map(|name| protocol(r, &all, name)).collect()
}

fn protocol(r: &mut Reader, all: &Section<'_>, protocol: Protocol) -> Option<ProtocolSpec> {
    all.find(protocol.name())?;
    let section = r.section(all, protocol.name())?;
    let start = if section.has("start") { time(r, &section, "start")?.value } else { Time::ZERO };
    let step = if section.has("step") { time(r, &section, "step")?.value } else { Time::ZERO };
    let efficiency = r.efficiency(&section, "efficiency");
    let copy = section.has("copy").then(|| r.quantity(&section, "copy", units::parse_bandwidth));
    let copy = if let Some(copy) = copy { Some(copy?.value) } else { None };
    let batch = r.bytes(&section, "batch", 1..=LONGEST_BATCH).map_or(0, |found| found.value);
    Some(ProtocolSpec { protocol, start, step, efficiency, copy, batch })
}
