//! Sweeps: the paths that vary, alone or several together, their values, and the file with one
//! combination of values in it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::setting::{NamedJob, named_jobs};
use super::table::ReadReport;
use super::value::{self, Node};
use crate::diagnostics::{Diagnostic, did_you_mean, quoted};
use crate::keys::{self, Key, compute, coscheduling, experiment, file, group, job, machine, stage};

/// A factor: one swept path, or several that vary together, and its values.
#[derive(Clone, Debug)]
pub(super) struct Factor<'i> {
    /// The path as written; for several paths, all of them joined by [`keys::PATH_SEPARATOR`].
    pub(super) path: String,
    /// Its place in the file.
    span: Range<usize>,
    /// Every path, and the steps from the root to its target.
    places: Vec<(String, Vec<Step>)>,
    /// The values, each with its parts: one for each path.
    values: Vec<(Vec<Node<'i>>, toml::Value)>,
}

/// A step towards a value.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// To the value of a key.
    Key(&'static str),
    /// To a table of a list, by its index.
    Number(usize),
}

/// Reads the swept paths. Reports invalid ones and leaves them out.
pub(super) fn factors<'i>(root: &DeTable<'i>, report: &ReadReport) -> Vec<Factor<'i>> {
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
    let jobs = named_jobs(root);
    let mut factors: Vec<Factor<'i>> = Vec::new();
    for (path, node) in written {
        match factor(path, node, &jobs) {
            Ok(factor) => match factors.iter().find_map(|other| other.overlap(&factor)) {
                Some((span, one, other)) => {
                    let message = format!("`{one}` and `{other}` are both swept");
                    let diagnostic = Diagnostic::new(factor.span, message).context(span, "one of them");
                    report.add(diagnostic.help(OVERLAP));
                }
                None => factors.push(factor),
            },
            Err(diagnostic) => report.missing(*diagnostic),
        }
    }
    factors
}

/// All paths written in the sweep, valid or not, in alphabetical order.
pub(super) fn written_paths(root: &DeTable<'_>) -> Vec<String> {
    let table = sweep(root).and_then(|node| node.get_ref().as_table());
    table.into_iter().flat_map(DeTable::keys).map(|path| one_form(path.get_ref())).collect()
}

/// The canonical form of paths that vary together; blanks around the separator are optional.
pub(super) fn one_form(written: &str) -> String {
    written.split(keys::PATH_SEPARATOR.trim()).map(str::trim).collect::<Vec<_>>().join(keys::PATH_SEPARATOR)
}

fn sweep<'t, 'i>(root: &'t DeTable<'i>) -> Option<&'t Node<'i>> {
    root.get(file::EXPERIMENT.name)?.get_ref().get(experiment::SWEEP.name)
}

const OVERLAP: &str = "one is a part of the other, or the same: sweep one of them";

/// Whether one of the paths contains the other, or they are the same.
fn overlap(a: &str, b: &str) -> bool {
    let within =
        |whole: &str, part: &str| part.strip_prefix(whole).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    within(a, b) || within(b, a)
}

fn factor<'i>(
    path: &Spanned<Cow<'i, str>>,
    node: &Node<'i>,
    jobs: &[NamedJob<'_>],
) -> Result<Factor<'i>, Box<Diagnostic>> {
    let written: &str = path.get_ref();
    let wrong = |span, message: String, help: String| Err(Box::new(Diagnostic::new(span, message).help(help)));
    if node.get_ref().is_table() {
        let help = "write the whole path in quotes, as in `\"job.crew.threads\" = [2, 4]`".to_owned();
        return wrong(path.span(), format!("{} is an incomplete path", quoted(written)), help);
    }
    let mut places: Vec<(String, Vec<Step>)> = Vec::new();
    for single in written.split(keys::PATH_SEPARATOR.trim()).map(str::trim) {
        let Some(steps) = steps(single, jobs) else {
            let paths = all_paths(jobs);
            let help = did_you_mean(single, paths.iter().map(String::as_str)).unwrap_or_else(|| {
                "a path is machine.KEY, coscheduling.KEY, job.NAME.KEY, job.NAME.stages.STAGE.KEY, job.NAME.groups.GROUP.KEY or experiment.keep_running; names cannot be swept".to_owned()
            });
            return wrong(path.span(), format!("no path {} to sweep", quoted(single)), help);
        };
        if let Some((other, _)) = places.iter().find(|(other, _)| overlap(other, single)) {
            return wrong(path.span(), format!("`{other}` and `{single}` are both swept"), OVERLAP.to_owned());
        }
        places.push((single.to_owned(), steps));
    }
    let Some(array) = node.get_ref().as_array() else {
        let help = format!("write all of its values, as in `\"{written}\" = [...]`");
        return wrong(node.span(), format!("the values of {} are not a list", quoted(written)), help);
    };
    if array.is_empty() {
        let help = "write at least one value, or leave the path out".to_owned();
        return wrong(node.span(), format!("{} has no values", quoted(written)), help);
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
            return Err(Box::new(diagnostic.help("leave one of them out: arms are distinguished by their values")));
        }
        values.push((parts(node, places.len())?, plain));
    }
    Ok(Factor { path: one_form(written), span: path.span(), places, values })
}

/// The parts of a value for this many paths: for several, it is a list with a part for each.
fn parts<'i>(node: &Node<'i>, paths: usize) -> Result<Vec<Node<'i>>, Box<Diagnostic>> {
    if paths == 1 {
        return Ok(vec![node.clone()]);
    }
    let parts = node.get_ref().as_array();
    let found = match parts.map(|parts| parts.len()) {
        None => "this is not a list".to_owned(),
        Some(1) => "this is one value".to_owned(),
        Some(more) => format!("these are {more} values"),
    };
    parts.filter(|parts| parts.len() == paths).map(|parts| parts.iter().cloned().collect()).ok_or_else(|| {
        let diagnostic = Diagnostic::new(node.span(), format!("{paths} paths vary together here")).label(found);
        Box::new(diagnostic.help("write a list with a value for each path, in their order, as in `[[2, 16], [4, 8]]`"))
    })
}

/// The steps from the root to the target of a path, if it can be swept.
fn steps(path: &str, jobs: &[NamedJob<'_>]) -> Option<Vec<Step>> {
    let segments: Vec<&str> = path.split('.').collect();
    let (section, start, rest) = match segments.as_slice() {
        ["machine", rest @ ..] => (&file::MACHINE, vec![Step::Key("machine")], rest),
        ["coscheduling", rest @ ..] => (&file::COSCHEDULING, vec![Step::Key("coscheduling")], rest),
        ["experiment", rest @ ..] => (&file::EXPERIMENT, vec![Step::Key("experiment")], rest),
        ["job", name, rest @ ..] => {
            let job = jobs.iter().find(|job| job.name == *name)?;
            let to_job = [Step::Key("job"), Step::Number(job.index)];
            match rest {
                [list, part, rest @ ..] if [job::STAGES.name, job::GROUPS.name].contains(list) => {
                    let (list, _, number) = *job.parts.iter().find(|(of, name, _)| of.name == *list && name == part)?;
                    (list, [&to_job[..], &[Step::Key(list.name), Step::Number(number)]].concat(), rest)
                }
                rest => (&file::JOB, to_job.to_vec(), rest),
            }
        }
        _ => return None,
    };
    let keys = sweepable(section).into_iter().find(|keys| keys.iter().eq(rest))?;
    Some(start.into_iter().chain(keys.into_iter().map(Step::Key)).collect())
}

/// The sweepable keys below a section or in a part of a job, each as a list of keys.
fn sweepable(section: &Key) -> Vec<Vec<&'static str>> {
    let (lists, times): (Vec<&[Key]>, &[Key]) = match section.name {
        "machine" => (machine::ALL.to_vec(), &[]),
        "coscheduling" => (vec![coscheduling::ALL], &[]),
        "job" => {
            let kinds = job::OF_KINDS.iter().map(|(_, keys)| *keys);
            (
                std::iter::once(job::COMMON).chain(kinds).collect(),
                &[job::COMPUTE, job::CRITICAL, job::WORK, job::EVERY, job::SLEEP],
            )
        }
        "stages" => (vec![stage::ALL], &[stage::COMPUTE, stage::DEVICE]),
        "groups" => (vec![group::ALL], &[group::COMPUTE, group::CRITICAL, group::THINK]),
        _ => (vec![&[experiment::KEEP_RUNNING]], &[]),
    };
    let single = lists.into_iter().flatten().map(|key| key.name);
    let single = single.filter(|&name| name != job::NAME.name).map(|name| vec![name]);
    let within = times.iter().flat_map(|time| compute::ALL.iter().map(move |key| vec![time.name, key.name]));
    single.chain(within).collect()
}

fn all_paths(jobs: &[NamedJob<'_>]) -> Vec<String> {
    let below =
        |start: String, section| sweepable(section).into_iter().map(move |keys| format!("{start}.{}", keys.join(".")));
    let of_jobs = jobs.iter().flat_map(|job| below(format!("job.{}", job.name), &file::JOB));
    let of_parts = jobs.iter().flat_map(|job| {
        let of_part = |(list, part, _): &(&'static Key, &str, usize)| {
            below(format!("job.{}.{}.{part}", job.name, list.name), list)
        };
        job.parts.iter().flat_map(of_part).collect::<Vec<_>>()
    });
    let machine = below("machine".to_owned(), &file::MACHINE);
    let machine = machine.chain(below("coscheduling".to_owned(), &file::COSCHEDULING));
    machine.chain(below("experiment".to_owned(), &file::EXPERIMENT)).chain(of_jobs).chain(of_parts).collect()
}

impl<'i> Factor<'i> {
    /// The number of values.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// Its value of this number as a plain value; `None` if there are fewer.
    pub(super) fn plain(&self, number: usize) -> Option<&toml::Value> {
        self.values.get(number).map(|(_, plain)| plain)
    }

    /// The place of this factor, and two overlapping paths, one of each factor; `None` if there are
    /// none.
    fn overlap<'t>(&'t self, other: &'t Factor<'i>) -> Option<(Range<usize>, &'t str, &'t str)> {
        let mut pairs = self.places.iter().flat_map(|one| other.places.iter().map(move |other| (&one.0, &other.0)));
        let (one, other) = pairs.find(|(one, other)| overlap(one, other))?;
        Some((self.span.clone(), one, other))
    }

    /// Writes its value of this number over the file's. Key and value keep their places in the
    /// sweep.
    ///
    /// If the file has something other than a table on the way, nothing is written; that is
    /// reported if the sweep is to blame.
    pub(super) fn substitute(&self, number: usize, root: &mut DeTable<'i>, report: &ReadReport) {
        let Some((parts, _)) = self.values.get(number) else { return };
        for ((path, steps), part) in self.places.iter().zip(parts) {
            self.write(path, steps, part, root, report);
        }
    }

    fn write(&self, path: &str, steps: &[Step], value: &Node<'i>, root: &mut DeTable<'i>, report: &ReadReport) {
        let [Step::Key(section), between @ .., Step::Key(last)] = steps else { return };
        let place = |key: &'static str| Spanned::new(self.span.clone(), Cow::Borrowed(key));
        let empty_table = || Spanned::new(self.span.clone(), DeValue::Table(DeTable::new()));
        let mut node = root.entry(place(section)).or_insert_with(empty_table);
        for &step in between {
            let next = match (step, node.get_mut()) {
                (Step::Key(key), DeValue::Table(table)) => Some(table.entry(place(key)).or_insert_with(empty_table)),
                (Step::Number(number), DeValue::Array(tables)) => tables.get_mut(number),
                _ => None,
            };
            let Some(next) = next else { return };
            node = next;
        }
        let span = node.span();
        if let DeValue::Table(table) = node.get_mut() {
            table.insert(place(last), value.clone());
        } else if let Some(Step::Key(inner)) = between.last() {
            let diagnostic = Diagnostic::new(self.span.clone(), format!("`{path}` cannot be swept here"));
            let diagnostic = diagnostic.context(span, format!("`{inner}` is not a table"));
            report.add(diagnostic.help(format!("write it as in `{inner} = {}`", job::COMPUTE.example)));
        }
    }
}
