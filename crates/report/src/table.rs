//! Text tables with aligned columns.

use crate::words;

/// The content of unknown cells.
const UNKNOWN: &str = "-";

/// The number of spaces between two columns.
const GAP: usize = 2;

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

    /// Renders the table as lines, each ended by a line feed. Omits columns without known cells.
    ///
    /// If lines would be longer than `width` characters, breaks headings and then the cells of the
    /// first column at spaces. A cell is never shortened, since rows must remain distinguishable.
    pub fn render(&self, width: usize) -> String {
        let cell = |row: &[Option<String>], column: usize| row.get(column).cloned().flatten();
        let known = |column: &usize| self.rows.iter().any(|row| cell(row, *column).is_some());
        let columns: Vec<usize> = (0..self.header.len()).filter(known).collect();
        let header: Vec<String> = columns.iter().map(|&column| self.header[column].clone()).collect();
        let texts = |row: &Vec<Option<String>>| -> Vec<String> {
            columns.iter().map(|&column| cell(row, column).unwrap_or_else(|| UNKNOWN.to_owned())).collect()
        };
        let rows: Vec<Vec<String>> = self.rows.iter().map(texts).collect();

        let widest = |place: usize| rows.iter().map(|row| length(&row[place])).max().unwrap_or(0);
        let widths = |heading: fn(&str) -> usize| -> Vec<usize> {
            header.iter().enumerate().map(|(place, name)| heading(name).max(widest(place))).collect()
        };
        let surplus = |widths: &[usize]| {
            let total = widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
            total.saturating_sub(width)
        };
        let mut most = widths(length);
        if surplus(&most) > 0 {
            most = widths(longest_word);
            most[0] = most[0].saturating_sub(surplus(&most));
        }
        let in_lines = |row: &[String], indent| -> Vec<Vec<String>> {
            row.iter().zip(&most).map(|(cell, &width)| words::broken(cell, width, indent)).collect()
        };
        let mut header = in_lines(&header, "");
        let height = header.iter().map(Vec::len).max().unwrap_or(0);
        header.iter_mut().for_each(|name| drop(name.splice(0..0, vec![String::new(); height - name.len()])));
        let rows = rows.iter().map(|row| in_lines(row, "  "));
        self.align(&columns, &[header].into_iter().chain(rows).collect::<Vec<_>>())
    }

    /// Puts the lines of the cells of each row side by side.
    fn align(&self, columns: &[usize], rows: &[Vec<Vec<String>>]) -> String {
        let widest = |place: usize| rows.iter().flat_map(|row| &row[place]).map(|line| length(line)).max();
        let widths: Vec<usize> = (0..columns.len()).map(|place| widest(place).unwrap_or(0)).collect();
        let line = |row: &Vec<Vec<String>>, number: usize| {
            let aligned = row.iter().zip(columns).zip(&widths).map(|((lines, &column), &width)| {
                let line = lines.get(number).map_or("", String::as_str);
                if column < self.words { format!("{line:<width$}") } else { format!("{line:>width$}") }
            });
            aligned.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_owned() + "\n"
        };
        let height = |row: &Vec<Vec<String>>| row.iter().map(Vec::len).max().unwrap_or(1);
        rows.iter().flat_map(|row| (0..height(row)).map(move |number| line(row, number))).collect()
    }
}

fn length(text: &str) -> usize {
    text.chars().count()
}

fn longest_word(text: &str) -> usize {
    text.split(' ').map(length).max().unwrap_or(0)
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
    fn a_table_that_is_too_wide_has_headings_and_labels_in_several_lines() {
        let mut table = Table::new(["arm", "time of a run", "n"], 1);
        for arm in ["fibers 10 to 100", "fibers 10 to 200"] {
            table.row([Some(arm.into()), Some("7 ms".into()), Some("3".into())]);
        }
        let one_line = "arm               time of a run  n\nfibers 10 to 100           7 ms  3\n";
        assert!(table.render(34).starts_with(one_line), "{}", table.render(34));
        let headings =
            "                  time\n                  of a\narm                run  n\nfibers 10 to 100  7 ms  3\n";
        assert!(table.render(33).starts_with(headings), "{}", table.render(33));
        let labels = "           time\n           of a\narm         run  n\n\
                      fibers 10  7 ms  3\n  to 100\nfibers 10  7 ms  3\n  to 200\n";
        assert_eq!(table.render(18), labels);
        // A word is never broken.
        assert!(table.render(1).contains("fibers  7 ms  3\n"), "{}", table.render(1));
    }

    #[test]
    fn labels_are_complete_at_any_width() {
        let arms = ["fibers 10/100", "fibers 10/200", "pthreads, one CPU", "pthreads"];
        for width in 0..60 {
            let mut table = Table::new(["", "response: median", "demotions"], 1);
            arms.iter().for_each(|arm| table.row([arm, "1.2 ms ±3 %", "7"].map(|cell| Some(cell.to_string()))));
            let text = table.render(width);
            let is_there = |arm: &&str| arm.split(' ').all(|word| text.contains(word));
            assert!(arms.iter().all(is_there) && !text.contains('…'), "{width}: {text}");
        }
    }

    #[test]
    fn a_table_without_rows_is_an_empty_line() {
        assert_eq!(Table::new(["rule"], 1).render(80), "\n");
    }
}
