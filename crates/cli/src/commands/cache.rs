//! `phalanx cache`: results that are kept between runs.

use crate::args::{CacheArgs, CacheCommand};
use crate::failure::Failure;
use crate::machine::reason;
use crate::printer;
use phalanx_sim::Bytes;
use phalanx_workloads::cache::{self, VARIABLE};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

/// The directory of this user.
pub(crate) fn directory() -> Option<PathBuf> {
    cache::directory(|name| std::env::var_os(name))
}

pub(crate) fn cache(args: &CacheArgs) -> anyhow::Result<ExitCode> {
    let directory = directory();
    if let (Some(CacheCommand::Clear), Some(directory)) = (args.command, &directory) {
        cache::clear(directory).map_err(|error| {
            Failure::output(format!("cannot clear `{}`: {}", directory.display(), reason(&error)))
        })?;
    }
    let bytes = directory.as_deref().map_or(0, cache::size);
    if args.json {
        let directory = directory.map(|path| path.display().to_string());
        printer::json(&CacheJson { directory, bytes })?;
        return Ok(ExitCode::SUCCESS);
    }
    let text = match directory {
        Some(path) => format!("{}: {}\n", path.display(), Bytes(bytes)),
        None => {
            format!("results are not kept: `{VARIABLE}` is `off`, or there is no home directory\n")
        }
    };
    printer::data(&text)?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
struct CacheJson {
    directory: Option<String>,
    bytes: u64,
}
