//! What who starts a program tells the library in it, by environment variables.

use std::path::PathBuf;

use policy::Span;
pub use policy::waiting::Costs;
use policy::waiting::Rule;

/// What the library in a program is told.
///
/// Who starts the program measures what things cost: the library never does, in another's program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// The rule to wait by.
    pub rule: Rule,
    /// What things cost here.
    pub costs: Option<Costs>,
    /// The book of accounts.
    pub book: Option<PathBuf>,
}

impl Environment {
    /// The rule, as `--wait` takes it.
    pub const RULE: &'static str = "ROWLOCK_WAIT";
    /// CS, margin, lone yield and tick, in nanoseconds, with commas in between.
    pub const COSTS: &'static str = "ROWLOCK_COSTS";
    /// The path of the book.
    pub const BOOK: &'static str = "ROWLOCK_BOOK";

    /// Reads it. What cannot be read counts as not said: a program is not to fail for it.
    pub fn read(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> Environment {
        let text = |name| variable(name)?.into_string().ok();
        Environment {
            rule: text(Self::RULE).and_then(|rule| rule.parse().ok()).unwrap_or_default(),
            costs: text(Self::COSTS).and_then(|costs| parse(&costs)),
            book: variable(Self::BOOK).map(PathBuf::from),
        }
    }

    /// As variables and their values.
    pub fn variables(&self) -> Vec<(&'static str, std::ffi::OsString)> {
        let mut variables = vec![(Self::RULE, self.rule.to_string().into())];
        variables.extend(self.costs.map(|costs| (Self::COSTS, print(costs).into())));
        variables.extend(self.book.as_ref().map(|book| (Self::BOOK, book.into())));
        variables
    }
}

fn print(Costs { cs, margin, lone_yield, tick }: Costs) -> String {
    [cs, margin, lone_yield, tick].map(|span| span.as_nanos().to_string()).join(",")
}

fn parse(costs: &str) -> Option<Costs> {
    let spans: Vec<Span> =
        costs.split(',').map(|nanos| nanos.parse().map(Span::from_nanos)).collect::<Result<_, _>>().ok()?;
    let &[cs, margin, lone_yield, tick] = spans.as_slice() else { return None };
    Some(Costs { cs, margin, lone_yield, tick })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_read() {
        let span = Span::from_nanos;
        let said = Environment {
            rule: "2cs+".parse().unwrap(),
            costs: Some(Costs { cs: span(20_000), margin: span(1), lone_yield: span(500), tick: span(4_000_000) }),
            book: Some("/tmp/a book".into()),
        };
        let variables = said.variables();
        let read = |name: &str| Some(variables.iter().find(|(said, _)| *said == name)?.1.clone());
        assert_eq!(Environment::read(read), said);
    }

    #[test]
    fn what_cannot_be_read_is_not_said() {
        assert_eq!(Environment::read(|_| None), Environment::default());
        for nonsense in ["", "1,2,3", "1,2,3,4,5", "1,2,3,x"] {
            let read = |name: &str| (name != Environment::BOOK).then(|| nonsense.into());
            assert_eq!(Environment::read(read), Environment::default(), "{nonsense}");
        }
    }
}
