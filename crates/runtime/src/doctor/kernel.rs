//! Checks of what the runtime needs of the kernel.

use super::{Finding, Status};
use crate::shm::segment::check_file_size;
use crate::shm::{Segment, Sentinel, futex, is_dead};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use rustix::time::{ClockId, Timespec};
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Longest wait of a check.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) fn examine() -> Vec<Finding> {
    vec![memfd(), sealing(), shared_futex(), waitv(), robust_list(), pidfd()]
}

fn memfd() -> Finding {
    let fd = rustix::fs::memfd_create("phalanx-doctor", MemfdFlags::CLOEXEC);
    Finding::of(
        "memfd_create",
        "memory that workers share has no name and goes with them",
        fd,
        |_| "shared memory without a name can be made".to_owned(),
        "use Linux 3.17 or later, and a sandbox that allows memfd_create",
    )
}

fn sealing() -> Finding {
    let tried = || -> io::Result<()> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create("phalanx-doctor", flags)?;
        check_file_size(4096)?;
        rustix::fs::ftruncate(&fd, 4096)?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&fd, seals)?;
        match rustix::fs::ftruncate(&fd, 0) {
            Err(Errno::PERM) => Ok(()),
            Ok(()) => Err(Errno::OPNOTSUPP.into()),
            Err(error) => Err(error.into()),
        }
    };
    Finding::of(
        "sealing",
        "nobody can cut shared memory off under another process",
        tried(),
        |()| "shared memory keeps its size once it is sealed".to_owned(),
        "use a kernel and a sandbox that allow F_ADD_SEALS on memfd",
    )
}

/// Sleeps on one mapping of a word and wakes it through another, as two processes do.
fn shared_futex() -> Finding {
    let tried = || -> io::Result<Duration> {
        let here = Segment::create("phalanx-doctor", 4096)?;
        let there = Segment::adopt_whole(here.fd().try_clone_to_owned()?)?;
        let word = here.word32(0).map_err(io::Error::other)?;
        let same = there.word32(0).map_err(io::Error::other)?;
        let deadline = Instant::now() + PATIENCE;
        let waker = || {
            std::thread::sleep(Duration::from_millis(5));
            let begun = Instant::now();
            same.store(1, Ordering::Release);
            futex::wake(same);
            begun
        };
        let begun = std::thread::scope(|scope| {
            let waker = std::thread::Builder::new().spawn_scoped(scope, waker)?;
            while word.load(Ordering::Acquire) == 0 && Instant::now() < deadline {
                futex::wait(word, 0, Some(deadline));
            }
            io::Result::Ok(waker.join())
        })?;
        if Instant::now() >= deadline {
            return Err(io::Error::other("a sleeper was not woken through another mapping"));
        }
        Ok(begun.map_or(Duration::ZERO, |begun| begun.elapsed()))
    };
    Finding::of(
        "shared futex",
        "workers sleep while they have nothing to do, and are woken across processes",
        tried(),
        |took| format!("a sleeper was woken through another mapping in {took:.1?}"),
        "use a kernel and a sandbox that allow futex on shared memory",
    )
}

fn waitv() -> Finding {
    const MEANING: &str = "one sleep watches for messages and for the death of any worker";
    let word = AtomicU32::new(1);
    let mut wait = rustix::thread::futex::Wait::new();
    // The word differs from what is waited for, so that nobody sleeps.
    wait.val = 0;
    wait.uaddr = rustix::thread::futex::WaitPtr::new(word.as_ptr().cast());
    wait.flags = rustix::thread::futex::WaitFlags::SIZE_U32;
    let flags = rustix::thread::futex::WaitvFlags::empty();
    let soon = Timespec { tv_sec: 0, tv_nsec: 0 };
    match rustix::thread::futex::waitv(&[wait], flags, Some(&soon), ClockId::Monotonic) {
        Ok(_) | Err(Errno::AGAIN | Errno::TIMEDOUT | Errno::INTR) => {
            Finding::fine("futex_waitv", MEANING, "the kernel watches several words at once")
        }
        Err(error) => {
            let slice = futex::SLICE;
            let found = format!("{error}: whoever waits looks around every {slice:?}");
            Finding::fine("futex_waitv", MEANING, found).but(
                Status::Doubtful,
                "use Linux 5.16 or later, and a sandbox that allows futex_waitv",
            )
        }
    }
}

/// Lets a thread that holds a robust word end, and looks at the word.
fn robust_list() -> Finding {
    let tried = || -> io::Result<()> {
        let segment = Segment::create("phalanx-doctor", 4096)?;
        let (read, write) = rustix::pipe::pipe()?;
        Sentinel::stand(&segment, 0, read, || {})?;
        drop(write);
        let word = segment.word32(0).map_err(io::Error::other)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let value = word.load(Ordering::Acquire);
            if is_dead(value) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(io::Error::other("the kernel did not mark the word of who had ended"));
            }
            futex::wait(word, value, Some(deadline));
        }
    };
    Finding::of(
        "robust list",
        "the death of a worker is an event, not found out by asking",
        tried(),
        |()| "the kernel marks the word of a thread that ends".to_owned(),
        "use a kernel and a sandbox that allow set_robust_list",
    )
}

fn pidfd() -> Finding {
    let tried = || -> rustix::io::Result<()> {
        let fd = pidfd_open(getpid(), PidfdFlags::empty())?;
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // We live, so that nothing is to be heard.
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&now))? {
            0 => Ok(()),
            _ => Err(Errno::SRCH),
        }
    };
    Finding::of(
        "pidfd",
        "the end of a process is proven before its memory is used again",
        tried(),
        |()| "a process can be watched".to_owned(),
        "use Linux 5.4 or later, and a sandbox that allows pidfd_open",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doc_1_what_this_kernel_does_is_found_out_by_doing_it() {
        for finding in examine() {
            assert_ne!(finding.status, Status::Broken, "DOC-1: {finding:?}");
        }
    }

    #[test]
    fn doc_2_a_check_that_waits_has_a_deadline() {
        let (fine, slow) = (shared_futex(), robust_list());
        assert_eq!((fine.status, slow.status), (Status::Fine, Status::Fine), "DOC-2");
    }
}
