//! Standard output and standard error.

use std::io::Write;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use testing::Output;

use crate::adversary::case::{alone, elsewhere, hazard, hazard_until};

/// A line that identifies the fiber that prints it.
fn line(who: u64, round: u64) -> String {
    format!("<{who} {round} {}>", "x".repeat((round % 60) as usize))
}

/// Whether a line is one of those.
fn is_whole(line: &str) -> bool {
    let parts = line.strip_prefix('<').and_then(|line| line.strip_suffix('>'));
    let mut parts = parts.into_iter().flat_map(|line| line.split(' '));
    let (who, round, rest) = (parts.next(), parts.next(), parts.next());
    let round = round.and_then(|round| round.parse::<u64>().ok());
    who.is_some_and(|who| who.parse::<u64>().is_ok())
        && round.is_some_and(|round| rest.is_some_and(|rest| rest == "x".repeat((round % 60) as usize)))
        && parts.next().is_none()
}

#[test]
fn lines_that_are_printed_are_whole() {
    static LINES: AtomicU64 = AtomicU64::new(0);
    let output = elsewhere(|| {
        let print = |who, round| {
            println!("{}", line(who, round));
            eprintln!("{}", line(who, round));
            LINES.fetch_add(1, Relaxed);
        };
        hazard_until(print, || LINES.load(Relaxed) > 200);
    });
    let Some(output) = output.map(Output::expect_success) else { return };
    for said in [&output.stdout, &output.stderr] {
        let (whole, others): (Vec<_>, Vec<_>) = said.lines().partition(|line| is_whole(line));
        // With one CPU, the harness prints the start of a line before the test runs.
        let others = others.into_iter().filter(|line| !line.starts_with("test "));
        let others: Vec<_> = others.filter(|line| line.contains('<') || line.contains("xx")).collect();
        assert!(others.is_empty(), "{others:?}");
        assert!(whole.len() > 100, "{}", whole.len());
    }
}

#[test]
fn a_value_can_print_while_it_is_formatted() {
    /// Prints when it is printed.
    struct Talkative(u64);

    impl std::fmt::Display for Talkative {
        fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            std::io::stdout().write_all(b"again ").map_err(|_| std::fmt::Error)?;
            write!(formatter, "{}", self.0)
        }
    }

    alone(|| {
        hazard(|who, _| {
            println!("{}", Talkative(who));
            assert_eq!(format!("{}", Talkative(who)), who.to_string());
        });
    });
}
