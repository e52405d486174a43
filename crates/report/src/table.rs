//! Text tables with aligned columns.

use crate::words::shortened;

/// The content of unknown cells.
const UNKNOWN: &str = "-";

/// Rows of cells with a header.
#[derive(Clone, Debug)]
pub struct Table {
    header: Vec<String>,
    rows: Vec<Vec<Option<String>>>,
    /// The number of columns with words, which are aligned to the left; the others contain numbers
    /// and are aligned to the right.
    words: usize,
}

impl Table {
    /// Creates an empty table. The first `words` columns contain words.
    pub fn new(header: impl IntoIterator<Item = impl Into<String>>, words: usize) -> Table {
        Table { header: header.into_iter().map(Into::into).collect(), rows: Vec::new(), words }
    }

    /// Adds a row. Missing cells are empty, and surplus cells are ignored.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Option<String>>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Renders the table as lines of at most `width` characters, each ended by a line feed. Omits
    /// columns without known cells. If the table is too wide, shortens the first column.
    pub fn render(&self, width: usize) -> String {
        const GAP: usize = 2;
        let cell = |row: &Vec<Option<String>>, column: usize| row.get(column).cloned().flatten();
        let known = |column: &usize| self.rows.iter().any(|row| cell(row, *column).is_some());
        let columns: Vec<usize> = (0..self.header.len()).filter(known).collect();
        let mut lines: Vec<Vec<String>> = vec![columns.iter().map(|&column| self.header[column].clone()).collect()];
        let texts =
            |row| columns.iter().map(|&column| cell(row, column).unwrap_or_else(|| UNKNOWN.to_owned())).collect();
        lines.extend(self.rows.iter().map(texts));

        let longest = |place: usize| lines.iter().map(|line| line[place].chars().count()).max().unwrap_or(0);
        let mut widths: Vec<usize> = (0..columns.len()).map(longest).collect();
        let total = widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
        if let Some(first) = widths.first_mut() {
            *first = first.saturating_sub(total.saturating_sub(width)).max(1);
        }
        let mut text = String::new();
        for line in &lines {
            let cells = line.iter().zip(&widths).zip(&columns).map(|((cell, &width), &column)| {
                let cell = shortened(cell, width);
                if column < self.words { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            text.push_str(cells.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(["rule", "unknown", "time"], 1);
        table.row([Some("always-block".into()), None, Some("7".into())]);
        table.row([Some("cs".into()), None, None]);
        table
    }

    #[test]
    fn words_are_aligned_left_and_numbers_right_and_unknown_columns_are_omitted() {
        assert_eq!(table().render(80), "rule          time\nalways-block     7\ncs               -\n");
    }

    #[test]
    fn the_first_column_is_shortened_if_the_table_is_too_wide() {
        let text = table().render(12);
        assert_eq!(text, "rule    time\nalway…     7\ncs         -\n");
        assert!(text.lines().all(|line| line.chars().count() <= 12));
    }

    #[test]
    fn a_table_without_rows_is_an_empty_line() {
        assert_eq!(Table::new(["rule"], 1).render(80), "\n");
    }
}
