use super::*;
use crate::endpoint::{Endpoint, WorkerEvent};
use crate::memory::Arena;
use crate::shm::mailbox::Evidence;
use crate::{Call, Callable, Failure, Program, Task, Worker};
use phalanx_engine::{Config, Engine, Ladder};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

/// 0 before the task begins, 1 while it runs, 2 when it is to end.
static TASK: AtomicU32 = AtomicU32::new(0);

#[expect(clippy::unnecessary_wraps, reason = "a callable may fail")]
fn until_told(_: &mut Task<'_>) -> Result<(), Failure> {
    TASK.store(1, Ordering::Release);
    while TASK.load(Ordering::Acquire) != 2 {
        thread::yield_now();
    }
    Ok(())
}

const UNTIL_TOLD: Callable = Callable::new("until told", until_told);
static PROGRAM: Program = Program::new(&[UNTIL_TOLD]);

#[test]
fn node_2_the_lock_is_free_while_a_task_runs_and_while_a_caller_waits() {
    let worker = Worker::builder(&PROGRAM).threads().sub_workers(1).memory(1 << 16);
    let worker = worker.init().expect("a worker");
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        let caller = scope.spawn(|| worker.call(&Call::new(&UNTIL_TOLD)));
        while TASK.load(Ordering::Acquire) == 0 {
            thread::yield_now();
        }
        // Long enough for the caller to sleep.
        thread::sleep(10 * worker.node.waiting.patience());
        let node = Arc::clone(&worker.node);
        thread::spawn(move || tell.send(node.lock().is_busy()));
        let is_busy = told.recv_timeout(Duration::from_secs(600));
        TASK.store(2, Ordering::Release);
        assert_eq!(is_busy, Ok(true), "NODE-2: the task runs, and the lock is free");
        caller.join().expect("no panic").expect("the task ends well");
    });
    worker.close().expect("closed");
}

/// A worker without tasks, whose process is gone, that counts looks at it and requests to leave.
struct Counting(Arc<AtomicU64>, Arc<AtomicU64>);

impl Counting {
    fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Endpoint for Counting {
    fn name(&self) -> String {
        "counting".into()
    }

    fn send(&mut self, _: u64, _: &[u64], _: &[u8]) {}

    fn recall(&mut self, _: u64) {}

    fn flush(&mut self) {}

    fn poll(&mut self, _: &mut Vec<WorkerEvent>) {
        self.count();
    }

    fn evidence(&self) -> Evidence {
        self.count();
        Evidence::default()
    }

    fn stop(&mut self) {
        self.1.fetch_add(1, Ordering::Relaxed);
    }

    fn has_left(&mut self) -> bool {
        true
    }

    fn death_word(&self) -> Option<DeathWord> {
        self.count();
        None
    }

    fn look_again(&self) -> Option<Instant> {
        self.count();
        Some(Instant::now())
    }
}

/// A node with one idle worker, the number of looks at the worker, and the number of requests to leave.
fn idle_node() -> (Arc<Node>, Arc<AtomicU64>, Arc<AtomicU64>) {
    let mut engine = Engine::new(Config { slots: 4, bytes: 0, depth: 1, is_recording: false });
    engine.add_worker(None, 1);
    let arena = Arena::new(0, 4096).expect("memory");
    let mut core = Core::new(engine, arena, &PROGRAM, None);
    let [looks, stops] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
    core.add_link(Box::new(Counting(Arc::clone(&looks), Arc::clone(&stops))));
    let settings = NodeSettings {
        bell: Bell::create().expect("a bell"),
        budgets: Ladder::default().build().expect("budgets"),
        program: &PROGRAM,
        waiting: Waiting::calibrate(),
        has_threads: false,
    };
    (Arc::new(Node::new(core, settings)), looks, stops)
}

#[test]
fn node_3_without_tasks_nobody_asks_for_a_clock_or_looks_at_a_worker() {
    let (node, looks, _) = idle_node();
    let outlook = node.judge(&mut node.lock());
    assert!(outlook.until.is_none() && outlook.death_words.is_empty(), "NODE-3: no next look");
    assert_eq!(looks.load(Ordering::Relaxed), 0, "NODE-3");
    let progress = node.start_progress_thread().expect("a thread");
    // The thread looks some times before it sleeps, and never again.
    let is_quiet = (0..100).any(|_| {
        let before = looks.load(Ordering::Relaxed);
        thread::sleep(Duration::from_millis(200));
        before > 0 && looks.load(Ordering::Relaxed) == before
    });
    assert!(is_quiet, "NODE-3: {looks:?} looks");
    node.close();
    progress.join().expect("no panic");
}

#[test]
fn node_4_a_worker_whose_death_nobody_has_taken_in_is_told_to_leave() {
    let (node, _, stops) = idle_node();
    node.lock().stop_all();
    assert_eq!(stops.load(Ordering::Relaxed), 1, "NODE-4: else it would be started again");
}
