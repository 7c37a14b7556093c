//! The report as text.

use super::Finished;
use crate::show;
use crate::table::Table;
use owo_colors::OwoColorize;
use phalanx_sim::record::Resource;
use phalanx_sim::report::{CriticalPath, Report, Stalls};
use phalanx_sim::stall::{Kind, Stack};
use phalanx_workloads::Ranks;
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
    ) + &outcome.ranks.as_ref().map_or_else(String::new, ranks)
}

/// What programs of ranks say besides.
fn ranks(ranks: &Ranks) -> String {
    let bandwidth = ranks.bandwidth.map_or_else(String::new, |(algbw, busbw)| {
        format!("bandwidth  {algbw:.2} GB/s, on the bus {busbw:.2} GB/s\n")
    });
    format!("ranks      {}\nalgorithm  {}\n{bandwidth}", ranks.finished.len(), ranks.algorithm)
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
    let heading = format!("critical path, to the end of {end}");
    let table = path_table(path, simulated);
    let shares = kind_shares(&path.spent, simulated);
    let hidden = path.parts.len().saturating_sub(ROWS);
    format!("{}\n{shares}\n{}{}", heading.bold(), table.text(), rest(hidden)) + reach(path)
}

/// `85.6 % dma, 14.4 % compute`.
fn kind_shares(spent: &Stack, simulated: u64) -> String {
    let mut kinds = Kind::ALL.map(|kind| (spent.get(kind).as_ps(), kind));
    kinds.sort_by_key(|(time, _)| Reverse(*time));
    let used = kinds.iter().filter(|(time, _)| *time > 0);
    let share = |(time, kind): &(u64, Kind)| format!("{} {kind}", show::percent(*time, simulated));
    used.map(share).collect::<Vec<_>>().join(", ")
}

fn path_table(path: &CriticalPath, simulated: u64) -> Table {
    let numbers = ["times", "time", "share"];
    let mut table = Table::new(&["through", "for", "times", "time", "share"], &numbers);
    let mut row = |name: String, kind: Kind, times: String, time: u64| {
        table.row([
            name,
            kind.to_string(),
            times,
            show::time(time),
            show::percent(time, simulated),
        ]);
    };
    for part in path.parts.iter().take(ROWS) {
        row(part.resource.to_string(), part.kind, part.count.to_string(), part.time.as_ps());
    }
    let others = if path.complete { "(latency, waits)" } else { "(latency, waits, older)" };
    for kind in Kind::ALL {
        let parts = path.parts.iter().filter(|part| part.kind == kind);
        let between =
            path.spent.get(kind).as_ps().saturating_sub(parts.map(|p| p.time.as_ps()).sum());
        if between > 0 {
            row(others.to_owned(), kind, String::new(), between);
        }
    }
    table
}

/// Says so where the parts do not go back to the start.
const fn reach(path: &CriticalPath) -> &'static str {
    if path.complete {
        ""
    } else {
        "the parts do not reach back to the start: older steps were not kept\n"
    }
}

fn advice(report: &Report) -> String {
    let line = |line: &String| format!("{} {line}\n", "advice:".yellow().bold());
    let lines: Vec<String> = report.advice.iter().take(SOME).map(line).collect();
    lines.concat() + &rest(report.advice.len().saturating_sub(SOME))
}

/// A table under a heading; nothing without rows.
fn section(heading: &str, table: &Table, hidden: usize) -> String {
    if table.is_empty() {
        return String::new();
    }
    format!("{}\n{}{}", heading.bold(), table.text(), rest(hidden))
}

fn rest(hidden: usize) -> String {
    if hidden == 0 { String::new() } else { format!("and {hidden} more; `--json` has all\n") }
}
