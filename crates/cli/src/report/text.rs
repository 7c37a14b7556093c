//! A finished run as text: a header, then the tables of its report.

use super::Finished;
use crate::show;
use owo_colors::OwoColorize;
use phalanx_sim::report::Style;
use phalanx_workloads::Ranks;

/// Follows the number of rows that a table leaves out.
const HINT: &str = "; `--json` has all";

/// The line of a run for which no advice was looked for.
const NO_ADVICE: &str = "advice     not looked for (`--advice on`)\n";

pub(super) fn report(finished: &Finished) -> String {
    let tables = finished.outcome.report.text(Style::Terminal, HINT);
    let gap = if tables.is_empty() { "" } else { "\n" };
    head(finished) + gap + &tables
}

fn head(finished: &Finished) -> String {
    let Finished { workload, spec, settings, outcome, wall } = finished;
    let parameters: Vec<String> =
        settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let simulated = outcome.report.simulated.as_ps();
    let wall = u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX).saturating_mul(1_000);
    let result = outcome.check.map_or_else(
        || "not computed (`--data off`)".to_owned(),
        |check| format!("{}, max abs error {}", verdict(check.correct), check.max_abs_error),
    );
    // A report that is cut to a range has none.
    let events = match outcome.report.events {
        0 => String::new(),
        events => format!("events     {events}\n"),
    };
    format!(
        "{} on {}  {}\n\nsimulated  {} ({simulated} ps)\n{events}wall       {}\nresult     {result}\n",
        workload.name.bold(),
        spec.name.bold(),
        parameters.join(", "),
        show::time(simulated).bold(),
        show::time(wall),
    ) + &outcome.ranks.as_ref().map_or_else(String::new, ranks)
        + if outcome.report.advice.is_some() { "" } else { NO_ADVICE }
}

/// Returns the lines for programs of ranks.
fn ranks(ranks: &Ranks) -> String {
    let bandwidth = ranks.bandwidth.map_or_else(String::new, |(algbw, busbw)| {
        format!("bandwidth  {algbw:.2} GB/s, on the bus {busbw:.2} GB/s\n")
    });
    format!("ranks      {}\nalgorithm  {}\n{bandwidth}", ranks.finished.len(), ranks.algorithm)
}

fn verdict(correct: bool) -> String {
    if correct { "correct".green().to_string() } else { "WRONG".red().bold().to_string() }
}
