//! Runs whose graphs are built step by step, and parts of tasks without a borrow.

use phalanx_runtime::*;
use std::time::Duration;

const SHORT: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(600);

fn double(task: &mut Task<'_>) -> Result<(), Failure> {
    task.argument(0)?.slice_mut::<u64>()?.iter_mut().for_each(|x| *x *= 2);
    Ok(())
}

/// Waits until its argument is not zero.
fn wait(task: &mut Task<'_>) -> Result<(), Failure> {
    let flag = task.argument(0)?.copied();
    let progress = task.progress_of();
    while flag.read_elements::<u64>()? == [0] {
        progress.report();
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Compares spans, copies and an owned domain with the arguments and the domain of the task.
fn owned(task: &mut Task<'_>) -> Result<(), Failure> {
    if task.callable() != 2 || task.argument_span(7).is_ok() || task.owned_domain(1).is_ok() {
        return Err(Failure::new("LOAN-1: it is another callable, or has more than it was given"));
    }
    let span = task.argument_span(0)?;
    let (_, bytes) = task.memory(span.memory).ok_or_else(|| Failure::new("no memory"))?;
    let domain = task.owned_domain(0)?;
    let data = task.argument(0)?;
    let copied = data.copied();
    let is_inside = span.start + span.layout.elements() * 8 <= bytes as u64;
    if span.layout != *data.layout() || span.access != data.access() || !is_inside {
        return Err(Failure::new("LOAN-1: the span differs"));
    }
    drop(data);
    let written = copied.write_elements(&[1u64; 4]);
    let (given, view) = (task.domain(0)?, domain.view()?);
    view.put(view.rank(), "x", 0, &[7u64])?;
    let mut found = [0u64];
    given.get(given.rank(), "x", 0, &mut found)?;
    let is_same =
        (view.rank(), view.ranks(), view.name()) == (given.rank(), given.ranks(), given.name());
    view.barrier(PATIENCE)?;
    let is_right = match span.access {
        Access::Read => span.is_in_place && matches!(written, Err(DataError::Access { .. })),
        _ => !span.is_in_place && written.is_ok(),
    };
    if !is_right {
        return Err(Failure::new("LOAN-1: it was changed, or could not be"));
    }
    if is_same && found == [7] { Ok(()) } else { Err(Failure::new("LOAN-1: another domain")) }
}

/// Hands its graph on without a borrow.
fn below(graph: &mut Orchestrator<'_>, task: &mut Task<'_>) -> Result<(), Failure> {
    let data = task.tensor(0)?;
    let mut open = graph.to_open(PATIENCE);
    open.step(|graph| graph.submit_sub(&Call::new(&DOUBLE).args([data.in_out()])))?;
    assert!(open.finish(None).is_none(), "OPN-1: the run is the parent's");
    graph.submit_sub(&Call::new(&DOUBLE).args([data.in_out()]))?;
    Ok(())
}

const DOUBLE: Callable = register!(double);
const WAIT: Callable = register!(wait);
const OWNED: Callable = register!(owned).collective();
const BELOW: Callable = register!(graph below);
static PROGRAM: Program = Program::new(&[DOUBLE, WAIT, OWNED, BELOW]);

fn worker() -> Worker {
    Worker::builder(&PROGRAM).threads().sub_workers(2).ring(4, 1 << 16).init().expect("a worker")
}

#[test]
fn opn_1_a_graph_that_is_built_in_steps_is_the_run_of_a_closure() {
    let worker = worker();
    let data = worker.tensor(DType::I64, &[4]).expect("memory");
    worker.write(&data, &[1u64; 4]).expect("idle");
    let mut open = worker.open("steps", PATIENCE).expect("a run");
    let inside = worker.run("inside", |_| Ok(())).expect_err("OPN-1");
    assert!(matches!(inside, Error::InsideGraph), "OPN-1: {inside}");
    for _ in 0..10 {
        open.open_scope("step", false).expect("a scope");
        let scratch =
            open.step(|graph| graph.alloc(DType::U8, &[1 << 14])).expect("OPN-1: given back");
        let call = Call::new(&DOUBLE).args([data.in_out()]);
        open.step(|graph| graph.submit_sub(&call)).expect("accepted");
        drop(scratch);
        open.close_scope().expect("open");
    }
    let refused = open.step(|graph| graph.submit_next_level(Target::Chip(0), &Call::new(&DOUBLE)));
    assert!(matches!(refused, Err(Error::NoChip { .. })), "OPN-1");
    let finished = open.finish(None).expect("a run of its own").wait().expect("OPN-1");
    assert_eq!((finished.report.tasks, finished.report.completed), (10, 10), "OPN-1");
    assert_eq!(worker.read::<u64>(&data).expect("idle"), [1024; 4], "OPN-1: in order");
    worker.run("after", |_| Ok(())).expect("OPN-1: no longer inside");
}

#[test]
fn opn_1_a_graph_of_a_parent_can_be_built_in_steps() {
    let pod = Worker::builder(&PROGRAM).threads().workers(1, |node| node.sub_workers(1));
    let pod = pod.init().expect("a worker");
    let data = pod.tensor(DType::I64, &[4]).expect("memory");
    pod.write(&data, &[1u64; 4]).expect("idle");
    let call = Call::new(&BELOW).args([data.in_out()]);
    pod.run("both", |graph| Ok(graph.submit_next_level(Target::Worker(0), &call).map(drop)?))
        .expect("OPN-1");
    assert_eq!(pod.read::<u64>(&data).expect("idle"), [4; 4], "OPN-1");
}

#[test]
fn opn_2_a_step_without_room_returns_and_can_be_tried_again() {
    let worker = worker();
    let flag = worker.tensor(DType::I64, &[1]).expect("memory");
    let call = Call::new(&WAIT).args([flag.no_dep()]);
    let mut open = worker.open("full", SHORT).expect("a run");
    let mut accepted = 0;
    let full = loop {
        match open.step(|graph| graph.submit_sub(&call)) {
            Ok(_) => accepted += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, Error::TimedOut(_)) && accepted == 4, "OPN-2: {full} after {accepted}");
    worker.write_unordered(&flag, &[1u64]).expect("no task has it in place");
    while open.step(|graph| graph.submit_sub(&call)).is_err() {}
    let finished = open.finish(None).expect("a run").wait().expect("OPN-2");
    assert_eq!(finished.report.completed, 5, "OPN-2: once each");
    worker.write(&flag, &[0u64]).expect("idle");
    let runs: Vec<_> = (0..2)
        .map(|_| {
            worker.submit("waits", |graph| Ok(graph.submit_sub(&call).map(drop)?)).expect("a run")
        })
        .collect();
    let third = worker.open("third", SHORT).err().expect("OPN-2: two are unfinished");
    assert!(matches!(third, Error::TimedOut(_)), "OPN-2: {third}");
    worker.write_unordered(&flag, &[1u64]).expect("no task has it in place");
    for run in runs {
        run.wait().expect("OPN-2");
    }
}

#[test]
fn opn_3_a_run_that_is_dropped_is_cancelled() {
    let worker = worker();
    for _ in 0..5 {
        let mut open = worker.open("dropped", PATIENCE).expect("OPN-3: others can begin");
        open.open_scope("inner", true).expect("a scope");
        open.step(|graph| graph.alloc(DType::U8, &[64])).expect("memory");
    }
    let open = worker.open("failed", PATIENCE).expect("OPN-3");
    let run = open.finish(Some(&Failure::told("in words"))).expect("a run");
    assert_eq!(run.wait().expect_err("OPN-3").to_string(), "in words");
    worker.run("after", |_| Ok(())).expect("OPN-3");
    worker.close().expect("OPN-3: nothing is open");
}

#[test]
fn loan_1_parts_without_a_borrow_do_what_the_task_does() {
    let worker = Worker::builder(&PROGRAM).threads().chips(2).init().expect("a worker");
    let data = worker.tensor(DType::I64, &[2, 4]).expect("memory");
    let ended = worker.run("owned", |graph| {
        let buffers: &[(&str, DType, &[u64])] = &[("x", DType::I64, &[1])];
        let (chips, window) = (&[0, 1], 64);
        let domain = DomainSpec { name: "pair", chips, window, buffers, signals: 0 };
        let domain = graph.allocate_domain(&domain)?;
        let calls = [data.rows(0, 1)?.input(), data.rows(1, 2)?.no_dep()];
        let calls = calls.map(|argument| Call::new(&OWNED).args([argument]).domain(&domain));
        let calls: Vec<_> = (0..).zip(calls).collect();
        graph.submit_next_level_group(&calls)?;
        Ok(())
    });
    ended.expect("LOAN-1");
    assert_eq!(worker.read::<u64>(&data).expect("idle"), [[0; 4], [1; 4]].concat(), "LOAN-1");
}
