//! Reads single values, as the keys require.

use std::borrow::Borrow;
use std::fmt::Display;

use policy::feedback::Boost;
use policy::gang::Lowering;
use policy::layout::{Mesh, Shape};
use policy::waiting::{Bound, ParseRuleError, WaitingRule};
use policy::{CpuId, CpuSet, ParseSpanError, Span, priority};
use toml::Spanned;
use toml::de::DeValue;

use crate::diagnostics::{Diagnostic, did_you_mean, quoted};
use crate::keys::{self, Key, Value};
use crate::network::Bandwidth;
use crate::topology::Topology;

/// A value with its place in the file.
pub(crate) type Node<'i> = Spanned<DeValue<'i>>;

/// Why a value does not fit its key.
type BoxedDiagnostic = Box<Diagnostic>;

/// A text on one line.
pub(crate) fn text(key: &Key, node: &Node<'_>) -> Result<String, BoxedDiagnostic> {
    let text = any_text(key, node)?;
    if text.chars().any(char::is_control) {
        return reject(node, format!("`{}` has a control character in it", key.name), "write it on one line");
    }
    Ok(text.to_owned())
}

/// The name of a job or a stage.
pub(crate) fn name(key: &Key, node: &Node<'_>) -> Result<String, BoxedDiagnostic> {
    let name = any_text(key, node)?;
    let unfit = name.chars().find(|&c| !(c.is_alphanumeric() || c == '-' || c == '_'));
    let help = format!("a name is {}", key.value);
    match unfit {
        _ if name.is_empty() => reject(node, "a name cannot be empty", help),
        Some('.') => reject(
            node,
            "a name has no dots",
            format!("{help}; dots number the copies of jobs and separate the keys of swept paths"),
        ),
        Some(_) => reject(node, format!("{} cannot be a name", quoted(name)), help),
        None if name.chars().count() > keys::LONGEST_NAME => reject(node, "this name is too long", help),
        None => Ok(name.to_owned()),
    }
}

/// A program and its arguments.
pub(crate) fn words(key: &Key, node: &Node<'_>) -> Result<Vec<String>, BoxedDiagnostic> {
    let DeValue::Array(array) = node.get_ref() else { return Err(mismatch(key, node)) };
    let words = array.iter().map(|word| any_text(key, word).map(str::to_owned)).collect::<Result<Vec<_>, _>>()?;
    if words.first().is_none_or(String::is_empty) {
        return reject(node, format!("`{}` names no program", key.name), example(key));
    }
    match array.iter().zip(&words).find(|(_, word)| word.contains('\0')) {
        Some((node, _)) => reject(node, "an argument of a program cannot contain a NUL", "leave it out"),
        None => Ok(words),
    }
}

/// `true` or `false`.
pub(crate) fn flag(key: &Key, node: &Node<'_>) -> Result<bool, BoxedDiagnostic> {
    node.get_ref().as_bool().ok_or_else(|| mismatch(key, node))
}

/// A whole number within the key's range.
pub(crate) fn count<N: TryFrom<u64>>(key: &Key, node: &Node<'_>) -> Result<N, BoxedDiagnostic> {
    let DeValue::Integer(integer) = node.get_ref() else { return Err(mismatch(key, node)) };
    let (least, most) = match key.value {
        Value::Count { least, most } => (least, most),
        _ => (0, u64::MAX),
    };
    let count = u64::from_str_radix(integer.as_str(), integer.radix()).ok();
    let count = count.filter(|count| (least..=most).contains(count)).and_then(|count| N::try_from(count).ok());
    count.ok_or_else(|| out_of_range(key, node, integer, least, most))
}

fn out_of_range(
    key: &Key,
    node: &Node<'_>,
    written: impl Display,
    least: impl Display,
    most: impl Display,
) -> BoxedDiagnostic {
    let message = format!("`{}` cannot be {}", key.name, shortened(&written.to_string()));
    Box::new(Diagnostic::new(node.span(), message).label(format!("must be {least} to {most}")).help(example(key)))
}

/// A span of time; above zero if the key requires it.
pub(crate) fn span(key: &Key, node: &Node<'_>) -> Result<Span, BoxedDiagnostic> {
    let span = text_with_unit(key, node, NO_CS)?.parse().map_err(|why| no_span(key, node, why, NO_CS))?;
    in_range(key, node, span)
}

/// A number of at least zero.
pub(crate) fn weight(key: &Key, node: &Node<'_>) -> Result<f64, BoxedDiagnostic> {
    let (number, written) = match node.get_ref() {
        DeValue::Integer(number) => {
            (u64::from_str_radix(number.as_str(), number.radix()).ok().map(|n| n as f64), number.as_str())
        }
        DeValue::Float(number) => (number.as_str().parse().ok(), number.as_str()),
        _ => return Err(mismatch(key, node)),
    };
    match number {
        Some(number) if number >= 0.0 && number.is_finite() => Ok(number),
        _ => reject(node, format!("{} is not a weight", shortened(written)), "a weight is a number, zero or above"),
    }
}

/// A span of time above zero, or never.
pub(crate) fn period(key: &Key, node: &Node<'_>) -> Result<Boost, BoxedDiagnostic> {
    if node.get_ref().as_str() == Some("never") {
        return Ok(Boost::Never);
    }
    span(key, node).map(Boost::Every)
}

/// A span of time or a multiple of CS, without a margin.
pub(crate) fn margin(key: &Key, node: &Node<'_>) -> Result<Bound, BoxedDiagnostic> {
    match bound_or_rule::<Bound>(key, node)? {
        Ok(Bound::OfCs { plus: true, .. }) => {
            reject(node, "the margin cannot contain itself", "write a span or a multiple of CS without `+`")
        }
        Ok(bound) => limited(key, node, bound),
        Err(text) => reject(node, format!("{} is not a span or a multiple of CS", quoted(text)), example(key)),
    }
}

/// A waiting rule.
pub(crate) fn waiting(key: &Key, node: &Node<'_>) -> Result<WaitingRule, BoxedDiagnostic> {
    match bound_or_rule::<WaitingRule>(key, node)? {
        Ok(WaitingRule::TwoPhase(bound)) => limited(key, node, bound).map(WaitingRule::TwoPhase),
        Ok(rule) => Ok(rule),
        Err(text) => {
            let rules = policy::table::WAITING.iter().filter(|entry| entry.decision == key.name);
            let names: Vec<&str> = rules.clone().filter(|entry| entry.rule.is_some()).map(|entry| entry.form).collect();
            let families = rules.filter(|entry| entry.rule.is_none());
            let families: Vec<String> = families.map(|entry| format!("\"{}\"", entry.example)).collect();
            let (names_listed, like) = (listed(&names, "and"), listed(&families, "and"));
            let all = format!("the rules are {names_listed}, and those like {like}");
            reject(node, format!("{} is not a waiting rule", quoted(text)), with_nearest(text, &names, &all))
        }
    }
}

/// A priority rule.
pub(crate) fn priority(key: &Key, node: &Node<'_>) -> Result<priority::PriorityRule, BoxedDiagnostic> {
    let text = any_text(key, node)?;
    text.parse().or_else(|_| {
        let names: Vec<&str> = policy::table::PRIORITY.iter().map(|entry| entry.form).collect();
        let all = format!("the rules are {}", listed(&names, "and"));
        reject(node, format!("{} is not a priority rule", quoted(text)), with_nearest(text, &names, &all))
    })
}

/// A nice value.
pub(crate) fn nice(key: &Key, node: &Node<'_>) -> Result<i8, BoxedDiagnostic> {
    let DeValue::Integer(integer) = node.get_ref() else { return Err(mismatch(key, node)) };
    let nice = i8::from_str_radix(integer.as_str(), integer.radix()).ok().filter(|nice| (-20..=19).contains(nice));
    nice.ok_or_else(|| out_of_range(key, node, integer, -20, 19))
}

/// CPU numbers.
pub(crate) fn cpus(key: &Key, node: &Node<'_>) -> Result<CpuSet, BoxedDiagnostic> {
    let text = any_text(key, node)?;
    let set: CpuSet = match text.parse() {
        Ok(set) => set,
        Err(why) => return reject(node, format!("{} names no CPUs: {why}", quoted(text)), example(key)),
    };
    match set.iter().last() {
        Some(CpuId(last)) if last >= keys::MOST_CPUS => reject(
            node,
            format!("there is no CPU {last}"),
            format!("CPUs are numbered from 0 to {}", keys::MOST_CPUS - 1),
        ),
        _ => Ok(set),
    }
}

/// Columns and rows.
pub(crate) fn shape(key: &Key, node: &Node<'_>) -> Result<Shape, BoxedDiagnostic> {
    parsed(key, node, &format!("a size of 1 to {} cells", Mesh::MOST_CELLS))
}

/// Columns and rows of cells.
pub(crate) fn mesh(key: &Key, node: &Node<'_>) -> Result<Mesh, BoxedDiagnostic> {
    Mesh::new(shape(key, node)?).ok_or_else(|| mismatch(key, node))
}

/// Nodes, cores and threads.
pub(crate) fn topology(key: &Key, node: &Node<'_>) -> Result<Topology, BoxedDiagnostic> {
    parsed(key, node, &format!("nodes, cores of a node and threads of a core of 1 to {} CPUs", keys::MOST_CPUS))
}

/// A bandwidth.
pub(crate) fn bandwidth(key: &Key, node: &Node<'_>) -> Result<Bandwidth, BoxedDiagnostic> {
    let number = match node.get_ref() {
        DeValue::Integer(number) => number.as_str(),
        DeValue::Float(number) => number.as_str(),
        _ => return parsed(key, node, &format!("a bandwidth of 1 kB/s to {} in whole numbers", Bandwidth::MOST)),
    };
    let diagnostic = Diagnostic::new(node.span(), format!("`{}` has no unit", key.name)).label("a number of what?");
    let help = format!("write \"{} MB/s\" (the units are kB/s, MB/s and GB/s)", shortened(number));
    Err(Box::new(diagnostic.help(help)))
}

/// A way to lower jobs.
pub(crate) fn lowering(key: &Key, node: &Node<'_>) -> Result<Lowering, BoxedDiagnostic> {
    parsed(key, node, "`nice 1` to `nice 39` or `weight 2` to `weight 1023`")
}

/// A text that is parsed; `what` it should be.
fn parsed<T: std::str::FromStr>(key: &Key, node: &Node<'_>, what: &str) -> Result<T, BoxedDiagnostic> {
    let text = any_text(key, node)?;
    text.parse().or_else(|_| reject(node, format!("{} is not {what}", quoted(text)), example(key)))
}

/// One of the names that the key allows.
pub(crate) fn one_of(key: &Key, node: &Node<'_>) -> Result<&'static str, BoxedDiagnostic> {
    let Value::OneOf(names) = key.value else { return Err(mismatch(key, node)) };
    let text = any_text(key, node)?;
    names.iter().find(|&&name| name == text).copied().ok_or_else(|| {
        let all = format!("it can be {}", listed(names, "or"));
        let message = format!("`{}` cannot be {}", key.name, quoted(text));
        Box::new(Diagnostic::new(node.span(), message).help(with_nearest(text, names, &all)))
    })
}

/// One of `all`, by its name.
pub(crate) fn named<T: Copy>(
    all: &[T],
    name: fn(T) -> &'static str,
) -> impl Fn(&Key, &Node<'_>) -> Result<T, BoxedDiagnostic> {
    move |key, node| {
        let written = one_of(key, node)?;
        all.iter().copied().find(|value| name(*value) == written).ok_or_else(|| mismatch(key, node))
    }
}

/// Any text.
pub(crate) fn any_text<'n>(key: &Key, node: &'n Node<'_>) -> Result<&'n str, BoxedDiagnostic> {
    node.get_ref().as_str().ok_or_else(|| mismatch(key, node))
}

/// Reports a value of the wrong type.
pub(crate) fn mismatch(key: &Key, node: &Node<'_>) -> BoxedDiagnostic {
    let found = match node.get_ref() {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a fraction",
        DeValue::Boolean(_) => "a truth value",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    };
    let diagnostic =
        Diagnostic::new(node.span(), format!("`{}` is {}", key.name, key.value)).label(format!("this is {found}"));
    Box::new(diagnostic.help(example(key)))
}

/// An example of the key, as help.
pub(crate) fn example(key: &Key) -> String {
    match key.value {
        Value::Tables => format!("write `[[{}]]` above each of them", key.name),
        Value::Table => format!("write `[{}]` above its keys", key.name),
        _ => format!("write it as in `{} = {}`", key.name, key.example),
    }
}

/// A list of names in words: `a, b and c`.
pub(crate) fn listed<S: Borrow<str> + Display>(names: &[S], and: &str) -> String {
    match names {
        [] => String::new(),
        [only] => only.to_string(),
        [first @ .., last] => format!("{} {and} {last}", first.join(", ")),
    }
}

/// The nearest candidate, followed by the whole list.
pub(crate) fn with_nearest(written: &str, candidates: &[&str], all: &str) -> String {
    match did_you_mean(written, candidates.iter().copied()) {
        Some(nearest) => format!("{nearest} {}{}", all[..1].to_uppercase(), &all[1..]),
        None => all.to_owned(),
    }
}

fn reject<T>(node: &Node<'_>, message: impl Into<String>, help: impl Into<String>) -> Result<T, BoxedDiagnostic> {
    Err(Box::new(Diagnostic::new(node.span(), message).help(help)))
}

/// The text of a number with a unit. A number without one is reported as such.
fn text_with_unit<'n>(key: &Key, node: &'n Node<'_>, multiples: Multiples) -> Result<&'n str, BoxedDiagnostic> {
    let number = match node.get_ref() {
        DeValue::Integer(number) => number.as_str(),
        DeValue::Float(number) => number.as_str(),
        _ => return any_text(key, node),
    };
    Err(missing_unit(key, node, number, multiples))
}

/// Parses a bound or a rule; the inner error is the invalid text.
fn bound_or_rule<'n, T: std::str::FromStr<Err = ParseRuleError>>(
    key: &Key,
    node: &'n Node<'_>,
) -> Result<Result<T, &'n str>, BoxedDiagnostic> {
    let text = text_with_unit(key, node, CS)?;
    match text.parse() {
        Ok(read) => Ok(Ok(read)),
        Err(ParseRuleError::Unknown(_)) => Ok(Err(text)),
        Err(ParseRuleError::MissingUnit(number)) => Err(missing_unit(key, node, &number, CS)),
        Err(ParseRuleError::Span(why)) => Err(no_span(key, node, why, CS)),
    }
}

fn limited(key: &Key, node: &Node<'_>, bound: Bound) -> Result<Bound, BoxedDiagnostic> {
    match bound {
        Bound::Fixed(span) => in_range(key, node, span).map(Bound::Fixed),
        Bound::OfCs { thousandths, .. } if thousandths > keys::LARGEST_MULTIPLE => {
            let most = keys::LARGEST_MULTIPLE / 1000;
            reject(node, "this multiple of CS is absurdly large", format!("it can be at most {most}"))
        }
        Bound::OfCs { .. } => Ok(bound),
    }
}

fn in_range(key: &Key, node: &Node<'_>, span: Span) -> Result<Span, BoxedDiagnostic> {
    if span > keys::LONGEST_SPAN {
        return Err(no_span(key, node, ParseSpanError::TooLong, NO_CS));
    }
    if span.is_zero() && matches!(key.value, Value::Time | Value::Work | Value::Period) {
        return reject(node, format!("`{}` cannot be zero", key.name), example(key));
    }
    Ok(span)
}

/// The hints about multiples of CS, if they are allowed: an example, and the unit.
type Multiples = (&'static str, &'static str);
const CS: Multiples = (" or \"5 cs\"", ", and cs for multiples of CS");
const NO_CS: Multiples = ("", "");

fn no_span(key: &Key, node: &Node<'_>, why: ParseSpanError, multiples: Multiples) -> BoxedDiagnostic {
    let name = key.name;
    let (message, help) = match why {
        ParseSpanError::MissingUnit(number) => return missing_unit(key, node, &number, multiples),
        ParseSpanError::UnknownUnit(unit) => (
            format!("unknown unit {}", quoted(&unit)),
            format!("the units of time are ns, us, ms and s{}", multiples.1),
        ),
        ParseSpanError::NotANumber(text) => (
            format!("{} is not a span of time", quoted(&text)),
            format!(
                "write a number and a unit, as in \"20 us\"{}",
                if key.value == Value::Period { ", or \"never\"" } else { "" }
            ),
        ),
        ParseSpanError::Negative => (format!("`{name}` cannot be negative"), example(key)),
        ParseSpanError::TooFine => (format!("`{name}` is finer than one nanosecond"), example(key)),
        ParseSpanError::TooLong => {
            let days = keys::LONGEST_SPAN.as_secs_f64() / 86_400.0;
            (format!("`{name}` is too long"), format!("no span in a scenario is above {days} days"))
        }
    };
    Box::new(Diagnostic::new(node.span(), message).help(help))
}

fn missing_unit(key: &Key, node: &Node<'_>, number: &str, multiples: Multiples) -> BoxedDiagnostic {
    if number.starts_with('-') {
        return no_span(key, node, ParseSpanError::Negative, multiples);
    }
    let number = shortened(number.trim_start_matches('+'));
    let diagnostic = Diagnostic::new(node.span(), format!("`{}` has no unit", key.name)).label("a number of what?");
    Box::new(diagnostic.help(format!("write \"{number} us\" (the units are ns, us, ms and s){}", multiples.0)))
}

/// Shortens a number for a message: it may have thousands of digits.
fn shortened(number: &str) -> String {
    const LONGEST: usize = 24;
    match number.get(..LONGEST) {
        Some(head) if number.len() > LONGEST => format!("{head}..."),
        _ => number.to_owned(),
    }
}
