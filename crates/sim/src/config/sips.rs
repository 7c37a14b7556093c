//! The SIPs of a machine file: how many, how wired, and whether each can reach each other (CFG-3).

use crate::spec::{Forwarding, SipsSpec, Topology, TopologyKind, WireSpec};
use crate::time::Time;
use crate::units;

use super::error::{Finding, Location};
use super::machine::{MOST, latency};
use super::reader::{Found, Reader, Section, unknown};
use super::size::blame;

/// The most SIPs where each pair has its own link, so that links stay about a million.
const MOST_FULLY_CONNECTED: u32 = 1_024;

/// The section `system.sips`.
pub(super) fn sips(r: &mut Reader, section: &Section<'_>) -> Option<Found<SipsSpec>> {
    let count = r.number(section, "count", MOST);
    let topology = topology(r, section, count);
    let link = sip_link(r, section, count);
    let forwarding = forwarding(r, section);
    let Found { value: count, location } = count?;
    let (topology, link) = (topology?, link?);
    Some(Found { value: SipsSpec { count, topology, link, forwarding }, location })
}

/// The mode of forwarding; store and forward where the file has none.
fn forwarding(r: &mut Reader, section: &Section<'_>) -> Forwarding {
    let names = Forwarding::ALL.map(Forwarding::name);
    let found = r.choice(section, "forwarding", "forwarding", &names);
    found.and_then(|found| Forwarding::from_name(found.value)).unwrap_or_default()
}

fn topology(r: &mut Reader, section: &Section<'_>, count: Option<Found<u32>>) -> Option<Topology> {
    let found @ Found { value: name, location } = r.required_text(section, "topology")?;
    let Some(kind) = TopologyKind::from_name(name) else {
        let names = TopologyKind::ALL.map(TopologyKind::name);
        return r.report(unknown(location, "topology", name, &names));
    };
    match kind {
        TopologyKind::Mesh2d => sip_grid(r, section, count, found)
            .map(|(rows, columns)| Topology::Mesh2d { rows, columns }),
        TopologyKind::Torus2d => sip_grid(r, section, count, found)
            .map(|(rows, columns)| Topology::Torus2d { rows, columns }),
        TopologyKind::Ring1d => Some(flat(r, section, Topology::Ring1d)),
        TopologyKind::Switch => Some(flat(r, section, Topology::Switch)),
        TopologyKind::FullyConnected => Some(fully_connected(r, section, count, location)),
    }
}

fn sip_grid(
    r: &mut Reader,
    section: &Section<'_>,
    count: Option<Found<u32>>,
    topology: Found<&str>,
) -> Option<(u32, u32)> {
    let rows = side(r, section, "rows", topology);
    let columns = side(r, section, "columns", topology);
    let (rows, columns, count) = (rows?, columns?, count?);
    let location = blame([(count.location, 1), (rows.location, 0), (columns.location, 0)]);
    let (rows, columns) = (rows.value, columns.value);
    let product = u64::from(rows) * u64::from(columns);
    if product != u64::from(count.value) {
        let sides = format!("{rows} * {columns} = {product}");
        let message = format!(
            "`system.sips.count` contradicts rows and columns: {sides}, not {}",
            count.value
        );
        let help = "count must be rows * columns";
        return r.report(Finding::new(location, message).label(sides).help(help));
    }
    Some((rows, columns))
}

/// The rows or columns of a grid of SIPs; it is the topology that wants them, so it is shown where they are missing.
fn side(
    r: &mut Reader,
    section: &Section<'_>,
    key: &str,
    topology: Found<&str>,
) -> Option<Found<u32>> {
    if section.find(key).is_none() && !section.is_misspelt(key) {
        let finding =
            Finding::new(topology.location, format!("missing `{}`", section.path_of(key)));
        let finding = finding.label(format!("`{}` needs {key}", topology.value));
        return r.report(finding.help("give rows and columns, with count = rows * columns"));
    }
    r.number(section, key, MOST)
}

/// A topology without rows and columns.
fn flat(r: &mut Reader, section: &Section<'_>, topology: Topology) -> Topology {
    for key in ["rows", "columns"] {
        if let Some(entry) = section.find(key) {
            let message = format!("topology `{}` has no {key}", topology.name());
            let finding = Finding::new(entry.key_location, message).label("has no meaning here");
            r.findings.push(finding.help("only `mesh_2d` and `torus_2d` take rows and columns"));
        }
    }
    topology
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

/// The link between SIPs; without one, only a machine of a single SIP can route.
fn sip_link(r: &mut Reader, section: &Section<'_>, count: Option<Found<u32>>) -> Option<WireSpec> {
    if section.find("link").is_none() && !section.is_misspelt("link") {
        let count = count?;
        return if count.value == 1 {
            Some(WireSpec::FREE)
        } else {
            r.report(unroutable(section, count))
        };
    }
    let link = r.section(section, "link")?;
    let bandwidth = r.quantity(&link, "bandwidth", units::parse_bandwidth);
    let latency = latency(r, &link);
    if let Some(Found { value: Time::ZERO, location }) = latency {
        let finding = Finding::new(location, "`system.sips.link.latency` must be more than zero");
        let help = "use at least 1 ps: it is the lookahead that lets SIPs advance in parallel";
        return r.report(finding.label("zero").help(help));
    }
    Some(WireSpec { bandwidth: bandwidth?.value, latency: latency?.value })
}

/// Several SIPs and nothing between them.
fn unroutable(section: &Section<'_>, count: Found<u32>) -> Finding {
    let location = blame([(section.location, 1), (count.location, 0)]);
    let message = "the machine cannot route: there is no way from SIP 0 to SIP 1, as `system.sips` has no `link`";
    let help = "add `link: { bandwidth: 128 GB/s, latency: 500 ns }`; only a machine of one SIP needs none";
    Finding::new(location, message).label("`link` must be given here").help(help)
}
