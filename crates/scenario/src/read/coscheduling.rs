//! Reads how jobs share the cells of the machine.

use policy::gang::Gang;
use policy::layout::Partitioner;
use policy::slices::Movement;
use toml::Spanned;

use super::table::Table;
use super::value;
use crate::conflict::Conflict;
use crate::coscheduling::{Coscheduling, Reschedule};
use crate::diagnostics::Diagnostic;
use crate::keys::{coscheduling, file, machine};
use crate::model::Setting;

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
        most_slices: table.read(&coscheduling::MOST_SLICES, value::count),
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

/// Reports what the machine cannot do.
pub(super) fn check(root: &Table<'_, '_>, of_machine: &Table<'_, '_>, setting: &Setting) {
    let table = root.table(&file::COSCHEDULING);
    for Conflict { at, with, message, help } in setting.conflicts() {
        let at = at.iter().find_map(|key| table.as_ref()?.get(key)).map(Spanned::span);
        let with = with.and_then(|key| of_machine.get(&key)).map(Spanned::span);
        let header = || table.as_ref().unwrap_or(of_machine).header.clone();
        let place = at.or(with.clone()).unwrap_or_else(header);
        let diagnostic = Diagnostic::new(place.clone(), message).help(help);
        root.report.add(match with.filter(|with| *with != place) {
            Some(with) => diagnostic.context(with, "in conflict with this"),
            None => diagnostic,
        });
    }
}
