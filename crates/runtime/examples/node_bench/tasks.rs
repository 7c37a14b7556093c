//! The cost of a task among many.

use crate::program::{busy, idle, iterations_of, processes, rate_of_all};
use crate::{Failed, Plan, Row, best, median};
use phalanx_runtime::{DType, Tensor, Worker};
use std::time::{Duration, Instant};

/// More than there are cores.
const CHILDREN: u32 = 8;
/// The duration of a task of some size.
const MICROS: f64 = 16.0;

/// Microseconds per task of tasks that have nothing to do with each other.
fn independent(worker: &Worker, data: &[Tensor], tasks: u64) -> Result<f64, Failed> {
    let begun = Instant::now();
    let finished = worker.run("independent", |graph| {
        for (_, datum) in (0..tasks).zip(data.iter().cycle()) {
            graph.submit_sub(&idle().args([datum.output()]))?;
        }
        Ok(())
    })?;
    let took = begun.elapsed().as_secs_f64();
    assert_eq!(finished.report.completed, tasks, "every task ran once");
    Ok(took * 1e6 / tasks as f64)
}

/// Microseconds per task when each waits for the one before.
fn chain(worker: &Worker, tasks: u64) -> Result<f64, Failed> {
    let datum = worker.tensor(DType::U8, &[64])?;
    let begun = Instant::now();
    worker.run("chain", |graph| {
        for _ in 0..tasks {
            graph.submit_sub(&idle().args([datum.in_out()]))?;
        }
        Ok(())
    })?;
    Ok(begun.elapsed().as_secs_f64() * 1e6 / tasks as f64)
}

fn data(worker: &Worker) -> Result<Vec<Tensor>, Failed> {
    // More than the ring has slots, so that no task waits for another.
    Ok((0..2048).map(|_| worker.tensor(DType::U8, &[64])).collect::<Result<_, _>>()?)
}

/// Tasks on one, two and four children.
pub(crate) fn tasks(plan: Plan) -> Result<Vec<Row>, Failed> {
    let mut rows = Vec::new();
    let mut worst = 0f64;
    for (name, children) in [("independent1_us", 1), ("independent2_us", 2), ("independent4_us", 4)]
    {
        let worker = processes(children).init()?;
        let data = data(&worker)?;
        let times = (0..plan.repeats).map(|_| independent(&worker, &data, plan.tasks));
        let time = best(&times.collect::<Result<Vec<_>, _>>()?);
        worst = worst.max(time);
        rows.push((name, time, "us"));
        worker.close()?;
    }
    rows.push(("independent_us", worst, "us"));
    Ok(rows)
}

/// Tasks of which each waits for the one before.
pub(crate) fn chained(plan: Plan) -> Result<Vec<Row>, Failed> {
    let worker = processes(1).init()?;
    let times = (0..plan.repeats).map(|_| chain(&worker, plan.tasks / 5));
    let time = best(&times.collect::<Result<Vec<_>, _>>()?);
    worker.close()?;
    Ok(vec![("chain_us", time, "us")])
}

/// Tasks on many children.
pub(crate) fn many(plan: Plan) -> Result<Vec<Row>, Failed> {
    let worker = processes(CHILDREN).init()?;
    let data = data(&worker)?;
    let times = (0..plan.repeats).map(|_| independent(&worker, &data, plan.tasks));
    let time = best(&times.collect::<Result<Vec<_>, _>>()?);
    let (iterations, count) = (iterations_of(MICROS), plan.tasks);
    let mut shares = Vec::new();
    for _ in 0..plan.repeats.div_ceil(6) {
        let span = Duration::from_millis(100);
        let before = rate_of_all(CHILDREN, span);
        let begun = Instant::now();
        worker.run("of some size", |graph| {
            for (_, datum) in (0..count).zip(data.iter().cycle()) {
                graph.submit_sub(&busy(iterations).args([datum.output()]))?;
            }
            Ok(())
        })?;
        let took = begun.elapsed().as_secs_f64() * 1e6;
        let ideal = f64::midpoint(before, rate_of_all(CHILDREN, span));
        shares.push(100.0 * (iterations * count) as f64 / took / ideal);
    }
    worker.close()?;
    Ok(vec![("noop8_per_s", 1e6 / time, "1/s"), ("share16_percent", median(shares), "%")])
}
