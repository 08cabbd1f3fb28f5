//! Tables for people: aligned, and cut to the width of the terminal.

use crate::term::{self, Paint, Style, columns, cut, safe};

/// A column that gives room to others is not made narrower than this.
const LEAST_COLUMNS: usize = 8;
/// Blanks before every column.
const GAP: usize = 2;

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    title: &'static str,
    is_right: bool,
    shrinks: bool,
}

impl Column {
    /// Text, which is cut if the terminal is too narrow.
    pub const fn text(title: &'static str) -> Self {
        Self { title, is_right: false, shrinks: true }
    }

    /// Text that is of use only as a whole, such as an id.
    pub const fn whole(title: &'static str) -> Self {
        Self { title, is_right: false, shrinks: false }
    }

    pub const fn number(title: &'static str) -> Self {
        Self { title, is_right: true, shrinks: false }
    }
}

/// A cell: its text, and how it looks.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    pub fn new(text: impl AsRef<str>) -> Self {
        Self { text: safe(text.as_ref()), style: Style::Plain }
    }

    pub fn style(self, style: Style) -> Self {
        Self { style, ..self }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text)
    }
}

/// Columns and rows.
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub fn new(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    pub fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// The table for standard output.
    pub fn text(&self) -> String {
        let mut text = self.lines(term::width(), Paint::stdout()).join("\n");
        text.push('\n');
        text
    }

    /// The title, then the rows; none is wider than `width`.
    pub fn lines(&self, width: Option<usize>, paint: Paint) -> Vec<String> {
        let widths = self.widths(width);
        let title: Vec<Cell> =
            self.columns.iter().map(|column| Cell::new(column.title).style(Style::Bold)).collect();
        let rows = std::iter::once(&title).chain(&self.rows);
        rows.map(|row| self.line(row, &widths, width.unwrap_or(usize::MAX), paint)).collect()
    }

    fn line(&self, row: &[Cell], widths: &[usize], width: usize, paint: Paint) -> String {
        let (mut line, mut used) = (String::new(), 0);
        let last = row.len().saturating_sub(1);
        for (at, cell) in row.iter().enumerate() {
            let room = width.saturating_sub(used);
            if room <= GAP {
                break;
            }
            let room = widths[at].min(room - GAP);
            let text = cut(&cell.text, room);
            let blanks = room - columns(&text);
            line.push_str("  ");
            let painted = paint.apply(cell.style, &text);
            match self.columns[at].is_right {
                true => line.extend([" ".repeat(blanks), painted]),
                // No blanks at the end of a line.
                false if at == last => line.push_str(&painted),
                false => line.extend([painted, " ".repeat(blanks)]),
            }
            used += GAP + widths[at];
        }
        line.truncate(line.trim_end_matches(' ').len());
        line
    }

    /// The width of every column: what its widest cell takes, less what the terminal has not got.
    fn widths(&self, width: Option<usize>) -> Vec<usize> {
        let widest = |(at, column): (usize, &Column)| {
            let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|cell| columns(&cell.text));
            cells.chain([columns(column.title)]).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = self.columns.iter().enumerate().map(widest).collect();
        let Some(width) = width else { return widths };
        let mut total: usize = widths.iter().map(|width| width + GAP).sum();
        while total > width {
            let shrinks = |at: &usize| self.columns[*at].shrinks && widths[*at] > LEAST_COLUMNS;
            let Some(at) = (0..widths.len()).filter(shrinks).max_by_key(|at| widths[*at]) else { break };
            widths[at] -= 1;
            total -= 1;
        }
        widths
    }
}

/// Names and values, one pair per line, the values below each other.
pub fn facts(facts: &[(&str, String)]) -> String {
    let widest = facts.iter().map(|(name, _)| columns(name)).max().unwrap_or(0);
    let width = term::width().unwrap_or(usize::MAX);
    let line = |(name, value): &(&str, String)| {
        let blanks = " ".repeat(widest - columns(name) + GAP);
        format!("{}\n", cut(&format!("  {name}{blanks}{}", safe(value)), width))
    };
    facts.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&[Column::text("NAME"), Column::number("SIZE"), Column::text("WHY")]);
        table.row(vec!["a".into(), "10".into(), "because of a long story".into()]);
        table.row(vec!["long-name".into(), "5".into(), Cell::new("x").style(Style::Red)]);
        table
    }

    #[test]
    fn columns_are_aligned_and_nothing_is_cut_in_a_pipe() {
        let lines = table().lines(None, Paint::OFF);
        assert_eq!(
            lines,
            ["  NAME       SIZE  WHY", "  a            10  because of a long story", "  long-name     5  x"]
        );
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let lines = table().lines(Some(36), Paint::OFF);
        assert_eq!(lines[1], "  a            10  because of a lon…");
        for width in 0..50 {
            for line in table().lines(Some(width), Paint::OFF) {
                assert!(columns(&line) <= width, "{width}: {line:?}");
            }
        }
    }

    #[test]
    fn colours_take_no_room() {
        let lines = table().lines(Some(36), Paint::ON);
        assert_eq!(lines[2], "  long-name     5  \x1b[31mx\x1b[0m");
    }

    #[test]
    fn a_cell_cannot_steer_the_terminal() {
        let mut table = Table::new(&[Column::text("A")]);
        table.row(vec!["\x1b[2J\r\n".into()]);
        assert_eq!(table.lines(None, Paint::OFF)[1], "  ·[2J··");
    }
}
