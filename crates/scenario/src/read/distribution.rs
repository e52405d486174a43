//! Reads a span, or a table of a distribution.

use policy::Span;
use toml::de::DeValue;

use super::table::{ReadReport, Table};
use super::value::{self, Node};
use crate::diagnostics::Diagnostic;
use crate::distribution::{Distribution, Empirical};
use crate::keys::{Key, compute};

/// Reads the distribution of a `key`.
pub(super) fn distribution(key: &Key, node: &Node<'_>, report: &mut ReadReport) -> Option<Distribution> {
    let Some(entries) = node.get_ref().as_table() else {
        let span = value::span(key, node).map_err(|diagnostic| report.add(*diagnostic)).ok()?;
        return Some(span.into());
    };
    let table = Table::new(format!("`{}`", key.name), node.span(), entries);
    let name = match table.get(&compute::DISTRIBUTION, report) {
        None => Distribution::NAMES[0],
        Some(_) => table.read(&compute::DISTRIBUTION, report, value::one_of)?,
    };
    let own = compute::OF_DISTRIBUTIONS.iter().find(|(of, _)| *of == name).map_or(&[][..], |(_, keys)| keys);
    table.check_keys(&[&[compute::DISTRIBUTION], own], report, |written| {
        let owners = compute::OF_DISTRIBUTIONS.iter().filter(|(_, keys)| keys.iter().any(|key| key.name == written));
        let owners: Vec<&str> = owners.map(|(name, _)| *name).collect();
        let belongs = format!("it belongs to the distributions {}; this one is {name}", value::listed(&owners, "and"));
        (!owners.is_empty()).then_some(belongs)
    });
    if name == Distribution::NAMES[1] {
        uniform(&table, report)
    } else if name == Distribution::NAMES[4] {
        empirical(&table, report).map(Distribution::Empirical)
    } else {
        by_mean(&table, name, report)
    }
}

/// Reads a span that this distribution requires.
fn needed(table: &Table<'_, '_>, key: &Key, report: &mut ReadReport) -> Option<Span> {
    if table.get(key, report).is_none() {
        let message = format!("{} has no `{}`", table.what, key.name);
        report.missing(Diagnostic::new(table.header.clone(), message).help(value::example(key)));
    }
    table.read(key, report, value::span)
}

fn by_mean(table: &Table<'_, '_>, name: &str, report: &mut ReadReport) -> Option<Distribution> {
    let mean = needed(table, &compute::MEAN, report);
    let place = |report: &mut ReadReport, key| table.get(key, report).map_or(table.header.clone(), toml::Spanned::span);
    if name == Distribution::NAMES[2] {
        return Some(Distribution::Exponential { mean: mean? });
    }
    let sd = match table.get(&compute::SD, report) {
        Some(_) => table.read(&compute::SD, report, value::span)?,
        None => Span::ZERO,
    };
    let mean = mean?;
    if name == Distribution::NAMES[3] {
        if mean.is_zero() {
            let diagnostic = Diagnostic::new(
                place(report, &compute::MEAN),
                "the mean of a log-normal distribution must be above zero",
            );
            report.add(diagnostic.help(value::example(&compute::MEAN)));
            return None;
        }
        return Some(Distribution::LogNormal { mean, sd });
    }
    if sd > mean {
        let diagnostic = Diagnostic::new(place(report, &compute::SD), format!("`sd` ({sd}) is above `mean` ({mean})"));
        report.add(diagnostic.label("more than one draw in six would be negative").help("write a smaller `sd`"));
        return None;
    }
    Some(Distribution::Normal { mean, sd })
}

fn uniform(table: &Table<'_, '_>, report: &mut ReadReport) -> Option<Distribution> {
    let (from, to) = (needed(table, &compute::FROM, report), needed(table, &compute::TO, report));
    let (from, to) = (from?, to?);
    if from > to {
        let place = table.get(&compute::TO, report).map_or(table.header.clone(), toml::Spanned::span);
        let diagnostic = Diagnostic::new(place, format!("`to` ({to}) is below `from` ({from})"));
        report.add(diagnostic.help("write the shorter one as `from`"));
        return None;
    }
    Some(Distribution::Uniform { from, to })
}

fn empirical(table: &Table<'_, '_>, report: &mut ReadReport) -> Option<Empirical> {
    let mark = report.mark();
    let Some(node) = table.get(&compute::VALUES, report) else {
        let message = format!("{} has no `{}`", table.what, compute::VALUES.name);
        report.missing(Diagnostic::new(table.header.clone(), message).help(value::example(&compute::VALUES)));
        return None;
    };
    let values = list(&compute::VALUES, node, value::span, report);
    let weights =
        table.get(&compute::WEIGHTS, report).map(|node| (list(&compute::WEIGHTS, node, value::weight, report), node));
    if report.mark() != mark {
        return None;
    }
    if values.is_empty() {
        let diagnostic = Diagnostic::new(node.span(), "nothing can be drawn from an empty list");
        report.add(diagnostic.help(value::example(&compute::VALUES)));
        return None;
    }
    if let Some((weights, node)) = weights.as_ref().filter(|(weights, _)| weights.len() != values.len()) {
        let message = format!("there are {} values and {} weights", values.len(), weights.len());
        report.add(Diagnostic::new(node.span(), message).help("write a weight for each value, in their order"));
        return None;
    }
    let (weights, node) = weights.map_or((None, node), |(weights, node)| (Some(weights), node));
    let list = Empirical::new(values, weights);
    if list.is_none() {
        let diagnostic = Diagnostic::new(node.span(), "the weights have no finite sum above zero");
        report.add(diagnostic.help("at least one weight must be above zero, and none absurdly large"));
    }
    list
}

fn list<'i, T>(
    key: &Key,
    node: &Node<'i>,
    read: fn(&Key, &Node<'i>) -> Result<T, Box<Diagnostic>>,
    report: &mut ReadReport,
) -> Vec<T> {
    let DeValue::Array(array) = node.get_ref() else {
        report.add(*value::mismatch(key, node));
        return Vec::new();
    };
    array.iter().filter_map(|node| read(key, node).map_err(|diagnostic| report.add(*diagnostic)).ok()).collect()
}
