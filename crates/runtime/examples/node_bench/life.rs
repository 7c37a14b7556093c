//! The cost of processes besides their tasks: memory, starting, idling, dying.

use crate::program::{idle, processes, stuck};
use crate::{Failed, Plan, Row, median};
use phalanx_runtime::{DType, Worker};
use rustix::process::{Pid, Signal};
use std::time::{Duration, Instant};

/// Tasks that are submitted without waiting for any.
const MILLION: u64 = 1_000_000;
const GIB: u64 = 1 << 30;

fn numbers(worker: &Worker) -> Vec<u32> {
    worker.startup().children.iter().map(|child| child.process).collect()
}

/// The most memory a process ever had, in MiB.
fn peak(process: u32) -> Result<f64, Failed> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    let kib: f64 = line.split_whitespace().next().ok_or("no number")?.parse()?;
    Ok(kib / 1024.0)
}

/// Memory of very many tasks.
pub(crate) fn million(_: Plan) -> Result<Vec<Row>, Failed> {
    let worker = processes(2).init()?;
    let datum = worker.tensor(DType::U8, &[64])?;
    let run = worker.submit("a million", |graph| {
        for _ in 0..MILLION {
            graph.submit_sub(&idle().args([datum.input()]))?;
        }
        Ok(())
    })?;
    run.wait()?;
    let mut all = peak(std::process::id())?;
    for process in numbers(&worker) {
        all += peak(process)?;
    }
    drop(run);
    worker.close()?;
    Ok(vec![("million_rss_mib", all, "MiB")])
}

/// Processor time that all threads of a process have used, in nanoseconds.
fn used(process: u32) -> Result<f64, Failed> {
    let mut sum = 0.0;
    for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let text = std::fs::read_to_string(thread?.path().join("schedstat"))?;
        sum += text.split(' ').next().ok_or("no number")?.parse::<f64>()?;
    }
    Ok(sum)
}

/// Starting, idling and closing.
pub(crate) fn life(plan: Plan) -> Result<Vec<Row>, Failed> {
    let (mut starts, mut ends, mut alone) = (Vec::new(), Vec::new(), Vec::new());
    let milliseconds = |begun: Instant| begun.elapsed().as_secs_f64() * 1e3;
    for _ in 0..plan.lives {
        let begun = Instant::now();
        let worker = processes(8).init()?;
        starts.push(milliseconds(begun));
        worker.call(&idle())?;
        let begun = Instant::now();
        worker.close()?;
        ends.push(milliseconds(begun));
        let begun = Instant::now();
        let worker = processes(1).init()?;
        alone.push(milliseconds(begun));
        worker.close()?;
    }
    let worker = processes(8).init()?;
    for _ in 0..100 {
        worker.call(&idle())?;
    }
    let mut all = numbers(&worker);
    all.push(std::process::id());
    std::thread::sleep(Duration::from_millis(50));
    let total = || all.iter().map(|process| used(*process)).sum::<Result<f64, Failed>>();
    let (begun, before) = (Instant::now(), total()?);
    std::thread::sleep(Duration::from_secs(2));
    let share = (total()? - before) / begun.elapsed().as_nanos() as f64;
    worker.close()?;
    Ok(vec![
        ("init8_ms", median(starts), "ms"),
        ("close_ms", median(ends), "ms"),
        ("spawn_ms", median(alone), "ms"),
        ("idle_cpu_percent", 100.0 * share, "%"),
    ])
}

/// Kills a child that has so many bytes; milliseconds until its waiter knows.
fn notice(bytes: u64) -> Result<f64, Failed> {
    let worker = processes(1).init()?;
    let there = worker.tensor(DType::I64, &[1])?;
    let call = stuck(bytes).args([there.no_dep()]);
    let run = worker.submit("stuck", |graph| Ok(graph.submit_sub(&call).map(drop)?))?;
    while worker.read_unordered::<i64>(&there)?[0] == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let victim = i32::try_from(numbers(&worker)[0]).ok().and_then(Pid::from_raw).ok_or("no pid")?;
    let took = std::thread::scope(|scope| -> Result<f64, Failed> {
        let waiter = scope.spawn(|| (run.wait(), Instant::now()));
        std::thread::sleep(Duration::from_millis(2));
        let begun = Instant::now();
        rustix::process::kill_process(victim, Signal::KILL)?;
        let (ended, at) = waiter.join().map_err(|_| "the waiter panicked")?;
        ended.err().ok_or("the run should have failed")?;
        Ok(at.saturating_duration_since(begun).as_secs_f64() * 1e3)
    })?;
    drop(run);
    worker.close()?;
    Ok(took)
}

/// Measures the time until a death is known, of a small child and of a large one.
pub(crate) fn kill(plan: Plan) -> Result<Vec<Row>, Failed> {
    let small = (0..plan.lives).map(|_| notice(1)).collect::<Result<_, _>>()?;
    let large = (0..plan.lives.div_ceil(4)).map(|_| notice(GIB)).collect::<Result<_, _>>()?;
    Ok(vec![("kill_notice_ms", median(small), "ms"), ("kill_notice_1gib_ms", median(large), "ms")])
}
