//! Bad input is an error with a type, and leaves the worker as it was.

use crate::callables::{NOTHING, PROGRAM, WHO};
use crate::support::{builder, is_usable, turn};
use phalanx_runtime::ProgramError;
use phalanx_runtime::SubmitError;
use phalanx_runtime::{
    Call, Callable, DType, Error, Failure, Home, Orchestrator, Target, Task, Worker,
};

#[expect(clippy::unnecessary_wraps, reason = "the shape of every callable")]
fn stranger(_: &mut Task<'_>) -> Result<(), Failure> {
    Ok(())
}

/// Runs a graph in which something is refused, and then one that works.
fn refused(worker: &Worker, what: impl FnOnce(&mut Orchestrator<'_>) -> Result<(), Failure>) {
    let run = worker.run("refused", |graph| {
        what(graph)?;
        graph.submit_sub(&Call::new(&NOTHING))?;
        Ok(())
    });
    let report = run.expect("what was not refused runs").report;
    assert!(report.tasks > 0 && report.completed == report.tasks, "{report:?}");
    is_usable(worker).expect("it is as it was");
}

/// The two kinds of workers: two chips with windows, and sub workers.
fn workers() -> impl Iterator<Item = Worker> {
    let builders = [builder(), Worker::builder(&PROGRAM).threads()];
    builders.into_iter().map(|builder| {
        let small = builder.memory(1 << 24).ring(64, 1 << 20).window(1 << 16);
        small.chips(2).sub_workers(2).init().expect("a worker")
    })
}

#[test]
fn a_callable_of_no_or_another_program_is_refused() {
    let _turn = turn();
    for worker in workers() {
        let unknown = Call::new(&Callable::new("elsewhere::stranger", stranger));
        refused(&worker, |graph| {
            let error = graph.submit_sub(&unknown).expect_err("unknown");
            let is_unknown = matches!(&error, Error::Program(ProgramError::Unknown { .. }));
            assert!(is_unknown, "{error}");
            Ok(())
        });
    }
}

#[test]
fn arguments_that_are_too_many_or_too_large_are_refused() {
    let _turn = turn();
    for worker in workers() {
        let number = worker.tensor(DType::I64, &[1]).expect("memory");
        refused(&worker, |graph| {
            let many = Call::new(&NOTHING).args((0..300).map(|_| number.input()));
            let scalars = (0..5000).fold(Call::new(&NOTHING), Call::scalar);
            let bytes = Call::new(&NOTHING).bytes(&vec![0; (1 << 20) + 1]);
            for call in [many, scalars, bytes] {
                let error = graph.submit_sub(&call).expect_err("too much");
                assert!(matches!(error, Error::TooMany { .. }), "{error}");
            }
            Ok(())
        });
    }
}

#[test]
fn a_released_buffer_and_one_of_another_worker_are_refused() {
    let _turn = turn();
    let other = Worker::builder(&PROGRAM).threads().sub_workers(1).init().expect("another");
    let foreign = other.tensor(DType::I64, &[1]).expect("memory");
    for worker in workers() {
        refused(&worker, |graph| {
            let gone = graph.scope("short", |graph| graph.alloc(DType::I64, &[1]))?;
            let call = Call::new(&WHO).args([gone.output()]);
            let error = graph.submit_sub(&call).expect_err("it is gone");
            let is_stale = matches!(error, Error::Submit(SubmitError::StaleBuffer(_)));
            assert!(is_stale, "{error}");
            let call = Call::new(&WHO).args([foreign.output()]);
            let error = graph.submit_sub(&call).expect_err("another's");
            assert!(matches!(error, Error::ForeignBuffer(0)), "{error}");
            Ok(())
        });
        assert!(matches!(worker.read::<i64>(&foreign), Err(Error::ForeignBuffer(0))));
    }
}

#[test]
fn a_buffer_of_one_chip_is_refused_elsewhere() {
    let _turn = turn();
    for worker in workers() {
        let inbox = worker.chip_contexts()[1].buffers["inbox"].clone();
        let inbox = inbox.tensor(0, DType::I64, &[1]).expect("it fits");
        refused(&worker, |graph| {
            let call = Call::new(&WHO).args([inbox.output()]);
            let wrong = [
                graph.submit_next_level(Target::Chip(0), &call),
                graph.submit_next_level(Target::Any, &call),
                graph.submit_sub(&call),
            ];
            for error in wrong.map(|result| result.expect_err("of chip 1")) {
                let is_said =
                    matches!(error, Error::WrongHome { argument: 0, home: Home::Chip(1), .. });
                assert!(is_said, "{error}");
            }
            Ok(())
        });
    }
}

#[test]
fn groups_that_cannot_be_are_refused() {
    let _turn = turn();
    for worker in workers() {
        refused(&worker, |graph| {
            let call = || Call::new(&NOTHING);
            let twice = graph.submit_next_level_group(&[(1, call()), (1, call())]);
            let error = twice.expect_err("one chip twice");
            assert!(matches!(error, Error::Submit(SubmitError::SameWorker(_))), "{error}");
            let error = graph.submit_next_level_group(&[]).expect_err("nobody");
            assert!(matches!(error, Error::Submit(SubmitError::BadGroup)), "{error}");
            let error = graph.submit_next_level_group(&[(2, call())]).expect_err("no such chip");
            assert!(matches!(error, Error::NoChip { chip: 2, chips: 2 }), "{error}");
            let error = graph.submit_sub_group(&vec![call(); 3]).expect_err("too many");
            let is_large = matches!(
                error,
                Error::Submit(SubmitError::GroupTooLarge { members: 3, workers: 2 })
            );
            assert!(is_large, "{error}");
            Ok(())
        });
    }
}

#[test]
fn a_run_outlives_its_worker_and_can_still_be_asked() {
    let _turn = turn();
    for worker in workers() {
        let run =
            worker.submit("last", |graph| Ok(graph.submit_sub(&Call::new(&NOTHING)).map(drop)?));
        let run = run.expect("it is open");
        worker.close().expect("everybody leaves");
        assert_eq!(run.wait().expect("it ran").report.completed, 1);
        assert!(run.is_done());
    }
}
