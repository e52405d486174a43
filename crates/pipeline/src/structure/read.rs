//! Reading a structure, and what is said where that is not possible.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use policy::priority::{self, StageKind};
use policy::waiting;

use crate::scheduling::{Scheduling, SchedulingParseError};

use super::{Fork, KEYS, RequestedAttribute, StageTurn, Structure, StructureKey, Threads, is_name};

/// More copies, workers or turns than this are taken for a mistake.
const MOST_COPIES: usize = 1024;
/// More buffers than this are.
const MOST_BUFFERS: usize = 1 << 16;
/// And larger ones.
const MOST_BYTES: usize = 1 << 30;

/// Why a text is not a structure, or a structure makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StructureError {
    /// A word is none that can be said.
    #[error("`{key}` is nothing that a structure can say{}; it can say {}", hint(.near), list(KEYS.iter().map(|key| key.name)))]
    UnknownKey {
        /// What was written.
        key: String,
        /// What may be meant.
        near: Option<String>,
    },
    /// There is no `=` in a word, or nothing on one of its sides.
    #[error("`{word}` is not of the form key=value, as `{example}` is")]
    NotAWord {
        /// What was written.
        word: String,
        /// How it would be right.
        example: &'static str,
    },
    /// A value cannot be read.
    #[error("`{key}={value}`: {why}")]
    Value {
        /// Of what.
        key: &'static str,
        /// What was written.
        value: String,
        /// What is wrong with it, and what is allowed.
        why: String,
    },
    /// A key that can be said only once is there twice.
    #[error("`{key}` is said twice: only once can hold")]
    KeyTwice {
        /// Which.
        key: &'static str,
    },
    /// What is said of a stage does not go together.
    #[error("stage `{stage}` is {what}: only one can hold")]
    Twice {
        /// Of which.
        stage: String,
        /// What is said of it.
        what: String,
    },
    /// A number is zero.
    #[error("`{key}` is zero, and must be at least one")]
    Zero {
        /// Which.
        key: &'static str,
    },
    /// A stage is fused with none.
    #[error("stage `{stage}` is fused with no other: it takes two, as in `fuse={stage}+next`")]
    Alone {
        /// Which.
        stage: String,
    },
    /// There is no such stage.
    #[error("there is no stage `{stage}`{}; the stages are {}", hint(.near), list(.stages.iter().map(String::as_str)))]
    UnknownStage {
        /// What was written.
        stage: String,
        /// What may be meant.
        near: Option<String>,
        /// What there is.
        stages: Vec<String>,
    },
}

impl StructureError {
    pub(super) fn unknown_stage(stage: &str, stages: &[&str]) -> StructureError {
        let near = did_you_mean(stage, stages.iter().copied()).map(str::to_owned);
        // A junction is a stage of each pipeline that it is in, and one to name.
        let is_first = |at: &usize| !stages[..*at].contains(&stages[*at]);
        let stages = (0..stages.len()).filter(is_first).map(|at| stages[at].to_owned()).collect();
        StructureError::UnknownStage { stage: stage.to_owned(), near, stages }
    }
}

fn hint(near: &Option<String>) -> String {
    near.as_ref().map_or(String::new(), |near| format!(" (did you mean `{near}`?)"))
}

fn list<'a>(items: impl Iterator<Item = &'a str>) -> String {
    items.collect::<Vec<_>>().join(", ")
}

/// Whichever candidate is nearest to what was written, if one is near.
pub fn did_you_mean<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// Nothing that long is a slip of the pen, and the comparison takes the product of the lengths.
    const LONGEST: usize = 200;
    if written.len() > LONGEST {
        return None;
    }
    let slips = |candidate: &str| strsim::osa_distance(&written.to_lowercase(), &candidate.to_lowercase());
    let nearest = candidates.into_iter().map(|candidate| (slips(candidate), candidate));
    let (distance, nearest) = nearest.min_by_key(|&(distance, _)| distance)?;
    (distance <= 1.max(nearest.chars().count() / 3)).then_some(nearest)
}

/// Reads a size: a number of bytes, `KiB` or `MiB`.
///
/// # Errors
/// With what is wrong, and how a size is written.
pub fn parse_size(text: &str) -> Result<usize, String> {
    let units = [("KiB", 10), ("MiB", 20), ("", 0)];
    let (digits, shift) =
        units.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift))).unwrap_or((text, 0));
    let refused = || format!("`{text}` is not a size; write a number of bytes, KiB or MiB, as in 64KiB");
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(refused());
    }
    let bytes = digits.parse::<usize>().ok().and_then(|number| number.checked_mul(1 << shift)).ok_or_else(refused)?;
    if (1..=MOST_BYTES).contains(&bytes) { Ok(bytes) } else { Err("it must be from 1 byte to 1024MiB".to_owned()) }
}

/// Reads a line, or several: words apart by any blanks.
impl FromStr for Structure {
    type Err = StructureError;

    fn from_str(text: &str) -> Result<Structure, StructureError> {
        let mut structure = Structure::default();
        let mut seen = BTreeSet::new();
        for word in text.split_whitespace() {
            let (key, value) = split(word)?;
            if !seen.insert(key.name) && !key.is_repeatable {
                return Err(StructureError::KeyTwice { key: key.name });
            }
            let refused = |why| StructureError::Value { key: key.name, value: value.to_owned(), why };
            read(&mut structure, key, value).map_err(refused)?;
        }
        structure.check()?;
        Ok(structure)
    }
}

/// The two sides of a word.
fn split(word: &str) -> Result<(&'static StructureKey, &str), StructureError> {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    let Some(key) = StructureKey::named(name) else {
        let near = did_you_mean(name, KEYS.iter().map(|key| key.name)).map(str::to_owned);
        return Err(StructureError::UnknownKey { key: name.to_owned(), near });
    };
    if value.is_empty() {
        return Err(StructureError::NotAWord { word: word.to_owned(), example: key.example });
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
        "priority" => structure.priority = Some(named(value, &priority::PriorityRule::ALL, "rule of priority")?),
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
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|number| is_number && range.contains(number));
    number.ok_or_else(allowed)
}

fn name(text: &str) -> Result<String, String> {
    if is_name(text) { Ok(text.to_owned()) } else { Err(format!("`{text}` is not the name of a stage")) }
}

/// Whichever of them is printed like this.
fn named<T: Copy + Display>(value: &str, all: &[T], what: &str) -> Result<T, String> {
    let names: Vec<String> = all.iter().map(ToString::to_string).collect();
    let found = all.iter().zip(&names).find(|(_, name)| *name == value);
    found.map(|(one, _)| *one).ok_or_else(|| {
        let near = did_you_mean(value, names.iter().map(String::as_str)).map(str::to_owned);
        format!("`{value}` is no {what}{}; it can be {}", hint(&near), list(names.iter().map(String::as_str)))
    })
}

/// A name and how many times, which is once where nothing is said.
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
    let (stage, copies) = copies.split_once('*').ok_or("how many copies? Write it as `fork=compress*4`")?;
    Ok(Fork { stage: name(stage)?, copies: number(copies, 1..=MOST_COPIES)?, ordered })
}

/// A waiting rule as one word, with colons for its blanks.
fn rule(value: &str) -> Result<waiting::WaitingRule, String> {
    value.replace(':', " ").parse().map_err(|why: waiting::ParseRuleError| {
        format!("{why}; `rowlock policies` lists them, and a colon stands for a blank here")
    })
}

fn attribute(key: &'static StructureKey, value: &str) -> Result<RequestedAttribute, String> {
    let how = || format!("of which stage, and what? Write it as `{}`", key.example);
    let (stage, requested) = value.split_once(':').filter(|(_, requested)| !requested.is_empty()).ok_or_else(how)?;
    let stage = name(stage)?;
    // It is kept as it was written, and has to be one all the same.
    Scheduling::default().set(key.name, requested).map_err(|why| match why {
        SchedulingParseError::Value { why, .. } => why,
        SchedulingParseError::UnknownKey { .. } => why.to_string(),
    })?;
    Ok(RequestedAttribute { key: key.name, stage, value: requested.to_owned() })
}
