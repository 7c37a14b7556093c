//! The keys of a machine file, section by section: the one list that files, overrides and help share.

use crate::spelling::suggestion;

pub(super) const WIRE: &[&str] = &["bandwidth", "latency"];
/// A link between SIPs or groups.
pub(super) const LINK: &[&str] = &["bandwidth", "latency", "efficiency", "lanes"];
/// A multicast or a reduction inside a switch.
pub(super) const IN_SWITCH: &[&str] = &["efficiency", "start"];
/// One of `system.levels`.
pub(super) const LEVEL: &[&str] = &[
    "name",
    "count",
    "topology",
    "layers",
    "rows",
    "columns",
    "link",
    "nics",
    "pcie",
    "oversubscription",
    "multicast",
    "reduction",
];
const SIPS: &[&str] = &[
    "count",
    "topology",
    "layers",
    "rows",
    "columns",
    "link",
    "forwarding",
    "multicast",
    "reduction",
];
/// The costs of a protocol.
const PROTOCOL: &[&str] = &["start", "step", "efficiency", "copy", "batch"];
/// The list of levels: below it stand the names of the file.
pub(super) const LEVELS: &str = "system.levels";
/// Stands for the name of a level.
const ANY: &str = "*";
const GRID: &[&str] = &["rows", "columns", "link"];

/// Each section by its dotted path, with its keys.
const SECTIONS: &[(&str, &[&str])] = &[
    ("", &["name", "description", "base", "system", "sip", "cube", "pe", "collectives", "sources"]),
    ("system", &["sips", "levels", "host"]),
    ("system.sips", SIPS),
    ("system.sips.link", LINK),
    ("system.sips.multicast", IN_SWITCH),
    ("system.sips.reduction", IN_SWITCH),
    ("system.levels.*", LEVEL),
    ("system.levels.*.link", LINK),
    ("system.levels.*.pcie", WIRE),
    ("system.levels.*.multicast", IN_SWITCH),
    ("system.levels.*.reduction", IN_SWITCH),
    ("collectives", &["profile", "choice", "generation", "channels", "spread", "protocols"]),
    ("collectives.protocols", &["ll", "ll128", "simple", "nvls"]),
    ("collectives.protocols.ll", PROTOCOL),
    ("collectives.protocols.ll128", PROTOCOL),
    ("collectives.protocols.simple", PROTOCOL),
    ("collectives.protocols.nvls", PROTOCOL),
    ("system.host", &["link", "launch"]),
    ("system.host.link", WIRE),
    ("sip", &["cubes", "cache"]),
    ("sip.cubes", GRID),
    ("sip.cubes.link", WIRE),
    ("sip.cache", &["capacity", "bandwidth", "latency"]),
    ("cube", &["pes", "hbm"]),
    ("cube.pes", GRID),
    ("cube.pes.link", WIRE),
    ("cube.hbm", &["capacity", "bandwidth", "latency", "efficiency"]),
    ("pe", &["tcm", "dma", "gemm", "vector"]),
    ("pe.tcm", &["capacity"]),
    ("pe.dma", &["bandwidth", "latency", "outstanding", "burst"]),
    ("pe.gemm", &["rate", "tile", "efficiency", "rates"]),
    ("pe.gemm.rates", &["f32", "tf32", "f16", "bf16", "fp8", "i8"]),
    ("pe.vector", &["bandwidth", "costs"]),
    ("pe.vector.costs", &["add", "exp", "divide", "reduce"]),
];

/// The keys of the section at `path`; `None` where there is no such section.
pub(super) fn keys(path: &str) -> Option<&'static [&'static str]> {
    let path = match path.strip_prefix("system.levels.") {
        None => path.to_owned(),
        Some(rest) => {
            let below = rest.split_once('.').map_or("", |(_, below)| below);
            join(LEVELS, &if below.is_empty() { ANY.to_owned() } else { join(ANY, below) })
        }
    };
    SECTIONS.iter().find(|(section, _)| *section == path).map(|(_, keys)| *keys)
}

/// `parent.key`, or `key` at the root.
pub(super) fn join(parent: &str, key: &str) -> String {
    if parent.is_empty() { key.to_owned() } else { format!("{parent}.{key}") }
}

/// The full path meant by one that lacks its beginning (`sips.count`) or is misspelt.
pub(super) fn near_path(typed: &str) -> Option<String> {
    let paths: Vec<String> = SECTIONS
        .iter()
        .filter(|(section, _)| !section.contains(ANY))
        .flat_map(|(section, keys)| keys.iter().map(|key| join(section, key)))
        .collect();
    let ending = format!(".{typed}");
    let by_end = paths.iter().find(|path| path.ends_with(&ending));
    by_end
        .cloned()
        .or_else(|| suggestion(typed, paths.iter().map(String::as_str)).map(str::to_owned))
}

/// `a, b, c` for help texts.
pub(super) fn list(words: &[&str]) -> String {
    words.join(", ")
}
