//! The `phalanx` program: what was typed goes to the libraries, and what they say is printed. No logic here.
//!
//! - **CLI-1 (exit codes).** 0 is fine, 1 a run that failed or a file that cannot be written, 2 bad input; a reader
//!   that stops reading (`| head`) is fine. Interrupting exits with 130, or 143 (`kill`).
//! - **CLI-2 (streams).** Data goes to stdout, everything else to stderr; with `--json`, errors to both.
#![forbid(unsafe_code)]

mod args;
mod collectives;
mod commands;
mod drafts;
mod failure;
mod machine;
mod output;
mod printer;
mod progress;
mod report;
mod show;

use args::{Cli, Command};
use clap::Parser;
use failure::Failure;
use std::io;
use std::process::ExitCode;

fn main() -> ExitCode {
    // A worker of a node is this program, started again.
    phalanx_workloads::node::PROGRAM.serve_if_child();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return mistyped(&error),
    };
    cli.color.apply();
    let outcome = match &cli.command {
        Command::Run(args) => commands::run::run(args),
        Command::Ccl(args) => commands::ccl::ccl(args),
        Command::Node(args) => commands::node::node(args),
        Command::Machines(args) => commands::machines::machines(args),
        Command::Check(args) => commands::check::check(args),
        Command::Completions(args) => commands::completions::completions(args),
    };
    outcome.unwrap_or_else(|error| fail(&error, cli.command.json()))
}

/// Reports what cannot be understood, or gives the help that was asked for.
fn mistyped(error: &clap::Error) -> ExitCode {
    // Nothing is left to be done about a stream that is closed.
    let _ = error.print();
    if !error.use_stderr() {
        return ExitCode::SUCCESS;
    }
    let failure = Failure::typed(error);
    if args::json_is_typed() {
        let _ = printer::failure_json(&failure);
    }
    ExitCode::from(failure.kind.exit_code())
}

/// Reports an error and chooses the exit code (CLI-1).
fn fail(error: &anyhow::Error, json: bool) -> ExitCode {
    if let Some(io) = error.downcast_ref::<io::Error>()
        && io.kind() == io::ErrorKind::BrokenPipe
    {
        return ExitCode::SUCCESS;
    }
    match error.downcast_ref::<Failure>() {
        Some(failure) => printer::failure(failure, json),
        None => printer::failure(&Failure::output(format!("{error:#}")), json),
    }
}
