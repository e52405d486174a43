//! One table of the file: its allowed keys, and their values.

use std::collections::HashSet;
use std::ops::Range;

use toml::de::DeTable;

use super::value::{self, Node};
use crate::diagnostics::{Diagnostic, did_you_mean, quoted};
use crate::keys::{Key, KeyDefault};

/// The problems found while reading a file.
#[derive(Debug)]
pub(super) struct ReadReport {
    /// The problems, each once.
    pub(super) found: Vec<Diagnostic>,
    /// Whether part of the file was unreadable. Then a key that seems to be missing may be there,
    /// so nothing more is reported as missing.
    pub(super) partial: bool,
    /// The end of the file's text: the place of missing top-level keys.
    pub(super) end: usize,
    /// The number of reports, counting repeated ones.
    reports: usize,
    known: HashSet<Diagnostic>,
}

impl ReadReport {
    pub(super) fn new(end: usize) -> ReadReport {
        ReadReport { found: Vec::new(), partial: false, end, reports: 0, known: HashSet::new() }
    }

    /// Reports a problem, unless it is known already: the arms of a sweep share most of the file.
    pub(super) fn add(&mut self, diagnostic: Diagnostic) {
        self.reports += 1;
        if self.known.insert(diagnostic.clone()) {
            self.found.push(diagnostic);
        }
    }

    /// Reports a missing key.
    pub(super) fn missing(&mut self, diagnostic: Diagnostic) {
        if self.partial {
            self.reports += 1;
        } else {
            self.add(diagnostic);
        }
    }

    /// A number that changes with every report.
    pub(super) fn mark(&self) -> usize {
        self.reports
    }
}

/// A table being read.
#[derive(Debug)]
pub(super) struct Table<'t, 'i> {
    /// Its name in messages.
    pub(super) what: String,
    /// The place of its header.
    pub(super) header: Range<usize>,
    entries: &'t DeTable<'i>,
}

impl<'t, 'i> Table<'t, 'i> {
    pub(super) fn new(what: impl Into<String>, header: Range<usize>, entries: &'t DeTable<'i>) -> Table<'t, 'i> {
        Table { what: what.into(), header, entries }
    }

    /// The table that is the value of a key; reports any other value.
    pub(super) fn of(
        what: impl Into<String>,
        key: &Key,
        node: &'t Node<'i>,
        report: &mut ReadReport,
    ) -> Option<Table<'t, 'i>> {
        match node.get_ref().as_table() {
            Some(entries) => Some(Table::new(what, node.span(), entries)),
            None => {
                report.add(*value::mismatch(key, node));
                None
            }
        }
    }

    /// Reports every key that is not in `known`; `elsewhere` may tell where such a key belongs.
    pub(super) fn check_keys(
        &self,
        known: &[&[Key]],
        report: &mut ReadReport,
        elsewhere: impl Fn(&str) -> Option<String>,
    ) {
        let names: Vec<&str> = known.iter().flat_map(|keys| keys.iter()).map(|key| key.name).collect();
        for (written, _) in self.entries {
            let name: &str = written.get_ref();
            if names.contains(&name) {
                continue;
            }
            let help = elsewhere(name)
                .or_else(|| did_you_mean(name, names.iter().copied()))
                .unwrap_or_else(|| format!("the keys here are {}", value::listed(&names, "and")));
            let message = format!("unknown key {} in {}", quoted(name), self.what);
            report.add(Diagnostic::new(written.span(), message).help(help));
        }
    }

    /// The value of a key; reports a missing required one.
    pub(super) fn get(&self, key: &Key, report: &mut ReadReport) -> Option<&'t Node<'i>> {
        let node = self.entries.get(key.name);
        if node.is_none() && key.default == KeyDefault::Required {
            let diagnostic = Diagnostic::new(self.header.clone(), format!("{} has no `{}`", self.what, key.name));
            report.missing(diagnostic.help(value::example(key)));
        }
        node
    }

    /// The value of a key as `reader` reads it; reports an invalid one.
    pub(super) fn read<T>(
        &self,
        key: &Key,
        report: &mut ReadReport,
        reader: impl FnOnce(&Key, &Node<'i>) -> Result<T, Box<Diagnostic>>,
    ) -> Option<T> {
        reader(key, self.get(key, report)?).map_err(|diagnostic| report.add(*diagnostic)).ok()
    }

    /// The value of a key that names one of `all`.
    pub(super) fn read_named<T: Copy>(
        &self,
        key: &Key,
        report: &mut ReadReport,
        all: &[T],
        name: fn(T) -> &'static str,
    ) -> Option<T> {
        let written = self.read(key, report, value::one_of)?;
        all.iter().copied().find(|value| name(*value) == written)
    }
}
