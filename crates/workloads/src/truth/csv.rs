//! Tables as CSV: a line with the names of columns, then a line a row; lines that begin with `#` are comments.
//!
//! Columns of collectives: `op`, `ranks`, `dtype`, `size_bytes`, `time_us`, and perhaps `in_place_us` (taken where it is given),
//! `min_us` and `max_us` (the shortest and the longest of several runs) and `system`. Columns of matrix products: `m`, `n`, `k`, `time_us`, and perhaps `dtype` and `system`. Other columns are skipped.
//! A comment with the words `includes launch` says that times of products are those of a host program: the machine's
//! `system.host.launch` is added to the simulated ones.

use super::table::{Cell, FORMS, Point, Row, Rows, Selection, Size, Subject};
use super::table::{bytes, lines, ranks, side, time};
use phalanx_sim::config::reader::{Finding, Location};
use phalanx_sim::config::suggestion;
use phalanx_sim::value::DType;

const COLLECTIVE: [&str; 5] = ["op", "ranks", "dtype", "size_bytes", "time_us"];
const GEMM: [&str; 4] = ["m", "n", "k", "time_us"];
/// The type of a matrix product that names none: the default of `phalanx run gemm`.
const GEMM_DTYPE: DType = DType::F16;

/// True if the text looks like CSV: its first line with content has a comma, and names rather than numbers.
pub(super) fn is_csv(text: &str) -> bool {
    let first = lines(text).map(|(_, _, line)| line.trim_start_matches('\u{feff}').trim());
    let first = first.into_iter().find(|line| !line.is_empty() && !line.starts_with('#'));
    first.is_some_and(|line| {
        let names = [COLLECTIVE.as_slice(), GEMM.as_slice()].concat();
        let mut cells = line.split(',').map(str::trim);
        line.contains(',') && cells.any(|cell| suggestion(cell, names.iter().copied()).is_some())
    })
}

/// Reads all rows.
pub(super) fn read(text: &str, choice: &Selection, rows: &mut Rows<'_>) {
    let mut columns: Option<Columns<'_>> = None;
    for (number, start, line) in lines(text) {
        let bare = line.trim_start_matches('\u{feff}');
        let start = start + (line.len() - bare.len());
        if bare.trim_start().starts_with('#') {
            rows.comment(bare);
            continue;
        }
        if bare.trim().is_empty() || rows.is_over() {
            continue;
        }
        let cells = cells(bare, start);
        match &columns {
            // Files that were joined repeat the names.
            Some(columns) if !columns.is_repeated(&cells) => {
                columns.row(number, &cells, choice, rows);
            }
            _ => match Columns::read(&cells, Location::new(start..start + bare.len()), rows) {
                Some(read) => columns = Some(read),
                None => return,
            },
        }
    }
}

/// The cells of a line: between commas, without white space around them, perhaps in quotes.
fn cells(line: &str, start: usize) -> Vec<Cell<'_>> {
    let (mut cells, mut from, mut quoted) = (Vec::new(), 0, false);
    let mut push = |from: usize, to: usize| {
        let raw = &line[from..to];
        let text = raw.trim();
        let lead = raw.len() - raw.trim_start().len();
        let (at, end) = (start + from + lead, start + from + lead + text.len());
        let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        let (text, at, end) = inner.map_or((text, at, end), |inner| (inner, at + 1, end - 1));
        cells.push(Cell { text, start: at, end, column: "" });
    };
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            b'"' => quoted = !quoted,
            b',' if !quoted => {
                push(from, at);
                from = at + 1;
            }
            _ => {}
        }
    }
    push(from, line.len());
    cells
}

/// The columns of a file, by their position.
struct Columns<'a> {
    names: Vec<&'a str>,
    is_gemm: bool,
}

impl<'a> Columns<'a> {
    fn read(cells: &[Cell<'a>], line: Location, rows: &mut Rows<'_>) -> Option<Self> {
        let names: Vec<&str> = cells.iter().map(|cell| cell.text).collect();
        let has = |name: &&&str| names.contains(*name);
        let is_gemm = GEMM[..3].iter().filter(has).count() >= 2;
        let wanted = if is_gemm { GEMM.as_slice() } else { COLLECTIVE.as_slice() };
        let missing: Vec<&str> = wanted.iter().filter(|name| !has(name)).copied().collect();
        for name in &missing {
            let unknown = cells.iter().filter(|cell| !wanted.contains(&cell.text));
            let near = unknown.into_iter().find(|cell| suggestion(cell.text, [*name]).is_some());
            let finding = match near {
                Some(cell) => Finding::new(cell.location(), format!("no column `{name}`"))
                    .label(format!("did you mean `{name}`?")),
                None => Finding::new(line, format!("no column `{name}`")).label("names of columns"),
            };
            rows.report(finding.help(FORMS));
        }
        for (at, cell) in cells.iter().enumerate() {
            if wanted.contains(&cell.text) && names[..at].contains(&cell.text) {
                let finding =
                    Finding::new(cell.location(), format!("column `{}` twice", cell.text));
                rows.report(finding.label("given before"));
                return None;
            }
        }
        missing.is_empty().then_some(Self { names, is_gemm })
    }

    fn is_repeated(&self, cells: &[Cell<'_>]) -> bool {
        cells.iter().map(|cell| cell.text).eq(self.names.iter().copied())
    }

    /// The cell of a column; empty at the end of the line where the row is too short.
    fn cell<'b>(&'b self, cells: &[Cell<'b>], name: &'b str) -> Option<Cell<'b>> {
        let at = self.names.iter().position(|column| *column == name)?;
        let end = cells.last().map_or(0, |cell| cell.end);
        let short = Cell { text: "", start: end, end, column: name };
        Some(cells.get(at).map_or(short, |cell| Cell { column: name, ..*cell }))
    }

    fn row(&self, line: usize, cells: &[Cell<'_>], choice: &Selection, rows: &mut Rows<'_>) {
        let given = |name| self.cell(cells, name).filter(|cell| !cell.text.is_empty());
        let system = given("system").map(|cell| cell.text.to_owned());
        let must = |name| self.cell(cells, name).expect("TRU-1: wanted columns are there");
        let measured = if self.is_gemm { None } else { given("in_place_us") };
        let measured = rows.cell(&measured.unwrap_or_else(|| must("time_us")), time);
        let ends = ["min_us", "max_us"].map(given);
        let ends = ends.map(|end| end.and_then(|cell| rows.cell(&cell, time)));
        let row = if self.is_gemm {
            let sides = ["m", "n", "k"].map(|name| rows.cell(&must(name), side));
            let dtype = match given("dtype") {
                Some(cell) => rows.dtype(&cell),
                None => Some(choice.dtype.unwrap_or(GEMM_DTYPE)),
            };
            let [Some(m), Some(n), Some(k)] = sides else { return };
            dtype.map(|dtype| (Subject::Gemm, 1, dtype, Size::Gemm([m, n, k])))
        } else {
            let subject = rows.subject(&must("op"));
            let count = rows.cell(&must("ranks"), ranks);
            let dtype = rows.dtype(&must("dtype"));
            let size = rows.cell(&must("size_bytes"), bytes);
            let both = subject.zip(count).zip(dtype.zip(size));
            both.map(|((subject, ranks), (dtype, bytes))| {
                (subject, ranks, dtype, Size::Bytes(bytes))
            })
        };
        let Some(((subject, ranks, dtype, size), measured_us)) = row.zip(measured) else { return };
        if (subject == Subject::Gemm) != self.is_gemm {
            let finding =
                Finding::new(must("op").location(), "a matrix product has `m`, `n` and `k`");
            return rows.report(finding.label("no size in bytes").help(FORMS));
        }
        let spread = match ends {
            [Some(shortest), Some(longest)] => ((longest / shortest).ln() / 2.0).max(0.0),
            _ => 0.0,
        };
        let point = Point { size, measured_us, spread, line };
        rows.add(Row { system, subject, ranks, dtype, point });
    }
}
