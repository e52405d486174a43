//! Every accepted file survives a round trip, and no input makes the reader panic.

use policy::Span;
use policy::waiting::{Bound, WaitingRule};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use rowlock_scenario::read;

use crate::drawn::{single, swept};

/// Valid files, to be mutated.
const GOOD: [&str; 5] = [
    r#"title = "Eleven threads at a barrier against a crowd"

[machine]
cpus = 32
step = "1 us"
context_switch = "6 us"
spin_margin = "0.5 cs"
scheduler = "rr"
quantum = "100 us"

[[job]]
name = "crew"
kind = "barrier"
threads = 11
compute = { mean = "5.32 us", sd = "0.532 us" }
rounds = 8000
waiting = "2cs+"

[[job]]
name = "crowd"
kind = "cpu"
threads = 85

[experiment]
repeat = 3
seed = 1
sweep = { "job.crowd.threads" = [5, 13, 21, 29, 37], "job.crew.waiting" = ["always-block", "cs", "cs+", "2cs+"] }
compare = "job.crew.waiting"
x = "job.crowd.threads"
"#,
    r#"[machine]
like = "host"
tick = "1 ms"

[[job]]
name = "zip"
kind = "command"
argv = ["xz", "-k", "big file.tar"]
copies = 2
work = "1.5 s"

[[job]]
name = "crew"
kind = "barrier"
threads = 4
granularity = "fine"
rounds = 0x10_00

[experiment.sweep]
"job.crew.waiting" = ["44 us", "5 cs"]
"job.zip.argv" = [["true"], ["false", "now"]]
"#,
    r#"machine.cpus = 2
machine.device_depth = 4

[[job]]
name = "sort"
kind = "pipeline"
stages = [
    { name = "read", kind = "io", device = "1 ms" },
    { name = "work", kind = "compute", compute = { mean = "2 ms", sd = "0.1 ms" }, fork = 2 },
    { name = "write", kind = "io", compute = "5 us", device = "1 ms", nice = -3 },
]
buffers = 8
rounds = 1000
structure = "threads"
thread = [["read*2", "write*2"]]
priority = "dynamic-up"

[experiment.sweep]
"job.sort.stages.work.fork" = [1, 2]
"job.sort.waiting" = ["cs", "adaptive"]
"#,
    r#"machine.cpus = 1

[[job]]
name = "mixed"
kind = "fibers"
levels = 4
running_time = "50 us"
boost = "never"
locks = 2

[[job.groups]]
name = "interactive"
fibers = 10
bursts = 20
compute = "5 us"
critical = "1 us"
think = { distribution = "exponential", mean = "1 ms" }

[[job.groups]]
name = "batch"
fibers = 3
compute = "20 ms"
checkpoint = "10 us"
join_every = 2

[experiment.sweep]
"job.mixed.levels" = [1, 4]
"job.mixed.groups.batch.fibers" = [3, 6]
"#,
    r#"[machine]
cells = "8x2"
network_latency = "5 us"
bandwidth = "25 MB/s"

[coscheduling]
how = "moderate"
slice = "200 ms"
lower = "nice 15"

[[job]]
name = "ring"
kind = "message"
mesh = "2x2"
copies = 3
pattern = "ring"
bytes = 10
rounds = 1000
waiting = "always-spin"

[[job]]
name = "all"
kind = "message"
ranks = 5
pattern = "exchange"
bytes = 2000
rounds = 10
compute = "20 us"
sleep = { distribution = "exponential", mean = "1 ms" }
waiting = "50 us"
weight = 2

[experiment.sweep]
"coscheduling.how" = ["none", "strict"]
"job.all.sleep.mean" = ["1 ms", "2 ms"]
"#,
];

#[derive(Clone, Debug)]
enum Mutation {
    Flip(Index, u8),
    Delete(Index, usize),
    RepeatLine(Index, Index),
    Splice(Index, &'static str),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    const TOKENS: &[&str] = &[
        "[",
        "]",
        "[[",
        "]]",
        "{",
        "}",
        "=",
        ",",
        ".",
        "\"",
        "'",
        "\"\"\"",
        "#",
        "\n",
        "\r",
        "\t",
        "\0",
        "\u{1b}",
        "0",
        "-1",
        "1e9",
        "inf",
        "nan",
        "1979-05-27",
        "true",
        "99999999999999999999",
        "us",
        "\"cs\"",
        "\"5 us\"",
        "ü",
        "\u{202e}",
        "\u{feff}",
        "[job]\n",
        "[[job]]\n",
        "[machine]\n",
        "[experiment]\n",
        "name = \"crew\"\n",
        "kind = \"cpu\"\n",
        "threads",
        "copies = 3\n",
        "a.b.c = 1\n",
        "\"job.crew.copies\" = [1, 2]\n",
        "experiment.sweep",
        "job.",
        "\"machine.cpus\" = [1, 2]\n",
        "[coscheduling]\n",
        "cells = \"2x2\"\n",
    ];
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Mutation::Flip(at, byte)),
        (any::<Index>(), 1..40_usize).prop_map(|(at, length)| Mutation::Delete(at, length)),
        (any::<Index>(), any::<Index>()).prop_map(|(from, to)| Mutation::RepeatLine(from, to)),
        (any::<Index>(), select(TOKENS)).prop_map(|(at, token)| Mutation::Splice(at, token)),
    ]
}

fn mutate(bytes: &mut Vec<u8>, mutation: &Mutation) {
    let place = |index: &Index, bytes: &[u8]| index.index(bytes.len() + 1);
    match mutation {
        Mutation::Flip(at, byte) => {
            let at = place(at, bytes);
            if let Some(old) = bytes.get_mut(at) {
                *old ^= byte;
            }
        }
        Mutation::Delete(at, length) => {
            let at = place(at, bytes);
            bytes.drain(at..(at + length).min(bytes.len()));
        }
        Mutation::RepeatLine(from, to) => {
            let mut lines: Vec<Vec<u8>> = bytes.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
            if !lines.is_empty() {
                let line = lines[from.index(lines.len())].clone();
                lines.insert(to.index(lines.len()), line);
            }
            *bytes = lines.concat();
        }
        Mutation::Splice(at, token) => {
            let at = place(at, bytes);
            bytes.splice(at..at, token.bytes());
        }
    }
}

/// Reads arbitrary bytes: an accepted file must round-trip, and a rejected one must have
/// diagnostics.
fn read_anything(bytes: &[u8]) -> Result<(), TestCaseError> {
    match read("any.toml", bytes) {
        Ok(scenario) => {
            let again = read("again.toml", scenario.to_toml().as_bytes());
            prop_assert_eq!(again, Ok(scenario));
        }
        Err(diagnostics) => {
            prop_assert!(diagnostics.count() > 0);
            prop_assert!(diagnostics.to_string().starts_with("error: "));
            prop_assert!(diagnostics.render(true).contains("error"));
            let lines = bytes.iter().filter(|&&byte| byte == b'\n').count() + 1;
            for diagnostic in diagnostics.iter() {
                let (line, column) = diagnostics.position(diagnostic);
                prop_assert!((1..=lines).contains(&line) && (1..=bytes.len() + 1).contains(&column));
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_valid_scenario_round_trips(scenario in single()) {
        let text = scenario.to_toml();
        prop_assert_eq!(read("written.toml", text.as_bytes()), Ok(scenario), "{}", text);
    }

    #[test]
    fn a_sweep_round_trips(
        scenario in single(),
        rules in select(vec![vec![WaitingRule::AlwaysSpin], vec![WaitingRule::AlwaysBlock, WaitingRule::TwoPhase(Bound::Fixed(Span::ZERO))]]),
        cpus in proptest::collection::hash_set(1..500_u32, 1..5),
    ) {
        let scenario = swept(scenario, &rules, &cpus.into_iter().collect::<Vec<_>>());
        let text = scenario.to_toml();
        prop_assert_eq!(read("written.toml", text.as_bytes()), Ok(scenario), "{}", text);
    }

    #[test]
    fn a_mutated_file_round_trips_or_has_diagnostics(
        file in select(GOOD.to_vec()),
        mutations in vec(mutation(), 1..6),
    ) {
        let mut bytes = file.as_bytes().to_vec();
        mutations.iter().for_each(|mutation| mutate(&mut bytes, mutation));
        read_anything(&bytes)?;
    }

    #[test]
    fn noise_has_diagnostics(bytes in vec(any::<u8>(), 0..300)) {
        read_anything(&bytes)?;
    }
}

#[test]
fn the_files_to_be_mutated_are_valid() {
    for text in GOOD {
        read("good.toml", text.as_bytes()).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    }
}
