//! The life of a child, from its first instruction to its last.
//!
//! ```text
//!   Starting ── adopt, sentinel ──► Bootstrapping ── compare, set up ──► Ready ── go ──► Serving ──► Leaving ──► exit 0
//!                                        └── anything wrong ──► Failed, in its own words ──► exit 1
//! ```

use super::handoff::{self, Announced, Handoff, Role, WindowRange};
use crate::bootstrap::{BootReport, Bootstrap, Device};
use crate::failure::{Failure, MAX_WORDS, cut};
use crate::program::Program;
use crate::runner::{Runner, caught, discard};
use crate::serve::{ParentProcess, Server};
use crate::shm::{Bell, ChildSide, Mailbox, Phase, Segment, Sentinel};
use crate::worker::settings;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::panic::AssertUnwindSafe;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// First byte of an event of a child that does not serve yet: a report follows.
pub(crate) const REPORT: u8 = 0xC0;
/// See [`REPORT`].
pub(crate) const FAILURE: u8 = 0xC1;

/// Time for a child to leave after its parent is gone.
const GRACE: Duration = Duration::from_millis(500);
/// It could not set itself up, or could not go on.
const FAILED: i32 = 1;
/// It was started by hand.
const MISUSED: i32 = 2;
/// It panicked outside of a task.
const PANICKED: i32 = 101;

/// True if the parent is gone.
pub(crate) static IS_ORPHAN: AtomicBool = AtomicBool::new(false);
/// Socket for last words.
static SOCKET: OnceLock<OwnedFd> = OnceLock::new();

/// A function that finds the program of a child by the announcement of its parent.
pub(crate) trait FindProgram:
    FnOnce(&Announced) -> Result<&'static Program, Failure>
{
}

impl<F: FnOnce(&Announced) -> Result<&'static Program, Failure>> FindProgram for F {}

/// Lives, and returns the status with which the process is to end.
pub(crate) fn live(find: impl FindProgram) -> i32 {
    let handoff = handoff::receive(io::stdin().as_fd());
    let (handoff, socket) = match handoff.and_then(|handoff| Ok((handoff, take_socket()?))) {
        Ok(found) => found,
        Err(error) => {
            // A parent hears it; without a parent the program was started by hand.
            handoff::say_last_words(io::stdin().as_fd(), &error.to_string());
            let name = super::CHILD_ARGUMENT;
            let words = format!("`{name}` is how this program starts its own workers: {error}\n");
            let _ = io::stderr().write_all(words.as_bytes());
            return MISUSED;
        }
    };
    let socket = SOCKET.get_or_init(|| socket);
    keep_last_words(socket);
    let served = AssertUnwindSafe(|| serve(find, handoff, socket));
    match std::panic::catch_unwind(served) {
        Ok(Ok(status)) => status,
        Ok(Err(words)) => {
            handoff::say_last_words(socket.as_fd(), &words);
            FAILED
        }
        Err(payload) => {
            discard(payload);
            PANICKED
        }
    }
}

/// Returns the socket to the parent, which is the standard input until now, and still is if this fails.
fn take_socket() -> io::Result<OwnedFd> {
    let nothing = std::fs::File::open("/dev/null")?;
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(nothing)?;
    Ok(socket)
}

/// Installs a panic hook that tells the parent of panics outside of tasks.
fn keep_last_words(socket: &'static OwnedFd) {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        handoff::say_last_words(socket.as_fd(), &info.to_string());
        usual(info);
    }));
}

/// Sets the child up and serves; returns the status of its end, or an error that the parent was not told.
fn serve(
    find: impl FindProgram,
    handoff: Handoff,
    socket: &'static OwnedFd,
) -> Result<i32, String> {
    let Handoff { role, mailbox, bell, callables, memories, mut liveness_sockets, settings } =
        handoff;
    name_process(&role);
    let mut side = Mailbox::adopt(mailbox, bell).map_err(|error| error.to_string())?;
    let bell = side.bell().clone();
    let copy = || socket.try_clone().map_err(|error| error.to_string());
    liveness_sockets.push(copy()?);
    super::LIVENESS_SOCKETS.get_or_init(|| liveness_sockets);
    let pipe = copy()?;
    let (segment, word) = (side.segment().clone(), side.robust_offset());
    Sentinel::stand(&segment, word, pipe, move || be_orphan(&bell))
        .map_err(|error| format!("it cannot watch its parent: {error}"))?;
    side.enter(Phase::Bootstrapping);
    let memories: Result<Vec<Segment>, _> =
        memories.into_iter().map(Segment::adopt_whole).collect();
    let memories = memories.map_err(|error| error.to_string())?;
    let found = Announced::read(callables).map_err(Failure::new).and_then(|announced| {
        let program = caught(|| find(&announced))?;
        announced.compare(program).map_err(Failure::new)?;
        Ok((program, announced))
    });
    let set_up = found.and_then(|(program, announced)| match settings {
        Some(settings) => set_up_worker(program, settings, memories),
        None => set_up_device(program, role, memories, &announced.setting, &side),
    });
    let runner = match set_up {
        Ok((runner, report)) => {
            tell(&mut side, REPORT, &report.encode());
            runner
        }
        Err(failure) => {
            tell(&mut side, FAILURE, cut(failure.words(), MAX_WORDS).as_bytes());
            side.enter(Phase::Failed);
            return Ok(FAILED);
        }
    };
    side.enter(Phase::Ready);
    let waiting = side.waiting();
    let is_on = || side.is_open() || side.is_shut_down() || is_orphan();
    waiting.wait(side.bell(), &[], None, is_on);
    side.enter(Phase::Serving);
    let mut server = Server::new(side, ParentProcess, runner, waiting).with_orphan(&IS_ORPHAN);
    server.serve().map_err(|error| error.to_string())?;
    // The device, or all workers below, go in order, before the process does.
    server.leave();
    Ok(0)
}

/// Sets the name that lists of processes show.
fn name_process(role: &Role) {
    let name: String = role.name().replace("sub worker", "sub").replace("level ", "l");
    let name = name.replace("worker ", "w").replace(' ', "-");
    if let Ok(name) = std::ffi::CString::new(format!("phx-{name}")) {
        // A name is not worth failing for.
        let _ = rustix::thread::set_name(&name);
    }
}

/// Starts all workers below this one, if it has some.
fn set_up_worker(
    program: &'static Program,
    settings: OwnedFd,
    memories: Vec<Segment>,
) -> Result<(Runner, BootReport), Failure> {
    let settings = Segment::adopt_whole(settings)?;
    let builder = settings::read(&settings, program).map_err(Failure::new)?;
    let worker = builder.init_under(memories.clone(), Vec::new())?;
    let report = BootReport { descendants: worker.descendants().to_vec(), ..BootReport::default() };
    Ok((Runner::new(program, memories, None).over(Some(worker)), report))
}

/// Runs the bootstrap, if this is a chip and there is one.
fn set_up_device(
    program: &'static Program,
    role: Role,
    memories: Vec<Segment>,
    told: &[u8],
    side: &ChildSide,
) -> Result<(Runner, BootReport), Failure> {
    let (Role::Chip(chip), Some(bootstrap)) = (role, program.bootstrap()) else {
        let window = if let Role::Chip(chip) = role { chip.window } else { WindowRange::default() };
        let report = BootReport { window, ..BootReport::default() };
        return Ok((Runner::new(program, memories, None), report));
    };
    let is_over = || side.is_shut_down() || is_orphan();
    let mut setting = Bootstrap::new(chip, &memories[0], told, &is_over);
    let device = Device::make(bootstrap, &mut setting)?;
    let report = setting.finish();
    Ok((Runner::new(program, memories, Some(device)), report))
}

/// Says something to the parent before it serves, however long.
fn tell(side: &mut ChildSide, kind: u8, bytes: &[u8]) {
    // The ring is empty, and takes a message of any size; one that is too large is cut.
    let most = side.events.largest() - 1;
    let bytes = &bytes[..bytes.len().min(most)];
    let taken = side.events.push(&[kind], bytes);
    debug_assert!(taken.is_ok(), "PRC-3: {taken:?}");
    let (waiting, bell) = (side.waiting(), side.bell().clone());
    waiting.wait(&bell, &[], None, || {
        if side.events.publish() {
            side.ring();
        }
        !side.events.is_pending() || is_orphan() || side.is_shut_down()
    });
}

fn is_orphan() -> bool {
    IS_ORPHAN.load(Ordering::Acquire)
}

/// Leaves after the parent is gone: in order if that is quick, else by force.
fn be_orphan(bell: &Bell) {
    IS_ORPHAN.store(true, Ordering::Release);
    bell.ring();
    std::thread::sleep(GRACE);
    // Nobody uses the remaining threads and descendants: the parent is gone.
    let _ = rustix::process::kill_current_process_group(rustix::process::Signal::KILL);
}
