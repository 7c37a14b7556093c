//! Errors of the crate.

use crate::domain::DomainError;
use crate::memory::NoMemory;
use crate::program::ProgramError;
use crate::shm::{MailboxError, Phase};
use crate::tensor::TensorError;
use phalanx_engine::{Cause, Reason, RunReport, ScopeError, Stall, SubmitError, TaskId, ViewError};
use std::fmt;
use std::sync::Arc;

/// A task that failed, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFailure {
    /// The task.
    pub task: TaskId,
    /// Member of a group.
    pub member: u16,
    /// Its name, if it has one of its own.
    pub name: Option<Arc<str>>,
    /// Its callable.
    pub callable: &'static str,
    /// Worker that ran it.
    pub worker: String,
    /// Words of the failure, or the end of its worker.
    pub words: Box<str>,
}

impl fmt::Display for TaskFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { task, member, name, callable, worker, words } = self;
        write!(f, "task {task}")?;
        if let Some(name) = name {
            write!(f, " `{name}`")?;
        }
        write!(f, " (`{callable}`, member {member}) on {worker}: {words}")
    }
}

/// A worker that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Its name.
    pub worker: String,
    /// Its end, and its last words.
    pub words: Box<str>,
}

impl Lost {
    /// Describes all of them in one line.
    pub(crate) fn all(lost: &[Self]) -> String {
        lost.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.worker, self.words)
    }
}

/// The failure of a run: its first error, the same for every waiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunError(Arc<Details>);

#[derive(Debug, PartialEq, Eq)]
struct Details {
    cause: Cause,
    report: RunReport,
    failures: Vec<TaskFailure>,
    /// Words of the graph's own code, or of the watchdog.
    words: Option<String>,
    stall: Option<Stall>,
}

impl RunError {
    pub(crate) fn new(cause: Cause, report: RunReport, failures: Vec<TaskFailure>) -> Self {
        Self(Arc::new(Details { cause, report, failures, words: None, stall: None }))
    }

    /// Makes the error of a graph whose own code failed.
    pub(crate) fn of_graph(cause: Cause, report: RunReport, words: String) -> Self {
        let words = Some(words);
        Self(Arc::new(Details { cause, report, failures: Vec::new(), words, stall: None }))
    }

    /// Makes the error of a stall.
    pub(crate) fn of_stall(cause: Cause, report: RunReport, stall: Stall, words: String) -> Self {
        let (words, stall) = (Some(words), Some(stall));
        Self(Arc::new(Details { cause, report, failures: Vec::new(), words, stall }))
    }

    /// Returns the root cause.
    pub fn cause(&self) -> Cause {
        self.0.cause
    }

    /// Returns the run's report when its waiters were told: at its end, or earlier if a worker died or got stuck.
    pub fn report(&self) -> RunReport {
        self.0.report
    }

    /// Returns tasks, and members of groups, that failed themselves or with their worker; not those that never began because of them.
    pub fn failures(&self) -> &[TaskFailure] {
        &self.0.failures
    }

    /// Returns the stall, if the watchdog ended the run.
    pub fn stall(&self) -> Option<&Stall> {
        self.0.stall.as_ref()
    }

    /// Returns the failure that decided.
    pub fn root(&self) -> Option<&TaskFailure> {
        let Cause { task, member, .. } = self.0.cause;
        let is_root =
            |failure: &&TaskFailure| Some(failure.task) == task && failure.member == member;
        self.0.failures.iter().find(is_root).or(self.0.failures.first())
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Details { cause, report, failures, words, .. } = &*self.0;
        match (words, self.root()) {
            (Some(words), _) => f.write_str(words)?,
            (None, Some(root)) => write!(f, "{root}")?,
            (None, None) => write!(f, "{cause}")?,
        }
        let others = failures.len().saturating_sub(1);
        if others > 0 {
            write!(f, "\n{others} more failed")?;
        }
        let is_failure = matches!(cause.reason, Reason::Failed(_) | Reason::WorkerLost(_));
        if is_failure && report.completed < report.tasks {
            write!(f, "\n{} of {} tasks ended well", report.completed, report.tasks)?;
        }
        Ok(())
    }
}

impl std::error::Error for RunError {}

/// The failed start of a worker.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{worker} failed to start while {}: {words}", doing(*.phase))]
pub struct StartError {
    /// Its name: `chip 2 (process 4711)`.
    pub worker: String,
    /// Phase in which it failed.
    pub phase: Phase,
    /// Its own words, or the end of its process.
    pub words: String,
}

fn doing(phase: Phase) -> &'static str {
    match phase {
        Phase::Starting => "starting",
        Phase::Bootstrapping | Phase::Failed => "bootstrapping",
        Phase::Ready => "waiting for the others",
        Phase::Serving => "serving",
        Phase::Leaving => "leaving",
    }
}

/// An error of the runtime.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A task is refused; nothing of it remains.
    #[error("the task is refused: {0}")]
    Submit(#[from] SubmitError),
    /// A task is refused because workers that it needs are lost; nothing of it remains.
    #[error("the task is refused: {}", without(.refused, .lost))]
    WorkersLost {
        /// Refusal of the engine.
        refused: SubmitError,
        /// Lost workers, and the causes of their ends.
        lost: Vec<Lost>,
    },
    /// A task is refused because its run has failed; nothing of it remains.
    #[error("the task is refused: its run has failed: {0}")]
    RunFailed(RunError),
    /// A scope is used wrongly.
    #[error("{0}")]
    Scope(#[from] ScopeError),
    /// A tensor is none.
    #[error("{0}")]
    Tensor(#[from] TensorError),
    /// A view is none.
    #[error("{0}")]
    View(#[from] ViewError),
    /// There is no memory.
    #[error("{0}")]
    NoMemory(#[from] NoMemory),
    /// A domain is none, or is used wrongly.
    #[error("{0}")]
    Domain(#[from] DomainError),
    /// The program's callables are wrong.
    #[error("{0}")]
    Program(#[from] ProgramError),
    /// A run failed.
    #[error("{0}")]
    Run(#[from] RunError),
    /// A child could not start; none is left.
    #[error("{0}")]
    Start(#[from] StartError),
    /// A child would run this program again from the beginning.
    #[error(
        "workers are processes that run this program again: call `serve_if_child` of the program first in `main`, or ask the builder for `threads`"
    )]
    NotAsked,
    /// Workers did not leave when they were told to.
    #[error("not all workers left within {within:?}: {}", left(.killed, .stuck))]
    Close {
        /// Time that they had.
        within: std::time::Duration,
        /// Workers that were ended by force.
        killed: Vec<String>,
        /// Workers that could not be ended.
        stuck: Vec<String>,
    },
    /// There is no such chip.
    #[error("there is no chip {chip}: this worker has {chips}, counted from 0")]
    NoChip {
        /// Value that was asked for.
        chip: u32,
        /// Number of chips.
        chips: u32,
    },
    /// There are no workers of this kind.
    #[error("this worker has no {0}: ask its builder for some")]
    NoWorkers(&'static str),
    /// A buffer of one chip is given to another worker.
    #[error(
        "argument {argument} is {home}: {target} cannot see it; copy it to the host or use a domain"
    )]
    WrongHome {
        /// Index of the argument.
        argument: usize,
        /// Memory that it is in.
        home: crate::memory::Home,
        /// Worker that was to get it.
        target: String,
    },
    /// A task has too much of something.
    #[error("a task has at most {limit} {what}: {count}")]
    TooMany {
        /// Kind of things.
        what: &'static str,
        /// Most that are allowed.
        limit: usize,
        /// Number that was given.
        count: usize,
    },
    /// A buffer of another worker.
    #[error("argument {0} belongs to another worker's memory")]
    ForeignBuffer(usize),
    /// A buffer that was given for something else.
    #[error(
        "argument {argument} was given to this graph as {granted:?}: it can only be passed on so"
    )]
    NotGranted {
        /// Index of the argument.
        argument: usize,
        /// Access that its owner allows.
        granted: crate::tensor::Access,
    },
    /// A run that is not over, and that nobody was told to have failed, names the buffer.
    #[error("a run that is not over names this buffer: wait for it first")]
    InUse,
    /// Memory that was given back.
    #[error(
        "the memory of this tensor was given back: what `alloc` of a graph gives goes with its scope, at the latest with its run; \
         take `tensor` of the worker for what is used later"
    )]
    Stale,
    /// A task has bytes of the tensor in place, or was sent to a worker that will.
    #[error(
        "a task that runs, or was sent to its worker, has bytes of this tensor in place: they cannot be {wanted} meanwhile; wait for its \
         run, or submit them to it as `no_dep`, which it copies"
    )]
    InPlace {
        /// Action that was tried.
        wanted: &'static str,
    },
    /// The sizes do not agree.
    #[error("{given} elements were given for a tensor of {wanted}")]
    Elements {
        /// Number that was given.
        given: usize,
        /// Number that it has.
        wanted: u64,
    },
    /// A run inside the code of a graph of the same worker.
    #[error(
        "this is the code of a graph of the same worker, which builds one graph after the other: a run here would wait for ever; \
         submit the tasks to this graph, or begin the run when its code has returned"
    )]
    InsideGraph,
    /// A run inside a task of the same worker.
    #[error(
        "this is a task of the same worker, whose next run begins when that of the task is over: waiting for it here would be for \
         ever; begin the run where the worker was made, or give the task workers of its own (`workers`, `register!(graph …)`)"
    )]
    InsideTask,
    /// The worker is closed.
    #[error("the worker is closed")]
    Closed,
    /// The time is over; nothing was cancelled.
    #[error("not done after {0:?}; it goes on, wait again or cancel it")]
    TimedOut(std::time::Duration),
    /// The system refused something.
    #[error("{what}: {error}{}", hint(error))]
    System {
        /// Action that was tried.
        what: String,
        /// Error of the system.
        error: Arc<std::io::Error>,
    },
    /// Something that was set cannot be.
    #[error("{0}")]
    Setting(String),
}

/// Describes the lost workers and gives advice.
fn without(refused: &SubmitError, lost: &[Lost]) -> String {
    let who = Lost::all(lost);
    let advice = "a builder with `restart` replaces lost workers";
    match refused {
        SubmitError::GroupTooLarge { workers: 0, .. } => {
            format!("all workers that could run it are lost: {who}; {advice}")
        }
        SubmitError::GroupTooLarge { members, workers } => {
            let count = lost.len();
            format!(
                "a group of {members} can never start on {workers} workers, and {count} are lost: {who}; {advice}"
            )
        }
        _ => format!("its worker is lost: {who}; {advice}"),
    }
}

fn left(killed: &[String], stuck: &[String]) -> String {
    let say = |what: &str, names: &[String]| {
        (!names.is_empty()).then(|| format!("{what}: {}", names.join(", ")))
    };
    let parts = [say("killed", killed), say("still there", stuck)];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Returns advice about a limit of the system.
fn hint(error: &std::io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EMFILE) => "; raise the limit of descriptors (`ulimit -n`)",
        Some(libc::ENFILE) => "; this host has no descriptors left (`fs.file-max`)",
        Some(libc::EAGAIN) => {
            "; raise the limit of processes and threads (`ulimit -u`, `pids.max`) or of memory (`ulimit -v`)"
        }
        Some(libc::ENOMEM) => {
            "; free memory, raise its limit (`ulimit -v`, `memory.max`), or ask for less"
        }
        _ => "",
    }
}

impl Error {
    pub(crate) fn system(what: impl Into<String>, error: std::io::Error) -> Self {
        Self::System { what: what.into(), error: Arc::new(error) }
    }

    /// Makes the error of a worker without a thread.
    pub(crate) fn thread(worker: &str, error: std::io::Error) -> Self {
        Self::system(format!("{worker} cannot be started, there is no thread for it"), error)
    }

    /// Makes the error of a worker without a mailbox.
    pub(crate) fn mailbox(worker: &str, error: MailboxError) -> Self {
        let what = format!("the mailbox of {worker} cannot be made");
        match error {
            MailboxError::Io(error) => Self::system(what, error),
            other => Self::Setting(format!("{what}: {other}")),
        }
    }
}
