//! Reads how jobs share the cells of the machine.

use policy::gang::{Gang, Lowering};
use policy::layout::Partitioner;
use policy::slices::Movement;

use super::table::Table;
use super::value;
use crate::coscheduling::{Coscheduling, Reschedule};
use crate::diagnostics::Diagnostic;
use crate::keys::{Key, coscheduling, file, machine};
use crate::model::{Job, Machine, MachineKeys};

/// Reads the table of a file with this `[machine]`. Without it, jobs share the cells of a machine
/// without turns.
pub(super) fn coscheduling(root: &Table<'_, '_>, of_machine: &Table<'_, '_>) -> Option<Coscheduling> {
    let cells = of_machine.get(&machine::CELLS);
    let Some(table) = root.table(&file::COSCHEDULING) else {
        return cells.map(|_| Coscheduling { how: Gang::None, ..Coscheduling::default() });
    };
    table.check_keys(&[coscheduling::ALL], |_| None);
    if cells.is_none() {
        let diagnostic = Diagnostic::new(table.header.clone(), "the machine has no cells that jobs could share");
        root.report.missing(diagnostic.help(format!("{} in `[machine]`", value::example(&machine::CELLS))));
    }
    let usual = Coscheduling::default();
    let span = |key, default| table.read(key, value::span).unwrap_or(default);
    Some(Coscheduling {
        how: table.read(&coscheduling::HOW, value::named(&Gang::ALL, Gang::name)).unwrap_or(usual.how),
        slice: span(&coscheduling::SLICE, usual.slice),
        partition: table
            .read(&coscheduling::PARTITION, value::named(&Partitioner::ALL, Partitioner::name))
            .unwrap_or(usual.partition),
        movement: table
            .read(&coscheduling::MOVE, value::named(&Movement::ALL, Movement::name))
            .unwrap_or(usual.movement),
        lower: table.read(&coscheduling::LOWER, value::lowering).unwrap_or(usual.lower),
        clock_skew: span(&coscheduling::CLOCK_SKEW, usual.clock_skew),
        reschedule: table
            .read(&coscheduling::RESCHEDULE, value::named(&Reschedule::ALL, Reschedule::name))
            .unwrap_or(usual.reschedule),
        create: span(&coscheduling::CREATE, usual.create),
        start: span(&coscheduling::START, usual.start),
        switch_cost: span(&coscheduling::SWITCH_COST, usual.switch_cost),
        switch_cost_per_job: span(&coscheduling::SWITCH_COST_PER_JOB, usual.switch_cost_per_job),
    })
}

/// Checks that the machine can do what a valid table asks for.
pub(super) fn check(
    root: &Table<'_, '_>,
    of_machine: &Table<'_, '_>,
    of: &Coscheduling,
    keys: &MachineKeys,
    jobs: &[Job],
) {
    let Some(table) = root.table(&file::COSCHEDULING) else { return };
    let machine = keys.complete(&Machine::with_cpus(1));
    let report = |keys: &[&Key], message: String, cause: &Key, label: &str, help: String| {
        let place = keys.iter().find_map(|key| table.get(key)).map_or(table.header.clone(), toml::Spanned::span);
        let diagnostic = Diagnostic::new(place, message).help(help);
        root.report.add(match of_machine.get(cause) {
            Some(node) => diagnostic.context(node.span(), label),
            None => diagnostic,
        });
    };
    if takes_turns(of.how) {
        let at = &[&coscheduling::SLICE];
        // The tick of the machine that rowlock runs on is unknown here.
        let has_known_tick = keys.tick.is_some() || !keys.like_host;
        let ticks = machine.scheduler.ticks() || of.reschedule == Reschedule::Tick;
        if ticks && has_known_tick && of.slice < machine.tick {
            let message = format!("a slice of {} is shorter than the tick of {}", of.slice, machine.tick);
            let help = "cells would miss slices: write a longer `slice`, or a shorter `tick` in `[machine]`";
            report(at, message, &machine::TICK, "the tick", help.to_owned());
        }
        let jobs: u64 = jobs.iter().map(|job| u64::from(job.copies)).sum();
        let switch = machine.context_switch + of.switch_cost + of.switch_cost_per_job.scaled(1000 * jobs);
        if of.slice < switch + switch {
            let message = format!("a slice of {} is shorter than two switches, of {switch} each", of.slice);
            let help = "cells would only switch: write a longer `slice`, or shorter switches".to_owned();
            report(at, message, &machine::CONTEXT_SWITCH, "a part of the switch", help);
        }
    }
    let scheduler = machine.scheduler;
    let at = &[&coscheduling::LOWER, &coscheduling::HOW];
    let lowers = matches!(of.how, Gang::Moderate | Gang::Original);
    if let (true, Lowering::Weight(_)) = (lowers, of.lower) {
        if !machine.has_group_weights() {
            let message = format!("`lower = \"{}\"` needs jobs that are groups", of.lower);
            let help = "write `scheduler = \"eevdf\"` and `groups = true` in `[machine]`, or `lower = \"nice 15\"`";
            report(at, message, &machine::SCHEDULER, "the scheduler", help.to_owned());
        }
    } else if (lowers || of.how == Gang::Dynamic) && !scheduler.has_priorities() {
        let message = format!("`how = \"{}\"` needs priorities, and `{scheduler}` has none", of.how);
        let help = "choose another scheduler in `[machine]`, or `how = \"strict\"`, which stops jobs".to_owned();
        report(at, message, &machine::SCHEDULER, "the scheduler", help);
    }
}

/// Whether jobs are active in turn.
const fn takes_turns(how: Gang) -> bool {
    how.has_table() || matches!(how, Gang::Original)
}
