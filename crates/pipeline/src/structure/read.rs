//! Parses structures.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use policy::priority::{self, StageKind};
use policy::waiting;

use crate::scheduling::Scheduling;

use super::{Fork, KEYS, RequestedAttribute, StageTurn, Structure, StructureKey, Threads, is_name};

/// The limit for copies, workers and turns. More are probably a mistake.
const MOST_COPIES: usize = 1024;
/// The limit for buffers.
const MOST_BUFFERS: usize = 1 << 16;
/// The limit for the size of a buffer.
const MOST_BYTES: usize = 1 << 30;

/// Why a text is not a structure, or a structure is contradictory. The message says what is
/// allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StructureError(pub(super) String);

/// Suggests the candidate most similar to `written`. Empty if none is similar.
pub(crate) fn hint<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    did_you_mean(written, candidates).map_or(String::new(), |near| format!(" (did you mean `{near}`?)"))
}

/// The candidate most similar to `written`. `None` if none is similar.
pub fn did_you_mean<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// A longer text is not a typo, and the cost of the comparison is the product of the lengths.
    const LONGEST: usize = 200;
    if written.len() > LONGEST {
        return None;
    }
    let slips = |candidate: &str| strsim::osa_distance(&written.to_lowercase(), &candidate.to_lowercase());
    let nearest = candidates.into_iter().map(|candidate| (slips(candidate), candidate));
    let (distance, nearest) = nearest.min_by_key(|&(distance, _)| distance)?;
    (distance <= 1.max(nearest.chars().count() / 3)).then_some(nearest)
}

/// Parses a size: a number of bytes, `KiB` or `MiB`.
///
/// # Errors
/// The problem, and the format of a size.
pub fn parse_size(text: &str) -> Result<usize, String> {
    let units = [("KiB", 10), ("MiB", 20), ("", 0)];
    let (digits, shift) =
        units.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift))).unwrap_or((text, 0));
    let refused = || format!("`{text}` is not a size; write a number of bytes, KiB or MiB, as in 64KiB");
    let bytes = whole::<usize>(digits).and_then(|number| number.checked_mul(1 << shift)).ok_or_else(refused)?;
    if (1..=MOST_BYTES).contains(&bytes) { Ok(bytes) } else { Err("it must be from 1 byte to 1024MiB".to_owned()) }
}

/// Parses one or several lines. Any white space separates words.
impl FromStr for Structure {
    type Err = StructureError;

    fn from_str(text: &str) -> Result<Structure, StructureError> {
        let mut structure = Structure::default();
        let mut seen = BTreeSet::new();
        for word in text.split_whitespace() {
            let (key, value) = split(word)?;
            if !seen.insert(key.name) && !key.is_repeatable {
                return Err(StructureError(format!("`{}` appears twice, but is allowed only once", key.name)));
            }
            let refused = |why| StructureError(format!("`{}={value}`: {why}", key.name));
            read(&mut structure, key, value).map_err(refused)?;
        }
        structure.check()?;
        Ok(structure)
    }
}

/// Splits a word into key and value.
fn split(word: &str) -> Result<(&'static StructureKey, &str), StructureError> {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    let Some(key) = KEYS.iter().find(|key| key.name == name) else {
        let names: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
        let (near, all) = (hint(name, names.iter().copied()), names.join(", "));
        return Err(StructureError(format!("unknown key `{name}`{near}; the keys are {all}")));
    };
    if value.is_empty() {
        return Err(StructureError(format!("`{word}` is not of the form key=value, as `{}` is", key.example)));
    }
    Ok((key, value))
}

fn read(structure: &mut Structure, key: &'static StructureKey, value: &str) -> Result<(), String> {
    match key.name {
        "buffers" => structure.buffers = Some(number(value, 1..=MOST_BUFFERS)?),
        "block" => structure.block = Some(parse_size(value)?),
        "workers" => structure.workers = Some(number(value, 1..=MOST_COPIES)?),
        "threads" => structure.threads = Some(named(value, &Threads::ALL, "way to have threads")?),
        "thread" => structure.thread.push(value.split(',').map(turn).collect::<Result<_, _>>()?),
        "fork" => structure.fork.push(fork(value)?),
        "fuse" => structure.fuse.push(value.split('+').map(name).collect::<Result<_, _>>()?),
        "split" => structure.split.push(name(value)?),
        "priority" => structure.priority = Some(named(value, &priority::PriorityRule::ALL, "priority rule")?),
        "waiting" => structure.waiting = Some(rule(value)?),
        "double" => structure.double = Some(named(value, &StageKind::ALL, "kind of stage")?),
        "yield" => {
            structure.requested.push(RequestedAttribute { key: key.name, stage: name(value)?, value: String::new() });
        }
        _ => structure.requested.push(attribute(key, value)?),
    }
    Ok(())
}

fn number(text: &str, range: RangeInclusive<usize>) -> Result<usize, String> {
    let allowed = || format!("`{text}` is not a number from {} to {}", range.start(), range.end());
    whole(text).filter(|number| range.contains(number)).ok_or_else(allowed)
}

/// Parses digits without a sign.
pub(crate) fn whole<N: FromStr>(text: &str) -> Option<N> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn name(text: &str) -> Result<String, String> {
    if is_name(text) { Ok(text.to_owned()) } else { Err(format!("`{text}` is not the name of a stage")) }
}

/// The value with this printed form.
fn named<T: Copy + Display>(value: &str, all: &[T], what: &str) -> Result<T, String> {
    let names: Vec<String> = all.iter().map(ToString::to_string).collect();
    let found = all.iter().zip(&names).find(|(_, name)| *name == value);
    found.map(|(one, _)| *one).ok_or_else(|| {
        let near = hint(value, names.iter().map(String::as_str));
        format!("`{value}` is not a {what}{near}; it can be {}", names.join(", "))
    })
}

/// Parses a stage and its number of buffers, which is 1 by default.
fn turn(text: &str) -> Result<StageTurn, String> {
    let (stage, repeat) = match text.split_once('*') {
        Some((stage, repeat)) => (stage, number(repeat, 1..=MOST_BUFFERS)?),
        None => (text, 1),
    };
    Ok(StageTurn { stage: name(stage)?, repeat })
}

fn fork(value: &str) -> Result<Fork, String> {
    let (copies, ordered) = match value.split_once(':') {
        None | Some((_, "ordered")) => (value.split(':').next().unwrap_or_default(), true),
        Some((copies, "unordered")) => (copies, false),
        Some((_, other)) => return Err(format!("`{other}` is neither `ordered` nor `unordered`")),
    };
    let (stage, copies) =
        copies.split_once('*').ok_or("the number of copies is missing: write it as `fork=compress*4`")?;
    Ok(Fork { stage: name(stage)?, copies: number(copies, 1..=MOST_COPIES)?, ordered })
}

/// Parses a waiting rule, written as one word with colons for blanks.
fn rule(value: &str) -> Result<waiting::WaitingRule, String> {
    value.replace(':', " ").parse().map_err(|why: waiting::ParseRuleError| {
        format!("{why}; `rowlock policies` lists them, and blanks are written as colons here")
    })
}

fn attribute(key: &'static StructureKey, value: &str) -> Result<RequestedAttribute, String> {
    let how = || format!("the stage or the value is missing: write it as `{}`", key.example);
    let (stage, requested) = value.split_once(':').filter(|(_, requested)| !requested.is_empty()).ok_or_else(how)?;
    let stage = name(stage)?;
    // The value is kept as text, but it must be valid.
    Scheduling::default().read(key.name, requested)?;
    Ok(RequestedAttribute { key: key.name, stage, value: requested.to_owned() })
}
