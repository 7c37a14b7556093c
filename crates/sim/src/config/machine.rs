//! The contents of a machine file: the tree of nodes checked into a [`MachineSpec`].

use crate::spec::{GridSpec, LevelSpec, MachineSpec, SipsSpec, WireSpec};
use crate::time::Time;
use crate::units;

use super::collectives::collectives;
use super::engines::{PeParts, cache, hbm, pe};
use super::error::Finding;
use super::levels::levels;
use super::reader::{Found, Reader, Section};
use super::sips::sips;
use super::size::{Size, blame, check_size};
use super::sources;
use super::yaml::YamlNode;

/// The most SIPs of a machine, and the most rows or columns of anything.
pub(super) const MOST: u32 = 65_536;
/// The longest latency: that of the longest way through the largest machine still fits in a [`Time`].
const LONGEST: Time = Time::us(100_000_000);

/// The machine in `root`, or everything that is wrong with it.
pub(super) fn check(root: &YamlNode) -> Result<MachineSpec, Vec<Finding>> {
    let mut reader = Reader::new("a machine file");
    match machine(&mut reader, root) {
        Some(spec) if reader.findings.is_empty() => Ok(spec),
        _ => Err(reader.findings),
    }
}

// Each part reads all it can before the first `?`, so that everything wrong is found in one go.
fn machine(r: &mut Reader, root: &YamlNode) -> Option<MachineSpec> {
    let file = r.root(root)?;
    let name = name(r, &file);
    let description = description(r, &file);
    let system = system(r, &file);
    let sip = r.section(&file, "sip");
    let cubes = sip.as_ref().and_then(|sip| grid(r, sip, "cubes"));
    let cache = sip.as_ref().and_then(|sip| cache(r, sip));
    let cube = r.section(&file, "cube");
    let pes = cube.as_ref().and_then(|cube| grid(r, cube, "pes"));
    let hbm = cube.as_ref().and_then(|cube| hbm(r, cube));
    let pe = pe(r, &file);
    let collectives = collectives(r, &file);
    let sources = sources::read(r, &file, root);
    let (sips, levels, (host, launch)) = system?;
    let PeParts { tcm, dma, gemm, vector, vector_costs } = pe?;
    let (cubes, pes, hbm) = (cubes?, pes?, hbm?);
    let size = Size {
        sips: levels.location,
        cubes: cubes.location,
        pes: pes.location,
        hbm: hbm.location,
        tcm: tcm.location,
    };
    let (sips, cubes, pes) = (sips.value, cubes.value, pes.value);
    let (name, hbm, tcm) = (name?, hbm.value, tcm.value);
    let levels = levels.value;
    let mut spec = MachineSpec {
        name,
        description,
        sips,
        levels,
        collectives,
        host,
        launch,
        cubes,
        cache,
        pes,
        hbm,
        tcm,
        dma,
        gemm,
        vector,
        vector_costs,
        sources,
    };
    check_size(r, &spec, &size);
    sources::keep_printed(&mut spec);
    Some(spec)
}

fn name(r: &mut Reader, file: &Section<'_>) -> Option<String> {
    let Found { value, location } = r.required_text(file, "name")?;
    r.word("`name`", value, location).map(str::to_owned)
}

fn description(r: &mut Reader, file: &Section<'_>) -> String {
    let Some(Found { value, location }) = r.text(file, "description") else { return String::new() };
    if value.chars().any(char::is_control) {
        r.findings.push(
            Finding::new(location, "`description` must be one line")
                .label("has line breaks or control characters"),
        );
    }
    value.to_owned()
}

/// The SIPs, the levels above them, and the wire from the host with the time of a launch.
type System = (Found<SipsSpec>, Found<Vec<LevelSpec>>, (WireSpec, Time));

fn system(r: &mut Reader, file: &Section<'_>) -> Option<System> {
    let system = r.section(file, "system")?;
    let sips = r.section(&system, "sips").and_then(|section| sips(r, &section));
    let levels = levels(r, &system, sips.as_ref());
    let host = r.section(&system, "host").and_then(|host| {
        let launch = if host.has("launch") { time(r, &host, "launch")?.value } else { Time::ZERO };
        Some((wire(r, &host, "link")?, launch))
    });
    Some((sips?, levels?, host?))
}

/// The longest latency, in words.
pub(super) fn latency_limit() -> String {
    format!("allowed: at most {}", units::show_time(LONGEST))
}

/// The `latency` of `section`.
pub(super) fn latency(r: &mut Reader, section: &Section<'_>) -> Option<Found<Time>> {
    time(r, section, "latency")
}

/// The time `key` of `section`, which must be there.
pub(super) fn time(r: &mut Reader, section: &Section<'_>, key: &str) -> Option<Found<Time>> {
    let latency = r.quantity(section, key, units::parse_time)?;
    if latency.value > LONGEST {
        let finding = Finding::new(
            latency.location,
            format!(
                "`{}` is out of range: {}",
                section.path_of(key),
                units::show_time(latency.value)
            ),
        );
        return r.report(finding.label("too long").help(latency_limit()));
    }
    Some(latency)
}

/// The wire `key` of `parent`.
fn wire(r: &mut Reader, parent: &Section<'_>, key: &str) -> Option<WireSpec> {
    let section = r.section(parent, key)?;
    let bandwidth = r.quantity(&section, "bandwidth", units::parse_bandwidth);
    let latency = latency(r, &section);
    Some(WireSpec { bandwidth: bandwidth?.value, latency: latency?.value })
}

/// The mesh `key` of `parent`; one part alone needs no link.
fn grid(r: &mut Reader, parent: &Section<'_>, key: &str) -> Option<Found<GridSpec>> {
    let section = r.section(parent, key)?;
    let rows = r.number(&section, "rows", MOST);
    let columns = r.number(&section, "columns", MOST);
    let alone =
        [&rows, &columns].into_iter().all(|side| side.as_ref().is_some_and(|side| side.value == 1));
    let link = if alone && section.find("link").is_none() {
        Some(WireSpec::FREE)
    } else {
        wire(r, &section, "link")
    };
    let (rows, columns) = (rows?, columns?);
    let value = GridSpec { rows: rows.value, columns: columns.value, link: link? };
    Some(Found {
        value,
        location: blame([
            (rows.location, rows.value.into()),
            (columns.location, columns.value.into()),
        ]),
    })
}
