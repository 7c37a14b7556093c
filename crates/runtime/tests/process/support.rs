//! Parts that several tests share.

use crate::callables::{NOTHING, PROGRAM};
use phalanx_runtime::{Budgets, Builder, Call, Error, Worker};
use rustix::process::{Pid, Signal};
use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// One test at a time: they count processes and descriptors.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The program that children run.
pub(crate) const FIXTURE: &str = env!("CARGO_BIN_EXE_phalanx-runtime-fixture");

/// A worker whose children run the fixture.
pub(crate) fn builder() -> Builder {
    Worker::builder(&PROGRAM).program_path(FIXTURE)
}

/// Expected length of tasks that must not be taken for stuck, however busy the host is.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// Short budgets, in milliseconds: no progress, one operation.
pub(crate) fn budgets(progress: u64, operation: u64) -> Budgets {
    let time = Duration::from_millis;
    Budgets {
        progress: time(progress),
        operation: time(operation),
        wait: time(2 * operation + progress),
        startup: time(600_000),
        harness: time(1_200_000),
        guard: time(1),
    }
}

/// The fields of `/proc/PID/stat` behind the name, if the process is there.
fn stat(process: u32) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(") ")?;
    Some(fields.split(' ').map(str::to_owned).collect())
}

/// Our children, those that nobody reaped too.
pub(crate) fn children() -> BTreeSet<u32> {
    let ours = std::process::id().to_string();
    let numbers = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|number| stat(*number).is_some_and(|fields| fields[1] == ours)).collect()
}

/// The child that was started under this name (`chip 0`), if it is there.
pub(crate) fn child_named(name: &str) -> Option<u32> {
    let is_named = |process: &u32| {
        let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == name.as_bytes())
    };
    children().into_iter().find(is_named)
}

/// All processes below one.
pub(crate) fn descendants(process: u32) -> Vec<u32> {
    let numbers = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let parent = |number: u32| Some((number, stat(number)?[1].parse::<u32>().ok()?));
    let parents: Vec<(u32, u32)> = numbers.filter_map(parent).collect();
    let mut found = vec![process];
    let mut at = 0;
    while let Some(above) = found.get(at).copied() {
        found.extend(parents.iter().filter(|(_, parent)| *parent == above).map(|(one, _)| *one));
        at += 1;
    }
    found.split_off(1)
}

/// True if a process is gone, or waits only for its parent to notice.
pub(crate) fn is_gone(process: u32) -> bool {
    stat(process).is_none_or(|fields| fields[0] == "Z" || fields[0] == "X")
}

/// The processor time that a process has used, in ticks.
pub(crate) fn ticks(process: u32) -> u64 {
    let number = |field: &String| field.parse::<u64>().unwrap_or(0);
    stat(process).map_or(0, |fields| number(&fields[11]) + number(&fields[12]))
}

/// Returns the number of descriptors of this process.
pub(crate) fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// Sends a signal to a child that we started.
pub(crate) fn signal(process: u32, signal: Signal) {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw).expect("a process number");
    let _ = rustix::process::kill_process(pid, signal);
}

/// Passes if `test` does with times that are once, 4 times or 16 times as long. A host that pauses a process for longer
/// than a budget spoils one scale; a fault spoils all of them.
pub(crate) fn at_some_scale(test: impl Fn(u32)) {
    for scale in [1, 4] {
        let passes = std::panic::catch_unwind(AssertUnwindSafe(|| test(scale)));
        if passes.is_ok() {
            return;
        }
        println!("times {scale}: it fails; once more with longer times");
    }
    test(16);
}

/// Looks until `is_true`, for a long time.
pub(crate) fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    for _ in 0..120_000 {
        if is_true() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("did not happen: {what}");
}

/// The remains of a worker: must be nothing.
pub(crate) struct Leftovers {
    children: BTreeSet<u32>,
    descriptors: usize,
}

impl Leftovers {
    /// Counts the resources before the worker starts.
    pub(crate) fn before() -> Self {
        Self { children: children(), descriptors: descriptors() }
    }

    /// Nothing more is there now.
    pub(crate) fn check(&self) {
        assert_eq!(children(), self.children, "a process was left behind");
        assert_eq!(descriptors(), self.descriptors, "a descriptor was left behind");
    }
}

/// Runs as many empty tasks as sub workers can be expected to share.
pub(crate) fn is_usable(worker: &Worker) -> Result<(), Error> {
    let finished = worker.run("still there", |graph| {
        for _ in 0..32 {
            graph.submit_sub(&Call::new(&NOTHING).expected(PATIENCE))?;
        }
        Ok(())
    })?;
    assert_eq!(finished.report.completed, 32);
    Ok(())
}

/// Numbers that look random.
pub(crate) struct Dice(u64);

impl Dice {
    /// From a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// The middle and the last but few of times.
pub(crate) fn describe(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at = |part: usize| times.get((times.len() * part / 100).min(times.len() - 1));
    let (middle, late) = (at(50).copied(), at(95).copied());
    let (middle, late) = (middle.unwrap_or_default(), late.unwrap_or_default());
    format!("p50 {middle:.1?}, p95 {late:.1?} of {}", times.len())
}

/// Returns the duration of `code`.
pub(crate) fn timed<T>(code: impl FnOnce() -> T) -> (T, Duration) {
    let begun = Instant::now();
    let value = code();
    (value, begun.elapsed())
}
