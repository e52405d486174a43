//! What only the environment can set: how run-time systems wait where no library reaches.

use std::hint::spin_loop;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Acquire;
use std::time::Instant;

use policy::Span;
use policy::waiting::{Bound, Costs, WaitingRule};

/// For how long threads look on before they sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looking {
    For(Span),
    ForEver,
}

/// The variables for run-time systems that go with a rule. What the user has set, which `is_set` tells, stays as it is.
pub(crate) fn variables(rule: WaitingRule, costs: Costs, is_set: impl Fn(&str) -> bool) -> Vec<(&'static str, String)> {
    let looking = looking(rule, costs);
    let mut variables = Vec::new();
    // Who chooses a way of waiting for OpenMP has chosen.
    if !is_set("OMP_WAIT_POLICY") {
        variables.push(("GOMP_SPINCOUNT", turns(looking)));
        variables.push(("KMP_BLOCKTIME", milliseconds(looking)));
    }
    if rule != WaitingRule::AlwaysSpin {
        // So that it calls what can be replaced: it would look again and again, without giving way to anybody.
        variables.push(("OMPI_MCA_mpi_yield_when_idle", "1".to_owned()));
    }
    variables.retain(|(name, _)| !is_set(name));
    variables
}

fn looking(rule: WaitingRule, costs: Costs) -> Looking {
    match rule {
        WaitingRule::AlwaysBlock => Looking::For(Span::ZERO),
        WaitingRule::AlwaysSpin => Looking::ForEver,
        WaitingRule::TwoPhase(bound) => Looking::For(bound.on(costs)),
        // Who cannot be asked during the wait: below 1.5 CS teams with serial parts in between lost time when alone, above 2 CS
        // when beside others.
        _ => Looking::For(Bound::OfCs { thousandths: 1700, plus: false }.on(costs)),
    }
}

/// For gcc's run-time system, which counts the times that it looks.
fn turns(looking: Looking) -> String {
    match looking {
        Looking::ForEver => "infinite".to_owned(),
        Looking::For(span) => (span.as_nanos().saturating_mul(1_000) / turn_picos().max(1)).to_string(),
    }
}

/// For that of clang, which counts milliseconds, and sleeps where the library can see it.
fn milliseconds(looking: Looking) -> String {
    match looking {
        Looking::ForEver => "infinite".to_owned(),
        Looking::For(span) => (span.as_nanos() / 1_000_000).to_string(),
    }
}

/// What it takes to look once, in picoseconds: processors differ tenfold in how long they pause.
fn turn_picos() -> u64 {
    const TURNS: u32 = 1_000;
    let word = AtomicU32::new(0);
    let nanos = (0..5).map(|_| {
        let start = Instant::now();
        for _ in 0..TURNS {
            std::hint::black_box(word.load(Acquire));
            spin_loop();
        }
        start.elapsed().as_nanos()
    });
    // The shortest: in the others something else came in between.
    nanos.min().and_then(|nanos| u64::try_from(nanos * 1_000 / u128::from(TURNS)).ok()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(rule: &str, set: &[&str]) -> Vec<&'static str> {
        let costs = Costs { cs: Span::from_micros(20), margin: Span::from_micros(10), ..Costs::default() };
        variables(rule.parse().unwrap(), costs, |name| set.contains(&name)).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn what_the_user_has_set_stays() {
        let all = ["GOMP_SPINCOUNT", "KMP_BLOCKTIME", "OMPI_MCA_mpi_yield_when_idle"];
        assert_eq!(names("adaptive", &[]), all);
        assert_eq!(names("adaptive", &all[..1]), all[1..]);
        assert_eq!(names("adaptive", &["OMP_WAIT_POLICY"]), all[2..]);
        assert_eq!(names("adaptive", &all), [""; 0]);
        assert_eq!(names("always-spin", &[]), all[..2]);
    }

    #[test]
    fn run_time_systems_wait_as_the_rule_does() {
        let costs = Costs { cs: Span::from_micros(20), margin: Span::from_micros(10), ..Costs::default() };
        let looks = |rule: &str| looking(rule.parse().unwrap(), costs);
        assert_eq!(looks("always-block"), Looking::For(Span::ZERO));
        assert_eq!(looks("always-spin"), Looking::ForEver);
        assert_eq!(looks("cs"), Looking::For(Span::from_micros(20)));
        assert_eq!(looks("adaptive"), Looking::For(Span::from_micros(34)));
        assert_eq!((turns(Looking::ForEver), milliseconds(Looking::ForEver)), ("infinite".into(), "infinite".into()));
        assert_eq!(turns(Looking::For(Span::ZERO)), "0");
        assert_ne!(turns(Looking::For(Span::MAX)), "0");
        assert_eq!(milliseconds(Looking::For(Span::from_millis(7))), "7");
        assert!(turn_picos() > 0);
    }
}
