//! The base of a machine file: `base: hgx-h100` names a machine or a chip that comes with the program, and the file says what
//! differs.
//!
//! - **BASE-1 (key by key).** A value of the file stands for that of the base; sections are joined key by key, and everything else is
//!   replaced whole, lists too. A topology of the file takes the sides of the base's topology away. Name and description are not
//!   taken over.
//! - **BASE-2 (sources stay true).** A figure of the base keeps its source. A figure that the file gives has no source but the file's.
//! - **BASE-3 (as if written out).** Errors are found in the joined file and shown in the user's file; an error inside
//!   the base is shown at the name of the base.

use super::error::{Finding, Location};
use super::preset::{Preset, chips, preset, presets};
use super::schema;
use super::sources;
use super::yaml::{self, Entry, Value, YamlNode};
use crate::spelling::suggestion;

/// The key of a file.
pub(super) const KEY: &str = "base";
/// The number of the first base in locations; the base of a base has the next.
const FIRST: usize = usize::MAX / 2;
/// Keys that a base does not give.
const OWN: [&str; 3] = ["name", "description", KEY];
/// The sides of a topology.
const SIDES: [&str; 3] = ["layers", "rows", "columns"];

impl Location {
    /// The number of the override that this is in, or 0 for a file and its bases.
    pub(super) const fn override_number(self) -> usize {
        if self.source < FIRST { self.source } else { 0 }
    }

    /// True in an override.
    pub(super) const fn is_override(self) -> bool {
        self.override_number() > 0
    }
}

/// The bases of a file.
#[derive(Default)]
pub(super) struct Bases {
    count: usize,
    /// The name of the nearest one, in the file.
    name: Option<Location>,
}

impl Bases {
    /// A finding in the file or an override; one in a base is moved to the name of the base (BASE-3).
    pub(super) fn place(&self, mut finding: Finding) -> Finding {
        match self.name {
            Some(name) if finding.location.source >= FIRST => {
                finding.location = name;
                finding.label("of this base, with what the file changes")
            }
            _ => finding,
        }
    }

    /// Joins a file with its base, and that with its own; a base that there is not is a finding.
    pub(super) fn join(&mut self, file: YamlNode) -> Result<YamlNode, Finding> {
        let Some((base, name)) = named(&file)? else { return Ok(file) };
        self.name.get_or_insert(name);
        let number = FIRST + self.count;
        self.count += 1;
        let base = yaml::read(base.text, number, 0)?;
        let base = self.join(base)?;
        Ok(joined(file, base))
    }
}

/// Returns the name of the base of a machine file; none if it has no base, or an unknown one.
pub fn base_of(text: &str) -> Option<&'static str> {
    let file = yaml::read(text, 0, 0).ok()?;
    Some(named(&file).ok()??.0.name)
}

/// The machine or chip that a file names as its base, and the place of the name.
fn named(file: &YamlNode) -> Result<Option<(&'static Preset, Location)>, Finding> {
    let Value::Mapping(entries) = &file.value else { return Ok(None) };
    let Some(entry) = entries.iter().find(|entry| entry.key == KEY) else { return Ok(None) };
    let all = || presets().iter().chain(chips()).map(|known| known.name);
    let Value::Scalar { text, .. } = &entry.node.value else {
        let finding = Finding::new(entry.node.location, format!("`{KEY}` must be a name"));
        return Err(finding.label("not a name").help(format!("allowed: {}", listed(all()))));
    };
    let known = preset(text).or_else(|| chips().iter().find(|chip| chip.name == text));
    if let Some(known) = known {
        return Ok(Some((known, entry.node.location)));
    }
    let typed: String = text.chars().take(80).collect();
    let label = suggestion(text, all())
        .map_or_else(|| "no such base".to_owned(), |known| format!("did you mean `{known}`?"));
    let message = format!("`{KEY}` names no machine and no chip: `{typed}`");
    let finding = Finding::new(entry.node.location, message).label(label);
    Err(finding.help(format!("allowed: {}", listed(all()))))
}

fn listed(names: impl Iterator<Item = &'static str>) -> String {
    schema::list(&names.collect::<Vec<_>>())
}

/// The file over its base (BASE-1).
fn joined(file: YamlNode, mut base: YamlNode) -> YamlNode {
    let own = sources::paths(&file);
    let kept = sources::spelt_out(&base, &own);
    if let Value::Mapping(entries) = &mut base.value {
        entries.retain(|entry| {
            let key = entry.key.as_str();
            !OWN.contains(&key) && key != sources::KEY
        });
        entries.extend(kept);
    }
    let mut whole = over(file, base);
    if let Value::Mapping(entries) = &mut whole.value {
        entries.retain(|entry| entry.key != KEY);
    }
    drop_stale(&mut whole);
    whole
}

/// Drops sources of the base whose figures the file has taken away with a list or a topology.
fn drop_stale(whole: &mut YamlNode) {
    let known = sources::paths(whole);
    let Value::Mapping(entries) = &mut whole.value else { return };
    let Some(section) = entries.iter_mut().find(|entry| entry.key == sources::KEY) else { return };
    let Value::Mapping(of_figures) = &mut section.node.value else { return };
    of_figures.retain(|entry| entry.key_location.source < FIRST || known.contains(&entry.key));
}

fn over(upper: YamlNode, lower: YamlNode) -> YamlNode {
    let YamlNode { location, value } = upper;
    let (mut entries, below) = match (value, lower.value) {
        (Value::Mapping(entries), Value::Mapping(below)) => (entries, below),
        (value, _) => return YamlNode { location, value },
    };
    let has_topology = entries.iter().any(|entry| entry.key == "topology");
    for entry in below {
        let is_side = SIDES.contains(&entry.key.as_str());
        match entries.iter_mut().find(|own| own.key == entry.key) {
            Some(own) => join_entry(own, entry),
            None if has_topology && is_side => {}
            None => entries.push(entry),
        }
    }
    YamlNode { location, value: Value::Mapping(entries) }
}

fn join_entry(own: &mut Entry, below: Entry) {
    let mine = std::mem::replace(&mut own.node, YamlNode::nothing());
    own.node = over(mine, below.node);
}
