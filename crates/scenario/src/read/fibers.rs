//! Reads a job of fibers: its groups, its queue, and its costs.

use policy::Span;
use policy::feedback::FeedbackRules;

use super::distribution::distribution;
use super::parts::parts;
use super::table::{ReadReport, Table};
use super::value;
use crate::diagnostics::Diagnostic;
use crate::fibers::{FiberCosts, FiberGroup, Fibers};
use crate::keys::{self, group, job};

pub(super) fn fibers(table: &Table<'_, '_>, report: &mut ReadReport) -> Option<Fibers> {
    let mark = report.mark();
    let node = table.get(&job::GROUPS, report);
    let groups = node.and_then(|node| parts(&job::GROUPS, "group", &group::NAME, TWICE, node, report, one));
    let workers = table.read(&job::WORKERS, report, value::count).unwrap_or(1);
    let defaults = FeedbackRules::default();
    let rules = FeedbackRules {
        levels: table.read(&job::LEVELS, report, value::count).unwrap_or(defaults.levels),
        running_time: table.read(&job::RUNNING_TIME, report, value::span).unwrap_or(defaults.running_time),
        boost: table.read(&job::BOOST, report, value::period).unwrap_or(defaults.boost),
    };
    let locks = table.read(&job::LOCKS, report, value::count).unwrap_or(1);
    let preemptible = table.read(&job::PREEMPTIBLE, report, value::flag).unwrap_or(false);
    let mut cost = |key, default: Span| table.read(key, report, value::span).unwrap_or(default);
    let usual = FiberCosts::default();
    let costs = FiberCosts {
        create: cost(&job::CREATE_COST, usual.create),
        switch: cost(&job::SWITCH_COST, usual.switch),
        lock: cost(&job::LOCK_COST, usual.lock),
    };
    let fibers = Fibers { groups: groups?, workers, rules, locks, preemptible, costs };
    let place = node.map_or(table.header.clone(), toml::Spanned::span);
    if fibers.fibers() > keys::MOST_THREADS {
        let message = format!("{} has more than {} fibers", table.what, keys::MOST_THREADS);
        report.add(Diagnostic::new(place.clone(), message).help("lower the `fibers` of its groups"));
    }
    if fibers.bursts() > keys::MOST_BURSTS {
        let message = format!("the fibers of {} have more than {} bursts together", table.what, keys::MOST_BURSTS);
        report.add(Diagnostic::new(place.clone(), message).help("lower the `fibers` or `bursts` of its groups"));
    }
    if table.get(&job::LOCKS, report).is_some() && fibers.groups.iter().all(|group| group.critical.is_none()) {
        let message = format!("{} has `locks` that no fiber acquires", table.what);
        let help = "a group whose fibers acquire locks has `critical`, the time with the lock";
        report.add(Diagnostic::new(place, message).help(help));
    }
    (report.mark() == mark).then_some(fibers)
}

const TWICE: &str = "give each group its own name, or one of them more `fibers`";

fn one(table: &Table<'_, '_>, name: Option<String>, report: &mut ReadReport) -> Option<FiberGroup> {
    table.check_keys(&[group::ALL], report, |_| None);
    let mark = report.mark();
    let fibers = table.read(&group::FIBERS, report, value::count);
    let bursts = table.read(&group::BURSTS, report, value::count).unwrap_or(1);
    let mut time = |key| table.get(key, report).and_then(|node| distribution(key, node, report));
    let (compute, critical, think) = (time(&group::COMPUTE), time(&group::CRITICAL), time(&group::THINK));
    let checkpoint = table.read(&group::CHECKPOINT, report, value::span);
    let join_every = table.read(&group::JOIN_EVERY, report, value::count);
    let (name, fibers, compute) = (name?, fibers?, compute?);
    let group = FiberGroup { name, fibers, bursts, compute, critical, checkpoint, think, join_every };
    (report.mark() == mark).then_some(group)
}
