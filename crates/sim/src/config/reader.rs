//! Reading typed values out of a file, collecting everything that is wrong on the way. Machine files are read by it,
//! and so can other files be: [`read_file`].

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use crate::spec::Efficiency;
use crate::spelling::suggestion;
use crate::time::Bytes;
use crate::units::{self, QuantityError, QuantityKind};

pub use super::error::{Finding, Location};

use super::error::ConfigErrors;
use super::machine::latency_limit;
use super::schema;
use super::size::MEMORY_LIMIT;
use super::yaml::{self, Entry, Value, YamlNode};

/// Reads a file whose root may have `keys`, all of them optional: `check` gets the root and returns what it says.
/// `file` and `what` (`a machine file`) are only used in messages; everything reported is returned together. `check`
/// returns none only where it has reported something.
///
/// ```
/// use phalanx_sim::config::reader::read_file;
/// let slots = |text| {
///     read_file("my.yaml", text, ("a file of slots", &["slots"]), |reader, root| {
///         Some(reader.count(root, "slots", 1..=8).map_or(4, |slots| slots.value))
///     })
/// };
/// assert_eq!(slots("slots: 7"), Ok(7));
/// assert_eq!(slots("# nothing"), Ok(4));
/// assert_eq!(slots("slots: 9").unwrap_err().errors()[0].message(), "`slots` is out of range: 9");
/// ```
pub fn read_file<T>(
    file: &str,
    text: &str,
    (what, keys): (&'static str, &'static [&'static str]),
    check: impl FnOnce(&mut Reader, &Section<'_>) -> Option<T>,
) -> Result<T, ConfigErrors> {
    let mut reader = Reader::new(what);
    let read = match yaml::read_any(text, 0, 0) {
        Ok(root) => {
            let root = root.unwrap_or_else(YamlNode::nothing);
            reader
                .open_or_empty(&root, root.location, String::new(), keys)
                .and_then(|root| check(&mut reader, &root))
        }
        Err(finding) => reader.report(finding),
    };
    match read {
        Some(value) if reader.findings.is_empty() => Ok(value),
        _ => Err(ConfigErrors::all(reader.findings, |finding| finding.in_text(file, text))),
    }
}

/// Reads sections and values; what is wrong is noted, and the reading goes on.
pub struct Reader {
    what: &'static str,
    pub(super) findings: Vec<Finding>,
}

/// A mapping of the file, its keys checked.
pub struct Section<'a> {
    path: String,
    /// The key it hangs on: where missing parts are reported.
    pub location: Location,
    entries: &'a [Entry],
    keys: &'static [&'static str],
}

/// A value and where it stood.
#[derive(Clone, Copy, Debug)]
pub struct Found<T> {
    /// The value that was found.
    pub value: T,
    /// Its location.
    pub location: Location,
}

impl Section<'_> {
    /// True if `key` is given.
    pub fn has(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    /// The entry called `key`; of several, the first.
    pub(super) fn find(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// The dotted path of this section.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Returns the dotted path of `key` in this section, for messages.
    pub fn path_of(&self, key: &str) -> String {
        schema::join(&self.path, key)
    }

    /// True if an unknown key was meant to be `key`; the error is reported once, not again as a missing key.
    pub fn is_misspelt(&self, key: &str) -> bool {
        let unknown = self.entries.iter().filter(|entry| !self.keys.contains(&entry.key.as_str()));
        unknown
            .into_iter()
            .any(|entry| suggestion(&entry.key, self.keys.iter().copied()) == Some(key))
    }
}

impl Reader {
    pub(super) const fn new(what: &'static str) -> Self {
        Self { what, findings: Vec::new() }
    }

    /// Returns the number of errors so far.
    pub const fn reported(&self) -> usize {
        self.findings.len()
    }

    /// Notes something wrong.
    pub fn report<T>(&mut self, finding: Finding) -> Option<T> {
        self.findings.push(finding);
        None
    }

    /// The whole file as a section.
    pub(super) fn root<'a>(&mut self, node: &'a YamlNode) -> Option<Section<'a>> {
        // Missing parts of the file as a whole are reported at its first byte of content.
        let location = Location { end: node.location.start, ..node.location };
        self.open(node, location, String::new(), machine_keys(""))
    }

    /// The section `key` of `parent`, which must be there.
    pub(super) fn section<'a>(&mut self, parent: &Section<'a>, key: &str) -> Option<Section<'a>> {
        let entry = self.required(parent, key)?;
        // A whole section set by an override hangs on a key of the file, but what it lacks is the override's doing.
        let set = entry.node.location.source != entry.key_location.source;
        let location = if set { entry.node.location } else { entry.key_location };
        let path = parent.path_of(key);
        let keys = machine_keys(&path);
        self.open(&entry.node, location, path, keys)
    }

    /// Reads the part `key` of `parent`, if it is there; it may have `keys`. A key with nothing behind it is an empty
    /// part.
    pub fn part<'a>(
        &mut self,
        parent: &Section<'a>,
        key: &str,
        keys: &'static [&'static str],
    ) -> Option<Section<'a>> {
        let entry = parent.entries.iter().find(|entry| entry.key == key)?;
        self.open_or_empty(&entry.node, entry.key_location, parent.path_of(key), keys)
    }

    /// As [`Self::part`], for what must be there.
    pub(super) fn required_part<'a>(
        &mut self,
        parent: &Section<'a>,
        key: &str,
        keys: &'static [&'static str],
    ) -> Option<Section<'a>> {
        let entry = self.required(parent, key)?;
        let set = entry.node.location.source != entry.key_location.source;
        let location = if set { entry.node.location } else { entry.key_location };
        self.open(&entry.node, location, parent.path_of(key), keys)
    }

    /// The items of the list `key` of `parent`, which must be there, each a mapping that may have `keys`; one with a name goes by
    /// its name.
    pub(super) fn items<'a>(
        &mut self,
        parent: &Section<'a>,
        key: &str,
        keys: &'static [&'static str],
    ) -> Option<Vec<Section<'a>>> {
        let entry = parent.entries.iter().find(|entry| entry.key == key)?;
        let path = parent.path_of(key);
        let Value::Sequence(nodes) = &entry.node.value else {
            let message = format!("`{path}` must be a list, found {}", describe(&entry.node));
            let finding = Finding::new(point(&entry.node, entry.key_location), message);
            let help = format!("as in `- {{ {}: ... }}`, one item for each level", keys[0]);
            return self.report(finding.label("not a list").help(help));
        };
        let mut sections = Vec::new();
        for (number, node) in nodes.iter().enumerate() {
            let name = match name_of(node) {
                Some(name) => schema::join(&path, &shorten(name)),
                None => format!("{path}[{number}]"),
            };
            let location = Location { end: node.location.start, ..node.location };
            let location = if node.location.is_override() { node.location } else { location };
            sections.push(self.open(node, location, name, keys));
        }
        sections.into_iter().collect()
    }

    /// The efficiency `key` of `section`; everything where the file has none.
    pub(super) fn efficiency(&mut self, section: &Section<'_>, key: &str) -> Efficiency {
        let Some(entry) = section.find(key) else { return Efficiency::FULL };
        let path = section.path_of(key);
        let found = self.parse(&entry.node, entry.key_location, &path, units::parse_efficiency);
        found.map_or(Efficiency::FULL, |found| found.value)
    }

    /// Reads the parts of the mapping `key` of `parent`, in the order of the text, each with the name it was given;
    /// each may have `keys`.
    pub fn named_parts<'a>(
        &mut self,
        parent: &Section<'a>,
        key: &str,
        keys: &'static [&'static str],
    ) -> Vec<(&'a str, Section<'a>)> {
        let Some(entry) = parent.entries.iter().find(|entry| entry.key == key) else {
            return Vec::new();
        };
        let path = parent.path_of(key);
        let entries = match &entry.node.value {
            Value::Mapping(entries) => entries.as_slice(),
            _ if is_nothing(&entry.node) => &[],
            _ => {
                let finding = not_a_mapping(&entry.node, entry.key_location, &format!("`{path}`"));
                self.findings.push(finding.help("allowed: names, and what each stands for"));
                &[]
            }
        };
        let mut names = BTreeSet::new();
        let mut parts = Vec::new();
        for entry in entries {
            let path = schema::join(&path, &shorten(&entry.key));
            if !names.insert(entry.key.as_str()) {
                self.findings.push(duplicate(entry, &path));
            }
            let part = self.open_or_empty(&entry.node, entry.key_location, path, keys);
            parts.extend(part.map(|part| (entry.key.as_str(), part)));
        }
        parts
    }

    fn open_or_empty<'a>(
        &mut self,
        node: &'a YamlNode,
        location: Location,
        path: String,
        keys: &'static [&'static str],
    ) -> Option<Section<'a>> {
        if is_nothing(node) {
            return Some(Section { path, location, entries: &[], keys });
        }
        self.open(node, location, path, keys)
    }

    fn open<'a>(
        &mut self,
        node: &'a YamlNode,
        location: Location,
        path: String,
        keys: &'static [&'static str],
    ) -> Option<Section<'a>> {
        let Value::Mapping(entries) = &node.value else {
            let name = if path.is_empty() { self.what.to_owned() } else { format!("`{path}`") };
            let finding = not_a_mapping(node, location, &name);
            return self.report(finding.help(format!("allowed keys: {}", schema::list(keys))));
        };
        let section = Section { path, location, entries, keys };
        self.check_keys(&section);
        Some(section)
    }

    fn check_keys(&mut self, section: &Section<'_>) {
        for (at, entry) in section.entries.iter().enumerate() {
            if !section.keys.contains(&entry.key.as_str()) {
                self.findings.push(unknown_key(
                    entry.key_location,
                    &section.path,
                    &entry.key,
                    section.keys,
                ));
            } else if section.entries[..at].iter().any(|earlier| earlier.key == entry.key) {
                self.findings.push(duplicate(entry, &section.path_of(&entry.key)));
            }
        }
    }

    fn required<'a>(&mut self, section: &Section<'a>, key: &str) -> Option<&'a Entry> {
        let found = section.entries.iter().find(|entry| entry.key == key);
        if found.is_none() && !section.is_misspelt(key) {
            let finding =
                Finding::new(section.location, format!("missing `{}`", section.path_of(key)));
            let keys = schema::list(section.keys);
            return self.report(
                finding
                    .label(format!("`{key}` must be given here"))
                    .help(format!("keys of this part: {keys}")),
            );
        }
        found
    }

    /// The quantity `key` of `section`, which must be there.
    pub(super) fn quantity<T>(
        &mut self,
        section: &Section<'_>,
        key: &str,
        parse: fn(&str) -> Result<T, QuantityError>,
    ) -> Option<Found<T>> {
        let entry = self.required(section, key)?;
        self.parse(&entry.node, entry.key_location, &section.path_of(key), parse)
    }

    fn parse<T>(
        &mut self,
        node: &YamlNode,
        key: Location,
        path: &str,
        parse: fn(&str) -> Result<T, QuantityError>,
    ) -> Option<Found<T>> {
        // A list or a map is refused like an empty text, so the help is the same.
        let text = scalar(node).unwrap_or_default();
        match parse(text) {
            Ok(value) => Some(Found { value, location: node.location }),
            Err(error) => self.report(refused(node, key, path, &error)),
        }
    }

    /// The number `key` of `section`, from 1 to `most`.
    pub(super) fn number(
        &mut self,
        section: &Section<'_>,
        key: &str,
        most: u32,
    ) -> Option<Found<u32>> {
        let entry = self.required(section, key)?;
        self.parse_number(&entry.node, entry.key_location, &section.path_of(key), most)
    }

    pub(super) fn parse_number(
        &mut self,
        node: &YamlNode,
        key: Location,
        path: &str,
        most: u32,
    ) -> Option<Found<u32>> {
        let outside = |number: &str, label: &str| {
            Finding::new(point(node, key), format!("`{path}` is out of range: {number}"))
                .label(label)
                .help(format!("allowed: 1 to {most}"))
        };
        let number = match units::parse_count(scalar(node).unwrap_or_default()) {
            Ok(number) => number,
            Err(error) if error.is_out_of_range() => {
                let label = if error.is_too_large() { "too many" } else { "negative" };
                return self.report(outside(error.text(), label));
            }
            Err(error) => return self.report(refused(node, key, path, &error)),
        };
        match u32::try_from(number) {
            Ok(value) if (1..=most).contains(&value) => {
                Some(Found { value, location: node.location })
            }
            _ => {
                let label = if number == 0 { "zero makes no sense" } else { "too many" };
                self.report(outside(&number.to_string(), label))
            }
        }
    }

    /// Reads the whole number `key` of `section`, if it is there.
    pub fn count(
        &mut self,
        section: &Section<'_>,
        key: &str,
        allowed: RangeInclusive<u64>,
    ) -> Option<Found<u64>> {
        let entry = section.find(key)?;
        let path = section.path_of(key);
        let found = self.parse(&entry.node, entry.key_location, &path, units::parse_count)?;
        self.within(found, &path, &allowed, |count| count.to_string())
    }

    /// Reads the number of bytes `key` of `section`, with a unit or without, if it is there.
    pub fn bytes(
        &mut self,
        section: &Section<'_>,
        key: &str,
        allowed: RangeInclusive<u64>,
    ) -> Option<Found<u64>> {
        let entry = section.find(key)?;
        let path = section.path_of(key);
        let Found { value, location } =
            self.parse(&entry.node, entry.key_location, &path, units::parse_bytes)?;
        self.within(Found { value: value.0, location }, &path, &allowed, |n| Bytes(n).to_string())
    }

    fn within(
        &mut self,
        found: Found<u64>,
        path: &str,
        allowed: &RangeInclusive<u64>,
        show: fn(u64) -> String,
    ) -> Option<Found<u64>> {
        if allowed.contains(&found.value) {
            return Some(found);
        }
        let label = match found.value {
            0 => "zero makes no sense",
            value if value < *allowed.start() => "too small",
            _ => "too large",
        };
        let message = format!("`{path}` is out of range: {}", show(found.value));
        let help = format!("allowed: {} to {}", show(*allowed.start()), show(*allowed.end()));
        self.report(Finding::new(found.location, message).label(label).help(help))
    }

    /// Reads the word `key` of `section`, which must be one of `allowed`, if it is there; `what` is the kind of name.
    pub fn choice<'b>(
        &mut self,
        section: &Section<'_>,
        key: &str,
        what: &str,
        allowed: &[&'b str],
    ) -> Option<Found<&'b str>> {
        let Found { value: name, location } =
            match text_of(section.find(key)?, &section.path_of(key)) {
                Ok(text) => text,
                Err(finding) => {
                    return self
                        .report(finding.help(format!("allowed: {}", schema::list(allowed))));
                }
            };
        match allowed.iter().find(|known| **known == name) {
            Some(value) => Some(Found { value, location }),
            None => self.report(unknown(location, what, name, allowed)),
        }
    }

    /// As [`Self::choice`], for what must be there.
    pub(super) fn required_choice<'b>(
        &mut self,
        section: &Section<'_>,
        key: &str,
        what: &str,
        allowed: &[&'b str],
    ) -> Option<Found<&'b str>> {
        self.required(section, key)?;
        self.choice(section, key, what, allowed)
    }

    /// Checks the `name` at `location`, and returns it if commands and reports can use it.
    pub fn word<'a>(&mut self, what: &str, name: &'a str, location: Location) -> Option<&'a str> {
        let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let starts_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
        if starts_well && name.len() <= 64 && name.chars().all(good) {
            return Some(name);
        }
        let finding =
            Finding::new(location, format!("{what} must be one word")).label("not one word");
        let help = "allowed: 1 to 64 letters, digits, `-`, `_`, `.`, the first a letter or digit";
        self.report(finding.help(help))
    }

    /// Reads the word or sentence `key` of `section`, without the white space around it, if it is there.
    pub fn text<'a>(&mut self, section: &Section<'a>, key: &str) -> Option<Found<&'a str>> {
        let entry = section.entries.iter().find(|entry| entry.key == key)?;
        match text_of(entry, &section.path_of(key)) {
            Ok(text) => Some(text),
            Err(finding) => self.report(finding),
        }
    }

    /// As [`Self::text`], for what must be there.
    pub(super) fn required_text<'a>(
        &mut self,
        section: &Section<'a>,
        key: &str,
    ) -> Option<Found<&'a str>> {
        self.required(section, key)?;
        self.text(section, key)
    }

    /// The node `key` of `section`, which must be there, with the location of its key.
    pub(super) fn node<'a>(
        &mut self,
        section: &Section<'a>,
        key: &str,
    ) -> Option<(&'a YamlNode, Location)> {
        self.required(section, key).map(|entry| (&entry.node, entry.key_location))
    }
}

/// The `name` in a mapping.
pub(super) fn name_of(node: &YamlNode) -> Option<&str> {
    let Value::Mapping(entries) = &node.value else { return None };
    let entry = entries.iter().find(|entry| entry.key == "name")?;
    scalar(&entry.node).map(str::trim).filter(|name| !name.is_empty())
}

/// Reports an unknown key, with a suggestion.
pub(super) fn unknown_key(location: Location, section: &str, key: &str, keys: &[&str]) -> Finding {
    let within = if section.is_empty() { String::new() } else { format!(" in `{section}`") };
    Finding::new(location, format!("unknown key `{}`{within}", shorten(key)))
        .label(suggestion_or(key, keys, "key"))
        .help(format!("allowed keys: {}", schema::list(keys)))
}

/// Reports an unknown name, with a suggestion; `what` is the kind of name.
pub fn unknown(location: Location, what: &str, name: &str, allowed: &[&str]) -> Finding {
    Finding::new(location, format!("unknown {what} `{}`", shorten(name)))
        .label(suggestion_or(name, allowed, what))
        .help(format!("allowed: {}", schema::list(allowed)))
}

/// The label with the suggestion, or with the fact that there is none.
fn suggestion_or(name: &str, known: &[&str], what: &str) -> String {
    suggestion(name, known.iter().copied())
        .map_or_else(|| format!("no such {what}"), |known| format!("did you mean `{known}`?"))
}

/// As much of what somebody wrote as a message has room for.
fn shorten(name: &str) -> String {
    name.chars().take(40).collect()
}

/// The text of an entry, without the white space around it.
pub(super) fn text_of<'a>(entry: &'a Entry, path: &str) -> Result<Found<&'a str>, Finding> {
    if let Some(text) = scalar(&entry.node) {
        return Ok(Found { value: text.trim(), location: entry.node.location });
    }
    let message = format!("`{path}` must be a text, found {}", describe(&entry.node));
    Err(Finding::new(point(&entry.node, entry.key_location), message).label("not a text"))
}

pub(super) fn duplicate(entry: &Entry, path: &str) -> Finding {
    let finding = Finding::new(entry.key_location, format!("duplicate key `{path}`"));
    finding.label("given before").help("keep one of the two")
}

pub(super) fn not_a_mapping(node: &YamlNode, key: Location, name: &str) -> Finding {
    let message = format!("{name} must be a mapping, found {}", describe(node));
    Finding::new(point(node, key), message).label("not a mapping")
}

/// The keys of a section of a machine file.
fn machine_keys(path: &str) -> &'static [&'static str] {
    schema::keys(path).expect("CFG-1: every section read is in the schema")
}

/// A key with nothing behind it.
pub(super) fn is_nothing(node: &YamlNode) -> bool {
    matches!(node.value, Value::Scalar { .. }) && scalar(node).is_none()
}

fn refused(node: &YamlNode, key: Location, path: &str, error: &QuantityError) -> Finding {
    let wanted = error.kind().name();
    let finding = match scalar(node) {
        Some(_) => Finding::new(point(node, key), format!("`{path}`: {error}")),
        None => Finding::new(
            point(node, key),
            format!("`{path}` must be {wanted}, found {}", describe(node)),
        ),
    };
    if error.is_too_large() {
        let help = match error.kind() {
            QuantityKind::Capacity => Some(MEMORY_LIMIT.to_owned()),
            QuantityKind::Time => Some(latency_limit()),
            _ => error.help(),
        };
        let finding = finding.label("too large");
        return match help {
            Some(help) => finding.help(help),
            None => finding,
        };
    }
    let finding = finding.label(format!("not {wanted}"));
    match error.help() {
        Some(help) => finding.help(help),
        None => finding,
    }
}

/// A scalar that says something.
fn scalar(node: &YamlNode) -> Option<&str> {
    match &node.value {
        Value::Scalar { text, quoted }
            if *quoted || !matches!(text.as_str(), "" | "~" | "null") =>
        {
            Some(text)
        }
        _ => None,
    }
}

/// The location that an error of a node points at: the node, or its key if the node is empty.
fn point(node: &YamlNode, key: Location) -> Location {
    if node.location.start == node.location.end { key } else { node.location }
}

/// The kind of a node, with its article.
pub(super) fn describe(node: &YamlNode) -> &'static str {
    match &node.value {
        Value::Scalar { .. } if is_nothing(node) => "nothing",
        Value::Scalar { .. } => "a single value",
        Value::Sequence(_) => "a list",
        Value::Mapping(_) => "a mapping",
    }
}
