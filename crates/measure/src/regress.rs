//! Linear regression for `rowlock regress`: one column of observations as a sum of others.

use scenario::diagnostics::quoted;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::observations::{self, ObservationError};
use report::table::Table;
use report::words::{self, counted};
use stats::regression::{self, Coefficient, Fit, FitError};

/// The requested regression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The column to explain.
    pub on: String,
    /// The columns that explain it.
    pub from: Vec<String>,
    /// Whether there is a constant term.
    pub with_intercept: bool,
}

/// The result.
#[derive(Clone, Debug, PartialEq)]
pub struct Regression {
    /// The explained column.
    pub on: String,
    /// The columns that explain it, in the order of the coefficients.
    pub from: Vec<String>,
    /// The number of rows that were left out because one of their cells was empty.
    pub left_out: usize,
    /// The fitted model.
    pub fit: Fit,
}

impl Serialize for Regression {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct OfColumn<'a> {
            column: &'a str,
            #[serde(flatten)]
            coefficient: &'a Coefficient,
        }
        let of_column = |(column, coefficient)| OfColumn { column, coefficient };
        let columns = self.from.iter().map(String::as_str);
        let coefficients: Vec<OfColumn<'_>> = columns.zip(&self.fit.coefficients).map(of_column).collect();
        let mut written = serializer.serialize_struct("Regression", 11)?;
        written.serialize_field("on", &self.on)?;
        written.serialize_field("observations", &self.fit.observations)?;
        written.serialize_field("left_out", &self.left_out)?;
        written.serialize_field("degrees_of_freedom", &self.fit.freedom)?;
        written.serialize_field("intercept", &self.fit.intercept)?;
        written.serialize_field("coefficients", &coefficients)?;
        written.serialize_field("r_squared", &self.fit.r_squared)?;
        written.serialize_field("adjusted_r_squared", &self.fit.adjusted_r_squared)?;
        written.serialize_field("f", &self.fit.f)?;
        written.serialize_field("f_p", &self.fit.f_p)?;
        written.serialize_field("residual_deviation", &self.fit.residual_deviation)?;
        written.end()
    }
}

/// Computes the regression from the content of a CSV file.
pub fn regress(content: &[u8], question: &Question) -> Result<Regression, ObservationError> {
    let Question { on, from, with_intercept } = question;
    let names: Vec<String> = std::iter::once(on).chain(from).cloned().collect();
    if let Some((_, twice)) = names.iter().enumerate().find(|(place, name)| names[..*place].contains(name)) {
        return Err(ObservationError(format!("column {} is named twice", quoted(twice))));
    }
    let mut observed = observations::read(content, &names)?;
    let regressors = observed.columns.split_off(1);
    let fit = regression::fit(&observed.columns[0], &regressors, *with_intercept)
        .map_err(|error| ObservationError(no_fit(&error, question, observed.left_out)))?;
    Ok(Regression { on: on.clone(), from: from.clone(), left_out: observed.left_out, fit })
}

/// Why there is no fit, with the names of the columns.
fn no_fit(error: &FitError, Question { on, from, .. }: &Question, left_out: usize) -> String {
    match *error {
        FitError::TooFew { observations, coefficients } => {
            let rows = counted(observations as u64, "row");
            let more = match left_out {
                0 => String::new(),
                empty => format!(", {empty} more left out for their empty cells,"),
            };
            let (terms, least) = (counted(coefficients as u64, "coefficient"), coefficients + 1);
            format!("{rows}{more} are too few for {terms}; it takes at least {least}")
        }
        FitError::ConstantResponse => {
            format!("column {} is the same in all rows: there is nothing to explain", quoted(on))
        }
        FitError::Constant(number) => {
            format!("column {} is the same in all rows: it explains nothing", quoted(&from[number]))
        }
        FitError::Collinear(number) => {
            let others: Vec<String> = from[..number].iter().map(|name| quoted(name).to_string()).collect();
            format!("column {} follows from {}: leave one of them out", quoted(&from[number]), others.join(", "))
        }
    }
}

/// The result as text.
pub fn text(found: &Regression) -> String {
    let Regression { on, from, left_out, fit } = found;
    let left_out = match left_out {
        0 => String::new(),
        1 => ", 1 row left out for an empty cell".to_owned(),
        rows => format!(", {rows} rows left out for empty cells"),
    };
    let through_zero = if fit.intercept.is_some() { "" } else { ", without an intercept" };
    let title =
        format!("{on} on {}: least squares{through_zero}, {} rows{left_out}", from.join(", "), fit.observations);
    let mut text = words::wrap(&title, report::WIDTH) + "\n\n";

    let mut table = Table::new(["", "coefficient", "std. error", "95 % interval", "t", "p"], 1);
    let intercept = fit.intercept.iter().map(|of| ("(intercept)", of));
    for (name, of) in intercept.chain(from.iter().map(String::as_str).zip(&fit.coefficients)) {
        let &Coefficient { value, standard_error, low, high, t, p } = of;
        let interval = format!("[{}, {}]", words::figure(low), words::figure(high));
        let cells =
            [words::figure(value), words::figure(standard_error), interval, words::figure(t), words::p_value(p)];
        table.row(std::iter::once(name.to_owned()).chain(cells).map(Some));
    }
    text.push_str(&table.render(report::WIDTH));
    text += &format!(
        "\nR^2 {}, adjusted {}; F {} on {} and {} degrees of freedom, p {}\n",
        words::figure(fit.r_squared),
        words::figure(fit.adjusted_r_squared),
        words::figure(fit.f),
        from.len(),
        fit.freedom,
        words::p_value(fit.f_p),
    );
    text + &format!("residual standard deviation: {}\n", words::figure(fit.residual_deviation))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "clock,user,system,same,both\n12.61,23.50,1.05,1,24.55\n12.42,23.08,1.05,1,24.13\n\
                         12.44,23.06,1.10,1,24.16\n12.9,24.1,1.02,1,25.12\n,24,1,1,25\n13.1,24.4,1.2,1,25.6\n\
                         12.2,22.7,1.01,1,23.71\n12.75,23.6,1.12,1,24.72\n";

    fn ask(on: &str, from: &[&str], with_intercept: bool) -> Result<Regression, String> {
        let from = from.iter().map(|&name| name.to_owned()).collect();
        let question = Question { on: on.to_owned(), from, with_intercept };
        regress(TABLE.as_bytes(), &question).map_err(|error| error.to_string())
    }

    #[test]
    fn the_result_is_a_table() {
        insta::assert_snapshot!(text(&ask("clock", &["user", "system"], true).unwrap()));
    }

    #[test]
    fn a_regression_without_an_intercept_has_none() {
        let found = ask("clock", &["user", "system"], false).unwrap();
        assert_eq!((found.fit.intercept, found.fit.freedom, found.left_out), (None, 5, 1));
        assert!(
            text(&found).starts_with("clock on user, system: least squares, without an intercept, 7 rows, 1 row left")
        );
    }

    #[test]
    fn the_reason_for_a_missing_result_is_named() {
        for (on, from, message) in [
            ("clock", &["user", "same"][..], "column `same` is the same in all rows: it explains nothing"),
            (
                "clock",
                &["user", "system", "both"],
                "column `both` follows from `user`, `system`: leave one of them out",
            ),
            ("same", &["user"], "column `same` is the same in all rows: there is nothing to explain"),
            ("clock", &["user", "clock"], "column `clock` is named twice"),
            ("clok", &["user"], "there is no column `clok`; did you mean `clock`?"),
        ] {
            assert_eq!(ask(on, from, true), Err(message.to_owned()));
        }
        let question = Question { on: "a".into(), from: vec!["b".into()], with_intercept: true };
        let error = regress("a,b\n1,2\n2,\n3,4\n".as_bytes(), &question).unwrap_err().to_string();
        let message =
            "2 rows, 1 more left out for their empty cells, are too few for 2 coefficients; it takes at least 3";
        assert_eq!(error, message);
    }
}
