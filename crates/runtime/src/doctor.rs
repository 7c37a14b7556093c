//! Checks whether a host can run workers, with advice.
//!
//! Each check does the work of the runtime on a small scale, and reports its finding in words.
//!
//! - **DOC-1 (tried).** Each kernel feature is tried, not looked up: a version proves nothing.
//! - **DOC-2 (bounded).** No check waits for more than a few seconds.
//! - **DOC-3 (advice).** Every finding that is not fine names its consequence and its remedy.
//! - **DOC-4 (survives).** A limit that is too low is a finding, and does not end the process that checks.

mod kernel;
mod limits;

use crate::call::Call;
use crate::callable::Callable;
use crate::error::Error;
use crate::program::Program;
use crate::worker::Worker;
use std::time::Instant;

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// As it should be.
    Fine,
    /// Workers run, but something may not go well.
    Doubtful,
    /// Workers do not run.
    Broken,
}

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Name of the check.
    pub name: &'static str,
    /// Result of the check.
    pub status: Status,
    /// Value that was found.
    pub found: String,
    /// Reason why the runtime needs it.
    pub meaning: &'static str,
    /// Advice, if the result is not fine.
    pub advice: Option<String>,
}

impl Finding {
    fn fine(name: &'static str, meaning: &'static str, found: impl Into<String>) -> Self {
        Self { name, status: Status::Fine, found: found.into(), meaning, advice: None }
    }

    fn but(self, status: Status, advice: impl Into<String>) -> Self {
        Self { status, advice: Some(advice.into()), ..self }
    }

    /// Makes a finding of a result: fine, or broken with the words of the error.
    fn of<T>(
        name: &'static str,
        meaning: &'static str,
        tried: Result<T, impl std::fmt::Display>,
        found: impl FnOnce(T) -> String,
        advice: &str,
    ) -> Self {
        match tried {
            Ok(value) => Self::fine(name, meaning, found(value)),
            Err(error) => Self::fine(name, meaning, error.to_string()).but(Status::Broken, advice),
        }
    }
}

/// Looks at this host; `nothing` is a callable of `program` that does nothing, to try a child with.
pub fn examine(program: &'static Program, nothing: &Callable) -> Vec<Finding> {
    let mut findings = kernel::examine();
    findings.push(round_trip(program, nothing));
    findings.extend(limits::examine());
    findings
}

/// Starts this program as its own child, and lets it run a task.
fn round_trip(program: &'static Program, nothing: &Callable) -> Finding {
    let tried = || -> Result<String, Error> {
        // Little memory: how much is allowed is another question.
        let small = Worker::builder(program).memory(1 << 16).ring(16, 1 << 16);
        let worker = small.sub_workers(1).init()?;
        let started = worker.startup().total;
        let call = Call::new(nothing);
        worker.call(&call)?;
        let begun = Instant::now();
        worker.call(&call)?;
        let took = begun.elapsed();
        worker.close()?;
        Ok(format!("a child was ready after {started:.1?} and ran a task in {took:.1?}"))
    };
    Finding::of(
        "child",
        "each worker is this program, started again",
        tried(),
        |found| found,
        "see that `/proc/self/exe` can be executed and that more processes are allowed",
    )
}
