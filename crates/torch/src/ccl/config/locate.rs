//! The search for the configuration file.
//!
//! - **CCF-6 (nearest first).** The order is: the flag, the environment, the current directory, the built-in configuration.
//!   A flag or variable counts even if there is no such file, so that a wrong path is an error and not another file.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

/// The name of the file in the current directory.
pub const FILE: &str = "ccl.yaml";
/// The environment variable that names the file.
pub const ENVIRONMENT: &str = "PHALANX_CCL";

/// The source of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// This file, which may be missing.
    File(PathBuf),
    /// No file: [`super::CclConfig::builtin`].
    Builtin,
}

/// Finds the configuration: the file of `flag`, or the file that the variable [`ENVIRONMENT`] names, or [`FILE`] in
/// `cwd` if it exists. `env` is the value of the variable; an empty value counts as not set.
pub fn locate(flag: Option<&Path>, env: Option<&OsStr>, cwd: &Path) -> Source {
    let env = env.filter(|value| !value.is_empty()).map(Path::new);
    if let Some(path) = flag.or(env) {
        return Source::File(path.to_owned());
    }
    let path = cwd.join(FILE);
    // A file that exists and cannot be read must be an error later, not a missing file.
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Source::Builtin,
        _ => Source::File(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of this crate without a `ccl.yaml`, and one with it.
    fn directories() -> (&'static Path, &'static Path) {
        let root = env!("CARGO_MANIFEST_DIR");
        (Path::new(root), Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples")))
    }

    #[test]
    fn ccf_6_the_nearest_counts() {
        let (without, with) = directories();
        let (flag, env) = (Path::new("flag.yaml"), OsStr::new("env.yaml"));
        let file = |path: &str| Source::File(path.into());
        assert_eq!(locate(Some(flag), Some(env), with), file("flag.yaml"), "CCF-6");
        assert_eq!(locate(None, Some(env), with), file("env.yaml"), "CCF-6");
        assert_eq!(locate(None, None, with), Source::File(with.join(FILE)), "CCF-6");
        assert_eq!(locate(None, None, without), Source::Builtin, "CCF-6");
    }

    #[test]
    fn ccf_6_an_empty_variable_is_not_set() {
        let (without, with) = directories();
        let empty = Some(OsStr::new(""));
        assert_eq!(locate(None, empty, without), Source::Builtin, "CCF-6");
        assert_eq!(locate(None, empty, with), Source::File(with.join(FILE)), "CCF-6");
    }
}
