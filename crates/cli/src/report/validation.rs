//! Measured times beside simulated ones, as text for people and as JSON for programs.

use phalanx_sim::report::{Style, Table};
use phalanx_workloads::truth::{Compared, ComparedPoint, Size, Subject, Summary, dtype_name};
use serde::Serialize;
use std::fmt::Write;
use std::path::Path;

/// Everything: rows of each table, then the errors in few numbers.
pub(crate) fn text(machine: &str, tables: &[Compared]) -> String {
    let style = Style::Terminal;
    let mut text = String::new();
    for compared in tables {
        let heading = format!("{}: {} on {machine}", compared.table.file, compared.table.heading());
        let _ = writeln!(text, "{}\n{}", style.heading(&heading), rows(compared).text(style));
    }
    text + &format!("{}\n{}", style.heading("errors"), summaries(tables).text(style))
}

fn rows(compared: &Compared) -> Table {
    let is_gemm = compared.table.subject == Subject::Gemm;
    let size = if is_gemm { "m x n x k" } else { "size (B)" };
    let numbers = [size, "measured (us)", "simulated (us)", "error"];
    let columns = [numbers.as_slice(), &["algorithm", "protocol"]].concat();
    let columns = if is_gemm { &columns[..4] } else { &columns };
    let mut table = Table::new(columns, &numbers);
    for ComparedPoint { point, simulated, error } in &compared.points {
        let cells = [
            point.size.to_string(),
            microseconds(point.measured_us),
            microseconds(simulated.us()),
            signed(*error),
            simulated.algorithm().unwrap_or_default().to_owned(),
            simulated.protocol().unwrap_or_default().to_owned(),
        ];
        table.row(cells.into_iter().take(columns.len()));
    }
    table
}

/// One line for each table.
pub(crate) fn summaries(tables: &[Compared]) -> Table {
    let numbers = ["ranks", "points", "mean", "worst", "within 10 %", "within 20 %"];
    let columns = [["table", "op"].as_slice(), &numbers].concat();
    let mut table = Table::new(&columns, &numbers);
    for compared in tables {
        let of = &compared.table;
        let name = file_name(&of.file);
        let name = of.system.as_ref().map_or(name.clone(), |system| format!("{name}: {system}"));
        let Summary { points, mean, worst, within_10, within_20 } = compared.summary();
        let head = [name, of.subject.to_string(), of.ranks.to_string(), points.to_string()];
        table.row(head.into_iter().chain([mean, worst, within_10, within_20].map(percent)));
    }
    table
}

/// The name of a file without its directory.
pub(crate) fn file_name(file: &str) -> String {
    let name = Path::new(file).file_name();
    name.map_or_else(|| file.to_owned(), |name| name.to_string_lossy().into_owned())
}

/// A time in microseconds with the digits that matter.
fn microseconds(us: f64) -> String {
    if us < 1000.0 { format!("{us:.2}") } else { format!("{us:.1}") }
}

fn signed(error: f64) -> String {
    format!("{:+.1} %", 100.0 * error)
}

/// A fraction in per cent.
pub(crate) fn percent(fraction: f64) -> String {
    format!("{:.1} %", 100.0 * fraction)
}

/// The view for programs; its keys are stable.
pub(crate) fn json(tables: &[Compared]) -> impl Serialize + '_ {
    Tables { tables: tables.iter().map(TableView::new).collect() }
}

#[derive(Serialize)]
struct Tables<'a> {
    tables: Vec<TableView<'a>>,
}

#[derive(Serialize)]
struct TableView<'a> {
    file: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<&'a str>,
    op: &'static str,
    ranks: u32,
    dtype: &'static str,
    points: Vec<PointView<'a>>,
    #[serde(flatten)]
    summary: SummaryView,
}

/// Fractions.
#[derive(Serialize)]
pub(crate) struct SummaryView {
    mean: f64,
    worst: f64,
    within_10: f64,
    within_20: f64,
}

impl SummaryView {
    pub(crate) fn new(summary: Summary) -> Self {
        let Summary { mean, worst, within_10, within_20, .. } = summary;
        Self { mean, worst, within_10, within_20 }
    }
}

#[derive(Serialize)]
struct PointView<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(flatten)]
    sides: Option<Sides>,
    measured_us: f64,
    simulated_us: f64,
    /// A fraction, with its sign.
    error: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    algorithm: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<&'a str>,
}

#[derive(Serialize)]
struct Sides {
    m: u64,
    n: u64,
    k: u64,
}

impl<'a> TableView<'a> {
    fn new(compared: &'a Compared) -> Self {
        let table = &compared.table;
        Self {
            file: &table.file,
            system: table.system.as_deref(),
            op: table.subject.name(),
            ranks: table.ranks,
            dtype: dtype_name(table.dtype),
            points: compared.points.iter().map(PointView::new).collect(),
            summary: SummaryView::new(compared.summary()),
        }
    }
}

impl<'a> PointView<'a> {
    fn new(compared: &'a ComparedPoint) -> Self {
        let ComparedPoint { point, simulated, error } = compared;
        let (bytes, sides) = match point.size {
            Size::Bytes(bytes) => (Some(bytes), None),
            Size::Gemm([m, n, k]) => (None, Some(Sides { m, n, k })),
        };
        Self {
            bytes,
            sides,
            measured_us: point.measured_us,
            simulated_us: simulated.us(),
            error: *error,
            algorithm: simulated.algorithm(),
            protocol: simulated.protocol(),
        }
    }
}
