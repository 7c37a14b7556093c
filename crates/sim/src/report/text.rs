//! The report as text.

use super::table::{Style, Table};
use super::{CriticalPath, Report, Stalls, figures};
use crate::advice::Advice;
use crate::record::Resource;
use crate::stall::{Kind, Stack};
use crate::time::Time;
use std::cmp::Reverse;
use std::fmt;

/// Rows shown of a table.
const ROWS: usize = 10;
/// Most PEs, and most links, that have a row each.
const ALL_SHOWN: usize = 8;
/// Rows of PEs, and rows of links, below the average of more than [`ALL_SHOWN`].
const BELOW_AVERAGE: usize = 4;

/// The heading of advice.
const ADVICE: &str = "advice, each change simulated alone";
/// Stands for a table of advice without rows.
const NO_ADVICE: &str = "no change gains 2 %";

/// Stands for the critical path of a run that kept none.
const NO_PATH: &str = "not kept; a run with the option `critical_path` keeps it";

impl Report {
    /// Returns the name of an engine, a wire or a memory, with the levels of the machine.
    pub fn name(&self, resource: Resource) -> String {
        self.names.text(&resource.to_string()).into_owned()
    }

    /// Returns the tables of the report as text: the text of `phalanx run` below its header.
    ///
    /// `hint` stands behind the number of rows that a table leaves out.
    pub fn text(&self, style: Style, hint: &str) -> String {
        Text { report: self, style, hint }.sections()
    }
}

impl fmt::Display for Report {
    /// Writes the simulated time, the number of events and the tables, without colours.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (simulated, text) = (self.simulated.as_ps(), self.text(Style::Plain, ""));
        writeln!(f, "simulated  {} ({simulated} ps)", figures::time(simulated))?;
        if self.events > 0 {
            writeln!(f, "events     {}", self.events)?;
        }
        if text.is_empty() { Ok(()) } else { write!(f, "\n{text}") }
    }
}

/// A report, and the look of its text.
struct Text<'a> {
    report: &'a Report,
    style: Style,
    hint: &'a str,
}

impl Text<'_> {
    fn sections(&self) -> String {
        let parts = [
            self.utilisation(),
            self.stalls(),
            self.lines(),
            self.ranges(),
            self.path(),
            self.advice(),
        ];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join("\n")
    }

    /// Returns the busiest engines, wires and memories.
    fn utilisation(&self) -> String {
        let simulated = self.report.simulated.as_ps();
        let mut used: Vec<_> =
            self.report.utilisation.iter().filter(|usage| usage.busy.as_ps() > 0).collect();
        used.sort_by_key(|usage| (Reverse(usage.busy), usage.resource));
        let columns = ["busiest", "busy", "time", "bytes", "operations"];
        let mut table = Table::new(&columns, &columns[1..]);
        for usage in used.iter().take(ROWS) {
            table.row([
                self.report.name(usage.resource),
                figures::percent(usage.busy.as_ps(), simulated),
                figures::time(usage.busy.as_ps()),
                figures::bytes(usage.bytes),
                usage.operations.to_string(),
            ]);
        }
        self.section("utilisation", &table, used.len().saturating_sub(ROWS))
    }

    /// Returns the stall stacks of PEs and links.
    fn stalls(&self) -> String {
        let simulated = self.report.simulated.as_ps();
        let is_link = |stalls: &&Stalls| matches!(stalls.resource, Resource::Link { .. });
        let (links, pes): (Vec<&Stalls>, Vec<&Stalls>) =
            self.report.stalls.iter().partition(is_link);
        let kinds = self.kinds();
        let mut columns = vec!["where time went"];
        columns.extend(kinds.iter().map(|kind| kind.name()));
        columns.push("idle");
        let mut rows = StallRows {
            report: self.report,
            table: Table::new(&columns, &columns[1..]),
            kinds: &kinds,
            simulated,
        };
        let hidden = rows.group(pes, "PEs") + rows.group(links, "links");
        self.section("stalls", &rows.table, hidden)
    }

    /// Returns the kinds with a column. The parts of memory time have one only if there is such time.
    fn kinds(&self) -> Vec<Kind> {
        let is_used =
            |kind| self.report.stalls.iter().any(|stalls| stalls.stack.get(kind) > Time::ZERO);
        let is_part = |kind| matches!(kind, Kind::Hbm | Kind::Mesh | Kind::Latency);
        Kind::ALL.into_iter().filter(|kind| !is_part(*kind) || is_used(*kind)).collect()
    }

    /// Returns the lines of kernels: the time of all programs at each, by the cause of the wait.
    fn lines(&self) -> String {
        let lines = &self.report.lines;
        let columns = ["line", "time", "share", "compute", "memory", "other", "bytes", "source"];
        let mut table = Table::new(&columns, &columns[1..7]);
        let all: u64 = lines.iter().map(|line| line.stack.total().as_ps()).sum();
        for line in lines.iter().take(ROWS) {
            let of = |kinds: &[Kind]| {
                kinds.iter().map(|kind| line.stack.get(*kind).as_ps()).sum::<u64>()
            };
            let compute = of(&[Kind::Compute]);
            let memory = of(&[Kind::Dma, Kind::Hbm, Kind::Mesh, Kind::Latency]);
            let total = line.stack.total().as_ps();
            table.row([
                line.place.rsplit('/').next().unwrap_or_default().to_owned(),
                figures::time(total),
                figures::percent(total, all),
                figures::time(compute),
                figures::time(memory),
                figures::time(total - compute - memory),
                figures::bytes(line.bytes),
                line.text.trim().to_owned(),
            ]);
        }
        self.section(
            "lines of kernels, time of all programs",
            &table,
            lines.len().saturating_sub(ROWS),
        )
    }

    /// Returns the named ranges.
    fn ranges(&self) -> String {
        let ranges = &self.report.ranges;
        let columns = ["range", "times", "total", "from", "to"];
        let mut table = Table::new(&columns, &columns[1..]);
        for range in ranges.iter().take(ROWS) {
            let [total, from, to] =
                [range.total, range.from, range.to].map(|time| figures::time(time.as_ps()));
            table.row([range.name.clone(), range.count.to_string(), total, from, to]);
        }
        self.section("ranges", &table, ranges.len().saturating_sub(ROWS))
    }

    /// Returns the critical path: its shares by kind, then its longest parts.
    fn path(&self) -> String {
        let (path, simulated) = (&self.report.critical_path, self.report.simulated.as_ps());
        let Some(end) = path.end else { return self.no_path() };
        let end = self.report.names.text(&end.to_string()).into_owned();
        let heading = self.style.heading(&format!("critical path, to the end of {end}"));
        let table = path_table(self.report, simulated).text(self.style);
        let shares = kind_shares(&path.spent, simulated);
        let left_out = self.left_out(path.parts.len().saturating_sub(ROWS));
        format!("{heading}\n{shares}\n{table}{left_out}{}{}", reach(path), self.path_lines())
    }

    /// Returns a remark about a run that kept no critical path; nothing for a run of nothing.
    fn no_path(&self) -> String {
        if self.report.simulated == Time::ZERO {
            return String::new();
        }
        format!("{}: {NO_PATH}\n", self.style.heading("critical path"))
    }

    /// Returns the lines of kernels on the critical path.
    fn path_lines(&self) -> String {
        let (lines, simulated) = (&self.report.critical_path.lines, self.report.simulated.as_ps());
        let columns = ["through line", "steps", "time", "share", "most", "source"];
        let mut table = Table::new(&columns, &columns[1..4]);
        for line in lines.iter().take(ROWS) {
            let between = line.time.saturating_sub(line.spent.total()).as_ps();
            table.row([
                line.place.rsplit('/').next().unwrap_or_default().to_owned(),
                line.steps.to_string(),
                figures::time(line.time.as_ps()),
                figures::percent(line.time.as_ps(), simulated),
                most(&line.spent, between).to_owned(),
                line.text.trim().to_owned(),
            ]);
        }
        if table.is_empty() {
            return String::new();
        }
        let left_out = self.left_out(lines.len().saturating_sub(ROWS));
        format!("{}{left_out}", table.text(self.style))
    }

    /// Returns the changes that make the run faster, if they were looked for.
    fn advice(&self) -> String {
        let Some(advice) = &self.report.advice else { return String::new() };
        if advice.is_empty() {
            return format!("{}\n{NO_ADVICE}\n", self.style.heading(ADVICE));
        }
        let columns = ["change", "from", "to", "simulated", "gain", "less"];
        let mut table = Table::new(&columns, &columns[1..5]);
        for Advice { change, kind, before, after } in advice {
            let saved = before.saturating_sub(*after).as_ps();
            table.row([
                change.name.clone(),
                change.from.clone(),
                change.to.clone(),
                figures::time(after.as_ps()),
                figures::percent(saved, before.as_ps()),
                kind.to_string(),
            ]);
        }
        self.section(ADVICE, &table, 0)
    }

    /// Returns a table under a heading; nothing for a table without rows.
    fn section(&self, heading: &str, table: &Table, hidden: usize) -> String {
        if table.is_empty() {
            return String::new();
        }
        let (heading, left_out) = (self.style.heading(heading), self.left_out(hidden));
        format!("{heading}\n{}{left_out}", table.text(self.style))
    }

    fn left_out(&self, rows: usize) -> String {
        if rows == 0 { String::new() } else { format!("and {rows} more{}\n", self.hint) }
    }
}

/// The table of stalls.
struct StallRows<'a> {
    report: &'a Report,
    table: Table,
    kinds: &'a [Kind],
    simulated: u64,
}

impl StallRows<'_> {
    /// Adds rows for PEs or for links, the least idle first; returns the number of rows left out.
    fn group(&mut self, mut members: Vec<&Stalls>, noun: &str) -> usize {
        members.sort_by_key(|stalls| (Reverse(stalls.stack.total()), stalls.resource));
        let shown = if members.len() <= ALL_SHOWN { members.len() } else { BELOW_AVERAGE };
        if shown < members.len() {
            let name = format!("average of {} {noun}", members.len());
            let all = members.iter().fold(Stack::default(), |all, stalls| add(all, &stalls.stack));
            self.row(name, &all, self.simulated.saturating_mul(members.len() as u64));
        }
        for stalls in &members[..shown] {
            self.row(self.report.name(stalls.resource), &stalls.stack, self.simulated);
        }
        members.len() - shown
    }

    fn row(&mut self, name: String, stack: &Stack, whole: u64) {
        let share = |ps: u64| figures::percent(ps, whole);
        let mut cells = vec![name];
        cells.extend(self.kinds.iter().map(|kind| share(stack.get(*kind).as_ps())));
        cells.push(share(whole.saturating_sub(stack.total().as_ps())));
        self.table.row(cells);
    }
}

fn add(mut all: Stack, one: &Stack) -> Stack {
    for kind in Kind::ALL {
        all.add(kind, one.get(kind));
    }
    all
}

/// Returns `85.6 % dma, 14.4 % compute`.
fn kind_shares(spent: &Stack, simulated: u64) -> String {
    let mut kinds = Kind::ALL.map(|kind| (spent.get(kind).as_ps(), kind));
    kinds.sort_by_key(|(time, _)| Reverse(*time));
    let used = kinds.iter().filter(|(time, _)| *time > 0);
    let share =
        |(time, kind): &(u64, Kind)| format!("{} {kind}", figures::percent(*time, simulated));
    used.map(share).collect::<Vec<_>>().join(", ")
}

fn path_table(report: &Report, simulated: u64) -> Table {
    let path = &report.critical_path;
    let columns = ["through", "for", "times", "time", "share"];
    let mut table = Table::new(&columns, &columns[2..]);
    let mut row = |name: String, kind: Kind, times: String, time: u64| {
        let share = figures::percent(time, simulated);
        table.row([name, kind.to_string(), times, figures::time(time), share]);
    };
    for part in path.parts.iter().take(ROWS) {
        row(report.name(part.resource), part.kind, part.count.to_string(), part.time.as_ps());
    }
    let others = if path.complete { "(latency, waits)" } else { "(latency, waits, lost)" };
    for kind in Kind::ALL {
        let parts = path.parts.iter().filter(|part| part.kind == kind);
        let known = parts.map(|part| part.time.as_ps()).sum();
        let between = path.spent.get(kind).as_ps().saturating_sub(known);
        if between > 0 {
            row(others.to_owned(), kind, String::new(), between);
        }
    }
    table
}

/// Returns the longest kind of time of operations, or the word for the time between them.
fn most(spent: &Stack, between: u64) -> &'static str {
    let longest = Kind::ALL.into_iter().max_by_key(|kind| (spent.get(*kind), Reverse(*kind)));
    match longest {
        Some(kind) if spent.get(kind).as_ps() >= between => kind.name(),
        _ => "between steps",
    }
}

/// Returns a remark if the parts do not go back to the start.
const fn reach(path: &CriticalPath) -> &'static str {
    if path.complete {
        ""
    } else {
        "the parts do not reach back to the start: a host program went on from an operation of the far past\n"
    }
}
