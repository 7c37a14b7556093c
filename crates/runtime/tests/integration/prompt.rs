//! Endings are not kept back: what follows from them begins while their worker runs on.

use crate::callables::{NOTE, NOTHING, PROGRAM, REST, TELL, UNTIL_TOLD, WATCH};
use crate::callers::{is_told, mislead};
use phalanx_runtime::{
    Builder, Call, DType, Failure, Orchestrator, RunHandle, Target, Tensor, Worker,
};

/// Two workers of the next level, in threads and in processes.
fn pairs() -> [Builder; 2] {
    let builder = || Worker::builder(&PROGRAM).memory(1 << 24).chips(2).sub_workers(1);
    let path = env!("CARGO_BIN_EXE_phalanx-graph-fixture");
    [builder().threads(), builder().program_path(path)]
}

/// Chip 0 is sent short tasks, each with a list of its own, while it rests; the last one waits for its flag.
fn submit_ahead(
    graph: &mut Orchestrator<'_>,
    lists: &[Tensor],
    flag: &Tensor,
) -> Result<(), Failure> {
    submit_notes(graph, lists)?;
    let waits = Call::new(&UNTIL_TOLD).args([flag.no_dep()]);
    graph.submit_next_level(Target::Chip(0), &waits)?;
    graph.flush();
    Ok(())
}

/// Chip 0 is sent short tasks, each with a list of its own, while it rests.
fn submit_notes(graph: &mut Orchestrator<'_>, lists: &[Tensor]) -> Result<(), Failure> {
    graph.submit_next_level(Target::Chip(0), &Call::new(&REST).scalar(20))?;
    for list in lists {
        let note = Call::new(&NOTE).args([list.in_out()]).scalar(1);
        graph.submit_next_level(Target::Chip(0), &note)?;
    }
    Ok(())
}

/// Tensors of two numbers each.
fn lists(worker: &Worker, count: usize) -> Vec<Tensor> {
    (0..count).map(|_| worker.tensor(DType::I64, &[2]).expect("memory")).collect()
}

/// A run whose last task on chip 0 waits for what follows from those before it, on chip 1: a call of [`TELL`] with `number`.
fn begin_ahead(worker: &Worker, short: usize, number: u64) -> RunHandle {
    let (lists, flag) = (lists(worker, short), worker.tensor(DType::I64, &[1]).expect("memory"));
    let run = worker.submit("one waits for what follows from those before it", move |graph| {
        submit_ahead(graph, &lists, &flag)?;
        let tells = Call::new(&TELL).args([flag.no_dep()]).args(lists.iter().map(Tensor::input));
        graph.submit_next_level(Target::Chip(1), &tells.scalar(number))?;
        Ok(())
    });
    run.expect("a run")
}

/// Waits for such a run.
fn run_ahead(worker: &Worker, short: usize) -> u64 {
    begin_ahead(worker, short, 0).wait().expect("SRV-3").report.completed
}

/// Lets chip 0 think that a task which waits for a flag is short.
fn mislead_chip(worker: &Worker) {
    mislead(worker);
    let flag = worker.tensor(DType::I64, &[1]).expect("memory");
    worker.write(&flag, &[1u64]).expect("no run names it");
    let known = worker.run("known to be short on this chip", |graph| {
        for _ in 0..100 {
            let call = Call::new(&UNTIL_TOLD).args([flag.no_dep()]);
            graph.submit_next_level(Target::Chip(0), &call)?;
        }
        Ok(())
    });
    known.expect("it ends");
}

#[test]
fn srv_3_an_ending_is_told_before_a_task_begins_that_is_not_known_to_be_short() {
    for builder in pairs() {
        let worker = builder.init().expect("a worker");
        for short in [1, 6, 7, 8, 9, 13] {
            assert_eq!(run_ahead(&worker, short), short as u64 + 3, "SRV-3");
        }
    }
}

#[test]
fn srv_3_a_task_that_was_thought_to_be_short_holds_back_no_ending_for_good() {
    for builder in pairs() {
        let worker = builder.init().expect("a worker");
        mislead_chip(&worker);
        assert_eq!(run_ahead(&worker, 3), 6, "SRV-3");
    }
}

#[test]
fn node_1_a_task_that_was_thought_to_be_short_holds_back_no_ending_while_nobody_waits() {
    let worker = pairs()[0].clone().init().expect("a worker");
    mislead_chip(&worker);
    let run = begin_ahead(&worker, 3, 2);
    assert!(is_told(2), "NODE-1: a task waits for what follows from endings of its own worker");
    assert_eq!(run.wait().expect("NODE-1").report.completed, 6, "NODE-1");
}

#[test]
fn srv_3_an_ending_that_was_left_to_a_worker_that_runs_for_long_is_told() {
    for builder in pairs() {
        let worker = builder.init().expect("a worker");
        for rest in 0..20 {
            let lists = lists(&worker, 2);
            let flag = worker.tensor(DType::I64, &[1]).expect("memory");
            let run = worker.run("chip 0 looks last, then waits for chip 1", |graph| {
                submit_notes(graph, &lists[..1])?;
                let waits = Call::new(&UNTIL_TOLD).args([flag.no_dep()]);
                graph.submit_next_level(Target::Chip(0), &waits)?;
                let rests = Call::new(&REST).args([lists[1].in_out()]).scalar(15 + rest % 8);
                graph.submit_next_level(Target::Chip(1), &rests)?;
                let tells = Call::new(&TELL).args([flag.no_dep(), lists[1].input()]);
                graph.submit_sub(&tells)?;
                graph.flush();
                Ok(())
            });
            assert_eq!(run.expect("SRV-3").report.completed, 5, "SRV-3");
        }
    }
}

#[test]
fn srv_3_what_ended_before_a_worker_died_has_ended() {
    let path = env!("CARGO_BIN_EXE_phalanx-graph-fixture");
    let worker = Worker::builder(&PROGRAM).memory(1 << 24).program_path(path).chips(2);
    let worker = worker.init().expect("a worker");
    let process = rustix::process::Pid::from_raw(
        i32::try_from(worker.startup().children[0].process).expect("a process"),
    );
    let lists = lists(&worker, 6);
    let [begun, told, seen] = [(); 3].map(|()| worker.tensor(DType::I64, &[1]).expect("memory"));
    let run = worker.submit("dies in the last", |graph| {
        submit_notes(graph, &lists)?;
        let watch = Call::new(&WATCH).args([begun.no_dep(), told.no_dep(), seen.input()]);
        graph.submit_next_level(Target::Chip(0), &watch)?;
        graph.flush();
        Ok(())
    });
    let run = run.expect("a run");
    // All six have ended and are published when the last task has begun.
    assert!((0..600_000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        worker.read_unordered::<u64>(&begun).is_ok_and(|begun| begun == [1])
    }));
    let process = process.expect("no process has number 0");
    rustix::process::kill_process(process, rustix::process::Signal::KILL).expect("it lives");
    let _ = run.wait();
    while !worker.lost().iter().any(|lost| lost.worker.contains("chip 0")) {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let phalanx_runtime::Error::Run(error) = run.wait().expect_err("it died") else {
        panic!("a run failed")
    };
    assert_eq!(error.failures().len(), 1, "SRV-3: only what it was running failed: {error:?}");
    let other = worker.run("the other goes on", |graph| {
        graph.submit_next_level(Target::Chip(1), &Call::new(&NOTHING))?;
        Ok(())
    });
    other.expect("SRV-3");
}
