//! Environment variables by which the process that starts a program configures the preloaded
//! library in it.

use std::path::PathBuf;

use policy::Span;
pub use policy::waiting::Costs;
use policy::waiting::WaitingRule;

/// The configuration of the preloaded library.
///
/// The process that starts the program measures costs. The library never measures in a program that
/// is not its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// The waiting rule.
    pub rule: WaitingRule,
    /// Costs on this machine.
    pub costs: Option<Costs>,
    /// The path of the statistics region.
    pub region: Option<PathBuf>,
}

impl Environment {
    /// The variable with the waiting rule, in the syntax of `--wait`.
    pub const RULE: &'static str = "ROWLOCK_WAIT";
    /// The variable with CS, margin, lone yield and tick, in nanoseconds, separated by commas.
    pub const COSTS: &'static str = "ROWLOCK_COSTS";
    /// The variable with the path of the statistics region.
    pub const REGION: &'static str = "ROWLOCK_BOOK";
    /// The variable with the number of CPUs that all ranks of a job share.
    pub const CPUS: &'static str = "ROWLOCK_CPUS";
    /// The variable with the path of the file by which the ranks of `rowlock prun` agree. It is
    /// below the folder of the process of `prun`, as in `/proc/4711/fd/9`.
    pub const ROSTER: &'static str = "ROWLOCK_ROSTER";
    /// The length of that file, in bytes.
    pub const ROSTER_LENGTH: u64 = 16;

    /// Reads the configuration. Ignores values that cannot be parsed: a program must not fail
    /// because of them.
    pub fn read(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> Environment {
        let text = |name| variable(name)?.into_string().ok();
        Environment {
            rule: text(Self::RULE).and_then(|rule| rule.parse().ok()).unwrap_or_default(),
            costs: text(Self::COSTS).and_then(|costs| parse(&costs)),
            region: variable(Self::REGION).map(PathBuf::from),
        }
    }

    /// The variables and their values.
    pub fn variables(&self) -> Vec<(&'static str, std::ffi::OsString)> {
        let mut variables = vec![(Self::RULE, self.rule.to_string().into())];
        variables.extend(self.costs.map(|costs| (Self::COSTS, print(costs).into())));
        variables.extend(self.region.as_ref().map(|path| (Self::REGION, path.into())));
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
    fn variables_are_read_back() {
        let span = Span::from_nanos;
        let written = Environment {
            rule: "2cs+".parse().unwrap(),
            costs: Some(Costs { cs: span(20_000), margin: span(1), lone_yield: span(500), tick: span(4_000_000) }),
            region: Some("/tmp/a region".into()),
        };
        let variables = written.variables();
        let read = |name: &str| Some(variables.iter().find(|(variable, _)| *variable == name)?.1.clone());
        assert_eq!(Environment::read(read), written);
    }

    #[test]
    fn invalid_values_are_ignored() {
        assert_eq!(Environment::read(|_| None), Environment::default());
        for nonsense in ["", "1,2,3", "1,2,3,4,5", "1,2,3,x"] {
            let read = |name: &str| (name != Environment::REGION).then(|| nonsense.into());
            assert_eq!(Environment::read(read), Environment::default(), "{nonsense}");
        }
    }
}
