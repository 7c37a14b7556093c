//! The callables of the tests.

use phalanx_runtime::{Access, Call, Callable, Failure, Program, Task};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[expect(clippy::unnecessary_wraps, reason = "a callable may fail")]
pub(crate) fn nothing(_: &mut Task<'_>) -> Result<(), Failure> {
    Ok(())
}

/// Adds a number to each element.
pub(crate) fn add(task: &mut Task<'_>) -> Result<(), Failure> {
    let number = task.real(0)?;
    let mut data = task.argument(0)?;
    for value in data.slice_mut::<f64>()? {
        *value += number;
    }
    Ok(())
}

/// Multiplies each element by a number.
pub(crate) fn scale(task: &mut Task<'_>) -> Result<(), Failure> {
    let number = task.real(0)?;
    let mut data = task.argument(0)?;
    for value in data.slice_mut::<f64>()? {
        *value *= number;
    }
    Ok(())
}

/// The third is the sum of the first two.
pub(crate) fn sum(task: &mut Task<'_>) -> Result<(), Failure> {
    let [a, b, mut c] = task.arguments()?;
    let c = c.slice_mut::<f64>()?;
    for ((c, a), b) in c.iter_mut().zip(a.slice::<f64>()?).zip(b.slice::<f64>()?) {
        *c = a + b;
    }
    Ok(())
}

/// Writes its member's number to each element, gaps or not.
pub(crate) fn fill(task: &mut Task<'_>) -> Result<(), Failure> {
    let number = task.real(0)?;
    let mut data = task.argument(0)?;
    let elements = data.layout().elements();
    data.write_elements(&vec![number; usize::try_from(elements)?])?;
    Ok(())
}

/// Appends its number to a list: the first element counts.
pub(crate) fn note(task: &mut Task<'_>) -> Result<(), Failure> {
    let number = task.scalar(0)?;
    let mut list = task.argument(0)?;
    let list = list.slice_mut::<u64>()?;
    let at = usize::try_from(list[0])? + 1;
    list[at] = number;
    list[0] += 1;
    Ok(())
}

#[derive(Debug, thiserror::Error)]
#[error("the outer error")]
struct Outer(#[source] std::num::ParseIntError);

pub(crate) fn fail(task: &mut Task<'_>) -> Result<(), Failure> {
    let words = task.bytes();
    if words.is_empty() {
        return Err(Outer("x".parse::<u32>().expect_err("no number")).into());
    }
    Err(Failure::new(String::from_utf8_lossy(words)))
}

pub(crate) fn panic(_: &mut Task<'_>) -> Result<(), Failure> {
    panic!("a callable that panics")
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a payload that panics");
    }
}

#[derive(Debug)]
struct Mute;

impl std::fmt::Display for Mute {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("an error that cannot be said")
    }
}

impl std::error::Error for Mute {}

/// The length of the words of [`misbehave`], in bytes.
pub(crate) const MANY_WORDS: usize = 65 << 20;

/// Fails in one of the worst ways that there are.
pub(crate) fn misbehave(task: &mut Task<'_>) -> Result<(), Failure> {
    match task.scalar(0)? {
        0 => std::panic::panic_any(Bomb),
        1 => std::panic::panic_any(42u8),
        2 => Err(Mute.into()),
        3 => Err(Failure::new("ä".repeat(MANY_WORDS / 2))),
        _ => panic!("{}", "ö".repeat(MANY_WORDS / 2)),
    }
}

/// Waits until all members of its group have come: one cell for each.
pub(crate) fn meet(task: &mut Task<'_>) -> Result<(), Failure> {
    let (member, members) = (task.member(), task.members());
    let cells: Vec<_> = (0..members).map(|at| task.argument(at)).collect::<Result<_, _>>()?;
    let mut cells = cells;
    cells[member].write_elements(&[1u64])?;
    let until = Instant::now() + Duration::from_secs(600);
    for cell in &cells {
        while cell.read_elements::<u64>()? != [1] {
            if Instant::now() > until {
                return Err(Failure::new("a member did not come"));
            }
            std::thread::yield_now();
        }
    }
    Ok(())
}

/// Runs until its flag is set; fails if nobody does that in 10 minutes.
pub(crate) fn until_told(task: &mut Task<'_>) -> Result<(), Failure> {
    let flag = task.argument(0)?;
    let until = Instant::now() + Duration::from_secs(600);
    while flag.read_elements::<u64>()? == [0] {
        if Instant::now() > until {
            return Err(Failure::new("nobody told"));
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    Ok(())
}

/// Sees its third argument in place until it is told to end, and fails if that changes; says in its first when it has begun, and
/// is told in its second.
pub(crate) fn watch(task: &mut Task<'_>) -> Result<(), Failure> {
    let [mut begun, told, mut data] = task.arguments()?;
    let is_alone = data.access() != Access::Read;
    let slice = if is_alone { data.slice_mut::<u64>()? } else { data.slice::<u64>()? };
    let before = slice.to_vec();
    begun.write_elements(&[1u64])?;
    let until = Instant::now() + Duration::from_secs(600);
    while told.read_elements::<u64>()? == [0] {
        if Instant::now() > until {
            return Err(Failure::new("nobody told"));
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    if std::hint::black_box(slice) == before {
        return Ok(());
    }
    Err(Failure::new("what it saw in place has changed"))
}

/// Forgets its argument, and then ends as [`pick`] does.
pub(crate) fn forget(task: &mut Task<'_>) -> Result<(), Failure> {
    std::mem::forget(task.argument(0)?);
    pick(task)
}

/// Does nothing for some milliseconds.
pub(crate) fn rest(task: &mut Task<'_>) -> Result<(), Failure> {
    std::thread::sleep(Duration::from_millis(task.scalar(0)?));
    Ok(())
}

/// Computes for some microseconds.
pub(crate) fn pause(task: &mut Task<'_>) -> Result<(), Failure> {
    let pause = Duration::from_micros(task.scalar(0)?);
    let begun = Instant::now();
    while !pause.is_zero() && begun.elapsed() < pause {
        std::hint::spin_loop();
    }
    Ok(())
}

/// Ends well for 0, badly for 1, and panics otherwise.
pub(crate) fn pick(task: &mut Task<'_>) -> Result<(), Failure> {
    match task.scalar(0)? {
        0 => Ok(()),
        1 => Err(Failure::new("as it should")),
        other => panic!("{other} was picked"),
    }
}

/// A bit for each number that a call of [`tell`] was given: so a test knows of its own call without asking the worker.
pub(crate) static TOLD: AtomicU64 = AtomicU64::new(0);

/// Sets a flag, and the bit of its scalar.
pub(crate) fn tell(task: &mut Task<'_>) -> Result<(), Failure> {
    task.argument(0)?.write_elements(&[1u64])?;
    let bit = task.scalar(0).unwrap_or_default();
    TOLD.fetch_or(1 << bit, Ordering::SeqCst);
    Ok(())
}

/// The number of calls of [`tally`].
pub(crate) static TALLIED: AtomicU64 = AtomicU64::new(0);

#[expect(clippy::unnecessary_wraps, reason = "a callable may fail")]
pub(crate) fn tally(_: &mut Task<'_>) -> Result<(), Failure> {
    TALLIED.fetch_add(1, Ordering::SeqCst);
    Ok(())
}

/// Takes a while, and counts those that a worker's own thread has run.
pub(crate) fn count_threads(task: &mut Task<'_>) -> Result<(), Failure> {
    std::thread::sleep(Duration::from_micros(300));
    let is_worker =
        std::thread::current().name().is_some_and(|name| name.starts_with("sub worker"));
    let mut count = task.argument(0)?;
    count.slice_mut::<u64>()?[0] += u64::from(is_worker);
    Ok(())
}

/// The same name in the test and in its children.
macro_rules! named {
    ($function:ident) => {
        Callable::new(concat!("graphs::", stringify!($function)), $function)
    };
}

pub(crate) const NOTHING: Callable = named!(nothing);
pub(crate) const ADD: Callable = named!(add);
pub(crate) const SCALE: Callable = named!(scale);
pub(crate) const SUM: Callable = named!(sum);
pub(crate) const FILL: Callable = named!(fill);
pub(crate) const NOTE: Callable = named!(note);
pub(crate) const FAIL: Callable = named!(fail);
pub(crate) const PANIC: Callable = named!(panic);
pub(crate) const MISBEHAVE: Callable = named!(misbehave);
pub(crate) const MEET: Callable = named!(meet).collective();
pub(crate) const UNTIL_TOLD: Callable = named!(until_told);
pub(crate) const WATCH: Callable = named!(watch);
pub(crate) const FORGET: Callable = named!(forget);
pub(crate) const REST: Callable = named!(rest);
pub(crate) const PAUSE: Callable = named!(pause);
pub(crate) const PICK: Callable = named!(pick);
pub(crate) const TELL: Callable = named!(tell);
pub(crate) const TALLY: Callable = named!(tally);
pub(crate) const COUNT_THREADS: Callable = named!(count_threads);

pub(crate) static PROGRAM: Program = Program::new(&[
    NOTHING,
    ADD,
    SCALE,
    SUM,
    FILL,
    NOTE,
    FAIL,
    PANIC,
    MISBEHAVE,
    MEET,
    UNTIL_TOLD,
    WATCH,
    FORGET,
    REST,
    PAUSE,
    PICK,
    TALLY,
    TELL,
    COUNT_THREADS,
]);

/// A call that fails with these words.
pub(crate) fn failing(words: &str) -> Call {
    Call::new(&FAIL).bytes(words.as_bytes())
}
