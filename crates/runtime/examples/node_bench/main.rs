//! The cost of workers that are processes, beside the floor of the same machine, as one JSON object.
//!
//! ```text
//! cargo run --release -p phalanx-runtime --example node_bench [--quick] [PART]...
//! ```
//!
//! | part | rows |
//! |---|---|
//! | `million` | `million_rss_mib`: 10^6 tasks without waiting, the most memory of parent and children together |
//! | `floors` | `raw_spin_us`, `raw_yield_us`, `raw_futex_us`: a word there and back between two processes that wait that way; `spawn_true_ms`, `spawn_self_ms`, `spawn8_ms`: processes started and reaped |
//! | `tasks` | `independent1_us`, `independent2_us`, `independent4_us`, the worst of them `independent_us` |
//! | `chain` | `chain_us` |
//! | `calls` | `run_one_us`, `group2_us`, `group8_us`: medians of runs one after the other |
//! | `many` | 8 children: `noop8_per_s`, `share16_percent` of what all cores would do with tasks of 16 µs |
//! | `life` | `init8_ms`, `close_ms`, `spawn_ms` (one child until it is ready), `idle_cpu_percent` |
//! | `kill` | `kill_notice_ms`, `kill_notice_1gib_ms`: from `kill -9` until the caller knows |
//!
//! Costs of tasks are the best of many short runs, since whatever else the machine does is no cost of ours; latencies are
//! the median of a hundred in a row, where that is least.
#![expect(clippy::print_stdout, reason = "a benchmark prints")]
#![expect(clippy::cast_precision_loss, reason = "figures are rounded anyway")]

mod calls;
mod floors;
mod life;
mod program;
mod tasks;

use program::PROGRAM;

/// The cause of a figure that could not be taken.
type Failed = Box<dyn std::error::Error>;

/// One figure: its name, its value and its unit.
type Row = (&'static str, f64, &'static str);

/// The amount of work to run.
#[derive(Clone, Copy)]
struct Plan {
    /// Runs of which the best counts.
    repeats: usize,
    /// Tasks of a run.
    tasks: u64,
    /// Runs one after the other of which the median counts.
    calls: usize,
    /// Processes that are started, or killed.
    lives: usize,
}

const FULL: Plan = Plan { repeats: 60, tasks: 10_000, calls: 4_000, lives: 20 };
const QUICK: Plan = Plan { repeats: 20, tasks: 5_000, calls: 1_000, lives: 5 };

/// Takes the figures of one part.
type Part = fn(Plan) -> Result<Vec<Row>, Failed>;

/// Memory comes first, before anything else has used some.
const PARTS: [(&str, Part); 8] = [
    ("million", life::million),
    ("floors", floors::floors),
    ("tasks", tasks::tasks),
    ("chain", tasks::chained),
    ("calls", calls::calls),
    ("many", tasks::many),
    ("life", life::life),
    ("kill", life::kill),
];

fn main() -> Result<(), Failed> {
    PROGRAM.serve_if_child();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if floors::is_partner(&arguments)? {
        return Ok(());
    }
    let plan = if arguments.iter().any(|one| one == "--quick") { QUICK } else { FULL };
    let wanted: Vec<&String> = arguments.iter().filter(|one| !one.starts_with("--")).collect();
    let known = |name: &&String| PARTS.iter().any(|(part, _)| part == name);
    if let Some(unknown) = wanted.iter().find(|name| !known(name)) {
        return Err(format!("there is no part `{unknown}`").into());
    }
    let mut rows = Vec::new();
    for (name, part) in PARTS {
        if wanted.is_empty() || wanted.iter().any(|one| *one == name) {
            rows.extend(part(plan)?);
        }
    }
    let rows = rows.iter().map(|(measure, value, unit)| {
        format!("{{\"measure\":\"{measure}\",\"value\":{value:.4},\"unit\":\"{unit}\"}}")
    });
    println!("{{\"rows\":[{}]}}", rows.collect::<Vec<_>>().join(",\n"));
    Ok(())
}

/// The middle of values.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The least of values.
fn best(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}
