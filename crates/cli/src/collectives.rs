//! From a flag, the environment or the current directory to how collectives are set up.

use crate::failure::Failure;
use crate::machine;
use phalanx_torch::ccl::{Algorithm, CclConfig, ENVIRONMENT, Source, locate};
use std::path::Path;

/// The configuration that holds here.
pub(crate) fn config(flag: Option<&Path>) -> Result<CclConfig, Failure> {
    let variable = std::env::var_os(ENVIRONMENT);
    match locate(flag, variable.as_deref(), Path::new("")) {
        Source::Builtin => Ok(CclConfig::builtin()),
        Source::File(path) => {
            let source = machine::Source::read(&path)?;
            let parsed = CclConfig::parse(&source.file, &source.text, &Algorithm::names());
            parsed.map_err(Failure::ccl)
        }
    }
}
