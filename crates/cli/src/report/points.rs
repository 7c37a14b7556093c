//! The rows of a sweep: as a table, as CSV, as JSON lines.

use crate::show;
use phalanx_workloads::sweep::{Point, Row, Sweep};
use std::path::Path;

/// The form of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    Csv,
    Json,
}

impl Form {
    /// The form that the ending of a file names.
    pub(crate) fn of_file(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "jsonl" | "json" => Some(Self::Json),
            "csv" => Some(Self::Csv),
            _ => None,
        }
    }
}

/// Rows of one sweep, which can be written one by one.
pub(crate) struct Layout<'a> {
    form: Form,
    sweep: &'a Sweep,
    /// The names of columns, and the room that each needs.
    columns: Vec<(String, usize)>,
}

/// The room for a time.
const TIME: usize = 14;

impl<'a> Layout<'a> {
    pub(crate) fn new(form: Form, sweep: &'a Sweep, points: &[Point]) -> Self {
        let mut columns: Vec<(String, usize)> = Vec::new();
        for point in points {
            let machine = sweep.machine_name(point).map(|name| ("machine", name));
            let settings =
                point.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            for (name, value) in machine.into_iter().chain(settings) {
                let room = value.chars().count();
                match columns.iter_mut().find(|(known, _)| known == name) {
                    Some((_, known)) => *known = (*known).max(room),
                    None => columns.push((name.to_owned(), room.max(name.chars().count()))),
                }
            }
        }
        Self { form, sweep, columns }
    }

    /// The line above the rows, if there is one.
    pub(crate) fn heading(&self) -> String {
        let names = self.columns.iter().map(|(name, _)| name.clone());
        match self.form {
            Form::Json => String::new(),
            Form::Csv => line(names.chain(["simulated_ps".to_owned(), "error".to_owned()])),
            Form::Text => self.padded(names.collect(), "simulated"),
        }
    }

    /// One row, with the end of its line.
    pub(crate) fn row(&self, row: &Row) -> String {
        let values = || self.columns.iter().map(|(name, _)| self.value(name, &row.point));
        match self.form {
            Form::Json => row.json(self.sweep) + "\n",
            Form::Csv => {
                let (time, error) = match &row.outcome {
                    Ok(time) => (time.as_ps().to_string(), String::new()),
                    Err(error) => (String::new(), error.clone()),
                };
                line(values().chain([time, error]))
            }
            Form::Text => {
                let outcome = match &row.outcome {
                    Ok(time) => show::time(time.as_ps()),
                    Err(error) => format!("error: {}", error.lines().next().unwrap_or_default()),
                };
                self.padded(values().collect(), &outcome)
            }
        }
    }

    fn value(&self, name: &str, point: &Point) -> String {
        let machine = (name == "machine").then(|| self.sweep.machine_name(point)).flatten();
        machine.or_else(|| point.value(name)).unwrap_or_default().to_owned()
    }

    fn padded(&self, cells: Vec<String>, last: &str) -> String {
        let cells = cells.into_iter().zip(&self.columns);
        let cells = cells.map(|(cell, (_, room))| format!("{cell:<room$}  "));
        format!("{}{last:>TIME$}\n", cells.collect::<String>())
    }
}

/// A line of CSV.
fn line(cells: impl Iterator<Item = String>) -> String {
    let quoted = cells.map(|cell| {
        let is_plain = !cell.contains([',', '"', '\n', '\r']);
        if is_plain { cell } else { format!("\"{}\"", cell.replace('"', "\"\"")) }
    });
    quoted.collect::<Vec<_>>().join(",") + "\n"
}
