//! Conflicts between a machine and the way in which jobs share its cells.

use std::fmt;

use policy::gang::{Gang, Lowering};
use policy::turn;

use crate::coscheduling::{Coscheduling, Reschedule};
use crate::keys::{Key, coscheduling, machine};
use crate::model::{JobKind, Machine, Setting};

/// The machine cannot do what the `[coscheduling]` table asks for.
#[derive(Clone, Debug)]
pub struct Conflict {
    /// The keys of `[coscheduling]` of which the first that is written is at fault.
    pub(crate) at: &'static [Key],
    /// The key of `[machine]` with which it is in conflict.
    pub(crate) with: Key,
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
        let Some(of) = &self.coscheduling else { return Vec::new() };
        let machine = self.machine.complete(&Machine::with_cpus(1));
        let of_turns = [self.misses_slices(of, &machine), self.only_switches(of, &machine), self.has_long_rounds(of)];
        of_turns.into_iter().chain([cannot_lower(of, &machine)]).flatten().collect()
    }

    fn misses_slices(&self, of: &Coscheduling, machine: &Machine) -> Option<Conflict> {
        // The tick of the machine that rowlock runs on is unknown here.
        let has_known_tick = self.machine.tick.is_some() || !self.machine.like_host;
        let ticks = machine.scheduler.ticks() || of.reschedule == Reschedule::Tick;
        let is_short = takes_turns(of.how) && ticks && has_known_tick && of.slice < machine.tick;
        is_short.then(|| Conflict {
            at: &[coscheduling::SLICE],
            with: machine::TICK,
            message: format!("a slice of {} is shorter than the tick of {}", of.slice, machine.tick),
            help: "cells would miss slices; write a longer `slice`, or a shorter `tick` in `[machine]`",
        })
    }

    fn only_switches(&self, of: &Coscheduling, machine: &Machine) -> Option<Conflict> {
        let jobs: u64 = self.jobs.iter().map(|job| u64::from(job.copies)).sum();
        let switch = machine.context_switch + of.switch_cost + of.switch_cost_per_job.scaled(1000 * jobs);
        (takes_turns(of.how) && of.slice < switch + switch).then(|| Conflict {
            at: &[coscheduling::SLICE],
            with: machine::CONTEXT_SWITCH,
            message: format!("a slice of {} is shorter than two switches of {switch} each", of.slice),
            help: "cells would hardly do anything else; write a longer `slice`, or shorter switches",
        })
    }

    fn has_long_rounds(&self, of: &Coscheduling) -> Option<Conflict> {
        let weight = |kind: &JobKind| if let JobKind::Message(message) = kind { message.weight } else { 1 };
        let jobs = self.jobs.iter().filter(|job| job.copies > 0);
        let weights: Vec<_> = jobs.map(|job| (weight(&job.kind), u64::from(job.copies))).collect();
        let places = turn::round_of_jobs(&weights);
        (of.how.has_table() && places > turn::LONGEST_ROUND).then(|| Conflict {
            at: &[coscheduling::HOW],
            with: machine::CELLS,
            message: format!("a round may have {places} turns, more than {}", turn::LONGEST_ROUND),
            help: "write smaller weights, or weights with a common divisor, or lower `copies`",
        })
    }
}

fn cannot_lower(of: &Coscheduling, machine: &Machine) -> Option<Conflict> {
    let conflict = |message, help| {
        let at = &[coscheduling::LOWER, coscheduling::HOW];
        Some(Conflict { at, with: machine::SCHEDULER, message, help })
    };
    match (of.how, of.lower) {
        (Gang::Moderate | Gang::Original, Lowering::Weight(_)) if !machine.has_group_weights() => conflict(
            format!("`lower = \"{}\"` needs jobs that are groups", of.lower),
            "write `scheduler = \"eevdf\"` and `groups = true` in `[machine]`, or `lower = \"nice 15\"`",
        ),
        (Gang::Moderate | Gang::Original, Lowering::Nice(_)) | (Gang::Dynamic, _)
            if !machine.scheduler.has_priorities() =>
        {
            conflict(
                format!("`how = \"{}\"` needs priorities, and `{}` has none", of.how, machine.scheduler),
                "choose another scheduler in `[machine]`, or `how = \"strict\"`, which stops jobs",
            )
        }
        _ => None,
    }
}

/// Whether jobs are active in turn.
const fn takes_turns(how: Gang) -> bool {
    how.has_table() || matches!(how, Gang::Original)
}
