//! The cost of one run from end to end.

use crate::program::{idle, processes};
use crate::{Failed, Plan, Row, best, median};
use phalanx_runtime::{Call, Failure, Orchestrator, Worker};
use std::time::Instant;

/// Runs in a row of which the median is taken.
const BATCH: usize = 100;

/// The median of runs, in microseconds, where the machine disturbed least.
fn latency(
    worker: &Worker,
    calls: usize,
    graph: impl Fn(&mut Orchestrator<'_>) -> Result<(), Failure>,
) -> Result<f64, Failed> {
    let mut medians = Vec::new();
    for _ in 0..calls.div_ceil(BATCH) {
        let mut times = Vec::with_capacity(BATCH);
        for _ in 0..BATCH {
            let begun = Instant::now();
            worker.run("one", &graph)?;
            times.push(begun.elapsed().as_secs_f64() * 1e6);
        }
        medians.push(median(times));
    }
    Ok(best(&medians))
}

/// One task, and groups.
pub(crate) fn calls(plan: Plan) -> Result<Vec<Row>, Failed> {
    let mut rows = Vec::new();
    let worker = processes(1).init()?;
    let call = idle();
    let one = latency(&worker, plan.calls, |graph| Ok(graph.submit_sub(&call).map(drop)?))?;
    rows.push(("run_one_us", one, "us"));
    worker.close()?;
    for (name, members) in [("group2_us", 2), ("group8_us", 8)] {
        let worker = processes(members).init()?;
        let group: Vec<Call> = (0..members).map(|_| idle()).collect();
        let run = |graph: &mut Orchestrator<'_>| Ok(graph.submit_sub_group(&group).map(drop)?);
        rows.push((name, latency(&worker, plan.calls / 2, run)?, "us"));
        worker.close()?;
    }
    Ok(rows)
}
