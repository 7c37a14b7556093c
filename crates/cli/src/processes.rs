//! `phalanx run` and `phalanx ccl` in several processes, as `mpirun` starts them.
//!
//! - **MPI-1 (one voice).** Process 0 prints and writes files, with the bytes and the exit code of a run in one process; the others are silent.
//! - **MPI-2 (no hang).** A process that fails or panics ends the run: process 0 says which one, where and why, unless it has failed alike.
//! - **MPI-3 (one program).** Processes with other versions, arguments, machines or configurations are refused before the run.

use crate::args::Command;
use crate::failure::{Failure, Kind};
#[cfg(not(feature = "mpi"))]
use crate::printer;
use crate::shards::Shards;
use phalanx_torch::shards::{ShardLayout, started};
use std::process::ExitCode;

#[cfg(feature = "mpi")]
mod together;

#[cfg(feature = "mpi")]
pub(crate) use together::two_meet;

/// True if the command is one run that processes can share.
fn is_shared(command: &Command) -> bool {
    match command {
        Command::Run(args) => args.workload.is_some(),
        Command::Ccl(_) => true,
        _ => false,
    }
}

/// Returns the number of this process and the number of processes, if a launcher has started several.
pub(crate) fn launched() -> Option<(usize, usize)> {
    started(|name| std::env::var(name).ok())
}

/// Carries out a command: with the other processes of its launcher, if there are any and it can be shared.
pub(crate) fn carry_out(
    command: &Command,
    act: impl FnOnce(&Team) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    match launched().filter(|_| is_shared(command)) {
        None => act(&Team { layout: ShardLayout::threads(1) }),
        #[cfg(feature = "mpi")]
        Some(_) => together::carry_out(command.json(), act),
        #[cfg(not(feature = "mpi"))]
        Some((process, count)) => {
            if process > 0 {
                printer::be_silent();
            }
            Err(without_mpi(count).into())
        }
    }
}

/// The refusal to run the same thing several times.
#[cfg(not(feature = "mpi"))]
fn without_mpi(count: usize) -> Failure {
    let message =
        format!("one run in {count} processes needs MPI, and this program was built without it");
    Failure::new(Kind::Process, message).hint(
        "`cargo build --release --features mpi` builds it with MPI; `phalanx doctor mpi` says what that needs",
    )
}

/// The processes that share a run, as one of them sees them.
pub(crate) struct Team {
    layout: ShardLayout,
}

impl Team {
    /// Returns where to run so many SIPs, with such threads in each process.
    pub(crate) fn layout(&self, shards: Shards, sips: u32) -> ShardLayout {
        let threads = shards.threads(sips, self.layout.processes.is_none());
        ShardLayout { threads: threads.into(), ..self.layout.clone() }
    }

    /// True for the process that prints: the only one, or process 0.
    pub(crate) fn is_first(&self) -> bool {
        self.layout.processes.as_ref().is_none_or(|processes| processes.process() == 0)
    }

    /// Refuses a run whose processes differ in something, given by name (MPI-3).
    pub(crate) fn agree(&self, parts: &[(&str, String)]) -> Result<(), Failure> {
        let Some(processes) = &self.layout.processes else { return Ok(()) };
        let own: Vec<String> = parts.iter().map(|(_, text)| text.clone()).collect();
        let all = processes.gather(&phalanx_sim::portable::to_bytes(&own));
        let first = &all[0];
        let Some(other) = all.iter().position(|other| other != first) else { return Ok(()) };
        let read = |bytes: &[u8]| phalanx_sim::portable::from_bytes::<Vec<String>>(bytes);
        let what = match (read(first), read(&all[other])) {
            (Ok(first), Ok(other)) => {
                let differs = first.iter().zip(&other).position(|(one, two)| one != two);
                differs.and_then(|at| parts.get(at)).map_or("something else", |(name, _)| name)
            }
            _ => "another version of this program",
        };
        let message = format!("process {other} has {what} than process 0");
        let hint = "every host needs the same program, machine files and `ccl.yaml`";
        Err(Failure::new(Kind::Input, message).hint(hint))
    }
}
