//! The levels of a machine file: groups of groups, their NICs, and the network between them (CFG-3).

use crate::spec::{LevelSpec, SipsSpec, Topology, WireSpec};
use crate::time::Time;
use crate::units;

use super::error::{Finding, Location};
use super::machine::{MOST, latency};
use super::reader::{Found, Reader, Section};
use super::schema::{LEVEL, WIRE};
use super::sips::{Reported, in_switch, link_between, topology};
use super::size::blame;

/// The most levels of groups.
const MOST_LEVELS: usize = 6;
/// The most NICs' bandwidth for each way up.
const MOST_OVERSUBSCRIBED: u64 = 1_000;
/// The shortest latency of a way that passes a shared NIC or a leaf switch, which are partitions of their own.
const SHORTEST: Time = Time::ns(1);
/// Names that mean something else in an address.
const TAKEN: [&str; 8] = ["sip", "cube", "pe", "host", "switch", "nic", "leaf", "rank"];

/// The list `system.levels`, if it is there; `sips` is the group below the first level.
pub(super) fn levels(
    r: &mut Reader,
    system: &Section<'_>,
    sips: Option<&Found<SipsSpec>>,
) -> Option<Found<Vec<LevelSpec>>> {
    let start = sips.map(|sips| (sips.value.count, sips.location));
    let location = start.map_or(system.location, |(_, location)| location);
    if !system.has("levels") {
        return Some(Found { value: Vec::new(), location });
    }
    let items = r.items(system, "levels", LEVEL)?;
    let mut part = start;
    let mut found = Vec::new();
    for (number, item) in items.iter().enumerate() {
        if number == MOST_LEVELS {
            let message = format!("too many levels: {}", items.len());
            let finding = Finding::new(item.location, message).label("one too many");
            return r.report(finding.help(format!("allowed: at most {MOST_LEVELS}")));
        }
        let level = level(r, item, part.map(|(part, _)| part));
        part = part
            .zip(level.as_ref())
            .and_then(|((part, location), level)| grow(r, (part, location), level));
        found.push(level);
    }
    let value: Option<Vec<LevelSpec>> =
        found.into_iter().map(|level| level.map(|level| level.value)).collect();
    let value = value?;
    check_names(r, &value, &items);
    let (_, location) = part?;
    Some(Found { value, location })
}

/// The number of devices with one level more, and where its largest factor stands.
fn grow(
    r: &mut Reader,
    (part, location): (u32, Location),
    level: &Found<LevelSpec>,
) -> Option<(u32, Location)> {
    let devices = u64::from(part) * u64::from(level.value.count);
    let worst = blame([(location, part.into()), (level.location, level.value.count.into())]);
    match u32::try_from(devices) {
        Ok(devices) if devices <= MOST => Some((devices, worst)),
        _ => {
            let message = format!("the machine is too large: {devices} SIPs in all");
            let finding = Finding::new(worst, message).label("counts in the product of all counts");
            r.report(finding.help(format!("allowed: at most {MOST} SIPs")))
        }
    }
}

/// One level; `part` is the number of devices in one of its groups.
fn level(r: &mut Reader, section: &Section<'_>, part: Option<u32>) -> Option<Found<LevelSpec>> {
    let name = level_name(r, section);
    let count = r.number(section, "count", MOST);
    let topology = topology(r, section, count);
    let link = link_between(r, section, count);
    let nics = nics(r, section, part);
    let pcie = pcie(r, section);
    let oversubscription = r.count(section, "oversubscription", 1..=MOST_OVERSUBSCRIBED);
    let multicast = in_switch(r, section, "multicast", topology);
    let reduction = in_switch(r, section, "reduction", topology);
    let Found { value: count, location } = count?;
    let (topology, link, part, nics) = (topology?, link?, part?, nics?);
    let ratio = oversubscription.map_or(1, |found| u32::try_from(found.value).unwrap_or(1));
    let value = LevelSpec {
        name: name?,
        count,
        topology,
        link: link.value,
        nics,
        pcie: pcie.ok()?,
        oversubscription: ratio,
        multicast: multicast.ok()?,
        reduction: reduction.ok()?,
    };
    if ratio > 1 && topology != Topology::Switch {
        let location = oversubscription.map_or(section.location, |found| found.location);
        let message = format!("topology `{}` cannot be oversubscribed", topology.name());
        let finding = Finding::new(location, message).label("has no meaning here");
        return r.report(finding.help("only a `switch` has a way up that groups share"));
    }
    if (ratio > 1 || value.shares_nics(part)) && value.link.latency < SHORTEST {
        let message = format!("`{}` is too short", section.path_of("link.latency"));
        let finding = Finding::new(link.location, message).label("less than 1 ns");
        let help = "use at least 1 ns: shared NICs and leaf switches advance in parallel with SIPs";
        return r.report(finding.help(help));
    }
    Some(Found { value, location })
}

/// The name of a level's groups: lower-case letters, so that a number can follow.
fn level_name(r: &mut Reader, section: &Section<'_>) -> Option<String> {
    let Found { value: name, location } = r.required_text(section, "name")?;
    let path = section.path_of("name");
    let is_good = |c: char| c.is_ascii_lowercase() || c == '_';
    if name.is_empty() || name.len() > 16 || !name.chars().all(is_good) {
        let finding = Finding::new(location, format!("`{path}` must be one word of small letters"));
        let help = "allowed: 1 to 16 of `a` to `z` and `_`, as in `node`: addresses add a number";
        return r.report(finding.label("not such a word").help(help));
    }
    if TAKEN.contains(&name) {
        let finding = Finding::new(location, format!("`{path}` cannot be `{name}`"));
        let help = format!("not allowed: {}", TAKEN.join(", "));
        return r.report(finding.label("means something else in an address").help(help));
    }
    Some(name.to_owned())
}

/// Two levels of one name would make addresses ambiguous.
fn check_names(r: &mut Reader, levels: &[LevelSpec], sections: &[Section<'_>]) {
    for (number, (level, section)) in levels.iter().zip(sections).enumerate() {
        if levels[..number].iter().any(|inner| inner.name == level.name) {
            let location =
                section.find("name").map_or(section.location, |entry| entry.node.location);
            let message = format!("two levels have the name `{}`", level.name);
            let finding = Finding::new(location, message).label("given before");
            r.findings.push(finding.help("give each level a name of its own"));
        }
    }
}

/// The NICs of one group: one a device where the file has none.
fn nics(r: &mut Reader, section: &Section<'_>, part: Option<u32>) -> Option<u32> {
    if section.find("nics").is_none() {
        return part;
    }
    let Found { value: nics, location } = r.number(section, "nics", MOST)?;
    let part = part?;
    if nics <= part && part.is_multiple_of(nics) {
        return Some(nics);
    }
    let message = format!("`{}` does not fit {part} devices: {nics}", section.path_of("nics"));
    let label = if nics > part { "more than devices" } else { "not the same for each device" };
    let help = if nics > part {
        format!("allowed: 1 to {part}; several NICs a device are `lanes` of its link")
    } else {
        format!("allowed: a divisor of {part}, so that each NIC has as many devices")
    };
    r.report(Finding::new(location, message).label(label).help(help))
}

/// The way between a device and its NIC; none if the file has none.
fn pcie(r: &mut Reader, section: &Section<'_>) -> Result<Option<WireSpec>, Reported> {
    if section.find("pcie").is_none() {
        return Ok(None);
    }
    wire_to_nic(r, section).map(Some).ok_or(Reported)
}

fn wire_to_nic(r: &mut Reader, section: &Section<'_>) -> Option<WireSpec> {
    let pcie = r.part(section, "pcie", WIRE)?;
    let bandwidth = r.quantity(&pcie, "bandwidth", units::parse_bandwidth);
    let latency = latency(r, &pcie);
    if let Some(Found { value: Time::ZERO, location }) = latency {
        let message = format!("`{}` must be more than zero", pcie.path_of("latency"));
        let finding = Finding::new(location, message).label("zero");
        return r.report(finding.help("use at least 1 ps, or leave out `pcie`"));
    }
    Some(WireSpec { bandwidth: bandwidth?.value, latency: latency?.value })
}
