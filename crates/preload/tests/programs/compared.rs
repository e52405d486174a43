//! A program with and without the library.

use std::collections::BTreeMap;
use std::process::ExitStatus;
use std::time::Duration;

use counters::{ProcessReport, WaitKind};

use crate::catalogue::Program;
use crate::inputs::prepare;
use crate::run::{Deeds, Outcome, Way, run};

/// Rules that look for long, and for as long as is of use.
const RULES: [&str; 2] = ["adaptive", "2cs+"];

/// Runs a program without the library and with it, and sees that it does the same.
pub(crate) fn does_the_same(program: &Program) -> Result<(), String> {
    prepare(program)?;
    let repetitions = std::env::var("ROWLOCK_REPETITIONS").map_or(1, |times| times.parse().unwrap());
    let ways = [Way::Plain, Way::Preloaded(RULES[0]), Way::Preloaded(RULES[1])];
    let mut times = ways.map(|_| Vec::new());
    let mut plain: Option<Deeds> = None;
    let mut waits = BTreeMap::new();
    for _ in 0..repetitions {
        for (way, times) in ways.into_iter().zip(&mut times) {
            let outcome = run(program, way, |_, _| ())?;
            times.push(outcome.time);
            see_that_it_went_well(program, way, &outcome)?;
            if way == Way::Preloaded(RULES[0]) {
                sum(&outcome.entries, &mut waits);
            }
            match &plain {
                None => plain = Some(outcome.deeds),
                Some(plain) => compare(plain, &outcome.deeds)
                    .map_err(|difference| format!("{}, {way:?}: {difference}\n{}", program.name, outcome.complaints))?,
            }
        }
    }
    report(program, times, repetitions, &waits);
    Ok(())
}

/// The program has succeeded, and has had the library or not as it should.
fn see_that_it_went_well(program: &Program, way: Way, outcome: &Outcome) -> Result<(), String> {
    let Outcome { deeds, complaints, entries, .. } = outcome;
    if !deeds.status.success() || deeds.printed.is_empty() {
        return Err(format!("{}, {way:?}: {}\n{complaints}", program.name, deeds.status));
    }
    let had = |name: &str| entries.iter().any(|entry| entry.name == name);
    if let Some(name) = program.processes.iter().find(|name| had(name) == (way == Way::Plain)) {
        return Err(format!("{}, {way:?}: is the library in {name}?\n{entries:?}\n{complaints}", program.name));
    }
    if let Some(name) = program.never.iter().find(|name| had(name)) {
        return Err(format!("{}: the library is in {name}", program.name));
    }
    Ok(())
}

pub(crate) fn compare(plain: &Deeds, other: &Deeds) -> Result<(), String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(2000)]).into_owned();
    let status = |status: ExitStatus| status.to_string();
    if plain.status != other.status {
        return Err(format!("{} rather than {}", status(other.status), status(plain.status)));
    }
    if plain.printed != other.printed {
        return Err(format!("printed\n{}rather than\n{}", text(&other.printed), text(&plain.printed)));
    }
    if let Some(name) = plain.files.keys().chain(other.files.keys()).find(|&name| {
        let contents = [plain, other].map(|deeds| deeds.files.get(name));
        contents[0] != contents[1]
    }) {
        return Err(format!("the file {name} is another"));
    }
    Ok(())
}

/// How often it was waited, and how often left to the original.
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
    let waits = waits.iter().map(|(subject, (waits, left))| {
        format!(
            ", {}: {} waits, {} left",
            subject.name(),
            waits / u64::from(repetitions),
            left / u64::from(repetitions)
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
