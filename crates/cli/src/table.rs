//! Tables without lines: words to the left, numbers to the right, no wider than [`WIDTH`].

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table as Grid};
use owo_colors::OwoColorize;

/// How wide output may be.
pub(crate) const WIDTH: u16 = 100;

/// A table under its heading.
pub(crate) struct Table(Grid);

impl Table {
    /// Columns by heading; the ones that `right` names hold numbers.
    pub(crate) fn new(headings: &[&str], right: &[&str]) -> Self {
        let mut grid = Grid::new();
        grid.load_style(NOTHING)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(WIDTH)
            .set_header(headings);
        for (column, heading) in grid.column_iter_mut().zip(headings) {
            column.set_padding((0, 2));
            if right.contains(heading) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        Self(grid)
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.0.add_row(cells);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As text, headings underlined where there are colours.
    pub(crate) fn text(&self) -> String {
        let mut lines = self.0.lines().map(|line| line.trim_end().to_owned());
        let heading = lines.next().unwrap_or_default();
        let rest: String = lines.map(|line| line + "\n").collect();
        format!("{}\n{rest}", heading.dimmed())
    }
}
