//! `phalanx completions`: a script that teaches a shell the command line.

use crate::args::{Cli, CompletionsArgs};
use crate::printer;
use clap::CommandFactory;
use std::process::ExitCode;

pub(crate) fn completions(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "phalanx", &mut script);
    printer::data(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
