//! [`Table`]: rows in columns that stand under each other.

use std::io::{self, Write as _};

use textwrap::core::display_width;

use super::screen::{DIM, Screen, Style};

/// Rows in columns that stand under each other.
pub(super) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

/// A column.
pub(super) struct Column {
    name: String,
    is_number: bool,
}

/// What stands in one row of a column: safe text, and how it is painted.
pub(super) struct Cell {
    text: String,
    style: Style,
}

impl Column {
    pub(super) fn text(name: impl Into<String>) -> Self {
        Self { name: name.into(), is_number: false }
    }

    /// A column whose cells stand at its right edge.
    pub(super) fn number(name: impl Into<String>) -> Self {
        Self { name: name.into(), is_number: true }
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

    pub(super) fn print(&self, screen: &mut Screen) -> io::Result<()> {
        let width = |index: usize| {
            let cells = self.rows.iter().map(|row| display_width(&row[index].text));
            cells.max().unwrap_or(0).max(display_width(&self.columns[index].name))
        };
        let widths: Vec<_> = (0..self.columns.len()).map(width).collect();
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
            gap += "  ";
        }
        writeln!(screen, "{line}")
    }
}
