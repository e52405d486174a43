//! HTML tables: scrollable, and sortable if scripts are enabled.

use crate::plot::svg::escape;

/// Longer tables are folded.
const LONG: usize = 48;

/// A cell.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// The content as markup.
    markup: String,
    /// The sort key in a column of numbers.
    number: Option<f64>,
}

impl Cell {
    /// A cell with plain text.
    fn text(text: &str) -> Cell {
        Cell { markup: escape(text).into_owned(), number: None }
    }

    /// A formatted number and its value, which is the sort key.
    pub fn number(text: &str, number: f64) -> Cell {
        Cell { number: Some(number), ..Cell::text(text) }
    }
}

/// A column with its cells from top to bottom.
#[derive(Clone, Debug)]
pub struct Column {
    name: String,
    is_number: bool,
    is_sortable: bool,
    cells: Vec<Cell>,
}

impl Column {
    fn new(name: &str, is_number: bool, cells: Vec<Cell>) -> Column {
        Column { name: name.to_owned(), is_number, is_sortable: true, cells }
    }

    /// A column of words, sorted as text.
    pub fn words(name: &str, cells: impl Iterator<Item = String>) -> Column {
        Column::new(name, false, cells.map(|text| Cell::text(&text)).collect())
    }

    /// A column with the values of a factor, sorted as numbers if all of them are numbers.
    pub fn values(name: &str, cells: impl Iterator<Item = String>) -> Column {
        let cell = |text: String| Cell { number: text.parse().ok(), ..Cell::text(&text) };
        let cells: Vec<Cell> = cells.map(cell).collect();
        let is_number = cells.iter().all(|cell| cell.number.is_some());
        Column::new(name, is_number, cells)
    }

    /// A column of numbers with the same number of decimals: enough for three digits of the
    /// smallest number, but at most three.
    pub fn numbers(name: &str, numbers: impl Iterator<Item = Option<f64>>) -> Column {
        let numbers: Vec<Option<f64>> = numbers.collect();
        let sizes = numbers.iter().flatten().map(|number| number.abs()).filter(|size| *size > 0.0);
        let smallest = sizes.fold(f64::INFINITY, f64::min);
        let is_whole = numbers.iter().flatten().all(|number| number.fract() == 0.0);
        let decimals = if is_whole { 0.0 } else { (2.0 - smallest.log10().floor()).clamp(0.0, 3.0) };
        let decimals = if decimals.is_finite() { decimals as usize } else { 0 };
        let cell = |number: f64| Cell::number(&format!("{number:.decimals$}"), number);
        Column::cells(name, numbers.into_iter().map(|number| number.map(cell).unwrap_or_default()))
    }

    /// A column of formatted numbers.
    pub fn cells(name: &str, cells: impl Iterator<Item = Cell>) -> Column {
        Column::new(name, true, cells.collect())
    }

    /// A column of markup that cannot be sorted.
    pub fn unsortable(name: &str, cells: impl Iterator<Item = String>) -> Column {
        let cells = cells.map(|markup| Cell { markup, number: None }).collect();
        Column { is_sortable: false, ..Column::new(name, false, cells) }
    }

    fn is_empty(&self) -> bool {
        self.cells.iter().all(|cell| cell.markup.is_empty())
    }
}

/// Renders a table of these columns with a caption. Empty columns are omitted, and so is a table
/// without rows. The first remaining column contains the row headers. `id` is unique on the page.
pub fn render(id: &str, caption: &str, columns: Vec<Column>) -> String {
    let columns: Vec<Column> = columns.into_iter().filter(|column| !column.is_empty()).collect();
    let rows = columns.iter().map(|column| column.cells.len()).max().unwrap_or(0);
    if rows == 0 {
        return String::new();
    }
    let mut text = format!(
        "<div class=\"scroll\" role=\"region\" aria-labelledby=\"{id}\" tabindex=\"0\">\n<table>\n\
         <caption id=\"{id}\">{}</caption>\n<thead>\n<tr>",
        escape(caption)
    );
    for Column { name, is_number, is_sortable, .. } in &columns {
        let class = if *is_number { " class=\"number\"" } else { "" };
        let sort = if *is_sortable { " data-sortable=\"\"" } else { "" };
        text += &format!("<th scope=\"col\"{class}{sort}>{}</th>", escape(name));
    }
    text.push_str("</tr>\n</thead>\n<tbody>\n");
    for row in 0..rows {
        text.push_str("<tr>");
        for (place, column) in columns.iter().enumerate() {
            let Cell { markup, number } = column.cells.get(row).cloned().unwrap_or_default();
            let (open, close) = if place == 0 { ("th scope=\"row\"", "th") } else { ("td", "td") };
            let class = if column.is_number { " class=\"number\"" } else { "" };
            let sort =
                number.filter(|_| column.is_number).map_or(String::new(), |number| format!(" data-sort=\"{number}\""));
            text += &format!("<{open}{class}{sort}>{markup}</{close}>");
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody>\n</table>\n</div>\n");
    if rows > LONG { super::folded(&format!("{caption}: {rows} rows"), &text) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_table_is_folded_and_its_caption_is_escaped_once() {
        let table = |rows: usize| {
            let names = Column::words("who's <it>", (0..rows).map(|row| format!("a & {row}")));
            let numbers = Column::numbers("half", (0..rows).map(|row| Some(row as f64 / 2.0)));
            render("t", "The crew's", vec![names, Column::words("nothing", (0..rows).map(|_| String::new())), numbers])
        };
        let (short, long) = (table(LONG), table(LONG + 1));
        assert!(!short.contains("<details>") && long.contains("<summary>The crew&#39;s: 49 rows</summary>"), "{long}");
        assert!(!long.contains("&amp;#") && !long.contains("nothing"));
        let document = roxmltree::Document::parse(&long).unwrap();
        let cells: Vec<_> = document.descendants().filter_map(|node| node.attribute("data-sort")).collect();
        assert_eq!((cells.len(), cells[3]), (LONG + 1, "1.5"));
        assert_eq!(table(0), "");
    }
}
