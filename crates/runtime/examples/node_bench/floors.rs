//! What no runtime can beat: a word there and back between two processes, and processes started and reaped.

use crate::{Failed, Plan, Row, best, median};
use command_fds::{CommandFdExt, FdMapping};
use phalanx_runtime::shm::{Segment, futex, inherited};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// The first argument of the process that answers.
const PARTNER: &str = "floor-partner";
/// The first argument of the process that ends at once.
const NOBODY: &str = "floor-nobody";
/// The number of the memory's descriptor there.
const MEMORY: i32 = 3;
/// Where the words stand, far from each other.
const WORDS: [usize; 2] = [0, 1024];
/// What ends the conversation.
const OVER: u32 = u32::MAX;
/// Round trips that are timed together.
const BATCH: u32 = 200;

/// Does its part, if this process is a partner of the floors.
pub(crate) fn is_partner(arguments: &[String]) -> Result<bool, Failed> {
    match arguments.first().map(String::as_str) {
        Some(NOBODY) => Ok(true),
        Some(PARTNER) => {
            let memory = Segment::adopt(inherited(MEMORY)?, 4096)?;
            let is_asleep = arguments.get(1).is_some_and(|one| one == "futex");
            let [ask, answer] = words(&memory)?;
            let mut last = 0;
            while last != OVER {
                last = await_change(ask, last, is_asleep);
                say(answer, last, is_asleep);
            }
            Ok(true)
        }
        _ => Ok(false),
    }
}

fn words(memory: &Segment) -> Result<[&AtomicU32; 2], Failed> {
    let [ask, answer] = WORDS.map(|at| memory.word32(at));
    Ok([ask?, answer?])
}

fn say(word: &AtomicU32, value: u32, is_asleep: bool) {
    word.store(value, Ordering::Release);
    if is_asleep {
        futex::wake(word);
    }
}

fn await_change(word: &AtomicU32, last: u32, is_asleep: bool) -> u32 {
    loop {
        let found = word.load(Ordering::Acquire);
        if found != last {
            return found;
        }
        if is_asleep {
            futex::wait(word, last, None);
        } else {
            std::hint::spin_loop();
        }
    }
}

/// Microseconds there and back, the best of several batches.
fn round_trip(batches: usize, is_asleep: bool) -> Result<f64, Failed> {
    let memory = Segment::create("phalanx-floor", 4096)?;
    let parent_fd = memory.fd().as_fd().try_clone_to_owned()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args([PARTNER, if is_asleep { "futex" } else { "spin" }]);
    command.fd_mappings(vec![FdMapping { parent_fd, child_fd: MEMORY }])?;
    let mut partner = command.spawn()?;
    let [ask, answer] = words(&memory)?;
    let (mut turn, mut times) = (0, Vec::new());
    for _ in 0..batches {
        let begun = Instant::now();
        for _ in 0..BATCH {
            turn += 1;
            say(ask, turn, is_asleep);
            await_change(answer, turn - 1, is_asleep);
        }
        times.push(begun.elapsed().as_secs_f64() * 1e6 / f64::from(BATCH));
    }
    say(ask, OVER, is_asleep);
    partner.wait()?;
    Ok(best(&times))
}

fn start(program: &std::path::Path) -> Result<Child, Failed> {
    Ok(Command::new(program).arg(NOBODY).stdin(Stdio::null()).spawn()?)
}

/// Milliseconds until so many processes are started and reaped.
fn spawned(program: &std::path::Path, count: usize, lives: usize) -> Result<f64, Failed> {
    let mut times = Vec::new();
    for _ in 0..lives {
        let begun = Instant::now();
        let started: Vec<Child> = (0..count).map(|_| start(program)).collect::<Result<_, _>>()?;
        for mut child in started {
            child.wait()?;
        }
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    Ok(median(times))
}

/// All floors.
pub(crate) fn floors(plan: Plan) -> Result<Vec<Row>, Failed> {
    let ours = std::env::current_exe()?;
    Ok(vec![
        ("raw_spin_us", round_trip(plan.calls / 10, false)?, "us"),
        ("raw_futex_us", round_trip(plan.lives, true)?, "us"),
        ("spawn_true_ms", spawned("/bin/true".as_ref(), 1, plan.lives)?, "ms"),
        ("spawn_self_ms", spawned(&ours, 1, plan.lives)?, "ms"),
        ("spawn8_ms", spawned(&ours, 8, plan.lives)?, "ms"),
    ])
}
