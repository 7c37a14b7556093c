//! The report as text.

use super::Finished;
use crate::show;
use crate::table::Table;
use owo_colors::OwoColorize;
use phalanx_sim::record::Resource;
use phalanx_sim::report::{CriticalPath, Report, Stalls};
use phalanx_sim::stall::{Kind, Stack};
use std::cmp::Reverse;

/// How many rows of a table are shown.
const ROWS: usize = 10;
/// How many PEs, and how many links, are shown without an average.
const FEW: usize = 8;
/// How many are shown below the average of all.
const SOME: usize = 4;

pub(super) fn report(finished: &Finished) -> String {
    let report = &finished.outcome.report;
    let parts = [head(finished), utilisation(report), stalls(report), path(report), advice(report)];
    parts.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join("\n")
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
    format!(
        "{} on {}  {}\n\nsimulated  {} ({simulated} ps)\nevents     {}\nwall       {}\nresult     {result}\n",
        workload.name.bold(),
        spec.name.bold(),
        parameters.join(", "),
        show::time(simulated).bold(),
        outcome.report.events,
        show::time(wall),
    )
}

fn verdict(correct: bool) -> String {
    if correct { "correct".green().to_string() } else { "WRONG".red().bold().to_string() }
}

/// The busiest engines, wires and memories.
fn utilisation(report: &Report) -> String {
    let simulated = report.simulated.as_ps();
    let mut used: Vec<_> =
        report.utilisation.iter().filter(|usage| usage.busy.as_ps() > 0).collect();
    used.sort_by_key(|usage| (Reverse(usage.busy), usage.resource));
    let mut table = Table::new(
        &["busiest", "busy", "time", "bytes", "operations"],
        &["busy", "time", "bytes", "operations"],
    );
    for usage in used.iter().take(ROWS) {
        table.row([
            usage.resource.to_string(),
            show::percent(usage.busy.as_ps(), simulated),
            show::time(usage.busy.as_ps()),
            show::bytes(usage.bytes),
            usage.operations.to_string(),
        ]);
    }
    section("utilisation", &table, used.len().saturating_sub(ROWS))
}

/// Where the time of PEs and links went.
fn stalls(report: &Report) -> String {
    let simulated = report.simulated.as_ps();
    let is_link = |stalls: &&Stalls| matches!(stalls.resource, Resource::Link { .. });
    let (links, pes): (Vec<&Stalls>, Vec<&Stalls>) = report.stalls.iter().partition(is_link);
    let mut headings = vec!["where time went"];
    headings.extend(Kind::ALL.map(Kind::name));
    headings.push("idle");
    let mut table = Table::new(&headings, &headings[1..]);
    let hidden =
        group(&mut table, pes, "PEs", simulated) + group(&mut table, links, "links", simulated);
    section("stalls", &table, hidden)
}

/// Adds rows for PEs or for links, least idle first; how many were left out.
fn group(table: &mut Table, mut members: Vec<&Stalls>, noun: &str, simulated: u64) -> usize {
    members.sort_by_key(|stalls| (Reverse(stalls.stack.total()), stalls.resource));
    let shown = if members.len() <= FEW { members.len() } else { SOME };
    if shown < members.len() {
        let name = format!("average of {} {noun}", members.len());
        let all = members.iter().fold(Stack::default(), |all, stalls| add(all, &stalls.stack));
        table.row(shares(name, &all, simulated.saturating_mul(members.len() as u64)));
    }
    for stalls in &members[..shown] {
        table.row(shares(stalls.resource.to_string(), &stalls.stack, simulated));
    }
    members.len() - shown
}

fn add(mut all: Stack, one: &Stack) -> Stack {
    for kind in Kind::ALL {
        all.add(kind, one.get(kind));
    }
    all
}

fn shares(name: String, stack: &Stack, whole: u64) -> [String; 2 + Kind::COUNT] {
    let share = |ps: u64| show::percent(ps, whole);
    let [compute, dma, link, credit, dependency] =
        Kind::ALL.map(|kind| share(stack.get(kind).as_ps()));
    let idle = share(whole.saturating_sub(stack.total().as_ps()));
    [name, compute, dma, link, credit, dependency, idle]
}

/// What led to the end: shares by kind, then the longest parts.
fn path(report: &Report) -> String {
    let (path, simulated) = (&report.critical_path, report.simulated.as_ps());
    let Some(end) = path.end else { return String::new() };
    let mut kinds: Vec<Kind> =
        Kind::ALL.into_iter().filter(|kind| spent(path, *kind) > 0).collect();
    kinds.sort_by_key(|kind| Reverse(spent(path, *kind)));
    let share = |kind: &Kind| format!("{} {kind}", show::percent(spent(path, *kind), simulated));
    let mut table =
        Table::new(&["through", "for", "times", "time", "share"], &["times", "time", "share"]);
    for part in path.parts.iter().take(ROWS) {
        table.row([
            part.resource.to_string(),
            part.kind.to_string(),
            part.count.to_string(),
            show::time(part.time.as_ps()),
            show::percent(part.time.as_ps(), simulated),
        ]);
    }
    let kinds: Vec<String> = kinds.iter().map(share).collect();
    let heading = format!("critical path, to the end of {end}: {}", kinds.join(", "));
    section(&heading, &table, path.parts.len().saturating_sub(ROWS)) + &reach(path)
}

fn spent(path: &CriticalPath, kind: Kind) -> u64 {
    path.spent.get(kind).as_ps()
}

/// Says so where the parts do not go back to the start.
fn reach(path: &CriticalPath) -> String {
    if path.complete {
        return String::new();
    }
    let kept: u64 = path.parts.iter().map(|part| part.time.as_ps()).sum();
    format!("the parts are those of the last {}; older steps were not kept\n", show::time(kept))
}

fn advice(report: &Report) -> String {
    let shown = report.advice.iter().take(ROWS);
    let mut text: String =
        shown.map(|line| format!("{} {line}\n", "advice:".yellow().bold())).collect();
    if report.advice.len() > ROWS {
        text += &more(report.advice.len() - ROWS);
    }
    text
}

/// A table under a heading; nothing without rows.
fn section(heading: &str, table: &Table, hidden: usize) -> String {
    if table.is_empty() {
        return String::new();
    }
    let rest = if hidden > 0 { more(hidden) } else { String::new() };
    format!("{}\n{}{rest}", heading.bold(), table.text())
}

fn more(hidden: usize) -> String {
    format!("and {hidden} more; `--json` has all\n")
}
