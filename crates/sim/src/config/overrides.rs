//! Overrides: `system.sips.count=8` put over a machine file before it is checked.
//!
//! - **OVER-1 (same rules).** A value set here is checked as if it stood in the file; what is wrong with it is
//!   shown in the override's own text.
//! - **OVER-2 (last wins).** Overrides apply in the order given.
//! - **OVER-3 (no leftovers).** Setting a topology without sides drops those of the file.
//! - **OVER-4 (levels by name).** A level of the file goes by its name: `system.levels.node.count=4`.

use std::ops::Range;

use super::error::{ConfigErrors, Finding, Location};
use super::reader::name_of;
use super::schema;
use super::yaml::{self, Entry, Value, YamlNode};
use crate::spec::TopologyKind;

/// The name of the command line in messages about overrides.
pub(super) const OVERRIDE: &str = "--set";

/// One `PATH=VALUE`, where `PATH` is dotted as in `pe.dma.latency`.
///
/// ```
/// use phalanx_sim::config::{Override, parse_machine_with, preset};
/// let quad = preset("quad-sip").unwrap();
/// let larger = Override::parse("system.sips.count=8").unwrap();
/// assert_eq!(parse_machine_with("quad-sip", quad.text, &[larger]).unwrap().sips.count, 8);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    text: String,
    segments: Vec<Range<usize>>,
    value: usize,
}

impl Override {
    /// Reads `PATH=VALUE`; an error where the `=`, a part of the path or the value is missing.
    pub fn parse(text: &str) -> Result<Self, ConfigErrors> {
        Self::read(text).map_err(|finding| ConfigErrors::new(vec![finding.in_text(OVERRIDE, text)]))
    }

    /// As it was typed.
    pub fn text(&self) -> &str {
        &self.text
    }

    fn read(text: &str) -> Result<Self, Finding> {
        let whole = Location { source: 0, start: 0, end: text.len() };
        let Some(equals) = text.find('=') else {
            return Err(Finding::new(whole, "an override is `PATH=VALUE`")
                .label("no `=` in it")
                .help("as in `system.sips.count=8`"));
        };
        if text[equals + 1..].trim().is_empty() {
            return Err(Finding::new(whole, "an override is `PATH=VALUE`")
                .label("no value in it")
                .help("as in `system.sips.count=8`"));
        }
        let segments = segments(&text[..equals]);
        if segments.iter().any(Range::is_empty) {
            let path = Location { end: equals, ..whole };
            return Err(Finding::new(path, "an override is `PATH=VALUE`")
                .label("a part of the path is empty")
                .help("as in `system.sips.count=8`"));
        }
        Ok(Self { text: text.to_owned(), segments, value: equals + 1 })
    }

    /// Puts the value into the tree; `source` is the number of this override in messages.
    pub(super) fn apply(&self, root: &mut YamlNode, source: usize) -> Result<(), Finding> {
        self.check_path(root, source)?;
        let value = yaml::read(&self.text[self.value..], source, self.value)?;
        let mut node = root;
        for segment in &self.segments {
            let location = Location { source, start: segment.start, end: segment.end };
            node = entry(node, &self.text[segment.clone()], location);
        }
        *node = value;
        Ok(())
    }

    /// Every part of the path must be a key of the section before it.
    fn check_path(&self, root: &YamlNode, source: usize) -> Result<(), Finding> {
        let mut section = String::new();
        for segment in &self.segments {
            let key = &self.text[segment.clone()];
            let location = Location { source, start: segment.start, end: segment.end };
            let names = if section == schema::LEVELS { level_names(root) } else { Vec::new() };
            let keys =
                if names.is_empty() { schema::keys(&section) } else { Some(names.as_slice()) };
            let Some(keys) = keys else {
                return Err(Finding::new(
                    location,
                    format!("`{section}` is a value, it has no keys"),
                )
                .label("nothing below it")
                .help(format!("write `{section}=VALUE`")));
            };
            if !keys.contains(&key) {
                return Err(self.unknown(location, &section, key, keys));
            }
            section = schema::join(&section, key);
        }
        Ok(())
    }

    fn unknown(&self, location: Location, section: &str, key: &str, keys: &[&str]) -> Finding {
        let finding = super::reader::unknown_key(location, section, key, keys);
        let path = &self.text[..self.value - 1];
        match schema::near_path(path.trim()) {
            Some(known) if section.is_empty() => finding.label(format!("did you mean `{known}`?")),
            _ => finding,
        }
    }
}

/// A topology set by an override to one without sides leaves those of the file without meaning: they go, because an
/// override cannot remove a key (OVER-3).
pub(super) fn drop_grid(root: &mut YamlNode) {
    let Some(system) = child(root, "system") else { return };
    if let Some(sips) = child(system, "sips") {
        drop_sides(sips);
    }
    if let Some(YamlNode { value: Value::Sequence(levels), .. }) = child(system, "levels") {
        levels.iter_mut().for_each(drop_sides);
    }
}

fn drop_sides(part: &mut YamlNode) {
    let Some(topology) = child(part, "topology") else { return };
    let unused = if topology.location.is_override() { unused_sides(topology) } else { &[] };
    if let Value::Mapping(entries) = &mut part.value {
        entries.retain(|entry| {
            entry.node.location.is_override() || !unused.contains(&entry.key.as_str())
        });
    }
}

/// The sides that a topology does not have.
fn unused_sides(topology: &YamlNode) -> &'static [&'static str] {
    let Value::Scalar { text, .. } = &topology.value else { return &[] };
    match TopologyKind::from_name(text) {
        Some(TopologyKind::Mesh3d | TopologyKind::Torus3d) | None => &[],
        Some(TopologyKind::Mesh2d | TopologyKind::Torus2d) => &["layers"],
        Some(_) => &["layers", "rows", "columns"],
    }
}

/// The names of the levels of a file.
fn level_names(root: &YamlNode) -> Vec<&str> {
    let find = |node: &YamlNode, key: &str| match &node.value {
        Value::Mapping(entries) => entries.iter().position(|entry| entry.key == key),
        _ => None,
    };
    let mut node = root;
    for key in ["system", "levels"] {
        let (Value::Mapping(entries), Some(at)) = (&node.value, find(node, key)) else {
            return Vec::new();
        };
        node = &entries[at].node;
    }
    let Value::Sequence(levels) = &node.value else { return Vec::new() };
    levels.iter().filter_map(name_of).collect()
}

fn child<'a>(node: &'a mut YamlNode, key: &str) -> Option<&'a mut YamlNode> {
    let Value::Mapping(entries) = &mut node.value else { return None };
    entries.iter_mut().find(|entry| entry.key == key).map(|entry| &mut entry.node)
}

/// The parts between dots, without the white space around them.
fn segments(path: &str) -> Vec<Range<usize>> {
    let mut start = 0;
    path.split('.')
        .map(|part| {
            let from = start + (part.len() - part.trim_start().len());
            start += part.len() + 1;
            from..from + part.trim().len()
        })
        .collect()
}

/// The node under `key`, made if it is not there; a value that stood in the way is replaced.
fn entry<'a>(node: &'a mut YamlNode, key: &str, key_location: Location) -> &'a mut YamlNode {
    if let Value::Sequence(levels) = &node.value
        && let Some(at) = levels.iter().position(|level| name_of(level) == Some(key))
    {
        let Value::Sequence(levels) = &mut node.value else { unreachable!("seen above") };
        return &mut levels[at];
    }
    if !matches!(node.value, Value::Mapping(_)) {
        *node = YamlNode { location: key_location, value: Value::Mapping(Vec::new()) };
    }
    let Value::Mapping(entries) = &mut node.value else {
        unreachable!("OVER-1: made a mapping above")
    };
    let at = entries.iter().position(|entry| entry.key == key).unwrap_or(entries.len());
    if at == entries.len() {
        let empty = YamlNode { location: key_location, value: Value::Mapping(Vec::new()) };
        entries.push(Entry { key: key.to_owned(), key_location, node: empty });
    }
    &mut entries[at].node
}
