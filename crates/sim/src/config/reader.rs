//! Reading typed values out of a tree of nodes, collecting everything that is wrong on the way.

use crate::near::near_miss;
use crate::units::{self, Kind, QuantityError};

use super::error::{Finding, Place};
use super::machine::latency_limit;
use super::schema;
use super::size::MEMORY_LIMIT;
use super::yaml::{Entry, Node, Value};

/// Reads sections and values; what is wrong ends up in `findings`, and the reading goes on.
pub(super) struct Reader {
    pub(super) findings: Vec<Finding>,
}

/// A mapping of the file, its keys checked.
pub(super) struct Section<'a> {
    path: String,
    /// The key it hangs on: where missing parts are reported.
    pub(super) place: Place,
    entries: &'a [Entry],
    keys: &'static [&'static str],
}

/// A value and where it stood.
#[derive(Clone, Copy)]
pub(super) struct Found<T> {
    pub(super) value: T,
    pub(super) place: Place,
}

impl Section<'_> {
    /// The entry called `key`; of several, the first.
    pub(super) fn find(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    pub(super) fn path_of(&self, key: &str) -> String {
        schema::join(&self.path, key)
    }

    /// Whether an unknown key was meant to be `key`: that is said once, not again as something missing.
    pub(super) fn is_misspelt(&self, key: &str) -> bool {
        let unknown = self.entries.iter().filter(|entry| !self.keys.contains(&entry.key.as_str()));
        unknown
            .into_iter()
            .any(|entry| near_miss(&entry.key, self.keys.iter().copied()) == Some(key))
    }
}

impl Reader {
    /// Notes something wrong.
    pub(super) fn report<T>(&mut self, finding: Finding) -> Option<T> {
        self.findings.push(finding);
        None
    }

    /// The whole file as a section.
    pub(super) fn root<'a>(&mut self, node: &'a Node) -> Option<Section<'a>> {
        // Missing parts of the file as a whole are reported at its first byte of content.
        let place = Place { end: node.place.start, ..node.place };
        self.open(node, place, String::new())
    }

    /// The section `key` of `parent`, which must be there.
    pub(super) fn section<'a>(&mut self, parent: &Section<'a>, key: &str) -> Option<Section<'a>> {
        let entry = self.required(parent, key)?;
        // A whole section set by an override hangs on a key of the file, but what it lacks is the override's doing.
        let set = entry.node.place.source != entry.key_place.source;
        let place = if set { entry.node.place } else { entry.key_place };
        self.open(&entry.node, place, parent.path_of(key))
    }

    fn open<'a>(&mut self, node: &'a Node, place: Place, path: String) -> Option<Section<'a>> {
        let keys = schema::keys(&path).expect("CFG-1: every section read is in the schema");
        let Value::Mapping(entries) = &node.value else {
            let name =
                if path.is_empty() { "a machine file".to_owned() } else { format!("`{path}`") };
            let finding = Finding::new(
                point(node, place),
                format!("{name} must be a mapping, found {}", describe(node)),
            );
            return self.report(
                finding
                    .label("not a mapping")
                    .help(format!("allowed keys: {}", schema::list(keys))),
            );
        };
        let section = Section { path, place, entries, keys };
        self.check_keys(&section);
        Some(section)
    }

    fn check_keys(&mut self, section: &Section<'_>) {
        for (at, entry) in section.entries.iter().enumerate() {
            if !section.keys.contains(&entry.key.as_str()) {
                self.findings.push(unknown_key(
                    entry.key_place,
                    &section.path,
                    &entry.key,
                    section.keys,
                ));
            } else if section.entries[..at].iter().any(|earlier| earlier.key == entry.key) {
                let finding = Finding::new(
                    entry.key_place,
                    format!("duplicate key `{}`", section.path_of(&entry.key)),
                );
                self.findings.push(finding.label("given before").help("keep one of the two"));
            }
        }
    }

    fn required<'a>(&mut self, section: &Section<'a>, key: &str) -> Option<&'a Entry> {
        let found = section.entries.iter().find(|entry| entry.key == key);
        if found.is_none() && !section.is_misspelt(key) {
            let finding =
                Finding::new(section.place, format!("missing `{}`", section.path_of(key)));
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
        self.parse(&entry.node, entry.key_place, &section.path_of(key), parse)
    }

    fn parse<T>(
        &mut self,
        node: &Node,
        key: Place,
        path: &str,
        parse: fn(&str) -> Result<T, QuantityError>,
    ) -> Option<Found<T>> {
        // What is not a scalar is refused like an empty text, so the help is the same.
        let text = scalar(node).unwrap_or_default();
        match parse(text) {
            Ok(value) => Some(Found { value, place: node.place }),
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
        self.parse_number(&entry.node, entry.key_place, &section.path_of(key), most)
    }

    pub(super) fn parse_number(
        &mut self,
        node: &Node,
        key: Place,
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
            Ok(value) if (1..=most).contains(&value) => Some(Found { value, place: node.place }),
            _ => {
                let label = if number == 0 { "zero makes no sense" } else { "too many" };
                self.report(outside(&number.to_string(), label))
            }
        }
    }

    /// The word or sentence `key` of `section`, without the white space around it, if it is there.
    pub(super) fn text<'a>(&mut self, section: &Section<'a>, key: &str) -> Option<Found<&'a str>> {
        let entry = section.entries.iter().find(|entry| entry.key == key)?;
        if let Some(text) = scalar(&entry.node) {
            return Some(Found { value: text.trim(), place: entry.node.place });
        }
        let (path, found) = (section.path_of(key), describe(&entry.node));
        let place = point(&entry.node, entry.key_place);
        self.report(
            Finding::new(place, format!("`{path}` must be a text, found {found}"))
                .label("not a text"),
        )
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

    /// The node `key` of `section`, which must be there, with the place of its key.
    pub(super) fn node<'a>(
        &mut self,
        section: &Section<'a>,
        key: &str,
    ) -> Option<(&'a Node, Place)> {
        self.required(section, key).map(|entry| (&entry.node, entry.key_place))
    }
}

/// A key nobody knows, with the near miss.
pub(super) fn unknown_key(place: Place, section: &str, key: &str, keys: &[&str]) -> Finding {
    let within = if section.is_empty() { String::new() } else { format!(" in `{section}`") };
    let short: String = key.chars().take(40).collect();
    let near = near_miss(key, keys.iter().copied());
    let label =
        near.map_or_else(|| "no such key".to_owned(), |near| format!("did you mean `{near}`?"));
    Finding::new(place, format!("unknown key `{short}`{within}"))
        .label(label)
        .help(format!("allowed keys: {}", schema::list(keys)))
}

fn refused(node: &Node, key: Place, path: &str, error: &QuantityError) -> Finding {
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
            Kind::Capacity => Some(MEMORY_LIMIT.to_owned()),
            Kind::Time => Some(latency_limit()),
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
fn scalar(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Scalar { text, quoted }
            if *quoted || !matches!(text.as_str(), "" | "~" | "null") =>
        {
            Some(text)
        }
        _ => None,
    }
}

/// Where to point for a node: at itself, or at its key where it takes no room.
fn point(node: &Node, key: Place) -> Place {
    if node.place.start == node.place.end { key } else { node.place }
}

/// What a node is, with its article.
pub(super) fn describe(node: &Node) -> &'static str {
    match &node.value {
        Value::Scalar { .. } if scalar(node).is_none() => "nothing",
        Value::Scalar { .. } => "a single value",
        Value::Sequence(_) => "a list",
        Value::Mapping(_) => "a mapping",
    }
}
