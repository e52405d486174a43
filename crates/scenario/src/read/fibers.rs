//! Reads a job of fibers: its groups, its queue, and its costs.

use policy::Span;
use policy::feedback::FeedbackRules;

use super::table::{NamedTables, Table};
use super::value;
use crate::fibers::{FiberCosts, FiberGroup, Fibers};
use crate::keys::{self, group, job};

pub(super) fn fibers(table: &Table<'_, '_>) -> Option<Fibers> {
    let report = table.report;
    let mark = report.mark();
    let groups = table.parts(&GROUPS, group);
    let workers = table.read(&job::WORKERS, value::count).unwrap_or(1);
    let defaults = FeedbackRules::default();
    let rules = FeedbackRules {
        levels: table.read(&job::LEVELS, value::count).unwrap_or(defaults.levels),
        running_time: table.read(&job::RUNNING_TIME, value::span).unwrap_or(defaults.running_time),
        boost: table.read(&job::BOOST, value::period).unwrap_or(defaults.boost),
    };
    let locks = table.read(&job::LOCKS, value::count).unwrap_or(1);
    let preemptible = table.read(&job::PREEMPTIBLE, value::flag).unwrap_or(false);
    let cost = |key, default: Span| table.read(key, value::span).unwrap_or(default);
    let usual = FiberCosts::default();
    let costs = FiberCosts {
        create: cost(&job::CREATE_COST, usual.create),
        switch: cost(&job::SWITCH_COST, usual.switch),
        lock: cost(&job::LOCK_COST, usual.lock),
    };
    let fibers = Fibers { groups: groups?, workers, rules, locks, preemptible, costs };
    let reject = |message: String, help: &str| report.reject::<()>(table.place(&job::GROUPS), message, help);
    if fibers.fibers() > keys::MOST_THREADS {
        let message = format!("{} has more than {} fibers", table.what, keys::MOST_THREADS);
        reject(message, "lower the `fibers` of its groups");
    }
    if fibers.bursts() > keys::MOST_BURSTS {
        let message = format!("the fibers of {} have more than {} bursts together", table.what, keys::MOST_BURSTS);
        reject(message, "lower the `fibers` or `bursts` of its groups");
    }
    if table.get(&job::LOCKS).is_some() && fibers.groups.iter().all(|group| group.critical.is_none()) {
        let help = "a group whose fibers acquire locks has `critical`, the time with the lock";
        reject(format!("{} has `locks` that no fiber acquires", table.what), help);
    }
    (report.mark() == mark).then_some(fibers)
}

pub(super) const GROUPS: NamedTables = NamedTables {
    key: &job::GROUPS,
    what: "group",
    name: &group::NAME,
    twice: "give each group its own name, or one of them more `fibers`",
};

fn group(table: &Table<'_, '_>, name: Option<String>) -> Option<FiberGroup> {
    table.check_keys(&[group::ALL], |_| None);
    let mark = table.report.mark();
    let fibers = table.read(&group::FIBERS, value::count);
    let bursts = table.read(&group::BURSTS, value::count).unwrap_or(1);
    let compute = table.distribution(&group::COMPUTE);
    let (critical, think) = (table.distribution(&group::CRITICAL), table.distribution(&group::THINK));
    let checkpoint = table.read(&group::CHECKPOINT, value::span);
    let join_every = table.read(&group::JOIN_EVERY, value::count);
    let (name, fibers, compute) = (name?, fibers?, compute?);
    let group = FiberGroup { name, fibers, bursts, compute, critical, checkpoint, think, join_every };
    (table.report.mark() == mark).then_some(group)
}
