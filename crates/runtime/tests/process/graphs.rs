//! Graphs over processes.

use crate::callables::{ADD, DEVICE, NOTHING, PROGRAM, SUM_BYTES, WHO};
use crate::support::{Leftovers, builder, turn};
use phalanx_runtime::{Call, DType, Error, Target, Tensor, Worker};
use std::collections::BTreeSet;

#[test]
fn sub_workers_run_a_graph_and_leave() -> Result<(), Error> {
    let _turn = turn();
    let left = Leftovers::before();
    let worker = builder().sub_workers(2).init()?;
    let (a, b) = (worker.tensor(DType::F32, &[1024])?, worker.tensor(DType::F32, &[1024])?);
    let sum = worker.tensor(DType::F32, &[1024])?;
    worker.write(&a, &[1.0f32; 1024])?;
    worker.write(&b, &[2.0f32; 1024])?;
    worker.run("sums", |graph| {
        for row in (0..1024).step_by(128) {
            let part = |tensor: &Tensor| tensor.rows(row, row + 128);
            let arguments = [part(&sum)?.output(), part(&a)?.input(), part(&b)?.input()];
            graph.submit_sub(&Call::new(&ADD).args(arguments))?;
        }
        Ok(())
    })?;
    assert_eq!(worker.read::<f32>(&sum)?, [3.0; 1024]);
    worker.close()?;
    left.check();
    Ok(())
}

#[test]
fn every_worker_is_a_process_of_its_own() -> Result<(), Error> {
    let _turn = turn();
    let worker = builder().chips(3).sub_workers(2).init()?;
    let numbers = worker.tensor(DType::I64, &[5])?;
    worker.run("who", |graph| {
        let who = |at: u64| -> Result<Call, Error> {
            Ok(Call::new(&WHO).args([numbers.rows(at, at + 1)?.output()]))
        };
        for chip in 0..3 {
            graph.submit_next_level(Target::Chip(chip), &who(u64::from(chip))?)?;
        }
        graph.submit_sub_group(&[who(3)?, who(4)?])?;
        Ok(())
    })?;
    let found: BTreeSet<i64> = worker.read::<i64>(&numbers)?.into_iter().collect();
    let started = worker.startup().children.iter().map(|child| i64::from(child.process));
    assert_eq!(found, started.collect());
    worker.close()
}

#[test]
fn arguments_of_300_kilobytes_arrive_whole() -> Result<(), Error> {
    let _turn = turn();
    let worker = builder().sub_workers(1).init()?;
    let total = worker.tensor(DType::I64, &[4])?;
    let bytes: Vec<u8> = (0..300u32 << 10).map(|number| (number % 251) as u8).collect();
    worker.run("large", |graph| {
        for at in 0..4 {
            let call = Call::new(&SUM_BYTES).bytes(&bytes).args([total.rows(at, at + 1)?.output()]);
            graph.submit_sub(&call)?;
        }
        Ok(())
    })?;
    let sum: i64 = bytes.iter().map(|byte| i64::from(*byte)).sum();
    assert_eq!(worker.read::<i64>(&total)?, [sum; 4]);
    worker.close()
}

#[test]
fn chips_have_their_devices_as_processes_and_as_threads() -> Result<(), Error> {
    let _turn = turn();
    for builder in [builder(), Worker::builder(&PROGRAM).threads()] {
        let worker = builder.chips(2).device_ids(&[5, 9]).init()?;
        let numbers = worker.tensor(DType::I64, &[2])?;
        worker.run("devices", |graph| {
            for chip in 0..2 {
                let at = u64::from(chip);
                let call = Call::new(&DEVICE).args([numbers.rows(at, at + 1)?.output()]);
                graph.submit_next_level(Target::Chip(chip), &call)?;
            }
            Ok(())
        })?;
        assert_eq!(worker.read::<i64>(&numbers)?, [5, 9]);
        worker.close()?;
    }
    Ok(())
}

#[test]
fn pth_1_runs_go_on_when_nobody_waits() -> Result<(), Error> {
    let _turn = turn();
    let worker = builder().sub_workers(2).init()?;
    let order = worker.tensor(DType::I64, &[1])?;
    for _ in 0..20 {
        let run = worker.submit("a chain", |graph| {
            for _ in 0..10 {
                graph.submit_sub(&Call::new(&WHO).args([order.in_out()]))?;
            }
            Ok(())
        })?;
        drop(run);
    }
    // Nobody attends now: only the keeper can make the links of the chain follow each other.
    crate::support::eventually("the runs end", || worker.read::<i64>(&order).is_ok());
    worker.run("one more", |graph| Ok(graph.submit_sub(&Call::new(&NOTHING)).map(drop)?))?;
    worker.close()
}
