//! Short tasks that are run where they are submitted, at once.

use crate::callables::{ADD, NOTE, PAUSE, PICK, REST};
use crate::helping::{helping, submit_short_ones};
use phalanx_runtime::{Call, DType, Error, Failure, Orchestrator, Tensor, Worker};
use std::time::{Duration, Instant};

/// Whether the next task of this kind was run at once.
fn is_at_once(graph: &mut Orchestrator<'_>, call: &Call) -> Result<bool, Failure> {
    Ok(graph.submit_sub(call)?.to_string().starts_with('o'))
}

/// Enough short calls that the next one is run at once. On a machine that stands still for a while none of them is short.
pub(crate) fn submit_until_at_once(
    graph: &mut Orchestrator<'_>,
    call: &Call,
) -> Result<(), Failure> {
    submit_within(graph, call, 20_000_000)
}

fn submit_within(graph: &mut Orchestrator<'_>, call: &Call, tries: u32) -> Result<(), Failure> {
    let until = Instant::now() + Duration::from_secs(30);
    for _ in 0..tries {
        if is_at_once(graph, call)? {
            return Ok(());
        }
        if Instant::now() > until {
            break;
        }
    }
    Err(Failure::new("many short tasks, and none was run at once"))
}

fn add(cell: &Tensor) -> Call {
    Call::new(&ADD).args([cell.in_out()]).real(1.0)
}

fn cells<const N: usize>(worker: &Worker) -> [Tensor; N] {
    std::array::from_fn(|_| worker.tensor(DType::F64, &[1]).expect("memory"))
}

#[test]
fn once_1_a_task_is_run_at_once_only_while_nothing_is_unfinished() {
    for threads in [0, 1, 2] {
        let worker = helping(threads).init().expect("a worker");
        let [cell] = cells(&worker);
        let list = worker.tensor(DType::I64, &[100_001]).expect("memory");
        let note = |number| Call::new(&NOTE).args([list.in_out()]).scalar(number);
        let finished = worker.run("mixed", |graph| {
            submit_within(graph, &note(0), 100_000)?;
            Ok(())
        });
        let before = finished.expect("it ends").report.completed;
        worker.write(&list, &vec![0u64; 100_001]).expect("no run names it");
        let mut at_once = Vec::new();
        let finished = worker.run("in order", |graph| {
            submit_until_at_once(graph, &add(&cell))?;
            for number in 0..60 {
                // Something long now and then; what follows waits for it.
                if number % 20 == 10 {
                    graph.submit_sub(&Call::new(&REST).args([list.in_out()]).scalar(2))?;
                    at_once.push(is_at_once(graph, &note(number))?);
                } else {
                    graph.submit_sub(&note(number))?;
                }
            }
            Ok(())
        });
        let report = finished.expect("it ends").report;
        assert_eq!(report.tasks, report.completed, "ONCE-3");
        assert!(before > 0 && report.completed > 63, "ONCE-3: {report:?}");
        assert_eq!(at_once, [false; 3], "ONCE-1");
        let list = worker.read::<u64>(&list).expect("no run names it");
        assert!(list[..61].iter().copied().eq([60].into_iter().chain(0..60)), "ONCE-1");
    }
}

#[test]
fn once_1_what_the_engine_would_refuse_is_refused() {
    let worker = helping(1).init().expect("a worker");
    let other = helping(0).init().expect("another worker");
    let [cell] = cells(&worker);
    let [foreign] = cells(&other);
    let rows = worker.tensor(DType::F64, &[8]).expect("memory");
    let run = worker.run("refused", |graph| {
        submit_until_at_once(graph, &add(&cell))?;
        let twice = [rows.rows(0, 4)?.in_out(), rows.rows(3, 8)?.input()];
        let refused = graph.submit_sub(&Call::new(&ADD).args(twice).real(1.0));
        assert!(matches!(refused, Err(Error::Submit(_))), "ONCE-1: {refused:?}");
        submit_until_at_once(graph, &add(&cell))?;
        let refused = graph.submit_sub(&add(&foreign));
        assert!(matches!(refused, Err(Error::ForeignBuffer(0))), "ONCE-1: {refused:?}");
        submit_until_at_once(graph, &add(&cell))?;
        // Tiles of one buffer that do not meet are no aliases.
        let apart = [rows.rows(0, 4)?.in_out(), rows.rows(4, 8)?.input()];
        assert!(is_at_once(graph, &Call::new(&ADD).args(apart).real(1.0))?, "ONCE-1");
        let id = graph.submit_sub(&add(&cell))?;
        // Who waits for a task that has ended does not wait.
        graph.submit_sub(&add(&cell).after(&[id]))?;
        Ok(())
    });
    run.expect("refusals leave nothing");
    assert_eq!(worker.read::<f64>(&rows).expect("over")[..5], [1.0, 1.0, 1.0, 1.0, 0.0]);
}

#[test]
fn once_2_tasks_that_are_no_longer_short_are_handed_over() {
    let worker = helping(1).init().expect("a worker");
    let [cell] = cells(&worker);
    let pause = |microseconds| Call::new(&PAUSE).args([cell.in_out()]).scalar(microseconds);
    let run = worker.run("longer and longer", |graph| {
        submit_until_at_once(graph, &pause(0))?;
        let mut at_once = 0;
        while is_at_once(graph, &pause(20))? && at_once < 10_000 {
            at_once += 1;
        }
        assert!(at_once < 1_000, "ONCE-2: {at_once} long ones at once");
        Ok(())
    });
    run.expect("it ends");
}

#[test]
fn once_2_a_few_long_tasks_among_many_short_ones_are_handed_over() {
    let worker = helping(1).init().expect("a worker");
    let [cell] = cells(&worker);
    let pause = |microseconds| Call::new(&PAUSE).args([cell.in_out()]).scalar(microseconds);
    let mut long_at_once = 0;
    let run = worker.run("one of 200", |graph| {
        for number in 0..40_000 {
            let is_long = number % 200 == 199;
            let is_at_once = is_at_once(graph, &pause(if is_long { 500 } else { 0 }))?;
            long_at_once += u32::from(is_long && is_at_once);
        }
        Ok(())
    });
    run.expect("it ends");
    assert!(long_at_once < 150, "ONCE-2: {long_at_once} of 200 long ones at once");
}

#[test]
fn once_2_code_of_a_graph_that_takes_its_time_is_not_taken_for_its_tasks() {
    let worker = helping(1).init().expect("a worker");
    let [cell] = cells(&worker);
    let run = worker.run("slow code", |graph| {
        submit_until_at_once(graph, &add(&cell))?;
        for _ in 0..300 {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_micros(20) {
                std::hint::spin_loop();
            }
            graph.submit_sub(&add(&cell))?;
        }
        Ok(())
    });
    let report = run.expect("it ends").report;
    assert!(report.work < 300 * 20_000, "ONCE-2: {report:?}");
}

#[test]
fn once_3_a_task_that_fails_is_the_error_of_its_run() {
    for (picked, words) in [(1, "as it should"), (2, "2 was picked")] {
        let worker = helping(1).init().expect("a worker");
        let [cell] = cells(&worker);
        let pick = |number| Call::new(&PICK).args([cell.in_out()]).scalar(number);
        let mut refused = None;
        let run = worker.submit("fails", |graph| {
            submit_until_at_once(graph, &pick(0))?;
            let failed = graph.submit_sub(&pick(picked))?;
            assert!(failed.to_string().starts_with('t'), "ONCE-3: {failed}");
            refused = graph.submit_sub(&pick(0)).err();
            Ok(())
        });
        let run = run.expect("a run");
        for _ in 0..2 {
            let error = run.wait().expect_err("ONCE-3").to_string();
            let is_told = [words, "pick", "the caller"].iter().all(|word| error.contains(word));
            assert!(is_told, "ONCE-3: {error}");
        }
        assert!(refused.is_some(), "ONCE-3: RUN-5");
        // The worker is as good as before.
        worker.run("after", |graph| submit_short_ones(graph, &cell)).expect("ONCE-3");
        worker.close().expect("nothing is left");
    }
}

#[test]
fn once_3_what_was_named_is_in_use_until_the_run_is_over() {
    let worker = helping(1).init().expect("a worker");
    let [named, other] = cells(&worker);
    let run = worker.run("names one", |graph| {
        submit_until_at_once(graph, &add(&named))?;
        assert!(matches!(worker.read::<f64>(&named), Err(Error::InUse)), "ONCE-3");
        worker.write(&other, &[5.0f64])?;
        let fresh = worker.tensor(DType::F64, &[1])?;
        worker.write(&fresh, &[6.0f64])?;
        assert!(is_at_once(graph, &add(&other))?, "ONCE-1");
        assert!(matches!(worker.write(&other, &[0.0f64]), Err(Error::InUse)), "ONCE-3");
        // Another one may get its place, and nobody has named that.
        drop(fresh);
        let fresh = worker.tensor(DType::F64, &[1])?;
        worker.write(&fresh, &[7.0f64])?;
        submit_short_ones(graph, &fresh)?;
        Ok(())
    });
    run.expect("it ends");
    assert_eq!(worker.read::<f64>(&other).expect("over"), [6.0]);
    assert!(worker.read::<f64>(&named).expect("over")[0] > 0.0);
}
