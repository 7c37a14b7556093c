//! YAML text as a tree of nodes that know their location. The only file that knows the YAML library.
//!
//! - **YAML-1 (bounded).** Whatever the text, the tree has at most [`NODES`] nodes nested at most [`DEPTH`] deep:
//!   anchors, aliases, tags and directives, which could make a small text large, are refused.
//! - **YAML-2 (source text).** A scalar is its text; whether that is a number is for the reader to say.

use serde_saphyr::granit_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, options};

use super::error::{Finding, Location};

/// The longest text that is read as a machine file, in bytes.
pub const LONGEST: usize = 256 * 1024;
/// The most nodes in a tree; a machine file has about fifty.
const NODES: usize = 10_000;
/// The deepest nesting; a machine file has four.
const DEPTH: usize = 32;

/// One value of the file.
#[derive(Clone, Debug)]
pub(super) struct YamlNode {
    pub(super) location: Location,
    pub(super) value: Value,
}

impl YamlNode {
    /// The node of an empty file.
    pub(super) const fn nothing() -> Self {
        let location = Location { source: 0, start: 0, end: 0 };
        Self { location, value: Value::Scalar { text: String::new(), quoted: false } }
    }
}

/// The contents of a node.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// A text, and whether it stood in quotes.
    Scalar {
        text: String,
        quoted: bool,
    },
    Sequence(Vec<YamlNode>),
    Mapping(Vec<Entry>),
}

/// One `key: value`.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_location: Location,
    pub(super) node: YamlNode,
}

/// The tree of `text`, whose first byte is byte `offset` of source `source`.
pub(super) fn read(text: &str, source: usize, offset: usize) -> Result<YamlNode, Finding> {
    let nothing = Location { source, start: offset, end: offset };
    let message = if source == 0 { "the file is empty" } else { "the value is empty" };
    read_any(text, source, offset)?
        .ok_or_else(|| Finding::new(nothing, message).label("nothing here"))
}

/// The same, none where there is nothing but comments.
pub(super) fn read_any(
    text: &str,
    source: usize,
    offset: usize,
) -> Result<Option<YamlNode>, Finding> {
    if text.len() > LONGEST {
        let location = Location { source, start: offset, end: offset };
        return Err(Finding::new(
            location,
            format!("the text is larger than {} KiB", LONGEST / 1024),
        )
        .label("no file of this kind needs so much"));
    }
    // Spans of the library count bytes from the start of its input.
    Tree { text, source, offset, open: Vec::new(), root: None, nodes: 0 }.read()
}

/// The tree while it grows: collections not closed yet, outermost first.
struct Tree<'a> {
    text: &'a str,
    source: usize,
    offset: usize,
    open: Vec<Open>,
    root: Option<YamlNode>,
    nodes: usize,
}

enum Open {
    Sequence(Location, Vec<YamlNode>),
    Mapping(Location, Vec<Entry>, Option<(String, Location)>),
}

impl Tree<'_> {
    fn read(mut self) -> Result<Option<YamlNode>, Finding> {
        let options = options! {
            disallow_directives: true,
            emit_anchor_events: true,
            emit_comments: false,
            flow_nesting_limit: DEPTH,
            block_nesting_limit: DEPTH,
        };
        for next in Parser::new_from_str_with_options(self.text, options) {
            let (event, span) = next.map_err(|error| self.malformed(&error))?;
            self.take(event, &span)?;
        }
        Ok(self.root)
    }

    fn take(&mut self, event: Event<'_>, span: &Span) -> Result<(), Finding> {
        let location = self.location(span);
        if let Some(tag) = span.tag_span() {
            return Err(
                extra(self.location(&tag), "tags").help("write the value without its `!` tag")
            );
        }
        match event {
            Event::DocumentStart(..) if self.root.is_some() => {
                Err(Finding::new(location, "more than one document in the file")
                    .label("the second starts here")
                    .help("keep one document a file"))
            }
            Event::Anchor(..) | Event::Alias(_) => {
                Err(extra(location, "anchors and aliases").help("write the value out"))
            }
            Event::Scalar(text, style, ..) => {
                let quoted = style != ScalarStyle::Plain;
                self.add(YamlNode {
                    location,
                    value: Value::Scalar { text: text.into_owned(), quoted },
                })
            }
            Event::SequenceStart(..) => self.open(Open::Sequence(location, Vec::new())),
            Event::MappingStart(..) => self.open(Open::Mapping(location, Vec::new(), None)),
            Event::SequenceEnd | Event::MappingEnd => self.close(location),
            _ => Ok(()),
        }
    }

    fn open(&mut self, open: Open) -> Result<(), Finding> {
        if self.open.len() >= DEPTH {
            let (Open::Sequence(location, _) | Open::Mapping(location, ..)) = open;
            return Err(
                Finding::new(location, format!("nested more than {DEPTH} deep")).label("too deep")
            );
        }
        self.open.push(open);
        Ok(())
    }

    fn close(&mut self, end: Location) -> Result<(), Finding> {
        let node = match self.open.pop() {
            Some(Open::Sequence(location, items)) => {
                YamlNode { location: location.until(end), value: Value::Sequence(items) }
            }
            Some(Open::Mapping(location, entries, _)) => {
                YamlNode { location: location.until(end), value: Value::Mapping(entries) }
            }
            None => return Ok(()),
        };
        self.add(node)
    }

    /// Puts a finished node where it belongs: root, item, key or value.
    fn add(&mut self, node: YamlNode) -> Result<(), Finding> {
        self.nodes += 1;
        if self.nodes > NODES {
            return Err(Finding::new(
                node.location,
                format!("the file has more than {NODES} values"),
            )
            .label("too many"));
        }
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::Sequence(_, items)) => items.push(node),
            Some(Open::Mapping(_, entries, key)) => match key.take() {
                Some((key, key_location)) => entries.push(Entry { key, key_location, node }),
                None => *key = Some(key_of(node)?),
            },
        }
        Ok(())
    }

    fn location(&self, span: &Span) -> Location {
        let (start, end) = (self.byte(&span.start), self.byte(&span.end));
        Location {
            source: self.source,
            start: self.offset + start,
            end: self.offset + end.max(start),
        }
    }

    fn byte(&self, marker: &Marker) -> usize {
        let byte = marker.byte_offset().unwrap_or(0).min(self.text.len());
        (0..=byte).rev().find(|at| self.text.is_char_boundary(*at)).unwrap_or(0)
    }

    fn malformed(&self, error: &ScanError) -> Finding {
        let start = self.offset + self.byte(error.marker());
        let location = Location { source: self.source, start, end: start };
        let info = error.info().replace('\n', " ").replace('\'', "`");
        Finding::new(location, format!("malformed YAML: {info}")).label("here")
    }
}

fn key_of(node: YamlNode) -> Result<(String, Location), Finding> {
    match node.value {
        Value::Scalar { text, .. } => Ok((text, node.location)),
        _ => Err(Finding::new(node.location, "a key must be a word").label("not a word")),
    }
}

/// Anchors, aliases and tags: they have no use here and could make a small file large (YAML-1).
fn extra(location: Location, what: &str) -> Finding {
    Finding::new(location, format!("{what} are not allowed")).label("used here")
}
