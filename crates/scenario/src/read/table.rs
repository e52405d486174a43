//! One table of the file: its allowed keys, and their values.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::value::{self, Node};
use crate::diagnostics::{Diagnostic, did_you_mean, quoted};
use crate::keys::{Key, KeyDefault};

/// The problems found while reading a file.
#[derive(Debug)]
pub(crate) struct ReadReport {
    /// The problems, each once.
    pub(super) found: RefCell<Vec<Diagnostic>>,
    /// Whether part of the file was unreadable. Then a key that seems to be missing may be there,
    /// so nothing more is reported as missing.
    pub(super) is_partial: Cell<bool>,
    /// The end of the file's text: the place of missing top-level keys.
    pub(super) end: usize,
    /// The number of reports, counting repeated ones.
    reports: Cell<usize>,
    known: RefCell<HashSet<Diagnostic>>,
}

impl ReadReport {
    pub(super) fn new(end: usize, is_partial: bool) -> ReadReport {
        let (found, reports, known) = (RefCell::default(), Cell::new(0), RefCell::default());
        ReadReport { found, is_partial: Cell::new(is_partial), end, reports, known }
    }

    /// Reports a problem, unless it is known already: the arms of a sweep share most of the file.
    pub(super) fn add(&self, diagnostic: Diagnostic) {
        self.reports.update(|reports| reports + 1);
        if self.known.borrow_mut().insert(diagnostic.clone()) {
            self.found.borrow_mut().push(diagnostic);
        }
    }

    /// Reports a problem, and returns `None` in place of a value.
    pub(super) fn reject<T>(
        &self,
        span: Range<usize>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Option<T> {
        self.add(Diagnostic::new(span, message).help(help));
        None
    }

    /// Reports a missing key.
    pub(super) fn missing(&self, diagnostic: Diagnostic) {
        if self.is_partial.get() {
            self.reports.update(|reports| reports + 1);
        } else {
            self.add(diagnostic);
        }
    }

    /// The value, or `None` after a report of the problem.
    pub(super) fn accept<T>(&self, read: Result<T, Box<Diagnostic>>) -> Option<T> {
        read.map_err(|diagnostic| self.add(*diagnostic)).ok()
    }

    /// A number that changes with every report.
    pub(super) fn mark(&self) -> usize {
        self.reports.get()
    }
}

/// A list of tables with unique names.
pub(super) struct NamedTables {
    /// The key of the list.
    pub(super) key: &'static Key,
    /// The word for one of the tables.
    pub(super) what: &'static str,
    /// The key of their names.
    pub(super) name: &'static Key,
    /// The help for a duplicate name.
    pub(super) twice: &'static str,
}

/// A table being read.
#[derive(Debug)]
pub(crate) struct Table<'t, 'i> {
    /// Its name in messages.
    pub(super) what: String,
    /// The place of its header.
    pub(super) header: Range<usize>,
    pub(super) report: &'t ReadReport,
    entries: &'t DeTable<'i>,
}

impl<'t, 'i> Table<'t, 'i> {
    pub(super) fn new(
        what: impl Into<String>,
        header: Range<usize>,
        entries: &'t DeTable<'i>,
        report: &'t ReadReport,
    ) -> Table<'t, 'i> {
        Table { what: what.into(), header, report, entries }
    }

    /// The table that is the value of a key; reports any other value.
    pub(super) fn table(&self, key: &Key) -> Option<Table<'t, 'i>> {
        let node = self.get(key)?;
        match node.get_ref().as_table() {
            Some(entries) => Some(Table::new(format!("`[{}]`", key.name), node.span(), entries, self.report)),
            None => self.report.accept(Err(value::mismatch(key, node))),
        }
    }

    /// Reports every key that is not in `known`; `elsewhere` may tell where such a key belongs.
    pub(super) fn check_keys(&self, known: &[&[Key]], elsewhere: impl Fn(&str) -> Option<String>) {
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
            self.report.add(Diagnostic::new(written.span(), message).help(help));
        }
    }

    /// The value of a key; reports a missing required one.
    pub(super) fn get(&self, key: &Key) -> Option<&'t Node<'i>> {
        match key.default {
            KeyDefault::Required => self.require(key),
            KeyDefault::Is(_) => self.entries.get(key.name),
        }
    }

    /// The value of a key that is required here; reports a missing one.
    pub(super) fn require(&self, key: &Key) -> Option<&'t Node<'i>> {
        let node = self.entries.get(key.name);
        if node.is_none() {
            self.missing(key, format!("{} has no `{}`", self.what, key.name));
        }
        node
    }

    /// Reports that a key is missing.
    pub(super) fn missing(&self, key: &Key, message: String) {
        self.report.missing(Diagnostic::new(self.header.clone(), message).help(value::example(key)));
    }

    /// The place of a key's value, or of the header if it is not written.
    pub(super) fn place(&self, key: &Key) -> Range<usize> {
        self.entries.get(key.name).map_or(self.header.clone(), Spanned::span)
    }

    /// The value of a key as `reader` reads it; reports an invalid one.
    pub(crate) fn read<T>(
        &self,
        key: &Key,
        reader: impl FnOnce(&Key, &Node<'i>) -> Result<T, Box<Diagnostic>>,
    ) -> Option<T> {
        self.report.accept(reader(key, self.get(key)?))
    }

    /// Reads the parts of a job, as [`Table::named_tables`] does. Returns `None` if there is none,
    /// or if any of them is invalid.
    pub(super) fn parts<T>(
        &self,
        list: &NamedTables,
        one: impl Fn(&Table<'t, 'i>, Option<String>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let NamedTables { key, what, .. } = list;
        let array = self.get(key).and_then(|node| node.get_ref().as_array());
        if array.is_some_and(|array| array.is_empty()) {
            return self.report.reject(
                self.place(key),
                format!("there must be at least one {what}"),
                value::example(key),
            );
        }
        let parts = self.named_tables(list, one)?;
        (Some(parts.len()) == array.map(|array| array.len())).then_some(parts)
    }

    /// Reads the tables of a list, each by `one`, which receives the table's name if that is valid.
    /// Invalid tables are left out. Returns `None` without a list.
    pub(super) fn named_tables<T>(
        &self,
        NamedTables { key, what, name, twice }: &NamedTables,
        one: impl Fn(&Table<'t, 'i>, Option<String>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let node = self.get(key)?;
        let DeValue::Array(array) = node.get_ref() else {
            return self.report.accept(Err(value::mismatch(key, node)));
        };
        let mut names: HashMap<String, Range<usize>> = HashMap::new();
        let mut read = Vec::new();
        for (index, node) in array.iter().enumerate() {
            let Some(entries) = node.get_ref().as_table() else {
                self.report.add(*value::mismatch(key, node));
                continue;
            };
            let called = match entries.get(name.name).and_then(|name| name.get_ref().as_str()) {
                Some(name) => format!("{what} {}", quoted(name)),
                None => format!("{what} number {}", index + 1),
            };
            let table = Table::new(called, node.span(), entries, self.report);
            let own = table.read(name, value::name);
            if let Some(own) = &own {
                let place = table.place(name);
                if let Some(first) = names.get(own) {
                    let diagnostic = Diagnostic::new(place, format!("two {what}s are called `{own}`"));
                    self.report.add(diagnostic.context(first.clone(), "the first of them").help(*twice));
                } else {
                    names.insert(own.clone(), place);
                }
            }
            read.extend(one(&table, own));
        }
        Some(read)
    }
}
