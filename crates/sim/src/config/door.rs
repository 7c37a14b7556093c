//! The doors to a machine: a preset by its name, a file by its path, a machine with a few values changed.

use std::fs::{self, File, FileType};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::{ConfigErrors, LONGEST, Override, parse_machine, parse_machine_with, suggestion};
use super::{preset, presets, to_yaml};
use crate::spec::MachineSpec;

/// The reason why a machine cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// No preset has this name.
    #[error("no machine named `{name}`: {}the presets are {}", suggest(*suggestion), preset_names())]
    UnknownPreset {
        /// The name given.
        name: String,
        /// The preset with the closest spelling, if one is close.
        suggestion: Option<&'static str>,
    },
    /// The file cannot be read.
    #[error("cannot read `{}`: {error}", path.display())]
    Unreadable {
        /// The path given.
        path: PathBuf,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
    /// The machine file or an override is wrong; each error has its line and column.
    #[error(transparent)]
    Invalid(#[from] ConfigErrors),
}

impl MachineSpec {
    /// Returns the machine called `name` among those that come with the program ([`presets`]).
    ///
    /// # Errors
    ///
    /// [`MachineError::UnknownPreset`], which lists the presets and suggests the one with the closest spelling.
    ///
    /// ```
    /// use phalanx_sim::MachineSpec;
    /// assert_eq!(MachineSpec::preset("pair")?.sips.count, 2);
    /// let error = MachineSpec::preset("quad_spi").unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "no machine named `quad_spi`: did you mean `quad-sip`? \
    ///      the presets are `pair`, `quad-sip`, `octo-ring`, `torus-16`, `pod-64`, `hgx-a100`, `hgx-h100`, \
    ///      `hgx-h200`, `hgx-b200`, `mi300x-8`, `gaudi3-8`, `tpu-v4-64`, `tpu-v5e-16`, \
    ///      `a100-efa-16`, `a100-ib-16`, `b200-roce-16`, `h100-pod-64`, `bare`"
    /// );
    /// # Ok::<(), phalanx_sim::config::MachineError>(())
    /// ```
    pub fn preset(name: &str) -> Result<Self, MachineError> {
        let Some(found) = preset(name) else {
            let suggestion = suggestion(name, presets().iter().map(|preset| preset.name));
            return Err(MachineError::UnknownPreset { name: name.to_owned(), suggestion });
        };
        Ok(parse_machine(name, found.text)?)
    }

    /// Reads and checks the machine file at `path`.
    ///
    /// # Errors
    ///
    /// [`MachineError::Unreadable`], or [`MachineError::Invalid`] with every error of the file at its line and column.
    ///
    /// ```no_run
    /// use phalanx_sim::MachineSpec;
    /// let machine = MachineSpec::load("machines/my.yaml")?;
    /// # Ok::<(), phalanx_sim::config::MachineError>(())
    /// ```
    pub fn load(path: impl AsRef<Path>) -> Result<Self, MachineError> {
        let path = path.as_ref();
        let text = read_path(path)
            .map_err(|error| MachineError::Unreadable { path: path.to_owned(), error })?;
        Ok(parse_machine(&path.display().to_string(), &text)?)
    }

    /// Returns this machine with one value changed, as `--set PATH=VALUE` does.
    ///
    /// # Errors
    ///
    /// [`MachineError::Invalid`] if the override or the machine it makes is wrong.
    ///
    /// ```
    /// use phalanx_sim::{MachineSpec, Time};
    /// let slow = MachineSpec::preset("pair")?.with("system.sips.link.latency=1us")?;
    /// assert_eq!(slow.sips.link.latency, Time::us(1));
    /// # Ok::<(), phalanx_sim::config::MachineError>(())
    /// ```
    pub fn with(&self, change: &str) -> Result<Self, MachineError> {
        self.with_all([change])
    }

    /// Returns this machine with several values changed before it is checked again: changes that are only right
    /// together, such as a grid topology and its rows, go into one call.
    ///
    /// # Errors
    ///
    /// [`MachineError::Invalid`] if an override or the machine they make is wrong.
    ///
    /// ```
    /// use phalanx_sim::MachineSpec;
    /// let mesh = ["system.sips.topology=mesh_2d", "system.sips.rows=2", "system.sips.columns=2"];
    /// assert_eq!(MachineSpec::preset("quad-sip")?.with_all(mesh)?.sips.topology.name(), "mesh_2d");
    /// # Ok::<(), phalanx_sim::config::MachineError>(())
    /// ```
    pub fn with_all<C: AsRef<str>>(
        &self,
        changes: impl IntoIterator<Item = C>,
    ) -> Result<Self, MachineError> {
        let overrides: Vec<Override> = changes
            .into_iter()
            .map(|change| Override::parse(change.as_ref()))
            .collect::<Result<_, _>>()?;
        // A printed machine reads back as it was (PRINT-1).
        Ok(parse_machine_with(&self.name, &to_yaml(self), &overrides)?)
    }
}

/// Reads the configuration file at `path` to its end.
///
/// # Errors
///
/// As [`read_text`]; [`io::ErrorKind::InvalidInput`] for a FIFO, a device, a socket or a directory. Opening a FIFO could wait
/// for ever. Streams that are open already (`/dev/stdin`, `/dev/fd/3`) are read, because a shell passes pipes by these names.
pub fn read_path(path: &Path) -> io::Result<String> {
    read_path_within(path, LONGEST)
}

/// Reads a file of at most `most` bytes.
///
/// # Errors
///
/// As [`read_path`].
pub fn read_path_within(path: &Path, most: usize) -> io::Result<String> {
    let kind = fs::metadata(path)?.file_type();
    if kind.is_file() || (is_open_stream(path) && !kind.is_dir()) {
        return read_text_within(File::open(path)?, most);
    }
    let reason = format!("it is {}, not a file", name_of(kind));
    Err(io::Error::new(io::ErrorKind::InvalidInput, reason))
}

fn is_open_stream(path: &Path) -> bool {
    path == Path::new("/dev/stdin")
        || path.starts_with("/dev/fd")
        || path.starts_with("/proc/self/fd")
}

/// Returns what a path that is no file is.
fn name_of(kind: FileType) -> &'static str {
    if kind.is_dir() { "a directory" } else { name_of_special(kind) }
}

#[cfg(unix)]
fn name_of_special(kind: FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

#[cfg(not(unix))]
fn name_of_special(_: FileType) -> &'static str {
    "special"
}

/// Reads a machine file to its end.
///
/// # Errors
///
/// The error of the system; [`io::ErrorKind::InvalidData`] for what is too long or no UTF-8 text.
pub fn read_text(source: impl Read) -> io::Result<String> {
    read_text_within(source, LONGEST)
}

/// Reads a text of at most `most` bytes to its end.
///
/// # Errors
///
/// As [`read_text`].
pub fn read_text_within(source: impl Read, most: usize) -> io::Result<String> {
    let mut bytes = Vec::new();
    source.take(most as u64 + 1).read_to_end(&mut bytes)?;
    let refuse = |reason: String| io::Error::new(io::ErrorKind::InvalidData, reason);
    if bytes.len() > most {
        return Err(refuse(format!("it is longer than {} KiB", most >> 10)));
    }
    String::from_utf8(bytes).map_err(|error| {
        refuse(format!("it is not UTF-8 text (byte {})", error.utf8_error().valid_up_to()))
    })
}

fn suggest(suggestion: Option<&str>) -> String {
    suggestion.map_or_else(String::new, |name| format!("did you mean `{name}`? "))
}

fn preset_names() -> String {
    let names: Vec<String> = presets().iter().map(|preset| format!("`{}`", preset.name)).collect();
    names.join(", ")
}
