//! Waits for children to be gone, without asking again and again, and takes their exit status.
//!
//! - **REAP-1 (proof).** A child is said to be gone only after its exit status was taken: no thread of it runs, and no
//!   process that it had below it.
//! - **REAP-2 (once).** Its status is taken once, and it is never signalled after that: its number may be another's.
//! - **REAP-3 (asleep).** Between deaths the reaper sleeps.

use rustix::event::{EventfdFlags, PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus};
use rustix::time::Timespec;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};

/// End of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Exited with this status.
    Status(i32),
    /// Killed by a signal.
    Signal(i32),
    /// Another thread took the status.
    Unknown,
}

impl Exit {
    fn of(status: &WaitIdStatus) -> Self {
        let signal = status.terminating_signal().map(Self::Signal);
        let exited = status.exit_status().map(Self::Status);
        signal.or(exited).unwrap_or(Self::Unknown)
    }
}

/// Index of the exit status among the fields behind the name.
const STATUS_FIELD: usize = 49;

impl Exit {
    /// Reads the end from `/proc/PID/stat`; `None` for a process that has not ended, or ended with 0.
    fn in_stat(stat: &str) -> Option<Self> {
        let (_, fields) = stat.rsplit_once(')')?;
        let status: i32 = fields.split_ascii_whitespace().nth(STATUS_FIELD)?.parse().ok()?;
        match (status & 0x7f, status >> 8 & 0xff) {
            (0, 0) => None,
            (0, status) => Some(Self::Status(status)),
            (signal, _) => Some(Self::Signal(signal)),
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "exited with {status}"),
            Self::Signal(signal) => write!(f, "killed by signal {signal} ({})", name(*signal)),
            Self::Unknown => write!(f, "gone, and somebody else took its exit status"),
        }
    }
}

/// Returns the name of a signal.
fn name(signal: i32) -> &'static str {
    const NAMES: [(Signal, &str); 14] = [
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ILL, "SIGILL"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::FPE, "SIGFPE"),
        (Signal::KILL, "SIGKILL"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::ALARM, "SIGALRM"),
        (Signal::TERM, "SIGTERM"),
        (Signal::SYS, "SIGSYS"),
    ];
    let found = NAMES.iter().find(|(one, _)| one.as_raw() == signal);
    found.map_or("a signal without a name here", |(_, name)| *name)
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A child, as the reaper and its owner know it.
#[derive(Debug)]
pub(crate) struct WatchedChild {
    pub(crate) pid: Pid,
    pidfd: OwnedFd,
    /// Its end. The process number is its own only while this is `None`.
    exit: Mutex<Option<Exit>>,
    is_gone: AtomicBool,
    /// Our end of a socket whose other end it holds, and all below it; only if it has workers.
    liveness_socket: Option<OwnedFd>,
    /// The processes below it that we know, to be ended when it does.
    descendants: OnceLock<Vec<OwnedFd>>,
}

impl WatchedChild {
    /// Returns the child with this number, which nobody has reaped; `liveness_socket` ends with it and all below it.
    pub(crate) fn new(pid: Pid, liveness_socket: Option<OwnedFd>) -> io::Result<Self> {
        let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
        let (exit, is_gone, descendants) =
            (Mutex::new(None), AtomicBool::new(false), OnceLock::new());
        Ok(Self { pid, pidfd, exit, is_gone, liveness_socket, descendants })
    }

    /// Returns its end, if it is gone.
    pub(crate) fn exit(&self) -> Option<Exit> {
        // SYNC: what the child published before its death; pairs with the store in `reap`.
        if !self.is_gone.load(Ordering::Acquire) {
            return None;
        }
        *held(&self.exit)
    }

    /// Returns its end from `/proc`, which has the status while the process is torn down.
    pub(crate) fn ending(&self) -> Option<Exit> {
        // Nobody reaps it meanwhile, so its number is its own.
        let exit = held(&self.exit);
        if exit.is_some() {
            return *exit;
        }
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid.as_raw_nonzero()));
        Exit::in_stat(&stat.ok()?)
    }

    /// Remembers the processes below it, which are alive now; said once.
    pub(crate) fn register_descendants(&self, processes: &[u32]) {
        let open = |process: &u32| {
            let pid = i32::try_from(*process).ok().and_then(Pid::from_raw)?;
            rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
        };
        let _ = self.descendants.set(processes.iter().filter_map(open).collect());
    }

    /// Returns the descriptor to poll: first of its own process, then of all below.
    fn poll_fd(&self) -> PollFd<'_> {
        match &self.liveness_socket {
            Some(liveness_socket) if held(&self.exit).is_some() => {
                PollFd::new(liveness_socket, PollFlags::empty())
            }
            _ => PollFd::new(&self.pidfd, PollFlags::IN),
        }
    }

    /// Ends it and all processes that it started, whatever they do.
    pub(crate) fn kill(&self) {
        let exit = held(&self.exit);
        if exit.is_none() {
            self.end_group();
        }
    }

    fn end_group(&self) {
        // Gone already is as good.
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL);
        let _ = rustix::process::kill_process_group(self.pid, Signal::KILL);
    }

    /// Takes the status of a child that has ended; what it started and left behind is ended too.
    fn reap(&self) -> bool {
        let mut exit = held(&self.exit);
        if exit.is_some() {
            return self.finish();
        }
        // It has ended but is not reaped: its number and its group are still its own.
        let _ = rustix::process::kill_process_group(self.pid, Signal::KILL);
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let found = loop {
            match rustix::process::waitid(WaitId::PidFd(self.pidfd.as_fd()), options) {
                Ok(Some(status)) => break Exit::of(&status),
                Ok(None) => return false,
                Err(Errno::INTR) => {}
                Err(_) => break Exit::Unknown,
            }
        };
        *exit = Some(found);
        // Nobody uses its descendants any more. Processes that they have started since notice it and leave.
        for one in self.descendants.get().into_iter().flatten() {
            let _ = rustix::process::pidfd_send_signal(one, Signal::KILL);
        }
        self.finish()
    }

    /// Says that it is gone, if all below it are.
    fn finish(&self) -> bool {
        let is_gone = self.liveness_socket.as_ref().is_none_or(has_ended);
        if is_gone {
            // SYNC: the exit before the flag; pairs with the load in `exit`.
            self.is_gone.store(true, Ordering::Release);
        }
        is_gone
    }
}

/// True if nobody holds the other end of a socket any more: the kernel takes a process its memory before its descriptors,
/// so that nobody who held it can touch memory either.
fn has_ended(liveness_socket: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(liveness_socket, PollFlags::empty())];
    let polled = rustix::event::poll(&mut fds, Some(&Timespec::default()));
    // A socket that cannot be watched proves nothing.
    polled.is_err() || !fds[0].revents().is_empty()
}

/// The thread that waits, and those it waits for.
#[derive(Debug)]
pub(crate) struct Reaper {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    children: Mutex<Vec<Arc<WatchedChild>>>,
    /// Written when there is a new child or when it is over.
    wake: OwnedFd,
    is_over: AtomicBool,
}

impl Reaper {
    /// Starts the thread; it calls `alarm` after each death.
    pub(crate) fn start(alarm: impl Fn() + Send + 'static) -> io::Result<Self> {
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared =
            Arc::new(Shared { children: Mutex::default(), wake, is_over: AtomicBool::new(false) });
        let watched = Arc::clone(&shared);
        let body = move || watched.watch(&alarm);
        let thread = thread::Builder::new().name("phalanx-reaper".into()).stack_size(64 << 10);
        Ok(Self { thread: Some(thread.spawn(body)?), shared })
    }

    /// Adds a child to wait for.
    pub(crate) fn add(&self, child: Arc<WatchedChild>) {
        held(&self.shared.children).push(child);
        self.shared.nudge();
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        self.shared.nudge();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn nudge(&self) {
        // Full means that it will wake up anyway.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    fn watch(&self, alarm: &impl Fn()) {
        while !self.is_over.load(Ordering::Acquire) {
            let children = held(&self.children).clone();
            let mut fds = vec![PollFd::new(&self.wake, PollFlags::IN)];
            fds.extend(children.iter().map(|child| child.poll_fd()));
            match rustix::event::poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                // Nothing can be waited for: no child is watched any more, and its owner sees the robust word.
                Err(_) => return,
            }
            let _ = rustix::io::read(&self.wake, &mut [0; 8]);
            let ended = fds[1..].iter().zip(&children).filter(|(fd, _)| !fd.revents().is_empty());
            let gone: Vec<_> =
                ended.filter(|(_, child)| child.reap()).map(|(_, child)| child).collect();
            if !gone.is_empty() {
                held(&self.children)
                    .retain(|child| !gone.iter().any(|one| Arc::ptr_eq(one, child)));
                alarm();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::sync::mpsc;
    use std::time::Duration;

    /// Starts a child that does what `words` say.
    fn start(words: &str) -> Arc<WatchedChild> {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", words]).stdin(Stdio::null()).process_group(0);
        #[expect(clippy::zombie_processes, reason = "the reaper waits for it")]
        let child = command.spawn().expect("a shell");
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a number");
        Arc::new(WatchedChild::new(pid, None).expect("a child"))
    }

    fn reaper() -> (Reaper, mpsc::Receiver<()>) {
        let (tell, told) = mpsc::channel();
        let alarm = move || {
            let _ = tell.send(());
        };
        (Reaper::start(alarm).expect("a thread"), told)
    }

    #[test]
    fn reap_1_a_child_is_gone_with_its_status_and_not_before() {
        let (reaper, told) = reaper();
        for (words, exit) in [
            ("exit 0", Exit::Status(0)),
            ("exit 7", Exit::Status(7)),
            ("kill -9 $$", Exit::Signal(9)),
        ] {
            let child = start(words);
            reaper.add(Arc::clone(&child));
            told.recv_timeout(Duration::from_secs(600)).expect("it ends");
            assert_eq!(child.exit(), Some(exit));
            let path = format!("/proc/{}", child.pid.as_raw_nonzero());
            assert!(!std::path::Path::new(&path).exists(), "it is reaped");
        }
        let child = start("sleep 60");
        reaper.add(Arc::clone(&child));
        assert_eq!(child.exit(), None);
        child.kill();
        told.recv_timeout(Duration::from_secs(600)).expect("it ends");
        assert_eq!(child.exit(), Some(Exit::Signal(9)));
    }

    #[test]
    fn reap_2_many_children_are_reaped_once_and_killing_the_dead_does_nothing() {
        let (reaper, told) = reaper();
        let children: Vec<_> = (0..20).map(|number| start(&format!("exit {number}"))).collect();
        for child in &children {
            reaper.add(Arc::clone(child));
        }
        while children.iter().any(|child| child.exit().is_none()) {
            told.recv_timeout(Duration::from_secs(600)).expect("they end");
        }
        for (number, child) in (0..).zip(&children) {
            child.kill();
            assert!(child.reap(), "nothing is left to take");
            assert_eq!(child.exit(), Some(Exit::Status(number)));
        }
    }

    #[test]
    fn how_a_process_ended_is_known_before_it_is_reaped() {
        for (words, exit) in [
            ("exit 7", Some(Exit::Status(7))),
            ("kill -9 $$", Some(Exit::Signal(9))),
            ("sleep 60", None),
        ] {
            // No reaper waits for it.
            let child = start(words);
            let mut found = None;
            for _ in 0..12_000 {
                found = child.ending();
                if found.is_some() || exit.is_none() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            assert_eq!(found, exit, "{words}");
            child.kill();
            while !child.reap() {
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(child.ending().is_some(), "what is known is told");
        }
    }

    #[test]
    fn an_end_is_said_in_words() {
        assert_eq!(Exit::Status(3).to_string(), "exited with 3");
        assert_eq!(Exit::Signal(9).to_string(), "killed by signal 9 (SIGKILL)");
        assert_eq!(Exit::Signal(11).to_string(), "killed by signal 11 (SIGSEGV)");
        assert!(Exit::Signal(64).to_string().contains("without a name"));
    }
}
