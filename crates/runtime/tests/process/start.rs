//! The start of children, and the remains of a start that fails.

use crate::callables::{ADD, EMPLOY, LONG_WORDS, NOTHING, PROGRAM, WHO, wish};
use crate::support::{
    FIXTURE, Leftovers, PATIENCE, at_some_scale, budgets, builder, describe, eventually, is_gone,
    signal, timed, turn,
};
use phalanx_runtime::{
    Budgets, Builder, Call, DType, Error, Phase, Program, StartError, Target, Worker,
};
use rustix::process::Signal;
use std::time::Duration;

/// Returns the error of a builder's failed start.
fn refusal(builder: Builder) -> StartError {
    match builder.init() {
        Err(Error::Start(error)) => error,
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("it should not start"),
    }
}

#[test]
fn prc_1_a_child_with_other_callables_is_refused_by_name() {
    static FEWER: Program = Program::new(&[ADD]);
    static OLDER: Program = Program::new(&[ADD, NOTHING.version(7)]);
    static OTHER: Program = Program::new(&[WHO]);
    let _turn = turn();
    let left = Leftovers::before();
    for (program, words) in [
        (&FEWER, "callable 1 differs, it is `fixture::nothing` here and missing in the parent"),
        (&OLDER, "callable 1 differs, `fixture::nothing` is of another version or kind here"),
        (&OTHER, "callable 0 differs, it is `fixture::who` in the parent and `fixture::add` here"),
    ] {
        let builder = Worker::builder(program).program_path(FIXTURE).sub_workers(2);
        let error = refusal(builder);
        assert!(error.words.contains(words), "{error}");
        assert!(error.worker.starts_with("sub worker"), "{error}");
    }
    left.check();
}

#[test]
fn prc_2_slow_bootstraps_are_waited_for_and_charged_to_nobody() -> Result<(), Error> {
    let _turn = turn();
    // The budget of an operation is shorter than the slowest start.
    let budgets = budgets(50, 200);
    let late = wish::LATE + 500;
    let worker = builder().chips(3).device_ids(&[0, late, 2]).budgets(budgets).init()?;
    let startup = worker.startup();
    println!("{startup}");
    let ready: Vec<_> = startup.children.iter().map(|child| child.ready).collect();
    assert!(ready[1] >= Some(Duration::from_millis(500)), "PRC-2: {ready:?}");
    assert_eq!(startup.straggler().map(|last| last.ready), ready.iter().max().copied(), "PRC-2");
    assert!(ready.iter().all(|ready| *ready <= Some(startup.total)), "PRC-2: {ready:?}");
    worker.run("a group", |graph| {
        let call = Call::new(&NOTHING).expected(PATIENCE);
        let calls: Vec<_> = (0..3).map(|chip| (chip, call.clone())).collect();
        Ok(graph.submit_next_level_group(&calls).map(drop)?)
    })?;
    worker.close()
}

#[test]
fn prc_3_an_error_on_any_rank_fails_the_start_and_leaves_nothing() {
    let _turn = turn();
    let left = Leftovers::before();
    let mut tried = 0;
    for kind in [wish::FAIL, wish::LONG, wish::PANIC, wish::DIE, wish::GREEDY] {
        for rank in 0..4u32 {
            let ids: Vec<u32> =
                (0..4).map(|at| if at == rank { kind + rank } else { at }).collect();
            let error = refusal(builder().chips(4).sub_workers(1).device_ids(&ids).window(4096));
            assert!(error.worker.starts_with(&format!("chip {rank} (process ")), "{error}");
            assert_eq!(error.phase, Phase::Bootstrapping, "{error}");
            let words = match kind {
                wish::FAIL => format!("device {} is on fire", kind + rank),
                wish::LONG => "x".repeat(LONG_WORDS),
                wish::PANIC => format!("rank {rank} panics"),
                wish::DIE => "exited with 3".to_owned(),
                _ => "buffer `all` of 4097 bytes does not fit".to_owned(),
            };
            assert!(error.words.contains(&words), "{error}");
            left.check();
            tried += 1;
        }
    }
    println!("{tried} starts failed as they should");
}

#[test]
fn boot_2_a_bootstrap_that_fails_in_a_thread_fails_the_start() {
    let _turn = turn();
    for kind in [wish::FAIL, wish::PANIC] {
        let builder = Worker::builder(&PROGRAM).threads().chips(2).device_ids(&[0, kind]);
        let error = refusal(builder);
        assert_eq!(error.worker, "chip 1", "{error}");
    }
}

#[test]
fn a_start_that_takes_too_long_names_the_straggler() {
    let _turn = turn();
    let left = Leftovers::before();
    at_some_scale(|scale| {
        let budgets = Budgets { startup: scale * Duration::from_secs(1), ..budgets(50, 200) };
        let ids = [0, 1, wish::HANG];
        let error = refusal(builder().chips(3).device_ids(&ids).budgets(budgets));
        println!("{error}");
        assert!(error.worker.starts_with("chip 2"), "{error}");
        assert_eq!(error.phase, Phase::Bootstrapping);
        left.check();
    });
}

#[test]
fn a_program_that_is_not_there_or_is_none_fails_the_start() {
    let _turn = turn();
    let left = Leftovers::before();
    let error = builder().sub_workers(1).program_path("/nowhere/at/all").init();
    let error = error.map(drop).expect_err("not there");
    assert!(error.to_string().contains("sub worker 0 cannot be started"), "{error}");
    let error = refusal(builder().sub_workers(2).program_path("/bin/true"));
    assert!(error.words.contains("exited with 0") && error.phase == Phase::Starting, "{error}");
    left.check();
}

#[test]
fn prc_8_a_program_that_does_not_ask_starts_no_child() {
    let _turn = turn();
    let error = Worker::builder(&PROGRAM).sub_workers(1).init().map(drop).expect_err("not asked");
    assert!(matches!(error, Error::NotAsked), "{error}");
    assert!(error.to_string().contains("call `serve_if_child` of the program first in `main`"));
}

#[test]
fn a_child_that_is_started_by_hand_says_so() {
    let _turn = turn();
    let out = std::process::Command::new(FIXTURE).arg("phalanx-worker").output().expect("starts");
    assert_eq!(out.status.code(), Some(2));
    let words = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(words.contains("is how this program starts its own workers"), "{words}");
}

#[test]
fn boot_1_contexts_tell_what_each_chip_has() -> Result<(), Error> {
    let _turn = turn();
    for builder in [builder(), Worker::builder(&PROGRAM).threads()] {
        let worker = builder.chips(3).device_ids(&[4, 5, 6]).window(8192).init()?;
        let contexts = worker.chip_contexts();
        assert_eq!(contexts.len(), 3);
        for (rank, context) in (0u32..).zip(contexts) {
            assert_eq!((context.rank, context.nranks, context.device_id), (rank, 3, 4 + rank));
            assert_eq!(context.device_ctx, 7000 + u64::from(rank));
            assert_eq!(context.actual_window_size, 8192);
            let names: Vec<_> = context.buffers.keys().map(String::as_str).collect();
            assert_eq!(names, ["inbox", "outbox"]);
            let inbox = context.buffers["inbox"].tensor(0, DType::U32, &[256])?;
            // BOOT-3: what nobody wrote is zero.
            let mut expected = [0u32; 256];
            expected[..4].fill(rank + 1);
            assert_eq!(worker.read::<u32>(&inbox)?, expected);
        }
        worker.close()?;
    }
    Ok(())
}

#[test]
fn a_window_goes_to_its_chip_only() -> Result<(), Error> {
    let _turn = turn();
    let worker = builder().chips(2).sub_workers(1).window(4096).init()?;
    let number = worker.chip_contexts()[1].buffers["inbox"].tensor(0, DType::I64, &[1])?;
    let call = Call::new(&WHO).args([number.output()]);
    worker.run("at home", |graph| {
        graph.submit_next_level(Target::Chip(1), &call)?;
        assert!(graph.submit_next_level(Target::Chip(0), &call).is_err());
        assert!(graph.submit_next_level(Target::Any, &call).is_err());
        assert!(graph.submit_sub(&call).is_err());
        Ok(())
    })?;
    let found = worker.read::<i64>(&number)?[0];
    assert_eq!(found, i64::from(worker.startup().children[1].process));
    worker.close()
}

#[test]
fn eight_children_start_and_leave_quickly() -> Result<(), Error> {
    let _turn = turn();
    let (mut starts, mut closes) = (Vec::new(), Vec::new());
    for _ in 0..15 {
        let (worker, time) = timed(|| builder().sub_workers(8).init());
        starts.push(time);
        let (outcome, time) = timed(|| worker?.close());
        outcome?;
        closes.push(time);
    }
    println!("8 children: start {}, close {}", describe(&mut starts), describe(&mut closes));
    Ok(())
}

#[test]
fn prc_8_a_task_of_a_child_starts_workers_of_its_own() -> Result<(), Error> {
    let _turn = turn();
    let left = Leftovers::before();
    let worker = builder().chips(1).sub_workers(1).init()?;
    let number = worker.tensor(DType::I64, &[3])?;
    let employ = |stays| Call::new(&EMPLOY).scalar(stays).args([number.no_dep()]);
    worker.call(&employ(0))?;
    worker.run("on a chip", |graph| {
        graph.submit_next_level(Target::Chip(0), &employ(0))?;
        Ok(())
    })?;
    let employed: Vec<i64> = worker.read(&number)?;
    assert!(employed.iter().all(|process| *process > 0), "PRC-8: {employed:?}");
    // A child that is ended takes its children along.
    worker.write(&number, &[0i64; 3])?;
    let run = worker.submit("stays", |graph| {
        graph.submit_sub(&employ(1))?;
        Ok(())
    })?;
    let mut processes = vec![0; 3];
    eventually("all are there", || {
        processes = worker.read_unordered::<i64>(&number).expect("ours");
        !processes.contains(&0)
    });
    let processes: Vec<u32> = processes.into_iter().filter_map(|one| one.try_into().ok()).collect();
    signal(processes[0], Signal::KILL);
    assert!(run.wait().is_err(), "PRC-8: it was killed");
    eventually("they leave", || processes.iter().all(|process| is_gone(*process)));
    drop((run, number));
    worker.close()?;
    left.check();
    Ok(())
}
