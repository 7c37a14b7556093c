//! The `phalanx` program as a function: it parses arguments, calls the libraries and prints their results. No logic
//! here.
//!
//! - **CLI-1 (exit codes).** 0 is fine, 1 a run that failed or a file that cannot be written, 2 bad input; a reader
//!   that stops reading (`| head`) is fine. Interrupting exits with 130, 143 (`kill`), or 129 (a closed terminal).
//! - **CLI-2 (streams).** Data goes to stdout, everything else to stderr; with `--json`, errors to both.
#![forbid(unsafe_code)]

mod args;
mod collectives;
mod collisions;
mod commands;
mod drafts;
mod failure;
mod machine;
mod output;
mod printer;
mod processes;
mod progress;
mod report;
mod shards;
mod show;
mod tables;

use args::{Cli, Command};
use clap::Parser;
use failure::Failure;
use processes::Team;
use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

/// Runs the program with these arguments, its name first.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    // A worker of a node is this program, started again.
    phalanx_workloads::node::PROGRAM.serve_if_asked(arguments.iter().cloned());
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => return mistyped(&error, &arguments),
    };
    cli.color.apply(processes::launched().is_some());
    if cli.no_cache {
        phalanx_torch::ccl::store::keep(None, phalanx_workloads::sweep::CODE);
    } else {
        keep_results();
    }
    let outcome = processes::carry_out(&cli.command, |team| carry_out(&cli, team));
    outcome.unwrap_or_else(|error| fail(&error, cli.command.json()))
}

fn carry_out(cli: &Cli, team: &Team) -> anyhow::Result<ExitCode> {
    match &cli.command {
        Command::Run(args) => commands::run::run(args, team),
        Command::Ccl(args) => commands::ccl::ccl(args, team),
        Command::Sweep(args) => commands::sweep::sweep(args, cli.no_cache),
        Command::Cache(args) => commands::cache::cache(args),
        Command::Node(args) => commands::node::node(args),
        Command::Triton(args) => commands::triton::triton(args),
        Command::Validate(args) => commands::validate::validate(args),
        Command::Fit(args) => commands::fit::fit(args),
        Command::Machines(args) => commands::machines::machines(args),
        Command::Check(args) => commands::check::check(args),
        Command::Doctor(args) => commands::doctor::doctor(args),
        Command::Completions(args) => commands::completions::completions(args),
    }
}

/// Keeps the times of collectives' trials for later, in memory and in the user's cache directory.
fn keep_results() {
    let directory = commands::cache::directory().map(|directory| directory.join("trials"));
    phalanx_torch::ccl::store::keep(directory.as_deref(), phalanx_workloads::sweep::CODE);
}

/// Reports what cannot be understood, or gives the help that was asked for.
fn mistyped(error: &clap::Error, arguments: &[OsString]) -> ExitCode {
    let text = error.render().ansi().to_string();
    if !error.use_stderr() {
        let printed = printer::data(&text).map(|()| ExitCode::SUCCESS);
        return printed.unwrap_or_else(|error| fail(&error.into(), false));
    }
    // Nothing is left to be done about a stream that is closed.
    let _ = printer::note(&text);
    let failure = Failure::typed(error);
    if args::json_is_typed(arguments) {
        let _ = printer::failure_json(&failure);
    }
    ExitCode::from(failure.kind.exit_code())
}

/// Reports an error and chooses the exit code (CLI-1).
fn fail(error: &anyhow::Error, json: bool) -> ExitCode {
    if let Some(failure) = error.downcast_ref::<Failure>() {
        return printer::failure(failure, json);
    }
    match error.downcast_ref::<io::Error>() {
        Some(io) if io.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        // Errors of files are failures: this is an error of a stream.
        Some(io) => printer::failure(
            &Failure::output(format!("cannot print: {}", machine::reason(io))),
            json,
        ),
        None => printer::failure(&Failure::output(format!("{error:#}")), json),
    }
}
