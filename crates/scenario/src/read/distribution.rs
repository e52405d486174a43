//! Reads a span, or a table of a distribution.

use policy::Span;
use toml::de::DeValue;

use super::table::{ReadReport, Table};
use super::value::{self, Node};
use crate::diagnostics::Diagnostic;
use crate::distribution::{Distribution, Empirical};
use crate::keys::{Key, compute};

impl Table<'_, '_> {
    /// The distribution that is the value of a key; reports an invalid one.
    pub(super) fn distribution(&self, key: &Key) -> Option<Distribution> {
        let node = self.get(key)?;
        let Some(entries) = node.get_ref().as_table() else {
            return self.report.accept(value::span(key, node)).map(Distribution::exactly);
        };
        distribution(&Table::new(format!("`{}`", key.name), node.span(), entries, self.report))
    }
}

fn distribution(table: &Table<'_, '_>) -> Option<Distribution> {
    let name = match table.get(&compute::DISTRIBUTION) {
        None => Distribution::NAMES[0],
        Some(_) => table.read(&compute::DISTRIBUTION, value::one_of)?,
    };
    let own = compute::OF_DISTRIBUTIONS.iter().find(|(of, _)| *of == name).map_or(&[][..], |(_, keys)| keys);
    table.check_keys(&[&[compute::DISTRIBUTION], own], |written| {
        let owners = compute::OF_DISTRIBUTIONS.iter().filter(|(_, keys)| keys.iter().any(|key| key.name == written));
        let owners: Vec<&str> = owners.map(|(name, _)| *name).collect();
        let belongs = format!("it belongs to the distributions {}; this one is {name}", value::listed(&owners, "and"));
        (!owners.is_empty()).then_some(belongs)
    });
    match name {
        "uniform" => uniform(table),
        "empirical" => empirical(table).map(Distribution::Empirical),
        "exponential" => Some(Distribution::Exponential { mean: needed(table, &compute::MEAN)? }),
        name => by_deviation(table, name == "log-normal"),
    }
}

/// Reads a span that this distribution requires.
fn needed(table: &Table<'_, '_>, key: &Key) -> Option<Span> {
    table.report.accept(value::span(key, table.require(key)?))
}

fn by_deviation(table: &Table<'_, '_>, is_log_normal: bool) -> Option<Distribution> {
    let mean = needed(table, &compute::MEAN);
    let sd = match table.get(&compute::SD) {
        Some(_) => table.read(&compute::SD, value::span)?,
        None => Span::ZERO,
    };
    let mean = mean?;
    if is_log_normal && mean.is_zero() {
        let message = "the mean of a log-normal distribution must be above zero";
        return table.report.reject(table.place(&compute::MEAN), message, value::example(&compute::MEAN));
    }
    if is_log_normal {
        return Some(Distribution::LogNormal { mean, sd });
    }
    if sd > mean {
        let diagnostic = Diagnostic::new(table.place(&compute::SD), format!("`sd` ({sd}) is above `mean` ({mean})"));
        table.report.add(diagnostic.label("more than one draw in six would be negative").help("write a smaller `sd`"));
        return None;
    }
    Some(Distribution::Normal { mean, sd })
}

fn uniform(table: &Table<'_, '_>) -> Option<Distribution> {
    let (from, to) = (needed(table, &compute::FROM), needed(table, &compute::TO));
    let (from, to) = (from?, to?);
    if from > to {
        let message = format!("`to` ({to}) is below `from` ({from})");
        return table.report.reject(table.place(&compute::TO), message, "write the shorter one as `from`");
    }
    Some(Distribution::Uniform { from, to })
}

fn empirical(table: &Table<'_, '_>) -> Option<Empirical> {
    let report = table.report;
    let mark = report.mark();
    let node = table.require(&compute::VALUES)?;
    let values = list(&compute::VALUES, node, value::span, report);
    let weights = table.get(&compute::WEIGHTS).map(|node| list(&compute::WEIGHTS, node, value::weight, report));
    if report.mark() != mark {
        return None;
    }
    if values.is_empty() {
        let message = "nothing can be drawn from an empty list";
        return report.reject(node.span(), message, value::example(&compute::VALUES));
    }
    let place = if weights.is_some() { table.place(&compute::WEIGHTS) } else { node.span() };
    if let Some(weights) = weights.as_ref().filter(|weights| weights.len() != values.len()) {
        let message = format!("there are {} values and {} weights", values.len(), weights.len());
        return report.reject(place, message, "write a weight for each value, in their order");
    }
    Empirical::new(values, weights).or_else(|| {
        let help = "at least one weight must be above zero, and none absurdly large";
        report.reject(place, "the weights have no finite sum above zero", help)
    })
}

fn list<'i, T>(
    key: &Key,
    node: &Node<'i>,
    read: fn(&Key, &Node<'i>) -> Result<T, Box<Diagnostic>>,
    report: &ReadReport,
) -> Vec<T> {
    let DeValue::Array(array) = node.get_ref() else {
        report.add(*value::mismatch(key, node));
        return Vec::new();
    };
    array.iter().filter_map(|node| report.accept(read(key, node))).collect()
}
