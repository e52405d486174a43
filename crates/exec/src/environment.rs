//! Settings of run-time systems that the library cannot replace, and that only the environment can
//! change.

use std::hint::spin_loop;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Acquire;
use std::time::Instant;

use policy::Span;
use policy::waiting::{Bound, Costs, WaitingRule};

/// The variables that make run-time systems wait as a rule does, without those that the user has
/// set.
pub(crate) fn variables(rule: WaitingRule, costs: Costs, is_set: impl Fn(&str) -> bool) -> Vec<(&'static str, String)> {
    let (budget, mut variables) = (spin_budget(rule, costs), Vec::new());
    // `OMP_WAIT_POLICY` has precedence.
    if !is_set("OMP_WAIT_POLICY") {
        variables.push(("GOMP_SPINCOUNT", spin_count(budget)));
        variables.push(("KMP_BLOCKTIME", blocktime(budget)));
    }
    if rule != WaitingRule::AlwaysSpin {
        // Open MPI polls without yielding otherwise. If it yields, it calls a function that the
        // library can replace.
        variables.push(("OMPI_MCA_mpi_yield_when_idle", "1".to_owned()));
    }
    variables.retain(|(name, _)| !is_set(name));
    variables
}

/// The time that a thread spins before it blocks. `None` if there is no limit.
fn spin_budget(rule: WaitingRule, costs: Costs) -> Option<Span> {
    match rule {
        WaitingRule::AlwaysBlock => Some(Span::ZERO),
        WaitingRule::AlwaysSpin => None,
        WaitingRule::TwoPhase(bound) => Some(bound.on(costs)),
        // A run-time system cannot ask the other rules during a wait. With less than 1.5 CS, teams
        // with serial parts lost time when they ran alone; with more than 2 CS, when they ran
        // beside other programs.
        _ => Some(Bound::OfCs { thousandths: 1700, plus: false }.on(costs)),
    }
}

/// The budget for gcc's run-time system, which counts spins.
fn spin_count(budget: Option<Span>) -> String {
    let count = |span: Span| span.as_nanos().saturating_mul(1_000) / pause_picos().max(1);
    budget.map_or("infinite".to_owned(), |span| count(span).to_string())
}

/// The budget for clang's run-time system, which counts milliseconds. It blocks by a function that
/// the library can replace.
fn blocktime(budget: Option<Span>) -> String {
    budget.map_or("infinite".to_owned(), |span| (span.as_nanos() / 1_000_000).to_string())
}

/// The time of a spin, in picoseconds. The pause instruction takes ten times as long on some
/// processors as on others.
fn pause_picos() -> u64 {
    const PAUSES: u32 = 1_000;
    let word = AtomicU32::new(0);
    let nanos = (0..5).map(|_| {
        let start = Instant::now();
        for _ in 0..PAUSES {
            std::hint::black_box(word.load(Acquire));
            spin_loop();
        }
        start.elapsed().as_nanos()
    });
    // The shortest: other processes disturbed the longer ones.
    nanos.min().and_then(|nanos| u64::try_from(nanos * 1_000 / u128::from(PAUSES)).ok()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(rule: &str, set: &[&str]) -> Vec<&'static str> {
        let costs = Costs { cs: Span::from_micros(20), margin: Span::from_micros(10), ..Costs::default() };
        variables(rule.parse().unwrap(), costs, |name| set.contains(&name)).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn variables_that_the_user_set_are_kept() {
        let all = ["GOMP_SPINCOUNT", "KMP_BLOCKTIME", "OMPI_MCA_mpi_yield_when_idle"];
        assert_eq!(names("adaptive", &[]), all);
        assert_eq!(names("adaptive", &all[..1]), all[1..]);
        assert_eq!(names("adaptive", &["OMP_WAIT_POLICY"]), all[2..]);
        assert_eq!(names("adaptive", &all), [""; 0]);
        assert_eq!(names("always-spin", &[]), all[..2]);
    }

    #[test]
    fn run_time_systems_get_the_spin_budget_of_the_rule() {
        let costs = Costs { cs: Span::from_micros(20), margin: Span::from_micros(10), ..Costs::default() };
        let budget_of = |rule: &str| spin_budget(rule.parse().unwrap(), costs);
        let micros = |micros| Some(Span::from_micros(micros));
        for (rule, budget) in
            [("always-block", micros(0)), ("always-spin", None), ("cs", micros(20)), ("adaptive", micros(34))]
        {
            assert_eq!(budget_of(rule), budget, "{rule}");
        }
        assert_eq!([spin_count(None), blocktime(None)], ["infinite", "infinite"]);
        assert_eq!(spin_count(Some(Span::ZERO)), "0");
        assert_ne!(spin_count(Some(Span::MAX)), "0");
        assert_eq!(blocktime(Some(Span::from_millis(7))), "7");
        assert!(pause_picos() > 0);
    }
}
