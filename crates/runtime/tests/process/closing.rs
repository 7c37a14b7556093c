//! The end of a worker.

use crate::callables::{HANG, NOTHING, PROGRAM, SLEEP, wish};
use crate::support::{Leftovers, budgets, builder, eventually, turn};
use phalanx_runtime::Reason;
use phalanx_runtime::{Call, DType, Error, Target, Worker};
use std::time::Duration;

#[test]
fn prc_7_dropping_a_worker_ends_its_processes() -> Result<(), Error> {
    let _turn = turn();
    let left = Leftovers::before();
    for _ in 0..3 {
        let worker = builder().chips(2).sub_workers(2).init()?;
        let number = worker.tensor(DType::I64, &[1])?;
        let run = worker.submit("under way", |graph| {
            let call = Call::new(&SLEEP).scalar(20).args([number.in_out()]);
            for _ in 0..3 {
                graph.submit_sub(&call)?;
            }
            Ok(())
        })?;
        drop(worker);
        // Closing waited for the tasks that were under way.
        assert_eq!(run.wait()?.report.completed, 3);
        drop((run, number));
        left.check();
    }
    Ok(())
}

#[test]
fn who_does_not_leave_in_time_is_killed_and_named() -> Result<(), Error> {
    let _turn = turn();
    let left = Leftovers::before();
    let within = Duration::from_millis(200);
    let worker = builder().chips(3).device_ids(&[0, wish::STAY, 2]).close_within(within).init()?;
    let error = worker.close().expect_err("one stays");
    println!("{error}");
    let Error::Close { killed, stuck, .. } = error else { panic!("another error: {error}") };
    // On a busy host the others may be too late too.
    assert!(killed.iter().any(|name| name.starts_with("chip 1 (process ")), "{killed:?}");
    assert!(stuck.is_empty(), "{stuck:?}");
    left.check();
    Ok(())
}

#[test]
fn a_device_that_panics_when_it_is_given_back_keeps_nobody_from_leaving() -> Result<(), Error> {
    let _turn = turn();
    let left = Leftovers::before();
    for builder in [builder(), Worker::builder(&PROGRAM).threads()] {
        let worker = builder.clone().chips(2).device_ids(&[wish::BOMB, 1]).init()?;
        worker.run("used", |graph| {
            graph.submit_next_level(Target::Chip(0), &Call::new(&NOTHING))?;
            Ok(())
        })?;
        worker.close()?;
        left.check();
        // The same where it is given back because another chip cannot be set up.
        let refused = builder.chips(2).device_ids(&[wish::BOMB, wish::FAIL]).init();
        let words = refused.err().expect("one is on fire").to_string();
        assert!(words.contains("is on fire"), "{words}");
        left.check();
    }
    Ok(())
}

#[test]
fn a_task_that_never_returns_meets_its_budget_and_close_ends() -> Result<(), Error> {
    let _turn = turn();
    let left = Leftovers::before();
    let worker = builder().sub_workers(2).budgets(budgets(100, 300)).init()?;
    let number = worker.tensor(DType::I64, &[1])?;
    let error = worker.call(&Call::new(&HANG).args([number.output()])).expect_err("never returns");
    println!("{error}");
    let words = error.to_string();
    assert!(words.contains("sub worker") && words.contains("`fixture::hang`"), "{words}");
    eventually("the loss is proven", || worker.lost().len() == 1);
    let lost = worker.lost();
    assert!(lost[0].words.contains("SIGKILL") && lost[0].words.contains("hang"), "{lost:?}");
    crate::support::is_usable(&worker)?;
    worker.close()?;
    drop(number);
    left.check();
    Ok(())
}

#[test]
fn a_run_is_cancelled_while_another_thread_waits_for_it() -> Result<(), Error> {
    let _turn = turn();
    let worker = builder().sub_workers(2).init()?;
    let number = worker.tensor(DType::I64, &[2])?;
    let run = worker.submit("long", |graph| {
        for at in 0..2 {
            let call = Call::new(&SLEEP).scalar(50).args([number.rows(at, at + 1)?.in_out()]);
            for _ in 0..500 {
                graph.submit_sub(&call)?;
            }
        }
        Ok(())
    })?;
    let error = std::thread::scope(|scope| {
        let waiter = scope.spawn(|| run.wait());
        std::thread::sleep(Duration::from_millis(30));
        run.cancel();
        waiter.join().expect("no panic")
    });
    let Err(Error::Run(error)) = error else { panic!("it should be cancelled: {error:?}") };
    assert_eq!(error.cause().reason, Reason::Cancelled);
    println!("{} of {} tasks ended", error.report().completed, error.report().tasks);
    crate::support::is_usable(&worker)?;
    worker.close()
}

#[test]
fn a_closed_worker_refuses_what_its_handles_ask() -> Result<(), Error> {
    let _turn = turn();
    let worker = builder().sub_workers(1).init()?;
    let run =
        worker.submit("one", |graph| Ok(graph.submit_sub(&Call::new(&NOTHING)).map(drop)?))?;
    worker.close()?;
    assert_eq!(run.wait()?.report.completed, 1);
    Ok(())
}

#[test]
fn pth_1_the_watchdog_looks_when_nobody_waits() -> Result<(), Error> {
    let _turn = turn();
    let left = Leftovers::before();
    let worker = builder().sub_workers(1).budgets(budgets(100, 300)).init()?;
    let number = worker.tensor(DType::I64, &[1])?;
    // Long enough for the progress thread to sleep while there is no work.
    std::thread::sleep(Duration::from_millis(50));
    let run = worker.submit("never returns", |graph| {
        Ok(graph.submit_sub(&Call::new(&HANG).args([number.output()])).map(drop)?)
    })?;
    eventually("the run is given up", || run.is_done());
    eventually("the loss is proven", || worker.lost().len() == 1);
    worker.close()?;
    drop((run, number));
    left.check();
    Ok(())
}
