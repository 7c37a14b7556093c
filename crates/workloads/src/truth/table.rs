//! A table of measured times, and the doors to it.

use super::{csv, nccl};
use phalanx_sim::config::reader::{Finding, Location};
use phalanx_sim::config::{ConfigErrors, suggestion};
use phalanx_sim::value::DType;
use phalanx_torch::ccl::Operation;
use std::fmt;
use std::ops::Range;

/// Measured times of one operation, by size.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The file that it was read from.
    pub file: String,
    /// The measured system, where the file names one for each row.
    pub system: Option<String>,
    /// The operation.
    pub subject: Subject,
    /// The number of ranks; 1 for a matrix product.
    pub ranks: u32,
    /// The type of the elements.
    pub dtype: DType,
    /// True if a comment of the file says that its times of products include the launch of the kernel.
    pub includes_launch: bool,
    /// The measurements, in the order of the file.
    pub points: Vec<Point>,
}

/// An operation that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A collective.
    Collective(Operation),
    /// A matrix product on one device.
    Gemm,
}

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The size of the operation.
    pub size: Size,
    /// The measured time, in microseconds.
    pub measured_us: f64,
    /// The spread of several runs of the point: half of `ln(longest / shortest)`, zero where one is given.
    pub spread: f64,
    /// The line of the file, from 1.
    pub line: usize,
}

/// The size of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// The larger of what a rank sends and receives, in bytes.
    Bytes(u64),
    /// `m`, `n` and `k` of a matrix product.
    Gemm([u64; 3]),
}

impl Size {
    /// Returns the number by which sizes are ordered: bytes, or operations of a matrix product.
    #[expect(clippy::cast_precision_loss, reason = "an order, not a sum")]
    pub fn extent(self) -> f64 {
        match self {
            Self::Bytes(bytes) => bytes as f64,
            Self::Gemm([m, n, k]) => 2.0 * m as f64 * n as f64 * k as f64,
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{bytes}"),
            Self::Gemm([m, n, k]) => write!(f, "{m} x {n} x {k}"),
        }
    }
}

impl Subject {
    /// Returns all subjects, in the order of the manual.
    pub fn all() -> Vec<Self> {
        Operation::ALL.into_iter().map(Self::Collective).chain([Self::Gemm]).collect()
    }

    /// Returns the name in tables and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Collective(operation) => operation.name(),
            Self::Gemm => "gemm",
        }
    }

    /// Finds the subject with this name, also as the programs of nccl-tests spell it.
    pub fn from_name(name: &str) -> Option<Self> {
        let name = name.replace('-', "_").to_ascii_lowercase();
        let name = match name.as_str() {
            "alltoall" => "all_to_all",
            "allreduce" => "all_reduce",
            "allgather" => "all_gather",
            "reducescatter" => "reduce_scatter",
            other => other,
        };
        Self::all().into_iter().find(|subject| subject.name() == name)
    }

    /// Returns all names.
    pub fn names() -> Vec<&'static str> {
        Self::all().into_iter().map(Self::name).collect()
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The type with this name, also as nccl-tests and others spell it.
pub(super) fn dtype(name: &str) -> Option<DType> {
    let own = match name {
        "float" | "float32" | "fp32" => "f32",
        "half" | "float16" | "fp16" => "f16",
        "bfloat16" => "bf16",
        "int32" => "i32",
        other => other,
    };
    own.parse().ok()
}

/// The types in words, for messages.
pub(super) const DTYPES: [&str; 8] =
    ["float", "half", "bfloat16", "int32", "f32", "f16", "bf16", "i32"];

/// Returns the name of a type in tables: as nccl-tests has it.
pub fn dtype_name(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "float",
        DType::F16 => "half",
        DType::Bf16 => "bfloat16",
        DType::I32 => "int32",
        DType::F64 => "double",
        DType::I64 => "int64",
        DType::I8 => "int8",
        DType::U64 => "uint64",
        DType::U32 => "uint32",
        DType::U8 => "uint8",
        other => other.name(),
    }
}

/// A choice of rows. The choice also supplies facts that a file lacks (the operation of an old nccl-tests, the type of
/// a matrix product).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// Rows of this operation.
    pub subject: Option<Subject>,
    /// Rows of this number of ranks.
    pub ranks: Option<u32>,
    /// Rows of this type.
    pub dtype: Option<DType>,
    /// Rows of this system.
    pub system: Option<String>,
}

impl Selection {
    /// True if `table` is chosen.
    pub fn holds(&self, table: &Table) -> bool {
        self.subject.is_none_or(|subject| subject == table.subject)
            && self.ranks.is_none_or(|ranks| ranks == table.ranks)
            && self.dtype.is_none_or(|dtype| dtype == table.dtype)
            && self.system.as_ref().is_none_or(|system| Some(system) == table.system.as_ref())
    }

    /// Returns the chosen tables; the error lists all tables.
    pub fn apply(&self, tables: Vec<Table>) -> Result<Vec<Table>, String> {
        let there = tables.iter().map(Table::heading).collect::<Vec<_>>().join("; ");
        let chosen: Vec<Table> = tables.into_iter().filter(|table| self.holds(table)).collect();
        if chosen.is_empty() { Err(there) } else { Ok(chosen) }
    }
}

impl Table {
    /// Returns the measured call, in a line.
    pub fn heading(&self) -> String {
        let system = self.system.as_ref().map_or_else(String::new, |system| format!(", {system}"));
        let ranks = match self.subject {
            Subject::Collective(_) => format!(", {} ranks", self.ranks),
            Subject::Gemm => String::new(),
        };
        let launch = if self.includes_launch { ", with the launch" } else { "" };
        format!("{}{ranks}, {}{system}{launch}", self.subject, dtype_name(self.dtype))
    }
}

/// One row, before it is part of a table.
pub(super) struct Row {
    pub(super) system: Option<String>,
    pub(super) subject: Subject,
    pub(super) ranks: u32,
    pub(super) dtype: DType,
    pub(super) point: Point,
}

/// The longest text that is read as a table, in bytes: logs are long.
pub const LONGEST: usize = 64 << 20;
/// The most rows of a file.
const ROWS: usize = 20_000;
/// After so many errors a file is not read on.
const ERRORS: usize = 100;
/// The largest size of a collective, in bytes.
const MOST_BYTES: u64 = 1 << 40;
/// The largest side of a matrix.
const MOST_SIDE: u64 = 1 << 20;
/// The most ranks.
const MOST_RANKS: u64 = 1 << 16;
/// The longest time, in microseconds: an hour.
const MOST_TIME: f64 = 3.6e9;

/// Reads a table: CSV with names of columns, or the text output of nccl-tests and rccl-tests. `file` is only used in messages
/// and in the tables; what the file does not say comes from `choice`. All rows are returned, chosen or not.
///
/// # Errors
///
/// Every error of the file at its line and column (TRU-1).
pub fn read(file: &str, text: &str, choice: &Selection) -> Result<Vec<Table>, ConfigErrors> {
    let mut rows = Rows::new(file, text);
    if text.len() > LONGEST {
        rows.report(Finding::new(Location::new(0..0), "the file is too long for a table"));
    } else if csv::is_csv(text) {
        csv::read(text, choice, &mut rows);
    } else {
        nccl::read(text, choice, &mut rows);
    }
    rows.finish()
}

/// The rows of a file as far as it is read, and its errors.
pub(super) struct Rows<'a> {
    file: &'a str,
    text: &'a str,
    read: Vec<Row>,
    findings: Vec<Finding>,
    includes_launch: bool,
}

impl<'a> Rows<'a> {
    fn new(file: &'a str, text: &'a str) -> Self {
        Self { file, text, read: Vec::new(), findings: Vec::new(), includes_launch: false }
    }

    /// Heeds a comment of the file.
    pub(super) fn comment(&mut self, text: &str) {
        self.includes_launch |= text.to_ascii_lowercase().contains("includes launch");
    }

    /// True if reading on makes no sense.
    pub(super) fn is_over(&self) -> bool {
        self.findings.len() >= ERRORS || self.read.len() > ROWS
    }

    pub(super) fn report(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    pub(super) fn add(&mut self, row: Row) {
        self.read.push(row);
    }

    /// Returns the result of `parse` on a cell, if there is one.
    pub(super) fn cell<T>(
        &mut self,
        cell: &Cell<'_>,
        parse: fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        match parse(cell.text) {
            Ok(value) => Some(value),
            Err(allowed) => {
                let message = if cell.text.is_empty() {
                    format!("{} is empty", cell.column)
                } else {
                    let text: String = cell.text.chars().take(40).collect();
                    format!("{} cannot be `{text}`", cell.column)
                };
                self.report(Finding::new(cell.location(), message).label("here").help(allowed));
                None
            }
        }
    }

    /// The subject of a cell.
    pub(super) fn subject(&mut self, cell: &Cell<'_>) -> Option<Subject> {
        let found = Subject::from_name(cell.text);
        if found.is_none() {
            self.report(unknown(cell, "operation", &Subject::names()));
        }
        found
    }

    /// The type of a cell.
    pub(super) fn dtype(&mut self, cell: &Cell<'_>) -> Option<DType> {
        let found = dtype(cell.text);
        if found.is_none() {
            self.report(unknown(cell, "type", &DTYPES));
        }
        found
    }

    /// The tables: rows of one kind together, in the order in which kinds appear.
    fn finish(mut self) -> Result<Vec<Table>, ConfigErrors> {
        let nothing = Location::new(0..0);
        if self.read.len() > ROWS {
            self.report(Finding::new(nothing, format!("the file has more than {ROWS} rows")));
        } else if self.read.is_empty() && self.findings.is_empty() {
            let finding = Finding::new(nothing, "no row of measurements in this file");
            self.report(finding.label("a table begins with its names of columns").help(FORMS));
        }
        if let Some(errors) = ConfigErrors::in_text(self.findings, self.file, self.text) {
            return Err(errors);
        }
        let mut tables: Vec<Table> = Vec::new();
        for Row { system, subject, ranks, dtype, point } in self.read {
            let same = |table: &&mut Table| {
                (table.subject, table.ranks, table.dtype) == (subject, ranks, dtype)
                    && table.system == system
            };
            match tables.iter_mut().find(same) {
                Some(table) => table.points.push(point),
                None => tables.push(Table {
                    file: self.file.to_owned(),
                    system,
                    subject,
                    ranks,
                    dtype,
                    includes_launch: self.includes_launch && subject == Subject::Gemm,
                    points: vec![point],
                }),
            }
        }
        Ok(tables)
    }
}

/// The forms of tables, for messages.
pub(super) const FORMS: &str = "allowed: CSV with the columns `op,ranks,dtype,size_bytes,time_us` or `m,n,k,time_us`, \
                                or the text output of nccl-tests or rccl-tests";

/// A name nobody knows, with the near miss.
fn unknown(cell: &Cell<'_>, what: &str, known: &[&str]) -> Finding {
    let label = suggestion(cell.text, known.iter().copied())
        .map_or_else(|| format!("no such {what}"), |near| format!("did you mean `{near}`?"));
    let text: String = cell.text.chars().take(40).collect();
    let finding = Finding::new(cell.location(), format!("unknown {what} `{text}`"));
    finding.label(label).help(format!("allowed: {}", known.join(", ")))
}

/// One value of a row, and its position.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell<'a> {
    pub(super) text: &'a str,
    pub(super) start: usize,
    pub(super) end: usize,
    /// The name of its column, in messages.
    pub(super) column: &'a str,
}

impl Cell<'_> {
    pub(super) fn location(&self) -> Location {
        Location::new(self.range())
    }

    fn range(&self) -> Range<usize> {
        self.start..self.end
    }
}

/// A time in microseconds.
pub(super) fn time(text: &str) -> Result<f64, String> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte));
    let time = if plain { text.parse().ok() } else { None };
    let good = |time: &f64| *time > 0.0 && *time <= MOST_TIME;
    time.filter(good).ok_or_else(|| "allowed: microseconds, more than zero, at most an hour".into())
}

fn whole(text: &str, most: u64, what: &str) -> Result<u64, String> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let number: Option<u64> = if plain { text.parse().ok() } else { None };
    number
        .filter(|number| (1..=most).contains(number))
        .ok_or_else(|| format!("allowed: {what}, a whole number from 1 to {most}"))
}

/// A number of bytes.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    whole(text, MOST_BYTES, "bytes")
}

/// A side of a matrix.
pub(super) fn side(text: &str) -> Result<u64, String> {
    whole(text, MOST_SIDE, "elements")
}

/// A number of ranks.
pub(super) fn ranks(text: &str) -> Result<u32, String> {
    let number = whole(text, MOST_RANKS, "ranks")?;
    u32::try_from(number).map_err(|error| error.to_string())
}

/// The lines of a text, each with its number from 1, its first byte, and without its end.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, usize, &str)> {
    let mut start = 0;
    text.split_inclusive('\n').enumerate().map(move |(number, line)| {
        let at = start;
        start += line.len();
        (number + 1, at, line.trim_end_matches(['\n', '\r']))
    })
}
