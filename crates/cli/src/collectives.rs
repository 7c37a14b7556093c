//! From a flag, the environment or the current directory to how collectives are set up.

use crate::collisions::Named;
use crate::failure::Failure;
use crate::machine;
use phalanx_torch::ccl::{Algorithm, CclConfig, ENVIRONMENT, FILE, Source, locate};
use std::path::Path;

/// The source of the configuration that holds here.
fn source(flag: Option<&Path>) -> Source {
    let variable = std::env::var_os(ENVIRONMENT);
    locate(flag, variable.as_deref(), Path::new(""))
}

/// The file of the configuration that holds here, if it comes from a file.
pub(crate) fn file(flag: Option<&Path>) -> Option<Named<'static>> {
    match source(flag) {
        Source::Builtin => None,
        Source::File(path) if flag.is_some() => Some(Named::new("--ccl", &path)),
        Source::File(path) if path == Path::new(FILE) => Some(Named::new("./ccl.yaml", &path)),
        Source::File(path) => Some(Named::new(ENVIRONMENT, &path)),
    }
}

/// The configuration that holds here.
pub(crate) fn config(flag: Option<&Path>) -> Result<CclConfig, Failure> {
    match source(flag) {
        Source::Builtin => Ok(CclConfig::builtin()),
        Source::File(path) => {
            let source = machine::Source::read(&path)?;
            let parsed = CclConfig::parse(&source.file, &source.text, &Algorithm::names());
            parsed.map_err(Failure::ccl)
        }
    }
}

/// The text of the configuration that holds here; empty for the built-in one.
pub(crate) fn text(flag: Option<&Path>) -> Result<String, Failure> {
    match source(flag) {
        Source::Builtin => Ok(String::new()),
        Source::File(path) => Ok(machine::Source::read(&path)?.text),
    }
}
