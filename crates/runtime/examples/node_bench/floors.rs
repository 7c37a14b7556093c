//! The floor for any runtime: a word there and back between two processes, and processes started and reaped.

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
/// The places of the words, far from each other.
const WORDS: [usize; 2] = [0, 1024];
/// The word that ends the conversation.
const OVER: u32 = u32::MAX;
/// Round trips that are timed together.
const BATCH: u32 = 200;

/// The way in which the two wait for each other.
#[derive(Clone, Copy, PartialEq)]
enum How {
    Spin,
    Yield,
    Futex,
}

impl How {
    fn name(self) -> &'static str {
        match self {
            Self::Spin => "spin",
            Self::Yield => "yield",
            Self::Futex => "futex",
        }
    }

    fn of(name: &str) -> Option<Self> {
        [Self::Spin, Self::Yield, Self::Futex].into_iter().find(|how| how.name() == name)
    }
}

/// Does its part, if this process is a partner of the floors.
pub(crate) fn is_partner(arguments: &[String]) -> Result<bool, Failed> {
    match arguments.first().map(String::as_str) {
        Some(NOBODY) => Ok(true),
        Some(PARTNER) => {
            let memory = Segment::adopt(inherited(MEMORY)?, 4096)?;
            let how = arguments.get(1).and_then(|name| How::of(name)).ok_or("wait how?")?;
            let [ask, answer] = words(&memory)?;
            let mut last = 0;
            while last != OVER {
                last = await_change(ask, last, how);
                say(answer, last, how);
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

fn say(word: &AtomicU32, value: u32, how: How) {
    word.store(value, Ordering::Release);
    if how == How::Futex {
        futex::wake(word);
    }
}

fn await_change(word: &AtomicU32, last: u32, how: How) -> u32 {
    loop {
        let found = word.load(Ordering::Acquire);
        if found != last {
            return found;
        }
        match how {
            How::Spin => std::hint::spin_loop(),
            How::Yield => std::thread::yield_now(),
            How::Futex => futex::wait(word, last, None),
        }
    }
}

/// Microseconds there and back, the best of several batches.
fn round_trip(batches: usize, how: How) -> Result<f64, Failed> {
    let memory = Segment::create("phalanx-floor", 4096)?;
    let parent_fd = memory.fd().as_fd().try_clone_to_owned()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args([PARTNER, how.name()]);
    command.fd_mappings(vec![FdMapping { parent_fd, child_fd: MEMORY }])?;
    let mut partner = command.spawn()?;
    let [ask, answer] = words(&memory)?;
    let (mut turn, mut times) = (0, Vec::new());
    for _ in 0..batches {
        let begun = Instant::now();
        for _ in 0..BATCH {
            turn += 1;
            say(ask, turn, how);
            await_change(answer, turn - 1, how);
        }
        times.push(begun.elapsed().as_secs_f64() * 1e6 / f64::from(BATCH));
    }
    say(ask, OVER, how);
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
        ("raw_spin_us", round_trip(plan.calls / 10, How::Spin)?, "us"),
        ("raw_yield_us", round_trip(plan.calls / 10, How::Yield)?, "us"),
        ("raw_futex_us", round_trip(plan.lives, How::Futex)?, "us"),
        ("spawn_true_ms", spawned("/bin/true".as_ref(), 1, plan.lives)?, "ms"),
        ("spawn_self_ms", spawned(&ours, 1, plan.lives)?, "ms"),
        ("spawn8_ms", spawned(&ours, 8, plan.lives)?, "ms"),
    ])
}
