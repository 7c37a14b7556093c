//! Errors of a file, and their text.

use std::cmp::Ordering;
use std::fmt;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

/// A stretch of bytes of one source: 0 is the file, `n` the `n`th override, and bases have the largest numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    pub(super) source: usize,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Location {
    /// Makes the location of these bytes of the file.
    pub fn new(bytes: std::ops::Range<usize>) -> Self {
        Self { source: 0, start: bytes.start, end: bytes.end }
    }

    /// From the start of this to the end of `other`.
    pub(super) fn until(self, other: Self) -> Self {
        Self { end: other.end.max(self.end), ..self }
    }
}

/// Something wrong at a location, before the location has become a line and a column.
#[derive(Clone, Debug)]
pub struct Finding {
    pub(super) location: Location,
    message: String,
    label: String,
    help: Option<String>,
}

impl Finding {
    /// Makes a finding with a message at a location.
    pub fn new(location: Location, message: impl Into<String>) -> Self {
        Self { location, message: message.into(), label: String::new(), help: None }
    }

    /// Adds a label, a few words beside the location.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Adds a line of help: the allowed values, or a suggestion.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Compares by position in the text; findings at one location are equal.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        (self.location.source, self.location.start)
            .cmp(&(other.location.source, other.location.start))
    }

    /// Makes the error, with the line of the text; `file` is its name in messages.
    pub fn in_text(self, file: &str, text: &str) -> ConfigError {
        let start = self.location.start.min(text.len());
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let source = text[line_start..line_end].trim_end_matches('\r');
        let from = (start - line_start).min(source.len());
        ConfigError {
            message: self.message,
            label: self.label,
            help: self.help,
            file: file.to_owned(),
            line: text[..start].matches('\n').count() + 1,
            column: source[..from].chars().count() + 1,
            marked: from..(self.location.end.saturating_sub(line_start)).clamp(from, source.len()),
            source: source.to_owned(),
        }
    }
}

/// One error: its position, and the allowed values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    message: String,
    label: String,
    help: Option<String>,
    file: String,
    line: usize,
    column: usize,
    /// Bytes of `source` to underline.
    marked: std::ops::Range<usize>,
    source: String,
}

impl ConfigError {
    /// Returns the error in one line.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the file, or `--set` for an override.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Its line, from 1.
    pub const fn line(&self) -> usize {
        self.line
    }

    /// Its column in characters, from 1.
    pub const fn column(&self) -> usize {
        self.column
    }

    /// Returns the line itself.
    pub fn source_line(&self) -> &str {
        &self.source
    }

    /// Returns the allowed values, or a suggestion.
    pub fn help(&self) -> Option<&str> {
        self.help.as_deref()
    }

    fn render(&self, renderer: &Renderer) -> String {
        let mark = AnnotationKind::Primary.span(self.marked.clone()).label(self.label.as_str());
        let snippet = Snippet::source(self.source.as_str())
            .path(self.file.as_str())
            .line_start(self.line)
            .annotation(mark);
        let mut group = Level::ERROR.primary_title(self.message.as_str()).element(snippet);
        if let Some(help) = &self.help {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        renderer.render(&[group])
    }
}

/// So many errors are shown; a file with more is not the file one thinks it is.
const SHOWN: usize = 20;

/// Everything wrong with a file and its overrides, in the order of the text; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    pub(super) fn new(errors: Vec<ConfigError>) -> Self {
        assert!(!errors.is_empty(), "CFG-2: a refused file has a reason");
        Self(errors)
    }

    /// All that was found, in the order of the text; `location` knows which text.
    pub(super) fn all(
        mut findings: Vec<Finding>,
        location: impl FnMut(Finding) -> ConfigError,
    ) -> Self {
        findings.sort_by(Finding::compare);
        Self::new(findings.into_iter().map(location).collect())
    }

    /// Makes the errors of all `findings` in the text of `file`; none if there are no findings.
    pub fn in_text(findings: Vec<Finding>, file: &str, text: &str) -> Option<Self> {
        let found = !findings.is_empty();
        found.then(|| Self::all(findings, |finding| finding.in_text(file, text)))
    }

    /// Returns each error.
    pub fn errors(&self) -> &[ConfigError] {
        &self.0
    }

    /// Returns all errors as text for people, with terminal colours if `color`.
    pub fn render(&self, color: bool) -> String {
        let renderer = if color { Renderer::styled() } else { Renderer::plain() };
        let mut shown: Vec<String> =
            self.0.iter().take(SHOWN).map(|error| error.render(&renderer)).collect();
        if self.0.len() > SHOWN {
            shown.push(format!("error: and {} more", self.0.len() - SHOWN));
        }
        shown.join("\n\n")
    }
}

impl From<ConfigError> for ConfigErrors {
    fn from(error: ConfigError) -> Self {
        Self::new(vec![error])
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for ConfigErrors {}
