//! Files that the command line names twice.
//!
//! Two names are one file if they lead to the same place: by another spelling, by a link, or by a hard link.

use crate::failure::Failure;
use std::fs;
use std::path::{Path, PathBuf};

/// A file, and the words that name it.
pub(crate) struct Named<'a> {
    /// An option such as `--trace`, or where else the name comes from.
    option: &'a str,
    path: PathBuf,
}

impl<'a> Named<'a> {
    /// The file at `path`; `-` is stdin.
    pub(crate) fn new(option: &'a str, path: &Path) -> Self {
        let path = if path == Path::new("-") { Path::new("/dev/stdin") } else { path };
        Self { option, path: path.to_owned() }
    }
}

/// Refuses outputs that would overwrite each other, an input, or the file that stdout is redirected to.
pub(crate) fn refuse(inputs: &[Named], outputs: &[Named]) -> Result<(), Failure> {
    for (position, output) in outputs.iter().enumerate() {
        let place = FileIdentity::of(&output.path);
        if let Some(other) =
            outputs[..position].iter().find(|other| FileIdentity::of(&other.path) == place)
        {
            return Err(one_file(other, output));
        }
        if !place.is_regular {
            continue;
        }
        if let Some(input) = inputs.iter().find(|input| FileIdentity::of(&input.path) == place) {
            return Err(overwritten(input, output));
        }
        if FileIdentity::of(Path::new("/dev/stdout")) == place {
            return Err(redirected(output));
        }
    }
    Ok(())
}

fn one_file(first: &Named, second: &Named) -> Failure {
    let (a, b) = (first.path.display(), second.path.display());
    let files =
        if first.path == second.path { format!("`{a}`") } else { format!("`{a}` and `{b}`") };
    let options = format!("`{}` and `{}`", first.option, second.option);
    Failure::input(format!("{options} name the same file: {files}"))
        .hint("give each a file of its own")
}

fn overwritten(input: &Named, output: &Named) -> Failure {
    let (file, reader, writer) = (output.path.display(), input.option, output.option);
    Failure::input(format!("`{writer}` would overwrite `{file}`, which the run reads (`{reader}`)"))
        .hint(format!("give `{writer}` another file"))
}

fn redirected(output: &Named) -> Failure {
    let (file, writer) = (output.path.display(), output.option);
    Failure::input(format!("`{writer}` and stdout are the same file: `{file}`"))
        .hint(format!("give `{writer}` another file"))
}

/// The identity of a file, equal for all its names.
struct FileIdentity {
    path: PathBuf,
    /// Device and number of a file that is there.
    node: Option<(u64, u64)>,
    /// False for a device or a pipe, which is written to and not replaced.
    is_regular: bool,
}

impl FileIdentity {
    fn of(path: &Path) -> Self {
        let found = fs::metadata(path).ok();
        let is_regular = found.as_ref().is_none_or(fs::Metadata::is_file);
        Self { path: resolved(path), node: found.as_ref().and_then(node), is_regular }
    }
}

impl PartialEq for FileIdentity {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path || (self.node.is_some() && self.node == other.node)
    }
}

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "other systems have none")]
fn node(found: &fs::Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn node(_: &fs::Metadata) -> Option<(u64, u64)> {
    None
}

/// The path without links; of a file that is not there, its directory without links and its name.
fn resolved(path: &Path) -> PathBuf {
    let end = end_of_links(path);
    let directory =
        end.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    match (fs::canonicalize(directory), end.file_name()) {
        (Ok(directory), Some(name)) => directory.join(name),
        _ => end,
    }
}

/// The path that a link, or a link to a link, leads to; also where nothing is there yet.
pub(crate) fn end_of_links(typed: &Path) -> PathBuf {
    fs::canonicalize(typed).unwrap_or_else(|_| followed(typed))
}

/// Follows links one by one, at most as many as about the system does.
fn followed(typed: &Path) -> PathBuf {
    let mut path = typed.to_owned();
    for _ in 0..40 {
        let Ok(to) = fs::read_link(&path) else { return path };
        // An absolute path takes the place of all before it.
        path = path.parent().unwrap_or(Path::new("")).join(to);
    }
    path
}
