//! The SIPs of a machine file: how many, how wired, and whether each can reach each other (CFG-3).

use crate::spec::{Forwarding, InSwitchSpec, LinkSpec, SipsSpec, Topology, TopologyKind};
use crate::time::Time;
use crate::units;

use super::error::{Finding, Location};
use super::machine::{MOST, latency, time};
use super::reader::{Found, Reader, Section, unknown};
use super::schema::{IN_SWITCH, LINK};
use super::size::blame;

/// The most SIPs where each pair has its own link, so that links stay about a million.
const MOST_FULLY_CONNECTED: u32 = 1_024;
/// The most links in parallel.
const MOST_LANES: u64 = 1_024;

/// The section `system.sips`.
pub(super) fn sips(r: &mut Reader, section: &Section<'_>) -> Option<Found<SipsSpec>> {
    let count = r.number(section, "count", MOST);
    let topology = topology(r, section, count);
    let link = link_between(r, section, count);
    let forwarding = forwarding(r, section);
    let multicast = in_switch(r, section, "multicast", topology);
    let reduction = in_switch(r, section, "reduction", topology);
    let Found { value: count, location } = count?;
    let (topology, link) = (topology?, link?.value);
    let (multicast, reduction) = (multicast.ok()?, reduction.ok()?);
    let value = SipsSpec { count, topology, link, forwarding, multicast, reduction };
    Some(Found { value, location })
}

/// The mode of forwarding; store and forward where the file has none.
fn forwarding(r: &mut Reader, section: &Section<'_>) -> Forwarding {
    let names = Forwarding::ALL.map(Forwarding::name);
    let found = r.choice(section, "forwarding", "forwarding", &names);
    found.and_then(|found| Forwarding::from_name(found.value)).unwrap_or_default()
}

/// Something was wrong, and the reader has it.
pub(super) struct Reported;

/// The cost of a multicast or a reduction inside the switch, if the file has one.
pub(super) fn in_switch(
    r: &mut Reader,
    section: &Section<'_>,
    key: &str,
    topology: Option<Topology>,
) -> Result<Option<InSwitchSpec>, Reported> {
    let Some(entry) = section.find(key) else { return Ok(None) };
    let location = entry.key_location;
    given_in_switch(r, section, (key, location), topology).map(Some).ok_or(Reported)
}

fn given_in_switch(
    r: &mut Reader,
    section: &Section<'_>,
    (key, key_location): (&str, Location),
    topology: Option<Topology>,
) -> Option<InSwitchSpec> {
    let part = r.part(section, key, IN_SWITCH)?;
    let before = r.reported();
    let efficiency = r.efficiency(&part, "efficiency");
    let start = match part.find("start") {
        Some(_) => time(r, &part, "start").map(|found| found.value),
        None => Some(Time::ZERO),
    };
    let topology = topology?;
    if topology != Topology::Switch {
        let message = format!("topology `{}` has no {key}", topology.name());
        let finding = Finding::new(key_location, message).label("has no meaning here");
        return r.report(finding.help("only a `switch` copies or combines messages"));
    }
    if r.reported() > before {
        return None;
    }
    Some(InSwitchSpec { efficiency, start: start? })
}

/// The topology of a level that connects `count` parts.
pub(super) fn topology(
    r: &mut Reader,
    section: &Section<'_>,
    count: Option<Found<u32>>,
) -> Option<Topology> {
    let found @ Found { value: name, location } = r.required_text(section, "topology")?;
    let Some(kind) = TopologyKind::from_name(name) else {
        let names = TopologyKind::ALL.map(TopologyKind::name);
        return r.report(unknown(location, "topology", name, &names));
    };
    match kind {
        TopologyKind::Mesh2d => {
            grid(r, section, count, found).map(|[rows, columns]| Topology::Mesh2d { rows, columns })
        }
        TopologyKind::Torus2d => grid(r, section, count, found)
            .map(|[rows, columns]| Topology::Torus2d { rows, columns }),
        TopologyKind::Mesh3d => sides(r, section, &SIDES, count, found)
            .map(|[layers, rows, columns]| Topology::Mesh3d { layers, rows, columns }),
        TopologyKind::Torus3d => sides(r, section, &SIDES, count, found)
            .map(|[layers, rows, columns]| Topology::Torus3d { layers, rows, columns }),
        TopologyKind::Ring1d => Some(flat(r, section, Topology::Ring1d)),
        TopologyKind::Switch => Some(flat(r, section, Topology::Switch)),
        TopologyKind::FullyConnected => Some(fully_connected(r, section, count, location)),
    }
}

/// The sides of a grid, the longest stride first.
const SIDES: [&str; 3] = ["layers", "rows", "columns"];

/// The sides of a grid of two dimensions.
fn grid(
    r: &mut Reader,
    section: &Section<'_>,
    count: Option<Found<u32>>,
    topology: Found<&str>,
) -> Option<[u32; 2]> {
    let message = format!("topology `{}` has no layers", topology.value);
    refuse_side(r, section, "layers", message, "only `mesh_3d` and `torus_3d` take layers");
    sides(r, section, &[SIDES[1], SIDES[2]], count, topology)
}

/// The sides of a grid, whose product must be the count.
fn sides<const N: usize>(
    r: &mut Reader,
    section: &Section<'_>,
    keys: &[&str; N],
    count: Option<Found<u32>>,
    topology: Found<&str>,
) -> Option<[u32; N]> {
    let found = keys.map(|key| side(r, section, key, keys, topology));
    let count = count?;
    let mut values = [0; N];
    let mut location = (count.location, 1);
    for (value, found) in values.iter_mut().zip(found) {
        let found = found?;
        *value = found.value;
        location = (blame([location, (found.location, 0)]), 1);
    }
    let product =
        values.iter().fold(1, |product: u64, side| product.saturating_mul((*side).into()));
    if product != u64::from(count.value) {
        let factors: Vec<String> = values.iter().map(ToString::to_string).collect();
        let sides = format!("{} = {product}", factors.join(" * "));
        let path = section.path_of("count");
        let message = format!("`{path}` contradicts {}: {sides}, not {}", and(keys), count.value);
        let help = format!("count must be {}", keys.join(" * "));
        return r.report(Finding::new(location.0, message).label(sides).help(help));
    }
    Some(values)
}

/// `rows and columns`.
fn and(keys: &[&str]) -> String {
    let (last, first) = keys.split_last().expect("a grid has sides");
    format!("{} and {last}", first.join(", "))
}

/// Reads one side of a grid. A missing side is reported at the topology, which needs it.
fn side(
    r: &mut Reader,
    section: &Section<'_>,
    key: &str,
    keys: &[&str],
    topology: Found<&str>,
) -> Option<Found<u32>> {
    if section.find(key).is_none() && !section.is_misspelt(key) {
        let finding =
            Finding::new(topology.location, format!("missing `{}`", section.path_of(key)));
        let finding = finding.label(format!("`{}` needs {key}", topology.value));
        let help = format!("give {}, with count = {}", and(keys), keys.join(" * "));
        return r.report(finding.help(help));
    }
    r.number(section, key, MOST)
}

/// A topology without sides.
fn flat(r: &mut Reader, section: &Section<'_>, topology: Topology) -> Topology {
    for key in SIDES {
        let message = format!("topology `{}` has no {key}", topology.name());
        let help = if key == "layers" {
            "only `mesh_3d` and `torus_3d` take layers"
        } else {
            "only meshes and tori take rows and columns"
        };
        refuse_side(r, section, key, message, help);
    }
    topology
}

/// Refuses a side that a topology does not have.
fn refuse_side(r: &mut Reader, section: &Section<'_>, key: &str, message: String, help: &str) {
    if let Some(entry) = section.find(key) {
        let finding = Finding::new(entry.key_location, message).label("has no meaning here");
        r.findings.push(finding.help(help));
    }
}

fn fully_connected(
    r: &mut Reader,
    section: &Section<'_>,
    count: Option<Found<u32>>,
    topology: Location,
) -> Topology {
    if let Some(count) = count.filter(|count| count.value > MOST_FULLY_CONNECTED) {
        let location = blame([(count.location, 1), (topology, 0)]);
        let message = format!("too many SIPs for `fully_connected`: {}", count.value);
        let help = format!(
            "allowed: 1 to {MOST_FULLY_CONNECTED}, as each pair has its own link; `switch` takes more"
        );
        r.findings.push(Finding::new(location, message).label("too many").help(help));
    }
    flat(r, section, Topology::FullyConnected)
}

/// The link between the parts of a level, and where its latency stands; without one, only a single part can route.
pub(super) fn link_between(
    r: &mut Reader,
    section: &Section<'_>,
    count: Option<Found<u32>>,
) -> Option<Found<LinkSpec>> {
    if section.find("link").is_none() && !section.is_misspelt("link") {
        let count = count?;
        return if count.value == 1 {
            Some(Found { value: LinkSpec::FREE, location: section.location })
        } else {
            r.report(unroutable(section, count))
        };
    }
    let link = r.required_part(section, "link", LINK)?;
    let bandwidth = r.quantity(&link, "bandwidth", units::parse_bandwidth);
    let latency = latency(r, &link);
    let efficiency = r.efficiency(&link, "efficiency");
    let lanes = r.count(&link, "lanes", 1..=MOST_LANES);
    if let Some(Found { value: Time::ZERO, location }) = latency {
        let message = format!("`{}` must be more than zero", link.path_of("latency"));
        let finding = Finding::new(location, message);
        let help = "use at least 1 ps: it is the lookahead that lets SIPs advance in parallel";
        return r.report(finding.label("zero").help(help));
    }
    let lanes = lanes.map_or(1, |lanes| u32::try_from(lanes.value).unwrap_or(1));
    let Found { value: latency, location } = latency?;
    let value = LinkSpec { bandwidth: bandwidth?.value, latency, efficiency, lanes };
    Some(Found { value, location })
}

/// Several parts and nothing between them.
fn unroutable(section: &Section<'_>, count: Found<u32>) -> Finding {
    let location = blame([(section.location, 1), (count.location, 0)]);
    let path = section.path();
    let message = if path == "system.sips" {
        format!(
            "the machine cannot route: there is no way from SIP 0 to SIP 1, as `{path}` has no `link`"
        )
    } else {
        format!(
            "the machine cannot route: there is no way between the groups of `{path}`, which has no `link`"
        )
    };
    let help = "add `link: { bandwidth: 128 GB/s, latency: 500 ns }`; only a machine of one SIP needs none";
    Finding::new(location, message).label("`link` must be given here").help(help)
}
