//! Parses requests for scheduling.

use std::str::FromStr;

use policy::Span;

use super::{Clamp, IoPriority, Policy, Scheduling};
use crate::structure::{KEYS, did_you_mean, hint, whole};

/// The kernel's call supports no more CPUs.
const CPUS: u32 = 1024;

/// Why a text is not a valid request. The message says what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SchedulingParseError(String);

impl Scheduling {
    /// Adds a request in its text format, such as `"policy"` and `"batch"`. The value of `"yield"`
    /// is empty. Replaces an earlier request for the same key.
    ///
    /// # Errors
    /// If the request is invalid. Names what is allowed, and changes nothing.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SchedulingParseError> {
        let keys = || KEYS.iter().filter(|key| key.is_scheduling_attribute).map(|key| key.name);
        if !keys().any(|known| known == key) {
            let (near, all) = (hint(key, keys()), "nice, policy, slice, ioprio, affinity, clamp and yield");
            return Err(SchedulingParseError(format!("`{key}` cannot be requested{near}; the keys are {all}")));
        }
        self.read(key, value).map_err(|why| SchedulingParseError(format!("`{key}={value}`: {why}")))
    }

    /// Like [`Scheduling::set`], for a key that exists. The error is only the problem and what is
    /// allowed.
    pub(crate) fn read(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "nice" => self.nice = Some(nice(value)?),
            "policy" => self.policy = Some(policy(value)?),
            "slice" => self.slice = Some(slice(value)?),
            "ioprio" => self.ioprio = Some(io_priority(value)?),
            "affinity" => self.affinity = Some(cpus(value)?),
            "clamp" => self.clamp = Some(clamp(value)?),
            _ if value.is_empty() => self.yield_each_round = true,
            _ => return Err("it takes no value".to_owned()),
        }
        Ok(())
    }
}

impl FromStr for Scheduling {
    type Err = SchedulingParseError;

    fn from_str(text: &str) -> Result<Scheduling, SchedulingParseError> {
        let mut scheduling = Scheduling::default();
        for word in text.split_whitespace() {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            scheduling.set(key, value)?;
        }
        Ok(scheduling)
    }
}

fn nice(text: &str) -> Result<i32, String> {
    let refused = || "a nice value is a whole number from -20 (highest priority) to 19".to_owned();
    text.parse().ok().filter(|nice| (-20..=19).contains(nice)).ok_or_else(refused)
}

fn policy(text: &str) -> Result<Policy, String> {
    let (name, priority) = parts(text);
    let of = |make: fn(u8) -> Policy| match priority.map_or(Ok(1), str::parse) {
        Ok(priority) if Policy::PRIORITIES.contains(&priority) => Ok(make(priority)),
        _ => Err(format!("priorities go from 1, the lowest, to 99, as in {name}/1")),
    };
    match (name, priority) {
        ("other", None) => Ok(Policy::Other),
        ("batch", None) => Ok(Policy::Batch),
        ("idle", None) => Ok(Policy::Idle),
        ("fifo", _) => of(Policy::Fifo),
        ("rr", _) => of(Policy::RoundRobin),
        ("other" | "batch" | "idle", Some(_)) => Err(format!("there are no priorities under {name}")),
        _ => Err(none_of(name, &["other", "batch", "idle", "fifo", "rr"], "other, batch, idle, fifo/1 or rr/1")),
    }
}

fn slice(text: &str) -> Result<Span, String> {
    let slice: Span = text.parse().map_err(|why| format!("{why}; a slice is written like 3ms"))?;
    if slice.is_zero() { Err("a slice must be longer than zero".to_owned()) } else { Ok(slice) }
}

fn io_priority(text: &str) -> Result<IoPriority, String> {
    let (name, level) = parts(text);
    let of = |make: fn(u8) -> IoPriority| match level.map_or(Ok(4), str::parse) {
        Ok(level) if IoPriority::LEVELS.contains(&level) => Ok(make(level)),
        _ => Err(format!("levels go from 0, the most urgent, to 7, as in {name}/4")),
    };
    match (name, level) {
        ("unset", None) => Ok(IoPriority::Unset),
        ("idle", None) => Ok(IoPriority::Idle),
        ("real-time", _) => of(IoPriority::RealTime),
        ("best-effort", _) => of(IoPriority::BestEffort),
        ("unset" | "idle", Some(_)) => Err(format!("there are no levels of {name}")),
        _ => {
            let names = ["real-time", "best-effort", "idle", "unset"];
            Err(none_of(name, &names, "real-time/4, best-effort/4, idle or unset"))
        }
    }
}

fn clamp(text: &str) -> Result<Clamp, String> {
    let refused = || "a clamp is two bounds from 0 to 1024 of which the first is no larger, as in 0-512".to_owned();
    let (min, max) = text.split_once('-').ok_or_else(refused)?;
    let clamp = Clamp { min: whole(min).ok_or_else(refused)?, max: whole(max).ok_or_else(refused)? };
    if clamp.min <= clamp.max && clamp.max <= Clamp::ALL { Ok(clamp) } else { Err(refused()) }
}

/// Parses CPUs and ranges of CPUs, separated by `+`, or by commas outside of structures, where
/// commas separate stages.
fn cpus(text: &str) -> Result<Vec<u32>, String> {
    let refused = || format!("CPUs are written like 0-1+3, and are below {CPUS}");
    let mut cpus = Vec::new();
    for part in text.split(['+', ',']) {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (u32, u32) = (whole(from).ok_or_else(refused)?, whole(to).ok_or_else(refused)?);
        if from > to || to >= CPUS {
            return Err(refused());
        }
        cpus.extend(from..=to);
    }
    Ok(ascending(cpus))
}

/// Sorts CPUs and removes duplicates.
pub(super) fn ascending(mut cpus: Vec<u32>) -> Vec<u32> {
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

/// Formats CPUs as [`cpus`] parses them.
pub(super) fn ranges(cpus: &[u32]) -> String {
    let runs = cpus.chunk_by(|&before, &after| before.checked_add(1) == Some(after));
    let written = runs.map(|run| match run {
        [from, .., to] => format!("{from}-{to}"),
        one => one.iter().map(u32::to_string).collect(),
    });
    written.collect::<Vec<_>>().join("+")
}

/// A span without a blank.
pub(super) fn without_blank(span: Span) -> String {
    span.to_string().replace(' ', "")
}

/// The parts before and after the slash.
fn parts(text: &str) -> (&str, Option<&str>) {
    text.split_once('/').map_or((text, None), |(name, rest)| (name, Some(rest)))
}

fn none_of(written: &str, names: &[&'static str], allowed: &str) -> String {
    let near = did_you_mean(written, names.iter().copied());
    let near = near.map_or(String::new(), |near| format!("did you mean `{near}`? "));
    format!("{near}It can be {allowed}")
}
