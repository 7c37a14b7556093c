//! The `phalanx` program.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    phalanx_cli::main(std::env::args_os())
}
