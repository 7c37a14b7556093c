//! Starts a child: the same program again, with descriptors of what both share.

use super::CHILD_ARGUMENT;
use super::handoff::{self, Role, SharedWithChild};
use super::reaper::{Exit, Reaper, WatchedChild};
use crate::error::Error;
use crate::program::Program;
use crate::shm::{Bell, Mailbox, ParentSide, Segment, Sizes};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::Pid;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// Starts the children of a worker.
pub(crate) struct Spawner {
    /// Program to execute.
    program: PathBuf,
    /// Arguments before those of the child.
    arguments: &'static [OsString],
    callables: Segment,
    bell: Bell,
    /// Memory of the worker, then of its parents.
    memories: Vec<Segment>,
    /// Settings of each child that is a worker.
    settings: Vec<Segment>,
    pub(crate) reaper: Reaper,
}

/// A child process, as its parent holds it.
#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) role: Role,
    watched: Arc<WatchedChild>,
    /// Closes when the parent ends, and the child then leaves. The child writes its last words here.
    socket: OwnedFd,
    words: Vec<u8>,
}

/// Description of a [`Spawner`].
pub(crate) struct SpawnerSettings<'a> {
    pub(crate) program: &'a Program,
    /// Bytes that bootstraps are told.
    pub(crate) setting: &'a [u8],
    /// Program to execute; the running one if there is none.
    pub(crate) path: Option<PathBuf>,
    pub(crate) bell: &'a Bell,
    /// Memories of the worker and its parents.
    pub(crate) memories: Vec<Segment>,
    /// Settings of each child that is a worker.
    pub(crate) workers: Vec<Segment>,
}

impl Spawner {
    /// Creates a spawner and its reaper, which calls `alarm` after each death.
    pub(crate) fn new(
        settings: SpawnerSettings<'_>,
        alarm: impl Fn() + Send + 'static,
    ) -> Result<Self, Error> {
        let SpawnerSettings { program, setting, path, bell, memories, workers } = settings;
        let callables = handoff::write_callables(program, setting);
        let callables = callables.map_err(|error| Error::system("the list of callables", error))?;
        let reaper = Reaper::start(alarm);
        let (program, arguments) = match path {
            Some(path) => (path, [].as_slice()),
            None => super::command(),
        };
        Ok(Self {
            program,
            arguments,
            callables,
            bell: bell.clone(),
            memories,
            settings: workers,
            reaper: reaper.map_err(|error| Error::system("the reaper cannot be started", error))?,
        })
    }

    /// Starts a child, and gives the parent's side of its mailbox.
    pub(crate) fn spawn(&self, role: Role) -> Result<(Child, ParentSide), Error> {
        let name = role.name();
        let mailbox = Mailbox::create(&self.bell, &Sizes::default());
        let mailbox = mailbox.map_err(|error| Error::mailbox(&name, error))?;
        let child = self.start(role, &mailbox);
        let what = || format!("{name} cannot be started ({})", self.program.display());
        Ok((child.map_err(|error| Error::system(what(), error))?, mailbox))
    }

    fn start(&self, role: Role, mailbox: &ParentSide) -> io::Result<Child> {
        let (socket, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let settings = match role {
            Role::Worker { number, .. } => self.settings.get(number as usize),
            Role::Chip(_) | Role::Sub { .. } => None,
        };
        let shared = SharedWithChild {
            mailbox: mailbox.segment(),
            bell: self.bell.segment(),
            callables: &self.callables,
            memories: &self.memories,
            liveness_sockets: super::liveness_sockets(),
            settings,
        };
        handoff::send(socket.as_fd(), role, &shared)?;
        // Nothing here asks for code between fork and exec, so that the library takes the fast way.
        let mut command = Command::new(&self.program);
        command.arg0(argument_0()).args(self.arguments).arg(CHILD_ARGUMENT).arg(role.name());
        command.stdin(Stdio::from(theirs)).process_group(0);
        let mut child = command.spawn()?;
        // A worker is gone when its workers are, which hold the other end of the socket until then.
        let is_worker = matches!(role, Role::Worker { .. });
        let liveness_socket = is_worker.then(|| socket.try_clone()).transpose();
        let watched = match liveness_socket
            .and_then(|liveness_socket| watch_child(&child, liveness_socket))
        {
            Ok(watched) => Arc::new(watched),
            Err(error) => {
                let _ = child.kill().and_then(|()| child.wait());
                return Err(error);
            }
        };
        self.reaper.add(Arc::clone(&watched));
        Ok(Child { role, watched, socket, words: Vec::new() })
    }
}

fn watch_child(
    child: &std::process::Child,
    liveness_socket: Option<OwnedFd>,
) -> io::Result<WatchedChild> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    WatchedChild::new(
        pid.ok_or_else(|| io::Error::other("the child has no number"))?,
        liveness_socket,
    )
}

/// Returns the name of this program, so that children show under the same name.
fn argument_0() -> OsString {
    std::env::args_os().next().unwrap_or_else(|| CHILD_ARGUMENT.into())
}

fn in_words(exit: Exit) -> String {
    let verb = match exit {
        Exit::Status(_) => "has",
        Exit::Signal(_) => "was",
        Exit::Unknown => "is",
    };
    format!("the process {verb} {exit}")
}

impl Child {
    /// Returns its name: `chip 2 (process 4711)`.
    pub(crate) fn name(&self) -> String {
        format!("{} (process {})", self.role.name(), self.number())
    }

    /// Returns its number.
    pub(crate) fn number(&self) -> u32 {
        self.watched.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Returns its end, once it is gone.
    pub(crate) fn exit(&self) -> Option<Exit> {
        self.watched.exit()
    }

    /// Remembers the processes below it: it is gone when they are.
    pub(crate) fn register_descendants(&self, processes: &[u32]) {
        self.watched.register_descendants(processes);
    }

    /// Returns its last words.
    pub(crate) fn last_words(&mut self) -> String {
        handoff::hear_last_words(self.socket.as_fd(), &mut self.words);
        String::from_utf8_lossy(&self.words).trim().to_owned()
    }

    /// Returns its end in words: `the process was killed by signal 9 (SIGKILL)`, and its last words.
    pub(crate) fn describe_exit(&mut self, exit: Exit) -> String {
        self.with_last_words(in_words(exit))
    }

    /// Describes the end of the child before it is proven; names the signal or the status if the kernel already reports
    /// it.
    pub(crate) fn notice(&mut self) -> String {
        let end = self.watched.ending();
        let end = end.map_or_else(|| "the process has died".to_owned(), in_words);
        self.with_last_words(format!("{end} and is being torn down"))
    }

    fn with_last_words(&mut self, end: String) -> String {
        let words = self.last_words();
        if words.is_empty() { end } else { format!("{end}; its last words: {words}") }
    }

    /// Ends it and its process group.
    pub(crate) fn kill(&self) {
        self.watched.kill();
    }
}
