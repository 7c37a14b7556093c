//! Workers that are processes: the same program, started again.
//!
//! ```text
//!   parent                                            child
//!   mailbox, bell, memory: descriptors                main() { PROGRAM.serve_if_child(); … }
//!      │   posix_spawn(/proc/self/exe phalanx-worker)    │
//!      ├── handoff: the role ────────── socket ─────────►│ adopt, compare programs, bootstrap
//!      │◄───────────── mailbox: Ready ───────────────────┤
//!      ├── all are ready: go ───────────────────────────►│ serve
//!      │◄───────────── mailbox: events ──────────────────┤
//!      │   pidfd: it is gone ◄── the kernel ── robust word: it dies
//!      └── socket ends: the parent is gone ─────────────►│ leave
//! ```
//!
//! A child is always exec'd, never only forked: it has no thread, lock or memory of its parent but what it was handed. The
//! socket through which it gets its descriptors is its standard input until it has read them; that keeps the fast way of
//! starting a process (`posix_spawn`), whose cost does not grow with the parent. The socket closes when the parent
//! ends. A child writes words there that it can write nowhere else (a mailbox it cannot read, a panic outside of a
//! task).
//!
//! - **PRC-1 (same program).** A child whose callables are not those of its parent, in name, version and order, does not
//!   start, and the error names the first that differs.
//! - **PRC-2 (barrier).** Nothing is sent to any worker before all are ready.
//! - **PRC-3 (fails whole).** If one child cannot start, the error says which, in which phase and why in its own words; no
//!   process and no descriptor stays behind.
//! - **PRC-4 (proof).** A worker counts as lost only when its process is gone, and its memory is used again only then.
//!   Endings that it published before count.
//! - **PRC-5 (words).** Waiters for a lost worker are told how it ended, and its last words.
//! - **PRC-6 (no orphans).** However the parent ends, its children leave, and no shared memory remains.
//! - **PRC-7 (leaves nothing).** When a worker is closed or dropped, all its processes are gone and reaped.
//! - **PRC-8 (must be asked).** A program that does not begin with [`Program::serve_if_child`] starts no child: it would run
//!   the program again. One that does starts children wherever it is asked to, also in a task of a child.
//! - **PRC-9 (again).** With [`Builder::restart`](crate::Builder::restart) a lost worker is replaced; only tasks that were
//!   declared idempotent run twice. A replacement that does not get ready, whatever the reason, is replaced in turn,
//!   and the next one runs the tasks that were kept for it. After three replacements that did nothing the worker is
//!   lost, and the error names every cause.
//! - **PRC-10 (named).** The error of a run that fails because of a lost worker, and of a submission that is refused
//!   because of one, then or later, names the worker, its process, the cause of its end and its last words. Before the
//!   end is proven, the cause is named if the kernel reports it.

pub(crate) mod child;
pub(crate) mod handoff;
pub(crate) mod reaper;
pub(crate) mod spawn;
pub(crate) mod startup;

pub use startup::{ChildStart, Startup};

use crate::failure::Failure;
use crate::program::Program;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The first argument of a program that is started as a child.
pub(crate) const CHILD_ARGUMENT: &str = "phalanx-worker";

/// True if this process would know what to do if it were started as a child.
static SERVES_CHILDREN: AtomicBool = AtomicBool::new(false);

/// True if [`Program::serve_if_child`] was called in this process.
pub(crate) fn serves_children() -> bool {
    SERVES_CHILDREN.load(Ordering::Acquire)
}

/// Sockets that every descendant inherits: they close when the last descendant has ended.
static LIVENESS_SOCKETS: OnceLock<Vec<OwnedFd>> = OnceLock::new();

/// Returns the sockets of this process and of those above it; none if nobody has started it.
pub(crate) fn liveness_sockets() -> &'static [OwnedFd] {
    LIVENESS_SOCKETS.get().map_or(&[], Vec::as_slice)
}

/// Notes that this program serves if it is started as a child.
pub(crate) fn serve_children() {
    SERVES_CHILDREN.store(true, Ordering::Release);
}

impl Program {
    /// Serves, and never returns, if this process was started as a worker of this program; else it does nothing.
    ///
    /// To be called first in `main`, before threads are started and arguments are read.
    pub fn serve_if_child(&'static self) {
        self.serve_if_asked(std::env::args_os());
    }

    /// Does the same for a program with these arguments, its name first: an interpreter's program has others than the process.
    pub fn serve_if_asked(&'static self, arguments: impl IntoIterator<Item = OsString>) {
        // A child too may start children of its own.
        serve_children();
        if is_child(arguments) {
            std::process::exit(child::live(|_| Ok(self)));
        }
    }
}

/// Serves if a program with these arguments, its name first, was started as a worker, and returns the status with which the
/// process is to end; `None` if it was not.
///
/// For programs whose callables are not known before the parent names them: `find` makes the program of the bytes of
/// [`Builder::setting`](crate::Builder::setting). A program that differs from the parent's is refused all the same.
pub fn serve_found(
    arguments: impl IntoIterator<Item = OsString>,
    find: impl FnOnce(&[u8]) -> Result<&'static Program, Failure>,
) -> Option<i32> {
    serve_children();
    is_child(arguments).then(|| child::live(|announced| find(&announced.setting)))
}

fn is_child(arguments: impl IntoIterator<Item = OsString>) -> bool {
    arguments.into_iter().nth(1).is_some_and(|argument| argument == CHILD_ARGUMENT)
}

/// The command that starts this program again, if that is not the executable alone.
static COMMAND: OnceLock<Vec<OsString>> = OnceLock::new();

/// Sets the command that starts this program again: an interpreter, and the arguments that make it run the program. The
/// first call decides.
pub fn start_children_by(command: impl IntoIterator<Item = OsString>) {
    let _ = COMMAND.set(command.into_iter().collect());
}

/// Returns the command that starts this program again: the executable and its first arguments.
pub(crate) fn command() -> (PathBuf, &'static [OsString]) {
    match COMMAND.get().map(Vec::as_slice) {
        Some([program, arguments @ ..]) => (program.into(), arguments),
        _ => ("/proc/self/exe".into(), &[]),
    }
}
