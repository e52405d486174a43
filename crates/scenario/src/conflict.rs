//! Conflicts between a machine and the way in which jobs share its cells.

use std::fmt;

use policy::gang::{Gang, Lowering};
use policy::slices::Movement;
use policy::{Span, turn};

use crate::coscheduling::{Coscheduling, Reschedule};
use crate::keys::{Key, coscheduling, machine};
use crate::model::{JobKind, Machine, Setting};
use crate::named::Scheduler;

/// The machine cannot do what the `[coscheduling]` table asks for.
#[derive(Clone, Debug)]
pub struct Conflict {
    /// The keys of `[coscheduling]` of which the first that is written is at fault.
    pub(crate) at: &'static [Key],
    /// The key of `[machine]` with which it is in conflict, if any.
    pub(crate) with: Option<Key>,
    pub(crate) message: String,
    pub(crate) help: &'static str,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.message, self.help)
    }
}

impl Setting {
    /// The conflicts of a setting whose other values are valid. A setting that was read has none.
    pub fn conflicts(&self) -> Vec<Conflict> {
        let machine = self.machine.complete(&Machine::with_cpus(1));
        // The tick of the machine that rowlock runs on is unknown here.
        let has_known_tick = self.machine.tick.is_some() || !self.machine.like_host;
        let tick = if has_known_tick { machine.tick } else { Span::ZERO };
        self.conflicts_on(&Machine { tick, ..machine })
    }

    /// The conflicts on a machine that replaces that of the setting.
    pub fn conflicts_on(&self, machine: &Machine) -> Vec<Conflict> {
        let Some(of) = &self.coscheduling else { return Vec::new() };
        let conflicts = [
            check_ticks(of, machine),
            self.check_switches(of, machine),
            self.check_round(of),
            self.check_end(of),
            check_looks(of, machine),
            check_lowering(of, machine),
            self.check_nice_values(of),
            self.check_places(of, machine),
        ];
        conflicts.into_iter().flatten().collect()
    }

    fn check_switches(&self, of: &Coscheduling, machine: &Machine) -> Option<Conflict> {
        let jobs: u64 = self.jobs.iter().map(|job| u64::from(job.copies)).sum();
        let switch =
            machine.context_switch + machine.wakeup_cost + of.switch_cost + of.switch_cost_per_job.scaled(1000 * jobs);
        (of.how.has_turns() && of.slice < switch + switch).then(|| Conflict {
            at: &[coscheduling::SLICE],
            with: Some(machine::CONTEXT_SWITCH),
            message: format!("a slice of {} is shorter than two switches of {switch} each", of.slice),
            help: "cells would hardly do anything else; write a longer `slice`, or shorter switches",
        })
    }

    fn check_round(&self, of: &Coscheduling) -> Option<Conflict> {
        let weight = |kind: &JobKind| if let JobKind::Message(message) = kind { message.weight } else { 1 };
        let jobs = self.jobs.iter().filter(|job| job.copies > 0);
        let weights: Vec<_> = jobs.map(|job| (weight(&job.kind), u64::from(job.copies))).collect();
        let places = turn::round_of_jobs(&weights);
        (of.how.has_table() && places > turn::LONGEST_ROUND).then(|| Conflict {
            at: &[coscheduling::HOW],
            with: None,
            message: format!("a round may have {places} turns, more than {}", turn::LONGEST_ROUND),
            help: "write smaller weights, or weights with a common divisor, or lower `copies`",
        })
    }

    fn check_end(&self, of: &Coscheduling) -> Option<Conflict> {
        let jobs: u64 = self.jobs.iter().map(|job| u64::from(job.copies)).sum();
        (of.how == Gang::CellOs && self.keep_running && jobs > 1).then(|| Conflict {
            at: &[coscheduling::HOW],
            with: None,
            message: "`how = \"cellos\"` starts a job when the one before has ended, and with `keep_running` none ends"
                .to_owned(),
            help: "leave `keep_running` out of `[experiment]`, or choose another `how`",
        })
    }

    /// Lowering, or raising, would change nothing.
    fn check_nice_values(&self, of: &Coscheduling) -> Option<Conflict> {
        let Lowering::Nice(_) = of.lower else { return None };
        let (end, change) = match of.how {
            Gang::Moderate | Gang::Original => (19, "lowered"),
            Gang::Dynamic => (-20, "raised"),
            _ => return None,
        };
        // Only messages raise a thread.
        let changes = |kind: &JobKind| of.how != Gang::Dynamic || matches!(kind, JobKind::Message(_));
        let mut jobs = self.jobs.iter().filter(|job| job.copies > 0 && changes(&job.kind));
        let job = jobs.find(|job| job.attributes.nice == end)?;
        Some(Conflict {
            at: &[coscheduling::HOW],
            with: None,
            message: format!("job `{}` has `nice = {end}`, and cannot be {change} further", job.name),
            help: "give the job another `nice`, or choose another `how`",
        })
    }

    fn check_places(&self, of: &Coscheduling, machine: &Machine) -> Option<Conflict> {
        let cells = machine.cells?.cells();
        let places = self.jobs.iter().map(|job| {
            let threads = job.kind.threads(machine.cpus);
            let on_a_cell = of.places_on_a_cell(threads, threads.clamp(1, cells), machine.cpus);
            u64::from(job.copies) * u64::from(on_a_cell) * u64::from(cells)
        });
        let places = places.fold(0, u64::saturating_add);
        (places > MOST_PLACES).then(|| Conflict {
            at: &[],
            with: Some(machine::CELLS),
            message: format!(
                "the simulated kernels of {cells} cells would need {places} places for threads, more than {MOST_PLACES}"
            ),
            help: "write fewer cells, or lower `copies`: each kernel has a place for every thread that may run there",
        })
    }
}

/// The most places for threads in all kernels of a machine: some 1 GB.
const MOST_PLACES: u64 = 10_000_000;

fn check_ticks(of: &Coscheduling, machine: &Machine) -> Option<Conflict> {
    let ticks = machine.scheduler.ticks() || of.reschedule == Reschedule::Tick;
    (of.how.has_turns() && ticks && of.slice < machine.tick).then(|| Conflict {
        at: &[coscheduling::SLICE],
        with: Some(machine::TICK),
        message: format!("a slice of {} is shorter than the tick of {}", of.slice, machine.tick),
        help: "cells would miss slices; write a longer `slice`, or a shorter `tick` in `[machine]`",
    })
}

fn check_looks(of: &Coscheduling, machine: &Machine) -> Option<Conflict> {
    if of.how.has_turns() && of.reschedule == Reschedule::Choice && of.movement == Movement::WithinNode {
        return Some(Conflict {
            at: &[coscheduling::RESCHEDULE],
            with: None,
            message: "`move = \"within-node\"`: all cells look together, and no choice of a thread is common to them"
                .to_owned(),
            help: "write `reschedule = \"boundary\"` or `reschedule = \"tick\"`",
        });
    }
    let stops = matches!(of.how, Gang::Strict | Gang::Adaptive);
    let chooses_again = matches!(machine.scheduler, Scheduler::Rr | Scheduler::Linux24 | Scheduler::Feedback);
    (stops && of.reschedule == Reschedule::Choice && !chooses_again).then(|| Conflict {
        at: &[coscheduling::RESCHEDULE],
        with: Some(machine::SCHEDULER),
        message: format!(
            "`how = \"{}\"` leaves the active job alone, and `{}` makes no choice for a thread that is alone",
            of.how, machine.scheduler
        ),
        help: "write `reschedule = \"boundary\"` or `reschedule = \"tick\"`, or a `how` that lowers jobs",
    })
}

fn check_lowering(of: &Coscheduling, machine: &Machine) -> Option<Conflict> {
    let conflict = |message, help| {
        let at = &[coscheduling::LOWER, coscheduling::HOW];
        Some(Conflict { at, with: Some(machine::SCHEDULER), message, help })
    };
    match of.lower {
        _ if !of.how.changes_priorities() => None,
        Lowering::Weight(_) if of.how == Gang::Dynamic => Some(Conflict {
            at: &[coscheduling::LOWER],
            with: None,
            message: format!("`lower = \"{}\"`: `how = \"dynamic\"` raises threads, not the groups of jobs", of.lower),
            help: "write `lower = \"nice 15\"`",
        }),
        Lowering::Weight(_) if !machine.has_group_weights() => conflict(
            format!("`lower = \"{}\"` needs jobs that are groups", of.lower),
            "write `scheduler = \"eevdf\"` and `groups = true` in `[machine]`, or `lower = \"nice 15\"`",
        ),
        Lowering::Nice(_) if machine.has_group_weights() => conflict(
            format!("`lower = \"{}\"` changes nothing between jobs that are groups", of.lower),
            "write `groups = false` in `[machine]`, or, except for `dynamic`, `lower = \"weight 2\"`",
        ),
        Lowering::Nice(_) if !machine.scheduler.has_priorities() => conflict(
            format!("`how = \"{}\"` needs priorities, and `{}` has none", of.how, machine.scheduler),
            "choose another scheduler in `[machine]`, or `how = \"strict\"`, which stops jobs",
        ),
        _ => None,
    }
}
