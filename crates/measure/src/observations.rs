//! Observations from a CSV file: columns of numbers by their names.

use std::io::Read;

use scenario::diagnostics::{did_you_mean, quoted};

/// A longer file is not read: there are files without an end.
pub const LONGEST_FILE: u64 = 256 << 20;

/// Squares of larger numbers, or of the inverse of smaller ones, would leave the range of floating point numbers before all is
/// computed.
const LARGEST: f64 = 1e100;

/// Columns of equal length.
#[derive(Clone, Debug, PartialEq)]
pub struct Observations {
    /// The columns, in the order in which they were asked for.
    pub columns: Vec<Vec<f64>>,
    /// How many rows were left out because one of their cells was empty.
    pub left_out: usize,
}

/// Why a file has no such observations.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It could not be read.
    #[error("{0}")]
    Read(#[from] std::io::Error),
    /// It has no end, or might as well have none.
    #[error("the file is longer than {} MiB", LONGEST_FILE >> 20)]
    TooLong,
    /// It is not text.
    #[error("line {line}: the file is not text in UTF-8")]
    NotUtf8 {
        /// Counted from one.
        line: usize,
    },
    /// A row has more or fewer cells than the header.
    #[error("line {line}: {cells} {} where the header has {columns}", if *.cells == 1 { "cell" } else { "cells" })]
    Ragged {
        /// Counted from one.
        line: u64,
        /// How many cells it has.
        cells: u64,
        /// How many there should be.
        columns: u64,
    },
    /// It is no table for another reason.
    #[error("{0}")]
    Csv(csv::Error),
    /// There is no such column.
    #[error("there is no column {}; {hint}", quoted(.name))]
    NoColumn {
        /// Its name.
        name: String,
        /// What there is instead.
        hint: String,
    },
    /// There are several.
    #[error("there are several columns {}", quoted(.0))]
    Ambiguous(String),
    /// A cell holds something else.
    #[error("line {line}, column {}: {} is not a number", quoted(.column), quoted(.cell))]
    NotANumber {
        /// Counted from one.
        line: u64,
        /// Its name.
        column: String,
        /// What it holds.
        cell: String,
    },
    /// A number is too large or too small to be computed with.
    #[error("line {line}, column {}: {} is beyond what can be computed with; choose another unit", quoted(.column), quoted(.cell))]
    OutOfRange {
        /// Counted from one.
        line: u64,
        /// Its name.
        column: String,
        /// What it holds.
        cell: String,
    },
}

/// Reads the named columns of a file whose first line names all of them.
///
/// # Errors
///
/// [`Error`].
pub fn read(file: impl Read, names: &[String]) -> Result<Observations, Error> {
    let mut content = Vec::new();
    file.take(LONGEST_FILE + 1).read_to_end(&mut content)?;
    if content.len() as u64 > LONGEST_FILE {
        return Err(Error::TooLong);
    }
    let line_of = |at: usize| content[..at].iter().filter(|&&byte| byte == b'\n').count() + 1;
    let text = std::str::from_utf8(&content).map_err(|error| Error::NotUtf8 { line: line_of(error.valid_up_to()) })?;
    if let Some(at) = text.find('\0') {
        return Err(Error::NotUtf8 { line: line_of(at) });
    }

    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let header = reader.headers().map_err(Error::from)?.clone();
    let places = names.iter().map(|name| place(&header, name)).collect::<Result<Vec<_>, _>>()?;
    let (mut columns, mut left_out) = (vec![Vec::new(); names.len()], 0);
    for record in reader.records() {
        let record = record.map_err(Error::from)?;
        let line = record.position().map_or(0, csv::Position::line);
        let number = |&place: &usize| {
            let (column, cell) = (header[place].to_owned(), record[place].to_owned());
            match number(&record[place]) {
                None => Err(Error::NotANumber { line, column, cell }),
                Some(number) if is_out_of_range(number) => Err(Error::OutOfRange { line, column, cell }),
                Some(number) => Ok(number),
            }
        };
        if places.iter().any(|&place| record[place].is_empty()) {
            // What else stands in the row has to be right all the same.
            places.iter().filter(|&&place| !record[place].is_empty()).try_for_each(|place| number(place).map(drop))?;
            left_out += 1;
            continue;
        }
        for (column, place) in columns.iter_mut().zip(&places) {
            column.push(number(place)?);
        }
    }
    Ok(Observations { columns, left_out })
}

impl From<csv::Error> for Error {
    fn from(error: csv::Error) -> Error {
        match error.kind() {
            csv::ErrorKind::UnequalLengths { pos: Some(at), expected_len: columns, len: cells } => {
                Error::Ragged { line: at.line(), cells: *cells, columns: *columns }
            }
            _ => Error::Csv(error),
        }
    }
}

fn place(header: &csv::StringRecord, name: &str) -> Result<usize, Error> {
    let mut places = header.iter().enumerate().filter(|(_, of)| *of == name).map(|(place, _)| place);
    match (places.next(), places.next()) {
        (Some(place), None) => Ok(place),
        (Some(_), Some(_)) => Err(Error::Ambiguous(name.to_owned())),
        (None, _) => {
            let hint = did_you_mean(name, header.iter()).unwrap_or_else(|| there_are(header));
            Err(Error::NoColumn { name: name.to_owned(), hint })
        }
    }
}

fn there_are(header: &csv::StringRecord) -> String {
    const MOST: usize = 20;
    let names: Vec<String> = header.iter().take(MOST).map(|name| quoted(name).to_string()).collect();
    match header.len() {
        0 => "the file is empty".to_owned(),
        1..=MOST => format!("there are {}", names.join(", ")),
        all => format!("there are {} and {} more", names.join(", "), all - MOST),
    }
}

fn number(cell: &str) -> Option<f64> {
    cell.parse().ok().filter(|number: &f64| number.is_finite())
}

fn is_out_of_range(number: f64) -> bool {
    number != 0.0 && !(1.0 / LARGEST..=LARGEST).contains(&number.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str, names: &[&str]) -> Result<Observations, String> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        read(text.as_bytes(), &names).map_err(|error| error.to_string())
    }

    #[test]
    fn columns_are_found_by_name_and_rows_with_an_empty_cell_are_left_out() {
        let text = "\u{feff}world, user ,clock\nsim,1.5,2\nsim,,3\nhost, -1e3 , 4 \n";
        let found = read_text(text, &["clock", "user"]).unwrap();
        assert_eq!(found, Observations { columns: vec![vec![2.0, 4.0], vec![1.5, -1e3]], left_out: 1 });
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let text = "world,user,clock,user\n\"a\nb\",1,2,3\nhost,1,x,4\n";
        for (text, name, message) in [
            (text, "clok", "there is no column `clok`; did you mean `clock`?"),
            (text, "rounds", "there is no column `rounds`; there are `world`, `user`, `clock`, `user`"),
            (text, "user", "there are several columns `user`"),
            (text, "clock", "line 4, column `clock`: `x` is not a number"),
            ("a,b\n1,nan\n", "b", "line 2, column `b`: `nan` is not a number"),
            (
                "b\n0\n-2e100\n",
                "b",
                "line 3, column `b`: `-2e100` is beyond what can be computed with; choose another unit",
            ),
            (
                "b\n1e-200\n",
                "b",
                "line 2, column `b`: `1e-200` is beyond what can be computed with; choose another unit",
            ),
            ("a,b\n,x\n", "b", "line 2, column `b`: `x` is not a number"),
            ("", "a", "there is no column `a`; the file is empty"),
            ("a\n1\n\0", "a", "line 3: the file is not text in UTF-8"),
        ] {
            assert_eq!(read_text(text, &[name, "world"][..1]), Err(message.to_owned()));
        }
        assert_eq!(read_text("a,b\n,x\n", &["a", "b"]), Err("line 2, column `b`: `x` is not a number".to_owned()));
        let ragged = read_text("a,b\n1,2\n1\n", &["a"]).unwrap_err();
        assert_eq!(ragged, "line 3: 1 cell where the header has 2");
        let latin = read(&b"a\n1\n\xe9\n"[..], &["a".to_owned()]).unwrap_err();
        assert_eq!(latin.to_string(), "line 3: the file is not text in UTF-8");
    }
}
