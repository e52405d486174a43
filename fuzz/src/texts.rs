//! Readers of short texts and tables.

use std::ffi::OsStr;
use std::fmt::{Debug, Display};
use std::os::unix::ffi::OsStrExt;
use std::str::FromStr;

use counters::Environment;
use measure::explore::parse_time_limit;
use measure::explore::profile::Profile;
use measure::explore::tries::parse_tries;
use measure::explore::variants::StructureChange;
use measure::precision::parse_share;
use measure::regress::{Question, regress};
use pipeline::structure::Structure;
use pipeline::{RunReport, Scheduling};
use policy::priority::{PriorityRule, StageKind};
use policy::waiting::{Bound, WaitingRule};
use policy::wakeup::Scheme;
use policy::{CpuSet, Span};

/// Waiting rules, bounds, spans and CPU sets.
pub(crate) fn rules(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    round_trip::<WaitingRule>(text);
    round_trip::<Bound>(text);
    round_trip::<Span>(text);
    round_trip::<CpuSet>(text);
}

/// Values on the command line: sizes, shares, times and names.
pub(crate) fn values(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    match sort::parse_size(text) {
        Ok(size) => assert_eq!(sort::parse_size(&size.to_string()), Ok(size)),
        Err(why) => refused(&why),
    }
    match parse_share(text) {
        Ok(share) => assert!(share > 0.0 && share < 1.0, "{share}"),
        Err(why) => refused(&why),
    }
    match parse_time_limit(text) {
        Ok(time) if time.as_nanos() <= u64::MAX.into() => {
            assert_eq!(parse_time_limit(&format!("{} ns", time.as_nanos())), Ok(time));
        }
        Ok(_) => {}
        Err(why) => refused(&why),
    }
    match pipeline::structure::parse_size(text) {
        Ok(size) => assert!((1..=1 << 30).contains(&size), "{size}"),
        Err(why) => refused(&why),
    }
    if let Err(why) = StructureChange::named(text) {
        refused(&why);
    }
    round_trip::<PriorityRule>(text);
    round_trip::<StageKind>(text);
    round_trip::<Scheme>(text);
}

/// The variables that configure the preloaded library, one a line.
pub(crate) fn environment(bytes: &[u8]) {
    let mut lines = bytes.split(|&byte| byte == b'\n');
    let values = [Environment::RULE, Environment::COSTS, Environment::REGION].map(|name| (name, lines.next()));
    let variable = |name: &str| {
        let value = values.iter().find(|(known, _)| *known == name)?.1?;
        Some(OsStr::from_bytes(value).to_owned())
    };
    let read = Environment::read(variable);
    let written = read.variables();
    let again = |name: &str| Some(written.iter().find(|(known, _)| *known == name)?.1.clone());
    assert_eq!(Environment::read(again), read);
}

/// The structure of a pipeline.
pub(crate) fn structure(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    if let Some(read) = round_trip::<Structure>(text) {
        let stages: Vec<&str> = read.stages().collect();
        assert_eq!(read.check_stages(&stages), Ok(()), "a structure contradicts its own stages");
        let _ = read.check();
        assert_eq!(read.laid_over(&Structure::default()), read);
    }
}

/// Variants of a structure.
pub(crate) fn variants(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    match parse_tries(text) {
        Ok(variants) => assert!(!variants.is_empty()),
        Err(why) => refused(&why),
    }
}

/// Scheduling of a thread.
pub(crate) fn thread_scheduling(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    round_trip::<Scheduling>(text);
}

/// A table for a regression: its first line names the columns.
pub(crate) fn observations(bytes: &[u8]) {
    let header = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let header = String::from_utf8_lossy(header);
    let mut columns = header.split(',').map(|name| name.trim().to_owned());
    let on = columns.next().unwrap_or_default();
    let with_intercept = bytes.len().is_multiple_of(2);
    match regress(bytes, &Question { on, from: columns.collect(), with_intercept }) {
        Ok(found) => assert!(!measure::regress::text(&found).is_empty()),
        Err(why) => refused(&why),
    }
}

/// The reports that a watched pipeline writes.
pub(crate) fn pipeline_report(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    for report in RunReport::read(text).unwrap_or_default() {
        let _ = report.verdict().times_floor();
    }
    match Profile::read(text) {
        Ok(profile) => assert!(profile.stages().all(|stage| profile.has(stage.kind))),
        Err(why) => refused(&why),
    }
}

/// Checks an error: it says something, and nothing that only makes sense in the source.
pub(crate) fn refused(why: &dyn Display) {
    let said = why.to_string();
    assert!(!said.trim().is_empty());
    // Inputs are quoted in errors, but one rarely contains this.
    assert!(!said.contains("panicked at"), "{said}");
}

/// Reads a text. A value that was read has a text from which the same value is read.
fn round_trip<T: FromStr<Err: Display> + Display + PartialEq + Debug>(text: &str) -> Option<T> {
    match text.parse::<T>() {
        Ok(read) => {
            let written = read.to_string();
            assert_eq!(written.parse::<T>().ok().as_ref(), Some(&read), "{text:?} is written as {written:?}");
            Some(read)
        }
        Err(why) => {
            refused(&why);
            None
        }
    }
}
