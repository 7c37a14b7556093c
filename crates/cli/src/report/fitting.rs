//! A fit as text for people and as JSON for programs.

use super::validation::{SummaryView, file_name, percent};
use crate::show;
use phalanx_sim::report::{Style, Table};
use phalanx_workloads::truth::{Change, Compared, Fit, Summary, Unclear, dtype_name};
use serde::Serialize;
use std::fmt::Write;

/// Figures before and after, errors before and after, and what the points cannot tell.
pub(crate) fn text(machine: &str, fit: &Fit) -> String {
    let style = Style::Terminal;
    let mut figures = Table::new(&["figure", "before", "after"], &["before", "after"]);
    for change in &fit.changes {
        figures.row([change.figure.clone(), change.before.clone(), change.after.clone()]);
    }
    let heading = style.heading(&format!("figures of {machine}"));
    let mut text = format!("{heading}\n{}\n", figures.text(style));
    let heading = style.heading("errors before and after");
    let _ = write!(text, "{heading}\n{}", errors(fit).text(style));
    let used: usize = fit.before.iter().map(|table| table.points.len()).sum();
    let _ = writeln!(text, "\n{} simulated", show::count(fit.simulations as u64, "call"));
    if used < fit.given {
        let _ = writeln!(
            text,
            "{used} of {} points were used, evenly spread over each table",
            fit.given
        );
    }
    for unclear in &fit.unclear {
        let _ = match unclear {
            Unclear::NoEffect(figure) => {
                writeln!(text, "these points do not depend on {figure}")
            }
            Unclear::Together(figures) => {
                writeln!(text, "these points cannot tell apart {}", figures.join(" and "))
            }
        };
    }
    text
}

fn errors(fit: &Fit) -> Table {
    let numbers = ["ranks", "points", "mean", "worst", "within 10 %", "within 20 %"];
    let columns = [["table", "op"].as_slice(), &numbers[..2], &["when"], &numbers[2..]].concat();
    let mut table = Table::new(&columns, &numbers);
    let pairs = fit.before.iter().zip(&fit.after);
    for (when, compared) in pairs.flat_map(|(one, other)| [("before", one), ("after", other)]) {
        let of = &compared.table;
        let Summary { points, mean, worst, within_10, within_20 } = compared.summary();
        let head = [
            file_name(&of.file),
            of.subject.to_string(),
            of.ranks.to_string(),
            points.to_string(),
            when.to_owned(),
        ];
        table.row(head.into_iter().chain([mean, worst, within_10, within_20].map(percent)));
    }
    table
}

/// The view for programs; its keys are stable.
pub(crate) fn json<'a>(machine: &'a str, fit: &'a Fit) -> impl Serialize + 'a {
    let used = fit.before.iter().map(|table| table.points.len()).sum();
    let pairs = fit.before.iter().zip(&fit.after);
    let of = |change: &'a Change| ChangeView {
        figure: &change.figure,
        before: &change.before,
        after: &change.after,
    };
    FitView {
        machine,
        figures: fit.changes.iter().map(of).collect(),
        tables: pairs.map(|(before, after)| TableView::new(before, after)).collect(),
        unclear: fit.unclear.iter().map(UnclearView::new).collect(),
        points: fit.given,
        used_points: used,
        simulations: fit.simulations,
    }
}

#[derive(Serialize)]
struct FitView<'a> {
    machine: &'a str,
    figures: Vec<ChangeView<'a>>,
    tables: Vec<TableView<'a>>,
    unclear: Vec<UnclearView<'a>>,
    points: usize,
    used_points: usize,
    simulations: usize,
}

#[derive(Serialize)]
struct ChangeView<'a> {
    figure: &'a str,
    before: &'a str,
    after: &'a str,
}

#[derive(Serialize)]
struct TableView<'a> {
    file: &'a str,
    op: &'static str,
    ranks: u32,
    dtype: &'static str,
    before: SummaryView,
    after: SummaryView,
}

impl<'a> TableView<'a> {
    fn new(before: &'a Compared, after: &Compared) -> Self {
        let table = &before.table;
        Self {
            file: &table.file,
            op: table.subject.name(),
            ranks: table.ranks,
            dtype: dtype_name(table.dtype),
            before: SummaryView::new(before.summary()),
            after: SummaryView::new(after.summary()),
        }
    }
}

#[derive(Serialize)]
struct UnclearView<'a> {
    /// `no_effect`, or `together`.
    kind: &'static str,
    figures: Vec<&'a str>,
}

impl<'a> UnclearView<'a> {
    fn new(unclear: &'a Unclear) -> Self {
        match unclear {
            Unclear::NoEffect(figure) => Self { kind: "no_effect", figures: vec![figure] },
            Unclear::Together(figures) => {
                Self { kind: "together", figures: figures.iter().map(String::as_str).collect() }
            }
        }
    }
}
