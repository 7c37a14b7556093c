//! Runs that would wait for themselves: inside the code of a graph, and inside a task.

use phalanx_runtime::*;
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::Duration;

/// The worker whose tasks use it themselves.
static OUTER: OnceLock<Worker> = OnceLock::new();
/// A run that is not over, for a task of its worker.
static UNFINISHED: Mutex<Option<Arc<RunHandle>>> = Mutex::new(None);
/// The answers that its tasks were given.
static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[expect(clippy::unnecessary_wraps, reason = "a callable may fail")]
fn nothing(_: &mut Task<'_>) -> Result<(), Failure> {
    Ok(())
}

fn uses_its_worker(_: &mut Task<'_>) -> Result<(), Failure> {
    let worker = OUTER.get().ok_or_else(|| Failure::new("no worker"))?;
    let told = begin(worker).map(|one| one.expect_err("WRK-6").to_string());
    TOLD.lock().map_err(|_| Failure::new("poisoned"))?.extend(told);
    Ok(())
}

/// Waits for a run that it is told.
fn waits_for_a_run(_: &mut Task<'_>) -> Result<(), Failure> {
    for _ in 0..600_000 {
        let run = UNFINISHED.lock().map_err(|_| Failure::new("poisoned"))?.take();
        if let Some(run) = run {
            run.wait_for(Duration::from_millis(1)).expect_err("it cannot be over");
            return Ok(run.wait().map(drop)?);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(Failure::new("nobody told it which run that is"))
}

fn below(graph: &mut Orchestrator<'_>, task: &mut Task<'_>) -> Result<(), Failure> {
    uses_its_worker(task)?;
    graph.submit_sub(&Call::new(&USES_ITS_WORKER))?;
    Ok(())
}

fn has_its_own(_: &mut Task<'_>) -> Result<(), Failure> {
    let worker = Worker::builder(&PROGRAM).threads().sub_workers(1).init()?;
    worker.call(&Call::new(&NOTHING))?;
    Ok(worker.close()?)
}

const NOTHING: Callable = register!(nothing);
const USES_ITS_WORKER: Callable = register!(uses_its_worker);
const WAITS_FOR_A_RUN: Callable = register!(waits_for_a_run);
const BELOW: Callable = register!(graph below);
const HAS_ITS_OWN: Callable = register!(has_its_own);
static PROGRAM: Program =
    Program::new(&[NOTHING, USES_ITS_WORKER, WAITS_FOR_A_RUN, BELOW, HAS_ITS_OWN]);

/// Returns the result of `work`, if `work` ends at all; a thread that hangs is left behind.
fn soon<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || tell.send(work()));
    told.recv_timeout(Duration::from_secs(600)).expect("WRK-6: it hangs, or has panicked")
}

fn threads() -> Worker {
    Worker::builder(&PROGRAM).threads().sub_workers(2).init().expect("a worker")
}

/// Every way to begin a run: what each says.
fn begin(worker: &Worker) -> [Result<(), Error>; 3] {
    [
        worker.call(&Call::new(&NOTHING)).map(drop),
        worker.run("inside", |_| Ok(())).map(drop),
        worker.submit("inside", |_| Ok(())).map(drop),
    ]
}

fn check_refused(worker: &Worker) {
    for result in begin(worker) {
        let words = result.expect_err("WRK-6").to_string();
        assert!(words.contains("this is the code of a graph of the same worker"), "{words}");
        assert!(words.contains("submit the tasks to this graph"), "{words}");
    }
}

#[test]
fn wrk_6_a_run_inside_the_code_of_a_graph_is_an_error() {
    soon(|| {
        let worker = threads();
        let earlier = worker.submit("earlier", |graph| {
            graph.submit_sub(&Call::new(&NOTHING))?;
            Ok(())
        });
        let earlier = earlier.expect("a run");
        let run = worker.run("outer", |graph| {
            check_refused(&worker);
            earlier.wait()?;
            graph.submit_sub(&Call::new(&NOTHING))?;
            check_refused(&worker);
            Ok(())
        });
        assert_eq!(run.expect("WRK-6: it goes on").report.completed, 1);
        assert!(begin(&worker).iter().all(Result::is_ok), "WRK-6: when its code has returned");
    });
}

#[test]
fn wrk_6_a_graph_of_another_worker_is_fine_but_not_the_outer_one_in_it() {
    soon(|| {
        let (outer, inner) = (threads(), threads());
        let run = outer.run("outer", |_| {
            assert!(begin(&inner).iter().all(Result::is_ok), "WRK-6: another worker");
            inner.run("inner", |_| {
                check_refused(&outer);
                check_refused(&inner);
                Ok(())
            })?;
            check_refused(&outer);
            assert!(begin(&inner).iter().all(Result::is_ok), "WRK-6: its code has returned");
            Ok(())
        });
        run.expect("it ends");
    });
}

#[test]
fn wrk_6_another_thread_waits_until_the_code_has_returned() {
    soon(|| {
        let worker = threads();
        let (is_inside, other) = (std::sync::Barrier::new(2), &worker);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                is_inside.wait();
                other.call(&Call::new(&NOTHING))
            });
            let run = worker.run("outer", |graph| {
                is_inside.wait();
                graph.submit_sub(&Call::new(&NOTHING))?;
                std::thread::sleep(Duration::from_millis(20));
                Ok(())
            });
            run.expect("it ends");
            waiter.join().expect("no panic").expect("WRK-6");
        });
    });
}

#[test]
fn wrk_6_who_has_left_the_code_of_a_graph_by_a_panic_is_not_inside() {
    soon(|| {
        let worker = threads();
        let panics =
            std::panic::AssertUnwindSafe(|| worker.run("panics", |_| panic!("as it should")));
        assert!(std::panic::catch_unwind(panics).is_err());
        assert!(begin(&worker).iter().all(Result::is_ok), "WRK-6");
    });
}

#[test]
fn wrk_6_a_run_inside_a_task_is_an_error_at_every_level() {
    let told = soon(|| {
        let builder = Worker::builder(&PROGRAM).threads().sub_workers(1);
        let worker = builder.workers(1, |below| below.sub_workers(1)).init().expect("a worker");
        let worker = OUTER.get_or_init(|| worker);
        let run = worker.run("outer", |graph| {
            graph.submit_sub(&Call::new(&USES_ITS_WORKER))?;
            graph.submit_next_level(Target::Worker(0), &Call::new(&BELOW))?;
            Ok(())
        });
        run.expect("WRK-6: it goes on");
        assert!(begin(worker).iter().all(Result::is_ok), "WRK-6: outside");
        TOLD.lock().expect("nobody panicked").clone()
    });
    assert_eq!(told.len(), 3 * 3, "WRK-6: {told:?}");
    for words in told {
        assert!(words.contains("this is a task of the same worker"), "{words}");
        assert!(words.contains("give the task workers of its own"), "{words}");
    }
}

#[test]
fn wrk_6_a_task_that_waits_for_its_own_run_or_a_later_one_fails_immediately() {
    let told = soon(|| {
        let worker = threads();
        let submit = |call: &Callable| {
            let call = Call::new(call);
            let run = worker.submit("one", |graph| Ok(graph.submit_sub(&call).map(drop)?));
            Arc::new(run.expect("a run"))
        };
        let tell = |run: &Arc<RunHandle>| {
            *UNFINISHED.lock().expect("nobody panicked") = Some(Arc::clone(run));
        };
        let own = submit(&WAITS_FOR_A_RUN);
        tell(&own);
        let told = own.wait().expect_err("WRK-6").to_string();
        let (before, later) = (submit(&WAITS_FOR_A_RUN), submit(&NOTHING));
        tell(&later);
        let told = [told, before.wait().expect_err("WRK-6").to_string()];
        later.wait().expect("WRK-6: the worker goes on");
        told
    });
    for words in told {
        assert!(words.contains("this is a task of the same worker"), "WRK-6: {words}");
    }
}

#[test]
fn wrk_6_a_task_can_run_graphs_on_a_worker_of_its_own() {
    soon(|| threads().call(&Call::new(&HAS_ITS_OWN)).map(drop)).expect("WRK-6");
}
