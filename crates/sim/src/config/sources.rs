//! The section `sources` of a machine file: where its figures are from.
//!
//! - **SRC-1 (of figures).** A key is the path of a figure that the file has, or of a part of the file for all figures of that
//!   part without a source of their own; it is given once. Its value is the word `fitted`, or one line of text. A figure that has its
//!   default value is not printed, and its source is not kept.
//! - **SRC-2 (no leftovers).** A figure that an override sets has no source but one that an override gives; the part that
//!   the figure belongs to loses its source too.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::spec::{FigureSource, MachineSpec, Origin};
use crate::spelling::suggestion;

use super::base;
use super::error::Finding;
use super::print::MachineView;
use super::reader::{Reader, Section, duplicate, is_nothing, name_of, not_a_mapping, text_of};
use super::schema;
use super::yaml::{self, Entry, Value, YamlNode};

/// The key of the section.
pub(super) const KEY: &str = "sources";
/// Keys of the file whose values are no figures.
const NO_FIGURES: [&str; 4] = ["name", "description", base::KEY, KEY];

/// One figure as it stands in the text of a machine file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FigureText {
    /// Its dotted path: `pe.dma.latency`.
    pub path: String,
    /// Its value: `50 ns`.
    pub value: String,
    /// The bytes of the value in the text.
    pub range: Range<usize>,
}

/// Returns the figures in the text of a machine file that are single values; none if the text is no YAML.
///
/// ```
/// use phalanx_sim::config::figure_texts;
/// let text = "pe: { dma: { latency: 50 ns } }  # fast";
/// let figures = figure_texts(text);
/// assert_eq!((figures[0].path.as_str(), figures[0].value.as_str()), ("pe.dma.latency", "50 ns"));
/// assert_eq!(&text[figures[0].range.clone()], "50 ns");
/// ```
pub fn figure_texts(text: &str) -> Vec<FigureText> {
    let Ok(root) = yaml::read(text, 0, 0) else { return Vec::new() };
    let single = |(path, node): (String, &YamlNode)| match &node.value {
        Value::Scalar { text, .. } => {
            let range = node.location.start..node.location.end;
            Some(FigureText { path, value: text.trim().to_owned(), range })
        }
        _ => None,
    };
    figures(&root).into_iter().filter_map(single).collect()
}

/// The sources that the file gives.
pub(super) fn read(r: &mut Reader, file: &Section<'_>, root: &YamlNode) -> Vec<FigureSource> {
    let Some(entry) = file.find(KEY) else { return Vec::new() };
    let entries = match &entry.node.value {
        Value::Mapping(entries) => entries.as_slice(),
        _ if is_nothing(&entry.node) => &[],
        _ => {
            let finding = not_a_mapping(&entry.node, entry.key_location, &format!("`{KEY}`"));
            r.findings
                .push(finding.help("allowed: paths of figures, as in `pe.dma.latency: fitted`"));
            &[]
        }
    };
    let (known, mut given) = (paths(root), BTreeSet::new());
    let mut sources = Vec::new();
    for entry in entries {
        if !known.contains(&entry.key) {
            r.findings.push(no_figure(entry, &known));
        } else if !given.insert(entry.key.as_str()) {
            r.findings.push(duplicate(entry, &schema::join(KEY, &entry.key)));
        }
        let figure = entry.key.clone();
        sources.extend(origin(r, entry).map(|origin| FigureSource { figure, origin }));
    }
    sources
}

fn origin(r: &mut Reader, entry: &Entry) -> Option<Origin> {
    let path = schema::join(KEY, &entry.key);
    let found = match text_of(entry, &path) {
        Ok(found) => found,
        Err(finding) => {
            let help = format!("allowed: `{}`, or where the figure is from", Origin::FITTED);
            return r.report(finding.help(help));
        }
    };
    if found.value.is_empty() || found.value.chars().any(char::is_control) {
        let finding = Finding::new(found.location, format!("`{path}` must be one line of text"));
        return r.report(finding.label("empty, or has control characters"));
    }
    Some(Origin::from_text(found.value))
}

/// The error of a key that names no figure of the file.
fn no_figure(entry: &Entry, known: &BTreeSet<String>) -> Finding {
    let typed: String = entry.key.chars().take(80).collect();
    let ending = format!(".{}", entry.key);
    let found = known.iter().find(|path| path.ends_with(&ending)).map(String::as_str);
    let found = found.or_else(|| suggestion(&entry.key, known.iter().map(String::as_str)));
    let label = found.map_or_else(
        || "no such figure in this file".to_owned(),
        |found| format!("did you mean `{found}`?"),
    );
    Finding::new(entry.key_location, format!("`{KEY}` names no figure of this file: `{typed}`"))
        .label(label)
        .help("allowed: the path of a value that the file gives, as in `pe.dma.latency`")
}

/// Keeps the sources of figures that the printed machine has (PRINT-1).
pub(super) fn keep_printed(spec: &mut MachineSpec) {
    if spec.sources.is_empty() {
        return;
    }
    let figures = MachineView::new(spec).figures();
    let printed: BTreeSet<&str> = figures.iter().map(|figure| figure.path.as_str()).collect();
    let is_part = |path: &str| printed.iter().any(|figure| is_below(figure, path));
    spec.sources
        .retain(|source| printed.contains(source.figure.as_str()) || is_part(&source.figure));
}

/// True if `figure` is a figure of the part `path`.
pub(super) fn is_below(figure: &str, path: &str) -> bool {
    figure.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'))
}

/// The section of a base's sources, figure by figure, without the figures that are `given` by the file (BASE-2).
pub(super) fn spelt_out(base: &YamlNode, given: &BTreeSet<String>) -> Option<Entry> {
    let Value::Mapping(entries) = &base.value else { return None };
    let section = entries.iter().find(|entry| entry.key == KEY)?;
    let Value::Mapping(of_parts) = &section.node.value else { return None };
    let source_of = |figure: &str| {
        let above = |entry: &&Entry| entry.key == figure || is_below(figure, &entry.key);
        of_parts.iter().filter(above).max_by_key(|entry| entry.key.len())
    };
    let kept = figures(base).into_iter().filter(|(figure, _)| !given.contains(figure));
    let kept = kept.filter_map(|(figure, _)| {
        let source = source_of(&figure)?;
        Some(Entry { key: figure, ..source.clone() })
    });
    let value = Value::Mapping(kept.collect());
    let node = YamlNode { location: section.node.location, value };
    Some(Entry { node, ..section.clone() })
}

/// The paths of all figures of a file and of all its parts that have figures.
pub(super) fn paths(root: &YamlNode) -> BTreeSet<String> {
    with_parts(figures(root).into_iter().map(|(path, _)| path))
}

/// Paths of figures, and of the parts that the figures belong to.
fn with_parts(figures: impl Iterator<Item = String>) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    for figure in figures {
        let ends = figure.match_indices('.').map(|(at, _)| figure[..at].to_owned());
        paths.extend(ends.collect::<Vec<_>>());
        paths.insert(figure);
    }
    paths
}

/// Drops the file's sources of figures that overrides have set or taken away (SRC-2); `before` are the figures of the
/// file itself.
pub(super) fn drop_overridden(root: &mut YamlNode, before: &BTreeSet<String>) {
    let (of_file, set): (Vec<_>, Vec<_>) =
        figures(root).into_iter().partition(|(_, node)| !node.location.is_override());
    let of_file = with_parts(of_file.into_iter().map(|(path, _)| path));
    let set: BTreeSet<String> = with_parts(set.into_iter().map(|(path, _)| path));
    let Value::Mapping(entries) = &mut root.value else { return };
    for entry in entries.iter_mut().filter(|entry| entry.key == KEY) {
        let Value::Mapping(sources) = &mut entry.node.value else { continue };
        sources.retain(|source| {
            let is_set = set.contains(&source.key);
            let stale = is_set || before.contains(&source.key) && !of_file.contains(&source.key);
            source.key_location.is_override() || !stale
        });
    }
}

/// Every figure of a file: the values below the parts of the machine. Lists of numbers are figures; in other lists
/// an item is called by its `name`, or else by its number.
fn figures(root: &YamlNode) -> Vec<(String, &YamlNode)> {
    let Value::Mapping(entries) = &root.value else { return Vec::new() };
    let mut figures = Vec::new();
    for entry in entries.iter().filter(|entry| !NO_FIGURES.contains(&entry.key.as_str())) {
        collect(entry.key.clone(), &entry.node, &mut figures);
    }
    figures
}

fn collect<'a>(path: String, node: &'a YamlNode, figures: &mut Vec<(String, &'a YamlNode)>) {
    let is_scalar = |node: &YamlNode| matches!(node.value, Value::Scalar { .. });
    match &node.value {
        Value::Mapping(entries) => {
            // The name of a level is no figure.
            for entry in entries.iter().filter(|entry| entry.key != "name") {
                collect(schema::join(&path, &entry.key), &entry.node, figures);
            }
        }
        Value::Sequence(items) if !items.iter().all(is_scalar) => {
            for (number, item) in items.iter().enumerate() {
                let name = name_of(item).map_or_else(|| number.to_string(), str::to_owned);
                collect(schema::join(&path, &name), item, figures);
            }
        }
        _ if is_nothing(node) => {}
        _ => figures.push((path, node)),
    }
}
