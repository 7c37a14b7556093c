//! Trees of workers that are stopped as a whole, and trees in which only some are stopped.

use crate::callables::{PROGRAM, UNTIL_TOLD};
use crate::support::{FIXTURE, at_some_scale, budgets, descendants, eventually, signal, turn};
use phalanx_runtime::{Call, DType, Error, Worker};
use rustix::process::Signal;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Longer than every budget of the fixture at scale 1.
const STOP: Duration = Duration::from_millis(1500);

/// A fixture that has something under way.
struct Parent {
    what: &'static str,
    process: Child,
    out: BufReader<ChildStdout>,
}

impl Parent {
    /// Starts one whose times are `scale` times as long as the shortest, with the given arguments behind that.
    fn start(what: &'static str, scale: u32, more: &[&str]) -> Self {
        let mut command = Command::new(FIXTURE);
        command.args(["frozen", what, &scale.to_string()]).args(more).stdout(Stdio::piped());
        let mut process = command.spawn().expect("the fixture starts");
        let out = BufReader::new(process.stdout.take().expect("a pipe"));
        let mut parent = Self { what, process, out };
        assert_eq!(parent.line(), "begun", "{what}");
        parent
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("a line");
        line.trim().to_owned()
    }

    /// Stops those below it, and itself if `is_whole`; or lets them go on.
    fn signal(&self, what: Signal, is_whole: bool) {
        if is_whole {
            signal(self.process.id(), what);
        }
        for process in descendants(self.process.id()) {
            signal(process, what);
        }
    }

    /// The words at its end.
    fn end(mut self) -> String {
        let words = self.line();
        eventually("it ends", || self.process.try_wait().is_ok_and(|status| status.is_some()));
        words
    }
}

/// One that has not ended goes on and is ended: those below it leave with it.
impl Drop for Parent {
    fn drop(&mut self) {
        if matches!(self.process.try_wait(), Ok(None)) {
            self.signal(Signal::CONT, true);
            let _ = self.process.kill().and_then(|()| self.process.wait());
        }
    }
}

#[test]
fn wch_1_alw_1_a_tree_that_is_stopped_as_a_whole_goes_on_as_if_it_had_not_been() {
    let _turn = turn();
    at_some_scale(|scale| {
        let all = ["waits", "kept", "threads", "levels", "starts", "closes"].map(|what| {
            let parent = Parent::start(what, scale, &[]);
            std::thread::sleep(scale * Duration::from_millis(50));
            parent.signal(Signal::STOP, true);
            parent
        });
        std::thread::sleep(scale * STOP);
        for parent in &all {
            parent.signal(Signal::CONT, true);
        }
        for parent in all {
            let what = parent.what;
            assert_eq!(parent.end(), "ended well", "WCH-1: {what}");
        }
    });
}

#[test]
fn wch_1_workers_that_are_stopped_without_their_parent_are_found_out() {
    let _turn = turn();
    let all = ["waits", "kept", "levels"].map(|what| {
        let parent = Parent::start(what, 1, &["endless"]);
        parent.signal(Signal::STOP, false);
        parent
    });
    for parent in all {
        let what = parent.what;
        let words = parent.end();
        assert!(words.contains("has shown no progress"), "WCH-1: {what}: {words}");
    }
}

#[test]
fn wch_2_a_thread_that_is_stuck_is_found_out_while_nobody_waits() -> Result<(), Error> {
    let _turn = turn();
    let worker =
        Worker::builder(&PROGRAM).threads().sub_workers(1).budgets(budgets(40, 120)).init()?;
    let flag = worker.tensor(DType::I64, &[1])?;
    let run = worker.submit("stuck", |graph| {
        graph.submit_sub(&Call::new(&UNTIL_TOLD).args([flag.no_dep()]))?;
        Ok(())
    })?;
    let ends_alone = (0..600_000).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        run.is_done()
    });
    assert!(ends_alone, "WCH-2: the watchdog looks though nobody waits");
    let Err(Error::Run(error)) = run.wait() else { panic!("WCH-2: it is stuck") };
    assert!(error.stall().is_some(), "WCH-2: the watchdog has ended it");
    worker.write_unordered(&flag, &[1u64])?;
    drop((run, flag));
    worker.close()
}
