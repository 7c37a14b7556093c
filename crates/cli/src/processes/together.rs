//! The processes of a run over MPI: the work of each, and their common end.

use super::Team;
use crate::failure::{Failure, Kind};
use crate::{fail, printer};
use phalanx_torch::shards::mpi::{self, World};
use phalanx_torch::shards::{Farewell, LeftBehind, ShardLayout};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;
use std::time::Instant;

/// The exit code of a program that panics.
const PANICKED: u8 = 101;

/// Carries out a command in this process, and ends with the others (MPI-2).
pub(super) fn carry_out(
    json: bool,
    act: impl FnOnce(&Team) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    let Some(world) = mpi::start() else {
        return act(&Team { layout: ShardLayout::threads(1) });
    };
    let processes = world.processes.clone();
    let is_first = processes.process() == 0;
    if !is_first {
        printer::be_silent();
    }
    let team = Team { layout: ShardLayout { threads: 1, processes: Some(processes.clone()) } };
    let ended = catch_unwind(AssertUnwindSafe(|| act(&team)));
    let code = |result: anyhow::Result<ExitCode>| result.unwrap_or_else(|error| fail(&error, json));
    let ended = ended.map(code);
    let own = farewell(&ended, &world);
    let all = processes.end(own);
    drop(world);
    let code = match ended {
        Err(panic) if !panic.is::<LeftBehind>() => resume_unwind(panic),
        // Process 0 prints the words of the others.
        _ if !is_first => return Ok(ExitCode::SUCCESS),
        Ok(code) if code != ExitCode::SUCCESS => return Ok(code),
        Ok(code) => code,
        Err(_) => ExitCode::FAILURE,
    };
    let Some((process, left)) = all.iter().enumerate().find(|(_, left)| left.code != 0) else {
        return Ok(code);
    };
    let message = format!("process {process} of {} has ended: {}", all.len(), left.words);
    Ok(printer::failure(&Failure::new(Kind::Process, message), json))
}

/// The end of this process, as the others learn of it.
fn farewell(ended: &Result<ExitCode, Box<dyn Any + Send>>, world: &World) -> Farewell {
    let (code, words) = match ended {
        Ok(code) if *code == ExitCode::SUCCESS => (0, String::new()),
        Ok(_) => (1, printer::last_words()),
        Err(panic) if panic.is::<LeftBehind>() => (0, String::new()),
        Err(panic) => (PANICKED, format!("it panicked: {}", text_of(&**panic))),
    };
    let words = if words.is_empty() { words } else { format!("{words} (on {})", world.host()) };
    Farewell { code, words }
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without words")
}

/// Lets two processes meet many times; returns the library of MPI and the microseconds of a meeting, in process 0.
pub(crate) fn two_meet() -> Option<(String, f64)> {
    const MEETINGS: u32 = 2000;
    let world = mpi::start()?;
    let start = Instant::now();
    for _ in 0..MEETINGS {
        world.processes.gather(&[0; 64]);
    }
    let time = start.elapsed().as_secs_f64() * 1e6 / f64::from(MEETINGS);
    let is_first = world.processes.process() == 0;
    let library = world.library();
    world.processes.end(Farewell { code: 0, words: String::new() });
    is_first.then_some((library, time))
}
