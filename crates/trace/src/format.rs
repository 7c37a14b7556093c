//! The kinds of trace file, told apart by how their names end.
//!
//! - **TRC-8 (no guessing).** A name that ends in none of the known ways is refused, with the ways
//!   there are and the one that was probably meant.

use std::fmt;
use std::path::{Path, PathBuf};

/// The format of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Perfetto protobuf: nested tracks, and less than half the size of the other.
    Perfetto,
    /// Chrome JSON: read by every viewer, two levels of tracks.
    Chrome,
}

const EXTENSIONS: [(&str, Format); 3] =
    [("pftrace", Format::Perfetto), ("perfetto-trace", Format::Perfetto), ("json", Format::Chrome)];

impl Format {
    /// Returns the format that a file's name asks for.
    ///
    /// # Errors
    ///
    /// Fails if the name ends in none of `.pftrace`, `.perfetto-trace` and `.json`.
    ///
    /// ```
    /// use phalanx_trace::Format;
    /// use std::path::Path;
    ///
    /// assert_eq!(Format::from_path(Path::new("run.pftrace")), Ok(Format::Perfetto));
    /// let unknown = Format::from_path(Path::new("out/run.jsn")).unwrap_err();
    /// assert_eq!(unknown.suggestion(), Some(Path::new("out/run.json")));
    /// ```
    pub fn from_path(path: &Path) -> Result<Self, UnknownFormat> {
        let extension = path.extension().and_then(|extension| extension.to_str());
        EXTENSIONS
            .iter()
            .find(|(known, _)| Some(*known) == extension)
            .map(|(_, format)| *format)
            .ok_or_else(|| UnknownFormat::new(path, extension.unwrap_or_default()))
    }
}

/// A file name that says nothing of the format wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFormat {
    path: PathBuf,
    suggestion: Option<PathBuf>,
}

impl UnknownFormat {
    fn new(path: &Path, extension: &str) -> Self {
        let suggestion = suggestion(extension).map(|known| path.with_extension(known));
        Self { path: path.to_owned(), suggestion }
    }

    /// Returns the name as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the name that was probably meant.
    pub fn suggestion(&self) -> Option<&Path> {
        self.suggestion.as_deref()
    }
}

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        write!(f, "a trace file ends in `.pftrace`, `.perfetto-trace` or `.json`: {path}")?;
        match &self.suggestion {
            Some(meant) => write!(f, " (did you mean `{}`?)", meant.display()),
            None => Ok(()),
        }
    }
}

impl std::error::Error for UnknownFormat {}

/// The extension within two typing mistakes of `given`, or that `given` begins or ends.
fn suggestion(given: &str) -> Option<&'static str> {
    let given = given.to_ascii_lowercase();
    let cut =
        |known: &str| given.len() > 1 && (known.starts_with(&given) || known.ends_with(&given));
    let near = |known: &str| !given.is_empty() && distance(&given, known) <= 2;
    EXTENSIONS.iter().map(|(known, _)| *known).find(|known| cut(known) || near(known))
}

/// Insertions, deletions and substitutions that turn one word into the other (Levenshtein).
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in to.bytes().enumerate() {
            let changed = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suggested(name: &str) -> Option<String> {
        let unknown = Format::from_path(Path::new(name)).unwrap_err();
        unknown.suggestion().map(|path| path.display().to_string())
    }

    #[test]
    fn trc_8_known_endings_name_their_format() {
        for (name, format) in [
            ("a.pftrace", Format::Perfetto),
            ("dir.json/a.perfetto-trace", Format::Perfetto),
            ("a.b.json", Format::Chrome),
        ] {
            assert_eq!(Format::from_path(Path::new(name)), Ok(format), "{name}");
        }
    }

    #[test]
    fn trc_8_near_misses_are_suggested() {
        for (name, meant) in [
            ("a.jsn", "a.json"),
            ("a.JSON", "a.json"),
            ("a.perfetto", "a.perfetto-trace"),
            ("a.trace", "a.pftrace"),
            ("a.pftrcae", "a.pftrace"),
        ] {
            assert_eq!(suggested(name).as_deref(), Some(meant), "{name}");
        }
        for name in ["a", "json", "a.csv.gz", "a.", ""] {
            assert_eq!(suggested(name), None, "{name}");
        }
    }

    #[test]
    fn trc_8_the_message_says_what_is_allowed() {
        let message = Format::from_path(Path::new("run.jsn")).unwrap_err().to_string();
        insta::assert_snapshot!(message, @"a trace file ends in `.pftrace`, `.perfetto-trace` or `.json`: run.jsn (did you mean `run.json`?)");
        let message = Format::from_path(Path::new("run")).unwrap_err().to_string();
        insta::assert_snapshot!(message, @"a trace file ends in `.pftrace`, `.perfetto-trace` or `.json`: run");
    }
}
