//! Observations from a CSV file: columns of numbers, by name.

use report::words::counted;
use scenario::diagnostics::{did_you_mean, quoted};

/// The longest content that is read, in bytes.
pub const LONGEST_FILE: u64 = 256 << 20;

/// The largest absolute value of a number, and the inverse of the smallest. Squares of numbers
/// beyond this range would overflow or underflow.
const LARGEST: f64 = 1e100;

/// Columns of equal length.
#[derive(Clone, Debug, PartialEq)]
pub struct Observations {
    /// The columns, in the order of the request.
    pub columns: Vec<Vec<f64>>,
    /// The number of rows that were left out because one of their cells was empty.
    pub left_out: usize,
}

/// Why there are no observations, or no result from them: a message that names the line and the
/// column, if there is one.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ObservationError(pub(crate) String);

impl ObservationError {
    fn of_csv(error: &csv::Error) -> ObservationError {
        ObservationError(match error.kind() {
            csv::ErrorKind::UnequalLengths { pos: Some(at), expected_len: columns, len: cells } => {
                format!("line {}: {}, but the header has {columns}", at.line(), counted(*cells, "cell"))
            }
            _ => error.to_string(),
        })
    }
}

/// Reads the named columns of a file with this content, whose first line names all of them.
pub fn read(content: &[u8], names: &[String]) -> Result<Observations, ObservationError> {
    if content.len() as u64 > LONGEST_FILE {
        return Err(ObservationError(format!("the file is longer than {} MiB", LONGEST_FILE >> 20)));
    }
    let no_text = |at: usize| {
        let line = content[..at].iter().filter(|&&byte| byte == b'\n').count() + 1;
        ObservationError(format!("line {line}: the file is not text in UTF-8"))
    };
    let text = std::str::from_utf8(content).map_err(|error| no_text(error.valid_up_to()))?;
    if let Some(at) = text.find('\0') {
        return Err(no_text(at));
    }

    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let header = reader.headers().map_err(|error| ObservationError::of_csv(&error))?.clone();
    let places = names.iter().map(|name| place(&header, name)).collect::<Result<Vec<_>, _>>()?;
    let (mut columns, mut left_out) = (vec![Vec::new(); names.len()], 0);
    for record in reader.records() {
        let record = record.map_err(|error| ObservationError::of_csv(&error))?;
        let line = record.position().map_or(0, csv::Position::line);
        let number = |&place: &usize| {
            number(&record[place]).map_err(|problem| {
                let (column, cell) = (quoted(&header[place]), quoted(&record[place]));
                ObservationError(format!("line {line}, column {column}: {cell} {problem}"))
            })
        };
        if places.iter().any(|&place| record[place].is_empty()) {
            // The other cells must be valid nevertheless.
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

fn place(header: &csv::StringRecord, name: &str) -> Result<usize, ObservationError> {
    let mut places = header.iter().enumerate().filter(|(_, of)| *of == name).map(|(place, _)| place);
    match (places.next(), places.next()) {
        (Some(place), None) => Ok(place),
        (Some(_), Some(_)) => Err(ObservationError(format!("there are several columns {}", quoted(name)))),
        (None, _) => {
            let hint = did_you_mean(name, header.iter()).unwrap_or_else(|| there_are(header));
            Err(ObservationError(format!("there is no column {}; {hint}", quoted(name))))
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

fn number(cell: &str) -> Result<f64, &'static str> {
    match cell.parse::<f64>() {
        Ok(number) if number == 0.0 || (1.0 / LARGEST..=LARGEST).contains(&number.abs()) => Ok(number),
        Ok(number) if number.is_finite() => Err("is out of range; choose another unit"),
        _ => Err("is not a number"),
    }
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
    fn errors_name_the_line_and_the_column() {
        let text = "world,user,clock,user\n\"a\nb\",1,2,3\nhost,1,x,4\n";
        for (text, name, message) in [
            (text, "clok", "there is no column `clok`; did you mean `clock`?"),
            (text, "rounds", "there is no column `rounds`; there are `world`, `user`, `clock`, `user`"),
            (text, "user", "there are several columns `user`"),
            (text, "clock", "line 4, column `clock`: `x` is not a number"),
            ("a,b\n1,nan\n", "b", "line 2, column `b`: `nan` is not a number"),
            ("b\n0\n-2e100\n", "b", "line 3, column `b`: `-2e100` is out of range; choose another unit"),
            ("b\n1e-200\n", "b", "line 2, column `b`: `1e-200` is out of range; choose another unit"),
            ("a,b\n,x\n", "b", "line 2, column `b`: `x` is not a number"),
            ("", "a", "there is no column `a`; the file is empty"),
            ("a\n1\n\0", "a", "line 3: the file is not text in UTF-8"),
        ] {
            assert_eq!(read_text(text, &[name, "world"][..1]), Err(message.to_owned()));
        }
        assert_eq!(read_text("a,b\n,x\n", &["a", "b"]), Err("line 2, column `b`: `x` is not a number".to_owned()));
        let ragged = read_text("a,b\n1,2\n1\n", &["a"]).unwrap_err();
        assert_eq!(ragged, "line 3: 1 cell, but the header has 2");
        let latin = read(&b"a\n1\n\xe9\n"[..], &["a".to_owned()]).unwrap_err();
        assert_eq!(latin.to_string(), "line 3: the file is not text in UTF-8");
    }
}
