//! Text tables without lines: words to the left, numbers to the right.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table as Grid};

/// The widest line of a table, in characters.
const WIDTH: u16 = 100;

/// The look of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Letters alone.
    Plain,
    /// Letters with the escape sequences of a terminal.
    Terminal,
}

impl Style {
    /// Returns `text` as a heading.
    pub fn heading(self, text: &str) -> String {
        self.escaped(text, "\u{1b}[1m", "\u{1b}[0m")
    }

    /// Returns `text` as the names of columns.
    pub fn columns(self, text: &str) -> String {
        self.escaped(text, "\u{1b}[2m", "\u{1b}[0m")
    }

    fn escaped(self, text: &str, before: &str, after: &str) -> String {
        match self {
            Self::Plain => text.to_owned(),
            Self::Terminal => format!("{before}{text}{after}"),
        }
    }
}

/// A table with a line of column names.
///
/// ```
/// use phalanx_sim::report::{Style, Table};
/// let mut table = Table::new(&["part", "time"], &["time"]);
/// table.row(["link".to_owned(), "8 ns".to_owned()]);
/// assert_eq!(table.text(Style::Plain), "part  time\nlink  8 ns\n");
/// ```
pub struct Table(Grid);

impl Table {
    /// Returns an empty table with these columns; those that `numbers` names are aligned to the right.
    pub fn new(columns: &[&str], numbers: &[&str]) -> Self {
        let mut grid = Grid::new();
        grid.load_style(NOTHING)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(WIDTH)
            .set_header(columns);
        for (column, name) in grid.column_iter_mut().zip(columns) {
            column.set_padding((0, 2));
            if numbers.contains(name) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        Self(grid)
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.0.add_row(cells);
    }

    /// True if no row was added.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the table as text that ends with a newline.
    pub fn text(&self, style: Style) -> String {
        let mut lines = self.0.lines().map(|line| line.trim_end().to_owned());
        let columns = lines.next().unwrap_or_default();
        let rest: String = lines.map(|line| line + "\n").collect();
        format!("{}\n{rest}", style.columns(&columns))
    }
}
