//! Sweeps: the paths that vary, their values, and the file with one combination of values in it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::setting::job_names;
use super::table::Report;
use super::value::{self, Node};
use crate::diagnostics::{Diagnostic, did_you_mean, quoted};
use crate::keys::{self, Key, compute, experiment, file, job, machine};

/// A path that is swept, and its values.
#[derive(Clone, Debug)]
pub(super) struct Factor<'i> {
    /// As it is written.
    pub(super) path: String,
    /// Where it is written.
    span: Range<usize>,
    place: Place,
    values: Vec<(Node<'i>, toml::Value)>,
}

/// Where in the file a path leads.
#[derive(Clone, Debug)]
struct Place {
    /// The key of the table at the top level.
    section: &'static Key,
    /// Which table of the section, where that is a list.
    index: usize,
    /// The keys from there on.
    keys: Vec<&'static str>,
}

/// Reads the swept paths; reports what is wrong with them. What is wrong is left out.
pub(super) fn factors<'i>(root: &DeTable<'i>, report: &mut Report) -> Vec<Factor<'i>> {
    let Some(node) = sweep(root) else { return Vec::new() };
    let Some(table) = node.get_ref().as_table() else {
        report.add(*value::mismatch(&experiment::SWEEP, node));
        return Vec::new();
    };
    if table.len() > keys::MOST_FACTORS {
        let message = format!("more than {} paths are swept", keys::MOST_FACTORS);
        report.add(Diagnostic::new(node.span(), message).help("sweep fewer"));
        return Vec::new();
    }
    let mut written: Vec<_> = table.iter().collect();
    written.sort_by_key(|(path, _)| path.span().start);
    let jobs = job_names(root);
    let mut factors: Vec<Factor<'i>> = Vec::new();
    for (path, node) in written {
        match factor(path, node, &jobs) {
            Ok(factor) => match factors.iter().find(|other| overlap(&other.path, &factor.path)) {
                Some(other) => {
                    let message = format!("`{}` and `{}` are both swept", other.path, factor.path);
                    let diagnostic = Diagnostic::new(factor.span, message).context(other.span.clone(), "one of them");
                    report.add(diagnostic.help("one is a part of the other: sweep one of them"));
                }
                None => factors.push(factor),
            },
            Err(diagnostic) => report.missing(*diagnostic),
        }
    }
    factors
}

/// The paths that are written in the sweep, right or wrong, in alphabetical order.
pub(super) fn written_paths<'t>(root: &'t DeTable<'_>) -> Vec<&'t str> {
    let table = sweep(root).and_then(|node| node.get_ref().as_table());
    table.into_iter().flat_map(DeTable::keys).map(|path| path.get_ref().as_ref()).collect()
}

fn sweep<'t, 'i>(root: &'t DeTable<'i>) -> Option<&'t Node<'i>> {
    root.get(file::EXPERIMENT.name)?.get_ref().get(experiment::SWEEP.name)
}

/// Whether one of the paths is a part of the other.
fn overlap(a: &str, b: &str) -> bool {
    let within = |whole: &str, part: &str| part.strip_prefix(whole).is_some_and(|rest| rest.starts_with('.'));
    within(a, b) || within(b, a)
}

fn factor<'i>(
    path: &Spanned<Cow<'i, str>>,
    node: &Node<'i>,
    jobs: &[(&str, usize)],
) -> Result<Factor<'i>, Box<Diagnostic>> {
    let written: &str = path.get_ref();
    let wrong = |span, message: String, help: String| Err(Box::new(Diagnostic::new(span, message).help(help)));
    if node.get_ref().is_table() {
        let help = "write the whole path in quotes, as in `\"job.crew.threads\" = [2, 4]`".to_owned();
        return wrong(path.span(), format!("{} is only the beginning of a path", quoted(written)), help);
    }
    let Some(place) = place(written, jobs) else {
        let paths = all_paths(jobs);
        let help = did_you_mean(written, paths.iter().map(String::as_str)).unwrap_or_else(|| {
            "a path is machine.KEY, job.NAME.KEY or experiment.keep_running; a job's name cannot be swept".to_owned()
        });
        return wrong(path.span(), format!("no path {} to sweep", quoted(written)), help);
    };
    let Some(array) = node.get_ref().as_array() else {
        let help = format!("write all of its values, as in `\"{written}\" = [...]`");
        return wrong(node.span(), format!("the values of {} are no list", quoted(written)), help);
    };
    if array.is_empty() {
        let help = "write at least one value, or leave the path out".to_owned();
        return wrong(node.span(), format!("{} is swept over nothing", quoted(written)), help);
    }
    let mut values = Vec::with_capacity(array.len());
    let mut seen: HashMap<String, Range<usize>> = HashMap::new();
    for node in array.iter() {
        let Ok(plain) = toml::Value::deserialize(ValueDeserializer::from(node.clone())) else {
            let help = "whole numbers go up to 9223372036854775807".to_owned();
            return wrong(node.span(), "this number is too large".to_owned(), help);
        };
        if let Some(first) = seen.insert(plain.to_string(), node.span()) {
            let diagnostic = Diagnostic::new(node.span(), "this value is swept twice").context(first, "here already");
            return Err(Box::new(diagnostic.help("leave one of them out: arms are told apart by their values")));
        }
        values.push((node.clone(), plain));
    }
    Ok(Factor { path: written.to_owned(), span: path.span(), place, values })
}

/// Where a path leads, if it can be swept.
fn place(path: &str, jobs: &[(&str, usize)]) -> Option<Place> {
    let segments: Vec<&str> = path.split('.').collect();
    let (section, index, rest) = match segments.as_slice() {
        ["machine", rest @ ..] => (&file::MACHINE, 0, rest),
        ["experiment", rest @ ..] => (&file::EXPERIMENT, 0, rest),
        ["job", name, rest @ ..] => (&file::JOB, jobs.iter().find(|(job, _)| job == name)?.1, rest),
        _ => return None,
    };
    let keys = sweepable(section).into_iter().find(|keys| keys.iter().eq(rest))?;
    Some(Place { section, index, keys })
}

/// What can be swept below a section, each as a list of keys.
fn sweepable(section: &Key) -> Vec<Vec<&'static str>> {
    let lists: Vec<&[Key]> = match section.name {
        "machine" => machine::ALL.to_vec(),
        "job" => vec![job::COMMON, job::BARRIER, job::LOCK, job::CPU, job::COMMAND],
        _ => vec![&[experiment::KEEP_RUNNING]],
    };
    let single = lists.into_iter().flatten().map(|key| key.name);
    let single = single.filter(|&name| name != job::NAME.name).map(|name| vec![name]);
    let within = [job::COMPUTE, job::CRITICAL].into_iter();
    let within = within.flat_map(|lengths| compute::ALL.iter().map(move |key| vec![lengths.name, key.name]));
    single.chain(within.filter(|_| section.name == file::JOB.name)).collect()
}

fn all_paths(jobs: &[(&str, usize)]) -> Vec<String> {
    let below =
        |start: String, section| sweepable(section).into_iter().map(move |keys| format!("{start}.{}", keys.join(".")));
    let of_jobs = jobs.iter().flat_map(|(name, _)| below(format!("job.{name}"), &file::JOB));
    let machine = below("machine".to_owned(), &file::MACHINE);
    machine.chain(below("experiment".to_owned(), &file::EXPERIMENT)).chain(of_jobs).collect()
}

impl<'i> Factor<'i> {
    /// How many values it takes.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// Its value of this number as a plain value; nothing where there are fewer.
    pub(super) fn plain(&self, number: usize) -> Option<&toml::Value> {
        self.values.get(number).map(|(_, plain)| plain)
    }

    /// Writes its value of this number over what the file says. The places of key and value stay those of the sweep.
    ///
    /// Where the file has something else than a table on the way, nothing is written; that is reported where it is the
    /// sweep's fault.
    pub(super) fn substitute(&self, number: usize, root: &mut DeTable<'i>, report: &mut Report) {
        let Some((value, _)) = self.values.get(number) else { return };
        let Some((last, between)) = self.place.keys.split_last() else { return };
        let section = root
            .entry(Spanned::new(self.span.clone(), Cow::Borrowed(self.place.section.name)))
            .or_insert_with(|| self.empty_table());
        let mut node = match section.get_mut() {
            DeValue::Array(tables) => match tables.get_mut(self.place.index) {
                Some(table) => table,
                None => return,
            },
            _ => section,
        };
        for &key in between {
            let DeValue::Table(table) = node.get_mut() else { return };
            node =
                table.entry(Spanned::new(self.span.clone(), Cow::Borrowed(key))).or_insert_with(|| self.empty_table());
        }
        let span = node.span();
        match node.get_mut() {
            DeValue::Table(table) => {
                table.insert(Spanned::new(self.span.clone(), Cow::Borrowed(*last)), value.clone());
            }
            _ if between.is_empty() => {}
            _ => {
                let inner = between.join(".");
                let diagnostic = Diagnostic::new(self.span.clone(), format!("`{}` cannot be swept here", self.path));
                let diagnostic = diagnostic.context(span, format!("`{inner}` is no table"));
                report.add(diagnostic.help(format!("write it as in `{inner} = {}`", job::COMPUTE.example)));
            }
        }
    }

    fn empty_table(&self) -> Node<'i> {
        Spanned::new(self.span.clone(), DeValue::Table(DeTable::new()))
    }
}
