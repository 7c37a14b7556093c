//! Children whose parent is gone.

use crate::support::{FIXTURE, eventually, is_gone, signal, turn};
use rustix::process::Signal;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// A parent that was started, and its children.
fn start(end: &str) -> (Child, Vec<u32>) {
    let mut command = Command::new(FIXTURE);
    command.args(["parent", end]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut parent = command.spawn().expect("the fixture starts");
    let mut line = String::new();
    let mut out = BufReader::new(parent.stdout.take().expect("a pipe"));
    out.read_line(&mut line).expect("a line");
    let children: Vec<u32> = line.split(' ').filter_map(|word| word.trim().parse().ok()).collect();
    assert_eq!(children.len(), 4, "{line}");
    (parent, children)
}

/// Number of names of ours in shared memory; other programs may use it too.
fn shared_memory() -> usize {
    let names = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    names.filter(|entry| entry.file_name().to_string_lossy().contains("phalanx")).count()
}

/// Starts a parent that ends in this way, and waits until its children are gone.
fn ends(end: &str, round: u64) {
    let (mut parent, children) = start(end);
    if end == "stay" {
        // At another moment each time.
        std::thread::sleep(std::time::Duration::from_millis(round));
        signal(parent.id(), Signal::KILL);
    }
    let status = parent.wait().expect("it ends");
    assert_eq!(status.success(), end == "exit" || end == "close", "{end}: {status}");
    let begun = Instant::now();
    eventually("all children are gone", || children.iter().all(|child| is_gone(*child)));
    if round == 0 {
        println!("{end}: all children gone after {:.1?}", begun.elapsed());
    }
}

#[test]
fn prc_6_children_leave_however_their_parent_ends() {
    let _turn = turn();
    let before = shared_memory();
    for round in 0..8 {
        std::thread::scope(|scope| {
            for end in ["stay", "exit", "panic", "close"] {
                scope.spawn(move || ends(end, round));
            }
        });
    }
    assert_eq!(shared_memory(), before, "shared memory was left behind");
    println!("32 parents ended, 128 children left");
}
