//! Readers of short texts and tables.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use measure::regress::{Question, regress};
use pipeline::structure::Structure;
use pipeline::{RunReport, Scheduling};
use policy::waiting::{Bound, WaitingRule};
use policy::{CpuSet, Span};

/// Waiting rules, bounds, spans and CPU sets.
pub(crate) fn rules(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    round_trip::<WaitingRule>(text);
    round_trip::<Bound>(text);
    round_trip::<Span>(text);
    round_trip::<CpuSet>(text);
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
        Err(why) => assert!(!why.to_string().is_empty()),
    }
}

/// The reports that a watched pipeline writes.
pub(crate) fn pipeline_report(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    for report in RunReport::read(text).unwrap_or_default() {
        let _ = report.verdict().times_floor();
    }
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
            assert!(!why.to_string().is_empty());
            None
        }
    }
}
