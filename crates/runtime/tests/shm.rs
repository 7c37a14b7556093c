//! Shared memory between real processes.

use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use command_fds::{CommandFdExt, FdMapping};
use phalanx_runtime::shm::{Bell, Mailbox, ParentSide, Phase, PushError, Sizes, Waiting, Woken};

const FIXTURE: &str = env!("CARGO_BIN_EXE_phalanx-shm-fixture");
/// Far more than anything here takes; what takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(600);
const SMALL: Sizes = Sizes { tasks: 4096, controls: 256, events: 4096, largest: 100_000 };

/// A child that sends back what it gets. Ended when dropped.
struct Echo {
    side: ParentSide,
    process: Child,
    /// Ends with us.
    pipe: Option<OwnedFd>,
    waiting: Waiting,
    /// Its robust word while it lives.
    alive: u32,
}

impl Echo {
    fn start(bell: &Bell) -> Self {
        let side = Mailbox::create(bell, &SMALL).expect("a mailbox");
        let flags = rustix::pipe::PipeFlags::CLOEXEC;
        let (reader, writer) = rustix::pipe::pipe_with(flags).expect("a pipe");
        let copy = |fd: std::os::fd::BorrowedFd<'_>| fd.try_clone_to_owned().expect("a copy");
        let descriptors = [copy(side.segment().fd()), copy(bell.segment().fd()), reader];
        let mappings =
            (3..).zip(descriptors).map(|(child_fd, parent_fd)| FdMapping { parent_fd, child_fd });
        let mut command = Command::new(FIXTURE);
        command
            .args(["echo", "3", "4", "5"])
            .fd_mappings(mappings.collect())
            .expect("numbers that differ");
        let process = command.spawn().expect("the fixture");
        let waiting = Waiting::calibrate();
        let mut echo = Self { side, process, pipe: Some(writer), waiting, alive: 0 };
        echo.wait(|side| side.phase().is_ok_and(|phase| phase == Phase::Ready));
        echo.alive = echo.side.robust().load(std::sync::atomic::Ordering::Acquire);
        echo.side.open();
        echo
    }

    fn wait(&mut self, mut ready: impl FnMut(&mut ParentSide) -> bool) {
        let bell = self.side.bell().clone();
        let side = &mut self.side;
        let woken = self.waiting.wait(&bell, &[], Some(Instant::now() + PATIENCE), || ready(side));
        assert_eq!(woken, Woken::Ready, "hangs");
    }

    /// Sends a message and waits until it has come back.
    fn exchange(&mut self, message: &[u8], got: &mut Vec<u8>) {
        while let Err(PushError::Full { .. }) = self.side.tasks.push(message, &[]) {
            self.flush();
            self.wait(|side| side.tasks.has_new_room());
        }
        self.flush();
        self.wait(|side| {
            if side.tasks.publish() {
                side.ring();
            }
            let found = side.events.next(got).expect("a sound ring");
            if side.events.release() {
                side.ring();
            }
            found
        });
    }

    fn flush(&mut self) {
        if self.side.tasks.publish() {
            self.side.ring();
        }
    }

    fn status(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.process.try_wait().expect("our child") {
                return status;
            }
            assert!(Instant::now() < deadline, "hangs");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn ftx_1_processes_wake_each_other() {
    let bell = Bell::create().expect("a bell");
    let mut echo = Echo::start(&bell);
    let mut got = Vec::new();
    for number in 0..200_u32 {
        echo.exchange(&number.to_ne_bytes(), &mut got);
        assert_eq!(got, number.to_ne_bytes());
        if number % 20 == 0 {
            // Long enough for the child to fall asleep.
            thread::sleep(Duration::from_millis(2));
        }
    }
    assert_eq!(echo.side.evidence().step, 4);
    echo.side.shut_down();
    assert!(echo.status().success());
    assert_eq!(echo.side.phase().expect("a phase"), Phase::Leaving);
}

#[test]
fn rng_3_messages_of_any_legal_size_come_back_from_a_process() {
    let bell = Bell::create().expect("a bell");
    let mut echo = Echo::start(&bell);
    let mut got = Vec::new();
    for bytes in [0, 1, 47, 48, 49, 1008, 1009, 4096, 50_000, 100_000, 3] {
        let message: Vec<u8> =
            (0..bytes).map(|at: u32| u8::try_from(at % 253).expect("small")).collect();
        echo.exchange(&message, &mut got);
        assert_eq!(got, message, "RNG-3");
    }
    echo.side.shut_down();
    assert!(echo.status().success());
}

#[test]
fn rng_4_a_child_that_is_ahead_of_its_parent_waits_for_room() {
    let bell = Bell::create().expect("a bell");
    let mut echo = Echo::start(&bell);
    let (mut sent, mut got, mut count) = (0_u64, Vec::new(), 0_u64);
    while count < 2000 {
        while sent < 2000 && echo.side.tasks.push(&sent.to_ne_bytes(), &[1; 100]).is_ok() {
            sent += 1;
        }
        echo.flush();
        echo.wait(|side| !side.events.is_empty());
        while echo.side.events.next(&mut got).expect("a sound ring") {
            assert_eq!(got[..8], count.to_ne_bytes(), "RNG-1");
            count += 1;
        }
        if echo.side.events.release() {
            echo.side.ring();
        }
    }
    echo.side.shut_down();
    assert!(echo.status().success());
}

#[test]
fn snt_1_a_killed_child_is_noticed_by_who_sleeps() {
    let bell = Bell::create().expect("a bell");
    let mut others: Vec<Echo> = (0..3).map(|_| Echo::start(&bell)).collect();
    let mut times = Vec::new();
    for _ in 0..5 {
        let victim = Echo::start(&bell);
        assert!(!victim.side.is_dead() && victim.alive != 0, "SNT-3");
        let pid = rustix::process::Pid::from_child(&victim.process);
        let killer = thread::spawn(move || {
            thread::sleep(Duration::from_millis(3));
            let killed = Instant::now();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("our child");
            killed
        });
        let mut also: Vec<_> = others.iter().map(|echo| (echo.side.robust(), echo.alive)).collect();
        also.push((victim.side.robust(), victim.alive));
        let deadline = Some(Instant::now() + PATIENCE);
        let woken = victim.waiting.wait(&bell, &also, deadline, || false);
        let noticed = Instant::now();
        assert_eq!(woken, Woken::Changed(3), "SNT-1");
        assert!(victim.side.is_dead(), "SNT-1");
        times.push(noticed.duration_since(killer.join().expect("no panic")));
    }
    print(&format!("a killed child is noticed after {times:?}"));
    for echo in &mut others {
        assert!(!echo.side.is_dead(), "SNT-1");
        echo.side.shut_down();
        assert!(echo.status().success());
        assert!(echo.side.is_dead(), "SNT-1: an orderly end is an end");
    }
}

#[test]
fn snt_2_a_child_without_parent_leaves() {
    let bell = Bell::create().expect("a bell");
    let mut echo = Echo::start(&bell);
    drop(echo.pipe.take());
    assert_eq!(echo.status().code(), Some(3), "SNT-2");
}

#[test]
fn snt_2_the_child_of_a_killed_parent_leaves() {
    let mut parent =
        Command::new(FIXTURE).arg("parent").stdout(Stdio::piped()).spawn().expect("the fixture");
    let mut out = parent.stdout.take().expect("piped");
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let mut line = [0; 6];
        let _ = tell.send(out.read_exact(&mut line).is_ok());
        // Ends when the last process that writes there is gone: the grandchild too.
        let _ = tell.send(out.read_to_end(&mut Vec::new()).is_ok());
    });
    assert_eq!(told.recv_timeout(PATIENCE), Ok(true), "it started");
    parent.kill().expect("our child");
    assert_eq!(told.recv_timeout(PATIENCE), Ok(true), "SNT-2");
    parent.wait().expect("our child");
}

#[test]
fn snt_3_the_watch_is_on_when_the_child_says_it_is_ready() {
    let bell = Bell::create().expect("a bell");
    let echo = Echo::start(&bell);
    assert_ne!(echo.alive, 0, "SNT-3");
    assert!(!echo.side.is_dead(), "SNT-3");
    assert!(echo.side.segment().fd().as_fd().try_clone_to_owned().is_ok());
}

/// Prints what the parts cost; nothing is asserted about it.
#[test]
fn costs_are_shown() {
    let bell = Bell::create().expect("a bell");
    let mut echo = Echo::start(&bell);
    let (mut got, message) = (Vec::new(), [7; 48]);
    let mut times: Vec<u128> = (0..300)
        .map(|_| {
            let begun = Instant::now();
            echo.exchange(&message, &mut got);
            begun.elapsed().as_nanos()
        })
        .collect();
    times.sort_unstable();
    let (median, most) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    print(&format!(
        "round trip through a process, 64-byte records: {median} ns, 99 in 100 below {most} ns"
    ));
    print(&format!("policy: {:?}", Waiting::calibrate()));
    echo.side.shut_down();
    assert!(echo.status().success());
    one_thread();
}

fn one_thread() {
    let bell = Bell::create().expect("a bell");
    let mut parent = Mailbox::create(&bell, &Sizes::default()).expect("a mailbox");
    let mut child = Mailbox::attach(parent.segment(), bell.segment()).expect("the same layout");
    let (mut got, message) = (Vec::new(), [7; 48]);
    let (mut pushing, mut reading, batch) = (Duration::MAX, Duration::MAX, 100_u32);
    for _ in 0..500 {
        let begun = Instant::now();
        for _ in 0..batch {
            parent.tasks.push(&message[..16], &message[16..]).expect("room");
        }
        parent.tasks.publish();
        let between = Instant::now();
        for _ in 0..batch {
            assert!(child.tasks.next(&mut got).expect("sound"));
        }
        child.tasks.release();
        reading = reading.min(between.elapsed());
        pushing = pushing.min(between - begun);
    }
    let each = |time: Duration| time.as_secs_f64() * 1e9 / f64::from(batch);
    print(&format!(
        "one thread, per 64-byte record: push {:.1} ns, next {:.1} ns",
        each(pushing),
        each(reading)
    ));
}

#[expect(clippy::print_stdout, reason = "figures for who runs the test with --nocapture")]
fn print(line: &str) {
    println!("{line}");
}
