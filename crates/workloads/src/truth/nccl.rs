//! The text output of nccl-tests and rccl-tests: comments that name the operation and the ranks, a line with the names of
//! columns, rows, and perhaps the log of the library between them.
//!
//! The columns are taken from their names, because versions differ: old ones have no `root`, and call `#wrong` `error`.
//! If a row has two times, the second one (in place) is taken. Old versions do not print the operation: then it is the
//! program that the text mentions (`all_gather_perf`), or follows from reduction, root, count and size, or is the
//! chosen one.

use super::table::{Cell, Point, Row, Rows, Selection, Size, Subject, bytes, lines, time};
use phalanx_sim::config::reader::{Finding, Location};
use phalanx_sim::value::DType;
use phalanx_torch::ccl::Operation;
use std::collections::BTreeSet;

/// Reads all rows.
pub(super) fn read(text: &str, choice: &Selection, rows: &mut Rows<'_>) {
    let mut state = State::default();
    for (number, start, line) in lines(text) {
        if rows.is_over() {
            return;
        }
        let bare = without_label(line);
        let start = start + (line.len() - bare.len());
        if let Some(comment) = bare.trim_start().strip_prefix('#') {
            state.comment(comment, start..start + bare.len());
        } else if is_row(bare) && state.columns.is_some() {
            state.row(number, &tokens(bare, start), choice, rows);
        } else {
            state.mention(bare, start..start + bare.len());
        }
    }
}

/// A line without what launchers put before it: `[1,0]<stdout>:` of mpirun, `0: ` of srun.
fn without_label(line: &str) -> &str {
    let line = line.trim_start_matches('\u{feff}');
    if let Some((label, rest)) = line.split_once(':') {
        let mpirun =
            label.starts_with('[') && (label.ends_with("<stdout>") || label.ends_with("<stderr>"));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if mpirun || is_number(label.trim()) {
            return rest;
        }
    }
    line
}

/// True for a line that begins with two whole numbers: size and count.
fn is_row(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let mut whole = || words.next().is_some_and(|word| word.bytes().all(|b| b.is_ascii_digit()));
    whole() && whole()
}

fn tokens(line: &str, start: usize) -> Vec<Cell<'_>> {
    let at = |word: &str| word.as_ptr() as usize - line.as_ptr() as usize;
    let cell = |word| {
        let from = start + at(word);
        Cell { text: word, start: from, end: from + word.len(), column: "" }
    };
    line.split_whitespace().map(cell).collect()
}

/// The facts that the lines so far have given.
#[derive(Default)]
struct State {
    operation: Option<Named>,
    ranks: BTreeSet<u32>,
    columns: Option<Columns>,
    /// True if rows have followed the list of ranks: the next list is that of another test.
    rows_seen: bool,
}

/// An operation that the text names.
struct Named {
    subject: Option<Subject>,
    location: Location,
    name: String,
}

/// Positions of the columns.
struct Columns {
    size: usize,
    count: usize,
    dtype: usize,
    redop: Option<usize>,
    root: Option<usize>,
    time: usize,
    in_place: Option<usize>,
    line: Location,
}

impl Columns {
    /// Returns the last position that every row must have.
    fn last_needed(&self) -> usize {
        let Self { size, count, dtype, time, .. } = *self;
        [size, count, dtype].into_iter().fold(time, usize::max)
    }
}

impl State {
    fn comment(&mut self, comment: &str, range: std::ops::Range<usize>) {
        let words: Vec<&str> = comment.split_whitespace().collect();
        match words.as_slice() {
            ["Using", "devices", ..] => {
                if self.rows_seen {
                    self.ranks.clear();
                    self.rows_seen = false;
                }
            }
            ["Rank", rank, ..] => self.ranks.extend(rank.parse::<u32>()),
            ["size", "count", ..] => {
                self.columns = Columns::read(&words, Location::new(range)).or(self.columns.take());
            }
            _ => self.mention(comment, range),
        }
    }

    /// Takes the operation of a line that names a program: `all_reduce_perf`.
    fn mention(&mut self, line: &str, range: std::ops::Range<usize>) {
        let Some(before) = line.find("_perf") else { return };
        let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let name = line[..before].rsplit(|c| !is_letter(c)).next().unwrap_or_default();
        if name.is_empty() || name.len() > 40 {
            return;
        }
        let subject = Subject::from_name(name).filter(|subject| *subject != Subject::Gemm);
        let location = Location::new(range);
        self.operation = Some(Named { subject, location, name: name.to_owned() });
    }

    fn row(&mut self, line: usize, cells: &[Cell<'_>], choice: &Selection, rows: &mut Rows<'_>) {
        self.rows_seen = true;
        let Some(columns) = &self.columns else { return };
        if cells.len() <= columns.last_needed() {
            let location = Location::new(cells[0].start..cells[cells.len() - 1].end);
            let finding =
                Finding::new(location, "a row without a time, size or type").label("too short");
            return rows.report(finding.help("its columns are named above it"));
        }
        // A size too small for the number of ranks is printed as 0: nothing was measured.
        if cells[columns.size].text == "0" {
            return;
        }
        let named = |at: usize, column: &'static str| Cell { column, ..cells[at] };
        let in_place = columns.in_place.filter(|at| *at < cells.len());
        let measured = rows.cell(&named(in_place.unwrap_or(columns.time), "time"), time);
        let size = rows.cell(&named(columns.size, "size"), bytes);
        let dtype = rows.dtype(&named(columns.dtype, "type"));
        let (Some(measured_us), Some(bytes), Some(dtype)) = (measured, size, dtype) else { return };
        let Some(ranks) = self.ranks(columns, choice, rows) else { return };
        let inferred = columns.infer(cells, bytes, dtype, ranks);
        let Some(subject) = self.subject(columns, inferred, choice, rows) else { return };
        let point = Point { size: Size::Bytes(bytes), measured_us, spread: 0.0, line };
        rows.add(Row { system: None, subject, ranks, dtype, point });
    }

    /// The listed ranks, or the chosen number where none is listed.
    fn ranks(&self, columns: &Columns, choice: &Selection, rows: &mut Rows<'_>) -> Option<u32> {
        let listed = u32::try_from(self.ranks.len()).unwrap_or(u32::MAX);
        match (listed, choice.ranks) {
            (1.., _) => Some(listed),
            (0, Some(chosen)) => Some(chosen),
            (0, None) => {
                let finding = Finding::new(columns.line, "the file does not list its ranks");
                let finding = finding.label("no line `#  Rank  0 ...` before this one");
                rows.report(finding.help("say how many there were by `--ranks`"));
                None
            }
        }
    }

    /// The operation that the file names, or else the one that its columns fit, or else the chosen one.
    fn subject(
        &self,
        columns: &Columns,
        inferred: Option<Operation>,
        choice: &Selection,
        rows: &mut Rows<'_>,
    ) -> Option<Subject> {
        if let Some(named) = &self.operation {
            if named.subject.is_none() {
                let message = format!("`{}` is not simulated", named.name);
                let finding = Finding::new(named.location, message).label("named here");
                rows.report(finding.help(format!("allowed: {}", Subject::names().join(", "))));
            }
            return named.subject;
        }
        let subject = inferred.map(Subject::Collective).or(choice.subject);
        if subject.is_none() {
            let finding = Finding::new(columns.line, "the file does not name its operation");
            let finding = finding.label("no `all_gather_perf` or the like before this line");
            rows.report(finding.help("say it by `--op`"));
        }
        subject
    }
}

impl Columns {
    fn read(words: &[&str], line: Location) -> Option<Self> {
        let find = |name: &str| words.iter().position(|word| *word == name);
        let mut times = words.iter().enumerate().filter(|(_, word)| **word == "time");
        Some(Self {
            size: find("size")?,
            count: find("count")?,
            dtype: find("type")?,
            redop: find("redop"),
            root: find("root"),
            time: times.next()?.0,
            in_place: times.next().map(|(at, _)| at),
            line,
        })
    }

    /// The operation that only fits these columns; none where several fit.
    fn infer(&self, cells: &[Cell<'_>], bytes: u64, dtype: DType, ranks: u32) -> Option<Operation> {
        let redop = cells.get(self.redop?)?.text;
        let has_root = self.root.and_then(|at| cells.get(at)).is_some_and(|cell| cell.text != "-1");
        let count: u64 = cells[self.count].text.parse().ok()?;
        let of_rank = count.saturating_mul(dtype.size() as u64);
        match (redop, has_root) {
            ("none", true) if of_rank == bytes => Some(Operation::Broadcast),
            ("none", _) => None,
            (_, true) => Some(Operation::Reduce),
            _ if of_rank == bytes => Some(Operation::AllReduce),
            _ if of_rank.saturating_mul(ranks.into()) == bytes => Some(Operation::ReduceScatter),
            _ => None,
        }
    }
}
