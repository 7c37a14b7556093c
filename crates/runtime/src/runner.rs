//! Runs one task after the other: finds the callable, opens the arguments, calls, and catches what goes wrong.
//!
//! - **RUNR-1 (caught).** A callable that panics fails its task with the panic's words and place, whatever it panics with; the
//!   runner goes on.
//! - **RUNR-2 (refused).** A message that is no task, a callable that is not there, a digest that differs and an argument
//!   outside shared memory fail the task with words that say so, before anything is called.

use crate::bootstrap::Device;
use crate::callable::{Body, Callable};
use crate::clock;
use crate::failure::{Failure, MAX_WORDS, cut};
use crate::message::{DecodeBuffers, Ended, Order, Received, Verdict, decode_task};
use crate::orchestrator::Orchestrator;
use crate::program::Program;
use crate::shm::Segment;
use crate::task::{Setting, Task};
use crate::worker::Worker;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// Runs the tasks of one worker.
pub(crate) struct Runner {
    program: &'static Program,
    prefixes: Vec<u32>,
    setting: Setting,
    buffers: DecodeBuffers,
    /// Worker that graphs run on.
    worker: Option<Box<Worker>>,
    /// End of the last task, if the next was there by then.
    last: Option<u64>,
}

thread_local! {
    /// Location of this thread's last panic.
    static PANIC_PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
    /// True if this thread runs a task now.
    static IN_TASK: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Installs a panic hook: panics of tasks are failures, and are not printed.
fn keep_panics_quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if IN_TASK.get() {
                let place = info.location().map(ToString::to_string);
                PANIC_PLACE.with(|slot| *slot.borrow_mut() = place);
            } else {
                usual(info);
            }
        }));
    });
}

impl Runner {
    /// Runs callables of `program` on `memories`; `device` is the device of the tasks.
    pub(crate) fn new(
        program: &'static Program,
        memories: Vec<Segment>,
        device: Option<Device>,
    ) -> Self {
        keep_panics_quiet();
        let prefixes = program.callables().iter().map(|one| one.digest().prefix()).collect();
        let setting = Setting::new(memories, device);
        let buffers = DecodeBuffers::default();
        Self { program, prefixes, setting, buffers, worker: None, last: None }
    }

    /// Runs graphs too, on this worker.
    pub(crate) fn over(self, worker: Option<Worker>) -> Self {
        Self { worker: worker.map(Box::new), ..self }
    }

    /// Returns parts of a worker that its tasks see.
    pub(crate) fn setting(&mut self) -> &mut Setting {
        &mut self.setting
    }

    /// Returns the number of callables.
    pub(crate) fn callables(&self) -> usize {
        self.prefixes.len()
    }

    /// Notes that the next task was passed over: the task behind it may come at any time.
    pub(crate) fn skipped(&mut self) {
        self.last = None;
    }

    /// Runs the task in `message` and says how it ended. A task begins with the end of the last one if `is_followed` was true
    /// then: the next task is there, so everything before that task has ended (TIM-1), and one look at the clock does for both.
    #[inline]
    pub(crate) fn run(
        &mut self,
        dispatch: u64,
        message: &[u8],
        is_followed: impl FnOnce() -> bool,
    ) -> (Ended, Option<Box<str>>) {
        let begun = self.last.take().unwrap_or_else(clock::now);
        (self.setting.simulated, self.setting.dispatch) = (0, dispatch);
        let result = self.call(message);
        let is_followed = is_followed();
        let now = clock::now();
        self.last = is_followed.then_some(now);
        let nanoseconds = now.saturating_sub(begun);
        let picoseconds = self.setting.simulated;
        let (verdict, words) = match result {
            Ok(()) => (Verdict::Done, None),
            Err(failure) => (Verdict::Failed, Some(cut(failure.words(), MAX_WORDS).into())),
        };
        (Ended { dispatch, verdict, begun, nanoseconds, picoseconds }, words)
    }

    fn call(&mut self, message: &[u8]) -> Result<(), Failure> {
        let mut buffers = std::mem::take(&mut self.buffers);
        // By reference: a message that was just read is slow to move.
        let result = match &decode_task(message, &mut buffers) {
            Ok(received) => self.call_received(received),
            Err(error) => Err((*error).into()),
        };
        self.buffers = buffers;
        result
    }

    #[inline]
    fn call_received(&mut self, received: &Received<'_>) -> Result<(), Failure> {
        let result = self.call_body(received);
        // TSK-3: also what the callable forgot.
        self.setting.settle();
        result
    }

    #[inline]
    fn call_body(&mut self, received: &Received<'_>) -> Result<(), Failure> {
        let Callable { name, body, .. } = find(self.program, &self.prefixes, &received.order)?;
        let arguments = received.arguments;
        self.setting.check_all(received)?;
        let mut task = Task::new(&mut self.setting, received);
        match (*body, &self.worker) {
            (Body::Function(function), _) => caught(|| function(&mut task)),
            (Body::Orchestration(graph), Some(worker)) => {
                let witness = task.witness();
                let run = |orchestrator: &mut Orchestrator<'_>, foreign| {
                    task.inherit(foreign);
                    graph(orchestrator, &mut task)
                };
                let ended = worker.run_for_parent(name, arguments, witness.as_ref(), run)?;
                self.setting.simulated = self.setting.simulated.saturating_add(ended.simulated);
                Ok(())
            }
            (Body::Orchestration(_), None) => {
                Err(Failure::new("this worker has no workers to run a graph on"))
            }
        }
    }
}

/// Calls `code` of the user's; a panic is a failure with the panic's words and place.
pub(crate) fn caught<T>(code: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    keep_panics_quiet();
    // The code of a graph may run tasks itself.
    let was_in_task = IN_TASK.replace(true);
    let result = catch_unwind(AssertUnwindSafe(code)).unwrap_or_else(|payload| {
        let place = PANIC_PLACE.with(|slot| slot.borrow_mut().take());
        let failure = Failure::of_panic(&*payload, place);
        discard(payload);
        Err(failure)
    });
    IN_TASK.set(was_in_task);
    result
}

/// Drops something of the user's; what panics in that ends there.
pub(crate) fn discard<T>(value: T) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        // It may do so again.
        std::mem::forget(payload);
    }
}

/// Returns the callable an order names, if both sides mean the same one.
#[inline]
fn find<'p>(
    program: &'p Program,
    prefixes: &[u32],
    order: &Order,
) -> Result<&'p Callable, Failure> {
    let at = order.callable as usize;
    let callable = program.callables().get(at).ok_or_else(|| {
        Failure::new(format!(
            "callable {at} is not registered here: this program has {}; both sides must be the same build",
            program.callables().len()
        ))
    })?;
    if prefixes[at] != order.digest {
        return Err(Failure::new(format!(
            "callable `{}` differs: digest {:08x} was sent, {:08x} is here; both sides must be the same build",
            callable.name(),
            order.digest,
            prefixes[at]
        )));
    }
    Ok(callable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Callable;
    use crate::message::{ArgumentDescriptor, encode_task};
    use crate::tensor::{Access, DType, Layout};

    fn panics(_: &mut Task<'_>) -> Result<(), Failure> {
        panic!("as it should")
    }

    fn reads(task: &mut Task<'_>) -> Result<(), Failure> {
        let mut data = task.argument(0)?;
        data.slice::<u8>()?;
        data.slice_mut::<u8>()?;
        Ok(())
    }

    static PROGRAM: Program =
        Program::new(&[Callable::new("panics", panics), Callable::new("reads", reads)]);

    fn runner() -> Runner {
        let memory = Segment::create("runner", 4096).expect("memory");
        Runner::new(&PROGRAM, vec![memory], None)
    }

    fn order(callable: u32) -> Order {
        let digest = PROGRAM.callables()[callable as usize].digest().prefix();
        Order { callable, digest, run: 1, member: 0, members: 1 }
    }

    fn argument(memory: u8, offset: u64, access: Access) -> ArgumentDescriptor {
        let layout = Layout::dense(DType::U8, &[16]).expect("small");
        ArgumentDescriptor { memory, access, buffer: (1, 1), offset, layout }
    }

    /// Runs a task with these arguments and returns its failure.
    fn words(runner: &mut Runner, order: &Order, arguments: &[ArgumentDescriptor]) -> String {
        let mut bytes = Vec::new();
        encode_task(&mut bytes, order, arguments.iter().copied(), &[], &[], &[]);
        let (ended, words) = runner.run(1, &bytes, || false);
        assert_eq!(ended.verdict, Verdict::Failed);
        words.expect("it failed").into()
    }

    #[test]
    fn runr_1_a_panic_is_caught_with_its_words_and_place() {
        let mut runner = runner();
        for _ in 0..2 {
            let words = words(&mut runner, &order(0), &[]);
            assert!(words.contains("as it should") && words.contains("runner.rs"), "{words}");
        }
    }

    #[test]
    fn runr_1_a_payload_that_panics_when_it_is_dropped_does_no_harm() {
        struct Bomb(u32);
        impl Drop for Bomb {
            fn drop(&mut self) {
                if self.0 > 0 {
                    std::panic::panic_any(Self(self.0 - 1));
                }
            }
        }
        for depth in 1..4 {
            let failure = caught(|| -> Result<(), Failure> { std::panic::panic_any(Bomb(depth)) });
            let words = failure.expect_err("it panicked").words().to_owned();
            assert!(words.contains("not text") && words.contains("runner.rs"), "RUNR-1: {words}");
            assert!(!IN_TASK.get(), "RUNR-1");
            discard(Bomb(depth));
        }
    }

    #[test]
    fn runr_1_a_graph_that_has_run_tasks_itself_panics_with_its_place() {
        let failure = caught(|| -> Result<(), Failure> {
            caught(|| Ok(()))?;
            panic!("after a task")
        });
        let words = failure.expect_err("it panicked");
        assert!(words.words().contains("runner.rs"), "RUNR-1: {}", words.words());
    }

    #[test]
    fn tim_1_a_task_begins_no_earlier_than_it_came() {
        let mut runner = runner();
        let (last, _) = runner.run(1, b"no task", || true);
        let (follows, _) = runner.run(2, b"no task", || false);
        assert_eq!(follows.begun, last.begun + last.nanoseconds, "TIM-1: it was there");
        let came = clock::now();
        let (later, _) = runner.run(3, b"no task", || true);
        assert!(later.begun >= came, "TIM-1: it came after the end of the last");
        runner.skipped();
        let came = clock::now();
        let (behind, _) = runner.run(5, b"no task", || false);
        assert!(behind.begun >= came, "TIM-1: it came behind one that was passed over");
    }

    #[test]
    fn runr_2_tsk_2_what_cannot_be_run_is_refused_with_words() {
        let mut runner = runner();
        let (ended, said) = runner.run(1, b"no task", || false);
        assert_eq!(ended.verdict, Verdict::Failed);
        assert!(said.expect("words").contains("the head of a task"));
        let unknown = Order { callable: 7, ..order(0) };
        let found = words(&mut runner, &unknown, &[]);
        assert!(found.contains("callable 7 is not registered"), "{found}");
        let other = Order { digest: 1, ..order(0) };
        let found = words(&mut runner, &other, &[]);
        assert!(found.contains("`panics` differs"), "{found}");
        let found = words(&mut runner, &order(1), &[argument(0, 4090, Access::Read)]);
        assert!(found.contains("does not end within 4096"), "{found}");
        let found = words(&mut runner, &order(1), &[argument(3, 0, Access::Read)]);
        assert!(found.contains("memory 3 is not shared"), "{found}");
    }

    #[test]
    fn tsk_1_what_was_declared_as_input_is_not_written() {
        let found = words(&mut runner(), &order(1), &[argument(0, 0, Access::Read)]);
        assert!(found.contains("submitted as Read: it cannot be written"), "{found}");
    }
}
