//! The parts that the texts of all papers share.

use report::WIDTH;
use report::table::Table;
use report::words;

use crate::Paper;

/// The sentence that a report begins with if some of its runs or simulations are missing.
pub(crate) const INCOMPLETE: &str = "Incomplete: not all runs and simulations were made; all figures are from these.";

/// A table below a heading.
pub(crate) fn indented(table: &Table) -> String {
    table.render(WIDTH - 2).lines().map(|line| format!("  {line}\n")).collect()
}

/// A heading of a column, and the cell of a row in it.
pub(crate) type Column<'a, T> = (&'a str, &'a dyn Fn(&T) -> Option<String>);

/// A table below a heading. The first `words` columns contain words.
pub(crate) fn table<T, const N: usize>(rows: &[T], words: usize, columns: [Column<'_, T>; N]) -> String {
    let mut table = Table::new(columns.map(|(heading, _)| heading), words);
    for row in rows {
        table.row(columns.map(|(_, cell)| cell(row)));
    }
    indented(&table)
}

/// A sentence in lines that fit the page.
pub(crate) fn wrapped(sentence: &str) -> String {
    words::wrap(sentence, WIDTH) + "\n"
}

/// The head of the report of a measured paper: its statement, how it was measured, and whether runs
/// are missing.
pub(crate) fn head(paper: &Paper, method: Option<String>, is_complete: bool) -> String {
    let mut text = wrapped(&paper.statement());
    text.extend(method.map(|method| wrapped(&method)));
    text.extend((!is_complete).then(|| format!("{INCOMPLETE}\n")));
    text
}
