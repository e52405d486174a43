//! The reader of scenario files: from bytes to a valid [`Scenario`], or to all problems of the
//! file.
//!
//! The file is parsed into a tree in which every key and value knows its place. For each arm of the
//! sweep, the arm's values are written over this tree, and the result is read and checked as a
//! whole. So a mistake in only one combination is found too, and is reported at the value in the
//! sweep that causes it.

mod cells;
mod coscheduling;
mod distribution;
mod fibers;
mod message;
mod pipeline;
mod setting;
mod sweep;
pub(crate) mod table;
pub(crate) mod value;

use std::collections::HashSet;
use std::ops::Range;

use toml::de::DeTable;

use self::sweep::Factor;
use self::table::{ReadReport, Table};
use crate::diagnostics::{Diagnostic, Diagnostics, did_you_mean, quoted};
use crate::keys::{self, experiment, file};
use crate::model::{Arm, Experiment, Scenario};

/// After this many diagnostics no further arm is read.
const ENOUGH: usize = 1000;

/// Reads a scenario file; `name` is its name in diagnostics. Accepts any bytes: an invalid file is
/// an error.
///
/// # Errors
///
/// All problems of the file together. Keys that a syntax error may have hidden are not reported as
/// missing.
pub fn read(name: &str, bytes: &[u8]) -> Result<Scenario, Diagnostics> {
    if bytes.len() > keys::LONGEST_FILE {
        let message = format!("a scenario file cannot be longer than {} bytes", keys::LONGEST_FILE);
        return Err(Diagnostics::new(name, "", vec![Diagnostic::new(0..0, message)]));
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(why) => {
            let start = why.valid_up_to();
            let byte = bytes.get(start).copied().unwrap_or_default();
            let diagnostic = Diagnostic::new(start..start + 1, format!("this is not UTF-8 text: byte 0x{byte:02x}"));
            let diagnostic = diagnostic.help("a scenario is a text file; see docs/scenario.md");
            return Err(Diagnostics::new(name, &String::from_utf8_lossy(bytes), vec![diagnostic]));
        }
    };
    let (root, errors) = DeTable::parse_recoverable(text);
    let syntax: Vec<Diagnostic> = errors.iter().map(|error| syntax_error(error, text)).collect();
    let report = ReadReport::new(text.trim_end().len(), !syntax.is_empty());
    let scenario = scenario(root.into_inner(), text.len(), &report);
    let found = report.found.into_inner();
    match scenario {
        Some(scenario) if syntax.is_empty() && found.is_empty() => Ok(scenario),
        _ => Err(Diagnostics::new(name, text, with_syntax(syntax, found, text))),
    }
}

fn syntax_error(error: &toml::de::Error, text: &str) -> Diagnostic {
    let span = error.span().unwrap_or(0..0);
    let message = error.message().trim();
    if let Some(message) = message.strip_suffix(", expected literal string") {
        let value = text.get(span.clone()).unwrap_or_default();
        let help = if value.is_empty() { "write a value here".to_owned() } else { format!("write \"{value}\"") };
        return Diagnostic::new(span, message).help(help);
    }
    let (message, expected) = message.split_once(", expected ").unwrap_or((message, ""));
    let diagnostic = Diagnostic::new(span, message);
    if expected.is_empty() { diagnostic } else { diagnostic.label(format!("expected {expected}")) }
}

/// Merges the problems found by the parser and by the reader. On a line with a syntax error only
/// that error is kept: others are most likely a consequence.
fn with_syntax(mut syntax: Vec<Diagnostic>, found: Vec<Diagnostic>, text: &str) -> Vec<Diagnostic> {
    if syntax.is_empty() {
        return found;
    }
    let newlines: Vec<usize> = text.match_indices('\n').map(|(index, _)| index).collect();
    let line = |span: &Range<usize>| newlines.partition_point(|&newline| newline < span.start);
    syntax.sort_by_key(|diagnostic| diagnostic.span.start);
    let mut lines = HashSet::new();
    syntax.retain(|diagnostic| lines.insert(line(&diagnostic.span)));
    syntax.extend(found.into_iter().filter(|diagnostic| !lines.contains(&line(&diagnostic.span))));
    syntax
}

fn scenario(mut root: DeTable<'_>, length: usize, report: &ReadReport) -> Option<Scenario> {
    let top = root_table(&root, report);
    // An unreadable header leaves its keys to the top level.
    if !report.is_partial.get() {
        top.check_keys(&[file::ALL], |_| None);
    }
    let title = top.read(&file::TITLE, value::text).unwrap_or_default();

    let mark = report.mark();
    let factors = sweep::factors(&root, report);
    // Values from a faulty sweep are not missing.
    report.is_partial.update(|is_partial| is_partial || report.mark() != mark);
    let experiment = experiment(&top, &sweep::written_paths(&root));

    let mut count = factors.iter().fold(1, |count: usize, factor| count.saturating_mul(factor.len()));
    if let Some(diagnostic) = too_many(count, length, experiment.repeat, &root) {
        report.add(diagnostic);
        count = 1;
    }
    let arms = arms(count, &factors, &mut root, report)?;
    Some(Scenario { title, arms, experiment })
}

/// The root table. Missing top-level keys are reported at the end of the file.
fn root_table<'t, 'i>(root: &'t DeTable<'i>, report: &'t ReadReport) -> Table<'t, 'i> {
    Table::new("the scenario", report.end..report.end, root, report)
}

/// Reads the `[experiment]` table, except for the keys that belong to an arm.
fn experiment(top: &Table<'_, '_>, swept: &[String]) -> Experiment {
    let Some(table) = top.table(&file::EXPERIMENT) else {
        return Experiment { repeat: DEFAULT_REPEAT, seed: DEFAULT_SEED, compare: None, x: None };
    };
    table.check_keys(&[experiment::ALL], |_| None);
    let repeat = table.read(&experiment::REPEAT, value::count).unwrap_or(DEFAULT_REPEAT);
    let seed = table.read(&experiment::SEED, value::count).unwrap_or(DEFAULT_SEED);
    let path = |key, among: &[&str]| {
        let path = sweep::one_form(&table.read(key, value::text)?);
        if !among.contains(&path.as_str()) {
            let help = did_you_mean(&path, among.iter().copied()).unwrap_or_else(|| match swept {
                [] => format!("nothing is swept: leave `{}` out or add a `sweep`", key.name),
                swept => {
                    let swept: Vec<String> = swept.iter().map(|path| quoted(path).to_string()).collect();
                    format!("the swept paths are {}", value::listed(&swept, "and"))
                }
            });
            let message = format!("`{}` names {}, which is not swept", key.name, quoted(&path));
            top.report.add(Diagnostic::new(table.place(key), message).help(help));
        }
        Some(path)
    };
    let single = swept.iter().flat_map(|path| path.split(keys::PATH_SEPARATOR));
    let factors: Vec<&str> = swept.iter().map(String::as_str).chain(single).collect();
    let axes = [&factors[..], experiment::COUNTED_AXES].concat();
    let (compare, x) = (path(&experiment::COMPARE, &factors), path(&experiment::X, &axes));
    Experiment { repeat, seed, compare, x }
}

const DEFAULT_REPEAT: u32 = 3;
const DEFAULT_SEED: u64 = 1;

/// Checks that this many arms can be kept and run.
fn too_many(count: usize, length: usize, repeat: u32, root: &DeTable<'_>) -> Option<Diagnostic> {
    let (key, message, help) = if count > keys::MOST_ARMS {
        let message = format!("the sweep has more than {} arms", keys::MOST_ARMS);
        (&experiment::SWEEP, message, "sweep fewer paths or fewer values")
    } else if count.saturating_mul(length) > keys::MOST_TEXT {
        let message = format!("{count} arms of a file of {length} bytes do not fit into memory");
        (&experiment::SWEEP, message, "sweep less, or shorten the file")
    } else if (count as u64).saturating_mul(u64::from(repeat)) > keys::MOST_RUNS {
        let message = format!("{count} arms, each {repeat} times, are more than {} runs", keys::MOST_RUNS);
        (&experiment::REPEAT, message, "sweep less, or repeat less often")
    } else {
        return None;
    };
    let node = root.get(file::EXPERIMENT.name).and_then(|node| node.get_ref().get(key.name));
    Some(Diagnostic::new(node.map_or(0..0, toml::Spanned::span), message).help(help))
}

/// Reads the arms; the last factor varies fastest. Returns `None` if a problem was reported.
fn arms<'i>(count: usize, factors: &[Factor<'i>], root: &mut DeTable<'i>, report: &ReadReport) -> Option<Vec<Arm>> {
    let mark = report.mark();
    let mut arms = Vec::new();
    for arm in 0..count {
        let mut rest = arm;
        let mut values = Vec::with_capacity(factors.len());
        for factor in factors.iter().rev() {
            let number = rest % factor.len();
            rest /= factor.len();
            factor.substitute(number, root, report);
            values.extend(factor.plain(number).map(|plain| (factor.path.clone(), plain.clone())));
        }
        values.reverse();
        let setting = setting::setting(&root_table(root, report));
        arms.extend(setting.map(|setting| Arm { factors: values, setting }));
        if report.found.borrow().len() >= ENOUGH {
            break;
        }
    }
    (report.mark() == mark).then_some(arms)
}

#[cfg(test)]
mod tests;
