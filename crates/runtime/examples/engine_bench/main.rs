//! Nanoseconds per task of the engine, alone and over threads, as one JSON object.
//!
//! ```text
//! cargo run --release -p phalanx-runtime --example engine_bench [repeats [tasks [pattern [runtime]]]]
//! ```
//!
//! No-op tasks in five patterns: `independent` (each its own datum), `chain` (one datum), `stencil` (64 wide, 3 reads and a
//! write, two buffers), `wavefront` (2 reads), `random` (3 producers among the last 256). Building, inferring, dispatching
//! and completing are all timed. `phalanx-inline` fills the ring of 1024 and then runs all that is ready, so that every
//! edge is a real one; `phalanx-inline-64` runs what is ready after every 64 submissions. `phalanx` is a worker with two
//! threads, as the README shows it: `.threads().sub_workers(2)`; the caller submits and waits. `metg_ns` is METG(50 %) of a
//! stencil as wide as there are threads, on that worker.
#![expect(clippy::print_stdout, reason = "a benchmark prints")]
#![expect(clippy::cast_precision_loss, reason = "figures are rounded anyway")]

#[path = "../../../engine/examples/engine_alone/inline.rs"]
mod inline;
#[path = "../../../engine/examples/engine_alone/patterns.rs"]
mod patterns;
mod threads;

use inline::Inline;
use phalanx_runtime::Error;
use std::time::Instant;
use threads::{THREADS, Threads};

/// Steps of the stencil that METG is measured with.
const STEPS: usize = 1000;

fn row(pattern: &str, runtime: &str, threads: u32, nanoseconds: f64) -> String {
    format!(
        "{{\"pattern\":\"{pattern}\",\"runtime\":\"{runtime}\",\"threads\":{threads},\"ns_per_task\":{nanoseconds:.1}}}"
    )
}

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |usual| arguments.next().map_or(usual, |text| text.parse().expect("a number"));
    let (repeats, count): (usize, usize) = (number(20), number(50_000));
    let wanted = arguments.next();
    let only = arguments.next();
    let is_wanted = |name: &str| wanted.as_ref().is_none_or(|wanted| wanted == name);
    let is_measured = |runtime: &str| only.as_ref().is_none_or(|only| only == runtime);
    let mut inline = Inline::new();
    let data = inline.data(count.max(128));
    let threads = Threads::new(count.max(128))?;
    let mut rows = Vec::new();
    let patterns = patterns::patterns(count);
    for (pattern, tasks) in patterns.iter().filter(|(name, _)| is_wanted(name)) {
        for (runtime, batch) in [("phalanx-inline", usize::MAX), ("phalanx-inline-64", 64)] {
            if !is_measured(runtime) {
                continue;
            }
            let times = (0..repeats).map(|_| {
                let begun = Instant::now();
                inline.run(&data, tasks, batch);
                begun.elapsed().as_nanos()
            });
            let best = times.min().unwrap_or_default() as f64;
            rows.push(row(pattern, runtime, 1, best / count.max(1) as f64));
        }
        if is_measured("phalanx") {
            let mut times = Vec::new();
            for _ in 0..repeats {
                times.push(threads.run(tasks, 0)?);
            }
            times.sort_unstable_by(f64::total_cmp);
            rows.push(row(pattern, "phalanx", THREADS, times[times.len() / 2]));
        }
    }
    let metg = match wanted {
        Some(_) => None,
        None => threads::metg(&threads, THREADS as usize, STEPS, repeats.clamp(1, 5))?,
    };
    let metg = metg.map_or("null".to_owned(), |metg| format!("{metg:.0}"));
    println!(
        "{{\"tasks\":{count},\"repeats\":{repeats},\"rows\":[{}],\"metg_ns\":{{\"phalanx\":{metg}}}}}",
        rows.join(",")
    );
    Ok(())
}
