//! Every byte of a run is the same in processes over MPI (XCH-3): this program starts itself with `mpirun`.
#![expect(
    clippy::print_stdout,
    reason = "the processes tell their results, and the test what it has compared"
)]

#[path = "same_bytes/mod.rs"]
mod same_bytes;

use phalanx_torch::shards::{Farewell, ShardLayout, mpi, started};
use same_bytes::CASES;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::process::Command;

fn main() {
    match started(|name| std::env::var(name).ok()) {
        Some(_) => inside(),
        None => outside(),
    }
}

/// Threads of each process.
const THREADS: [usize; 4] = [1, 2, 3, 7];

/// Prints the digest of each case, with and without data, on a line of its own.
fn lines(layout: &ShardLayout, mut print: impl FnMut(String)) {
    for (number, case) in CASES.iter().enumerate() {
        for data in [true, false] {
            let digest = Sha256::digest(case.run(layout, data));
            let mut line = format!("{number} {data} ");
            digest.iter().try_for_each(|byte| write!(line, "{byte:02x}")).expect("a text grows");
            print(line);
        }
    }
}

/// One of the processes that `mpirun` has started.
fn inside() {
    let world = mpi::start().expect("MPI starts");
    for threads in THREADS {
        let layout = ShardLayout { threads, processes: Some(world.processes.clone()) };
        lines(&layout, |line| {
            if world.processes.process() == 0 {
                println!("{threads} {line}");
            }
        });
    }
    world.processes.end(Farewell { code: 0, words: String::new() });
}

fn outside() {
    let mut alone = Vec::new();
    lines(&ShardLayout::threads(1), |line| alone.push(line));
    let program = std::env::current_exe().expect("a program has a file");
    for processes in [2, 4] {
        let mut command = Command::new("mpirun");
        command.args(["-n", &processes.to_string(), "--oversubscribe"]).arg(&program);
        // Processes that wait for others leave the core to them, however busy the host is.
        command.env("OMPI_MCA_mpi_yield_when_idle", "1").env("RUST_BACKTRACE", "0");
        // Ends a hang.
        command.env("MPIEXEC_TIMEOUT", "900");
        command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
        let output = command.output().expect("mpirun starts");
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "mpirun -n {processes}: {words}");
        let text = String::from_utf8(output.stdout).expect("lines of text");
        let mut lines = text.lines();
        for threads in THREADS {
            for line in &alone {
                let expected = format!("{threads} {line}");
                let number: usize = line.split(' ').next().unwrap().parse().unwrap();
                let case = &CASES[number];
                assert_eq!(
                    lines.next(),
                    Some(&*expected),
                    "XCH-3: {processes} processes, {case:?}"
                );
            }
        }
        println!(
            "{processes} processes of 1, 2, 3, 7 threads: {} runs have the bytes of one thread",
            4 * alone.len()
        );
    }
}
