//! From a name or a path to a machine.

use crate::collisions::Named;
use crate::failure::Failure;
use phalanx_sim::MachineSpec;
use phalanx_sim::config::{self, Override};
use std::io;
use std::path::Path;

/// A machine file as text, and its name in messages.
pub(crate) struct Source {
    pub(crate) file: String,
    pub(crate) text: String,
}

impl Source {
    /// The preset or the file that `name` means.
    pub(crate) fn find(name: &str) -> Result<Self, Failure> {
        if is_file(name) {
            return Self::read(Path::new(name));
        }
        let preset = config::preset(name).ok_or_else(|| unknown(name))?;
        Ok(Self { file: name.to_owned(), text: preset.text.to_owned() })
    }

    /// A file; `-` is stdin.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let file =
            if path == Path::new("-") { "stdin".to_owned() } else { path.display().to_string() };
        let text = text_of(path).map_err(|error| unreadable(&file, &error))?;
        Ok(Self { file, text })
    }

    /// The machine.
    pub(crate) fn parse(&self) -> Result<MachineSpec, Failure> {
        config::parse_machine(&self.file, &self.text)
            .map_err(|errors| Failure::machine(vec![errors]))
    }
}

/// The file that `--machine` names, unless it names a preset.
pub(crate) fn file(name: &str) -> Option<Named<'static>> {
    is_file(name).then(|| Named::new("--machine", Path::new(name)))
}

fn is_file(name: &str) -> bool {
    let path = Path::new(name);
    let ends = |ending: &str| path.extension().is_some_and(|known| known == ending);
    name.contains(std::path::is_separator)
        || ends("yaml")
        || ends("yml")
        || name == "-"
        || path.is_file()
}

fn text_of(path: &Path) -> io::Result<String> {
    if path == Path::new("-") { config::read_text(io::stdin()) } else { config::read_path(path) }
}

pub(crate) fn unreadable(file: &str, error: &io::Error) -> Failure {
    let failure = Failure::input(format!("cannot read `{file}`: {}", reason(error)));
    match error.kind() {
        io::ErrorKind::InvalidInput => failure.hint("allowed: a file, or `-` for stdin"),
        _ => failure,
    }
}

/// An error of the system as people say it.
pub(crate) fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::IsADirectory => "it is a directory".to_owned(),
        io::ErrorKind::NotADirectory => "a part of the path is not a directory".to_owned(),
        _ => error.to_string(),
    }
}

fn unknown(name: &str) -> Failure {
    let names = config::presets().iter().map(|preset| preset.name);
    let near = config::suggestion(name, names)
        .map_or_else(String::new, |near| format!("did you mean `{near}`? "));
    Failure::input(format!("no machine named `{name}`"))
        .hint(format!("{near}`phalanx machines` lists them; a file needs a `/` or `.yaml`"))
}

/// The machine that `--machine` and `--set` describe.
pub(crate) fn machine(name: &str, overrides: &[String]) -> Result<MachineSpec, Failure> {
    let source = Source::find(name)?;
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for text in overrides {
        match Override::parse(text) {
            Ok(parsed) => good.push(parsed),
            Err(errors) => bad.push(errors),
        }
    }
    match config::parse_machine_with(&source.file, &source.text, &good) {
        Ok(spec) if bad.is_empty() => Ok(spec),
        Ok(_) => Err(Failure::machine(bad)),
        Err(errors) => Err(Failure::machine(bad.into_iter().chain([errors]).collect())),
    }
}
