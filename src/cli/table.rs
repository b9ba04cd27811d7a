//! [`Table`]: rows in columns that stand under each other.

use std::io::{self, Write as _};

use textwrap::core::display_width;

use super::screen::{DIM, Screen, Style};

/// What stands between two columns.
const GAP: &str = "  ";

/// Rows in columns that stand under each other.
pub(super) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

/// A column.
pub(super) struct Column {
    name: String,
    is_number: bool,
    /// What is kept of its cells where there is no room for all, and in how many columns at least.
    cut: Option<(Kept, usize)>,
}

/// Which end of a text is kept where there is no room for all of it.
#[derive(Clone, Copy)]
pub(super) enum Kept {
    Start,
    End,
}

impl Kept {
    /// As much of a safe text as fits in so many columns.
    pub(super) fn of(self, text: &str, columns: usize) -> String {
        if display_width(text) <= columns {
            return text.to_owned();
        }
        let mut width = 1;
        let fits = |c: &char| {
            width += display_width(c.encode_utf8(&mut [0; 4]));
            width <= columns
        };
        match self {
            Self::Start => format!("{}…", text.chars().take_while(fits).collect::<String>().trim_end()),
            Self::End => {
                let kept = text.chars().rev().take_while(fits).map(char::len_utf8).sum::<usize>();
                format!("…{}", &text[text.len() - kept..])
            }
        }
    }
}

/// What stands in one row of a column: safe text, and how it is painted.
pub(super) struct Cell {
    text: String,
    style: Style,
}

impl Column {
    pub(super) fn text(name: impl Into<String>) -> Self {
        Self { name: name.into(), is_number: false, cut: None }
    }

    /// A column whose cells stand at its right edge.
    pub(super) fn number(name: impl Into<String>) -> Self {
        Self { name: name.into(), is_number: true, cut: None }
    }

    /// Has its cells cut where a line of the terminal has no room for all of them.
    pub(super) fn cut(self, kept: Kept, least: usize) -> Self {
        Self { cut: Some((kept, least)), ..self }
    }
}

impl Cell {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self::painted(text, Style::new())
    }

    pub(super) fn painted(text: impl Into<String>, style: Style) -> Self {
        Self { text: text.into(), style }
    }
}

impl Table {
    pub(super) fn new(columns: Vec<Column>) -> Self {
        Self { columns, rows: Vec::new() }
    }

    pub(super) fn push(&mut self, row: Vec<Cell>) {
        self.rows.push(row);
    }

    /// Leaves out columns in which nothing stands.
    pub(super) fn drop_empty_columns(&mut self) {
        for index in (0..self.columns.len()).rev() {
            if self.rows.iter().all(|row| row[index].text.is_empty()) {
                self.columns.remove(index);
                self.rows.iter_mut().for_each(|row| drop(row.remove(index)));
            }
        }
    }

    /// Cuts what may be cut, from the left, to what a line of the terminal holds.
    pub(super) fn fit(&mut self, screen: &Screen) {
        if screen.is_terminal() {
            self.fit_in(textwrap::termwidth());
        }
    }

    fn fit_in(&mut self, columns: usize) {
        let widths = self.widths();
        let whole = widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1);
        let mut over = whole.saturating_sub(columns);
        for (index, column) in self.columns.iter().enumerate() {
            let Some((kept, least)) = column.cut else { continue };
            let width = widths[index].saturating_sub(over).max(least.min(widths[index]));
            over -= widths[index] - width;
            self.rows.iter_mut().for_each(|row| row[index].text = kept.of(&row[index].text, width));
        }
    }

    fn widths(&self) -> Vec<usize> {
        let width = |index: usize| {
            let cells = self.rows.iter().map(|row| display_width(&row[index].text));
            cells.max().unwrap_or(0).max(display_width(&self.columns[index].name))
        };
        (0..self.columns.len()).map(width).collect()
    }

    pub(super) fn print(&self, screen: &mut Screen) -> io::Result<()> {
        let widths = self.widths();
        let names: Vec<_> = self.columns.iter().map(|c| Cell::painted(c.name.clone(), DIM)).collect();
        for row in std::iter::once(&names).chain(&self.rows) {
            self.print_row(screen, row, &widths)?;
        }
        Ok(())
    }

    fn print_row(&self, screen: &mut Screen, row: &[Cell], widths: &[usize]) -> io::Result<()> {
        let mut line = String::new();
        // Filled up only when something follows, so that no line ends in blanks.
        let mut gap = String::new();
        for ((cell, column), width) in row.iter().zip(&self.columns).zip(widths) {
            let fill = " ".repeat(width.saturating_sub(display_width(&cell.text)));
            if cell.text.is_empty() {
                gap += &fill;
            } else {
                line += &std::mem::take(&mut gap);
                let text = screen.paint(cell.style, &cell.text);
                if column.is_number {
                    line += &fill;
                    line += &text;
                } else {
                    line += &text;
                    gap += &fill;
                }
            }
            gap += GAP;
        }
        writeln!(screen, "{line}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_be_cut_is_cut_and_the_first_of_it_first() {
        let texts = |columns: usize| {
            let cut = Column::text("B").cut(Kept::Start, 4);
            let mut table = Table::new(vec![Column::text("A"), cut, Column::text("C").cut(Kept::End, 4)]);
            for row in [["aaaaaa", "the title", "/the/folder"], ["a", "it", ""]] {
                table.push(row.map(Cell::new).into());
            }
            table.fit_in(columns);
            assert_eq!(table.rows[1].iter().map(|cell| &*cell.text).collect::<Vec<_>>(), ["a", "it", ""]);
            table.rows[0].iter().map(|cell| cell.text.clone()).collect::<Vec<_>>()
        };
        assert_eq!(texts(30), ["aaaaaa", "the title", "/the/folder"]);
        assert_eq!(texts(29), ["aaaaaa", "the tit…", "/the/folder"]);
        assert_eq!(texts(25), ["aaaaaa", "the…", "/the/folder"]);
        assert_eq!(texts(23), ["aaaaaa", "the…", "…e/folder"]);
        assert_eq!(texts(1), ["aaaaaa", "the…", "…der"]);
    }

    #[test]
    fn a_cut_text_is_no_wider_than_it_may_be() {
        assert_eq!((Kept::Start.of("字字字", 4), Kept::End.of("字字字", 4)), ("字…".to_owned(), "…字".to_owned()));
        assert_eq!(Kept::End.of("字字", 4), "字字");
    }
}
