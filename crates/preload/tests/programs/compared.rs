//! Comparison of a program with and without the library.

use std::collections::BTreeMap;
use std::process::ExitStatus;
use std::time::Duration;

use counters::{ProcessReport, WaitKind};

use crate::catalogue::Program;
use crate::inputs::prepare;
use crate::run::{Behaviour, Outcome, RunMode, run};

/// Rules that spin for long, and for as long as is useful.
const RULES: [&str; 2] = ["adaptive", "2cs+"];

/// Runs a program without the library and with it, and checks that it behaves the same.
pub(crate) fn compare_runs(program: &Program) -> Result<(), String> {
    prepare(program)?;
    let repetitions = std::env::var("ROWLOCK_REPETITIONS").map_or(1, |times| times.parse().unwrap());
    let modes = [RunMode::Plain, RunMode::Preloaded(RULES[0]), RunMode::Preloaded(RULES[1])];
    let mut times = modes.map(|_| Vec::new());
    let mut plain: Option<Behaviour> = None;
    let mut waits = BTreeMap::new();
    for _ in 0..repetitions {
        for (mode, times) in modes.into_iter().zip(&mut times) {
            let outcome = run(program, mode, |_, _| ())?;
            times.push(outcome.time);
            check_success(program, mode, &outcome)?;
            if mode == RunMode::Preloaded(RULES[0]) {
                sum(&outcome.entries, &mut waits);
            }
            match &plain {
                None => plain = Some(outcome.behaviour),
                Some(plain) => compare(plain, &outcome.behaviour)
                    .map_err(|difference| format!("{}, {mode:?}: {difference}\n{}", program.name, outcome.stderr))?,
            }
        }
    }
    report(program, times, repetitions, &waits);
    Ok(())
}

/// Checks that the program has succeeded, and that the right processes have loaded the library.
fn check_success(program: &Program, mode: RunMode, outcome: &Outcome) -> Result<(), String> {
    let Outcome { behaviour, stderr, entries, .. } = outcome;
    if !behaviour.status.success() || behaviour.printed.is_empty() {
        return Err(format!("{}, {mode:?}: {}\n{stderr}", program.name, behaviour.status));
    }
    let had = |name: &str| entries.iter().any(|entry| entry.name == name);
    if let Some(name) = program.processes.iter().find(|name| had(name) == (mode == RunMode::Plain)) {
        return Err(format!(
            "{}, {mode:?}: wrong presence of the library in {name}\n{entries:?}\n{stderr}",
            program.name
        ));
    }
    if let Some(name) = program.never.iter().find(|name| had(name)) {
        return Err(format!("{}: {name} has loaded the library", program.name));
    }
    Ok(())
}

pub(crate) fn compare(plain: &Behaviour, other: &Behaviour) -> Result<(), String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(2000)]).into_owned();
    let status = |status: ExitStatus| status.to_string();
    if plain.status != other.status {
        return Err(format!("{} rather than {}", status(other.status), status(plain.status)));
    }
    if plain.printed != other.printed {
        return Err(format!("printed\n{}rather than\n{}", text(&other.printed), text(&plain.printed)));
    }
    if let Some(name) = plain.files.keys().chain(other.files.keys()).find(|&name| {
        let contents = [plain, other].map(|behaviour| behaviour.files.get(name));
        contents[0] != contents[1]
    }) {
        return Err(format!("the file {name} differs"));
    }
    Ok(())
}

/// Sums up the waits and those that were passed through.
fn sum(entries: &[ProcessReport], sums: &mut BTreeMap<WaitKind, (u64, u64)>) {
    for waits in entries.iter().flat_map(|entry| &entry.waits) {
        let sum = sums.entry(waits.kind).or_default();
        sum.0 += waits.statistics.waits;
        sum.1 += waits.passed_through.iter().map(|(_, times)| times).sum::<u64>();
    }
}

fn report(program: &Program, times: [Vec<Duration>; 3], repetitions: u32, waits: &BTreeMap<WaitKind, (u64, u64)>) {
    let version = testing::run(testing::command("/bin/sh").args(["-c", program.version]));
    let version = version.stdout.lines().chain(version.stderr.lines()).next().unwrap_or("");
    let [plain, adaptive, bounded] = times.map(|mut times| {
        times.sort();
        times[times.len() / 2].as_secs_f64()
    });
    let waits = waits.iter().map(|(kind, (waits, passed_through))| {
        format!(
            ", {}: {} waits, {} passed through",
            kind.name(),
            waits / u64::from(repetitions),
            passed_through / u64::from(repetitions)
        )
    });
    eprintln!(
        "same: {} | {version} | plain {plain:.3} s, adaptive {:.2}, 2cs+ {:.2}{}",
        program.name,
        adaptive / plain,
        bounded / plain,
        waits.collect::<String>()
    );
}
