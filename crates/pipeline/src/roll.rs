//! The roll of a run's threads: how each is scheduled, and what became of each wish for that.

use std::time::Duration;

use policy::Span;
use policy::priority::{
    MachineObservation, PriorityController, PriorityRule, StageKind, StageObservation, StagePriority,
};
use sys::scheduling::{Thread, nice, run_delay};
use wait::Mutex;

use crate::favour::Favoured;
use crate::registry::Registry;
use crate::scheduling::{EffectiveAttribute, Scheduling, add_if_new};

/// The threads of a run that are alive, and what all were granted.
#[derive(Debug, Default)]
pub(crate) struct Roll {
    threads: Mutex<Vec<Enrolled>>,
    granted: Mutex<Vec<Granted>>,
}

#[derive(Debug)]
struct Enrolled {
    thread: Thread,
    /// Its nice value when no rule favours it.
    base: i32,
    /// Where it works; a worker, which goes everywhere, says nothing.
    stations: Vec<usize>,
    /// What the controller made of it.
    favour: StagePriority,
    /// How long it had waited for CPUs when somebody last asked.
    waited: Duration,
}

/// What the threads of these stations were granted.
#[derive(Debug)]
struct Granted {
    stations: Vec<usize>,
    effective_attributes: Vec<EffectiveAttribute>,
}

impl Roll {
    /// Runs the work of the calling thread, scheduled as wished and favoured as the rule says from the beginning on.
    pub(crate) fn enrolled(
        &self,
        stations: &[(usize, StageKind)],
        scheduling: &Scheduling,
        rule: PriorityRule,
        work: impl FnOnce(&mut Favoured<'_>),
    ) {
        let places: Vec<usize> = stations.iter().map(|&(at, _)| at).collect();
        scheduling.apply_to_this_thread().into_iter().for_each(|attribute| self.note(&places, attribute));
        let thread = Thread::current();
        let base = nice(thread).unwrap_or(0);
        // A worker is as favoured as computing is.
        let asked = if stations.is_empty() { &[(usize::MAX, StageKind::Compute)] } else { stations };
        let mut favoured = Favoured::begin(
            rule,
            asked,
            Box::new(|favour| self.note(&places, Scheduling::adjust_nice(thread, base, favour))),
        );
        let stations = places.clone();
        let waited = Duration::ZERO;
        self.threads.lock().push(Enrolled { thread, base, stations, favour: StagePriority::Neutral, waited });
        work(&mut favoured);
        // Before the kernel can give its number to another thread.
        self.threads.lock().retain(|enrolled| enrolled.thread != thread);
    }

    /// Adds to what stages did since the last time how long their threads waited for CPUs. That of a thread that runs several is divided by how long each
    /// was busy.
    pub(crate) fn add_waits(&self, registry: &Registry, observed: &mut [StageObservation]) {
        for enrolled in self.threads.lock().iter_mut() {
            let Some(waited) = run_delay(enrolled.thread) else { continue };
            let since = waited.saturating_sub(std::mem::replace(&mut enrolled.waited, waited)).as_nanos();
            let mine: Vec<usize> =
                (0..observed.len()).filter(|&stage| registry.is_run_at(stage, &enrolled.stations)).collect();
            let busy: u128 = mine.iter().map(|&stage| u128::from(observed[stage].busy.as_nanos())).sum();
            for &stage in &mine {
                let part = match busy {
                    0 => since / mine.len() as u128,
                    _ => since * u128::from(observed[stage].busy.as_nanos()) / busy,
                };
                observed[stage].waiting_for_cpu += Span::from_nanos(part.try_into().unwrap_or(u64::MAX));
            }
        }
    }

    /// Asks who is favoured from now on, and has it so.
    pub(crate) fn oversee(
        &self,
        controller: &mut PriorityController,
        registry: &Registry,
        observed: &[StageObservation],
        machine: &MachineObservation,
    ) {
        let favours = controller.decide(observed, machine);
        let mut notes = Vec::new();
        for enrolled in self.threads.lock().iter_mut() {
            let is_its = |stage: usize| registry.is_run_at(stage, &enrolled.stations);
            let mine = favours.iter().enumerate().filter(|&(stage, _)| is_its(stage)).map(|(_, &favour)| favour);
            let favour = mine.max().unwrap_or_default();
            if favour != enrolled.favour {
                enrolled.favour = favour;
                notes
                    .push((enrolled.stations.clone(), Scheduling::adjust_nice(enrolled.thread, enrolled.base, favour)));
            }
        }
        notes.into_iter().for_each(|(stations, attribute)| self.note(&stations, attribute));
    }

    /// What was granted to the threads of a station; of a worker's if it is carried.
    pub(crate) fn effective(&self, is_its: impl Fn(&[usize]) -> bool) -> Vec<EffectiveAttribute> {
        let mut all = Vec::new();
        for granted in self.granted.lock().iter().filter(|granted| is_its(&granted.stations)) {
            granted.effective_attributes.iter().for_each(|attribute| add_if_new(&mut all, attribute.clone()));
        }
        all
    }

    fn note(&self, stations: &[usize], attribute: EffectiveAttribute) {
        let mut granted = self.granted.lock();
        match granted.iter_mut().find(|granted| granted.stations == stations) {
            Some(granted) => add_if_new(&mut granted.effective_attributes, attribute),
            None => granted.push(Granted { stations: stations.to_vec(), effective_attributes: vec![attribute] }),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::Place;
    use crate::registry::Registered;

    use super::*;

    fn carried(name: &str) -> Registered {
        Registered {
            name: name.to_owned(),
            lane: 0,
            kind: StageKind::Compute,
            at: 0,
            place: Place::Workers,
            can_fork: true,
            is_ordered: true,
            is_fused: false,
            is_first: false,
            counters: Vec::new(),
        }
    }

    fn observed(busy: u64) -> StageObservation {
        let none = Span::ZERO;
        let busy = Span::from_nanos(busy);
        StageObservation {
            kind: StageKind::Compute,
            copies: 1,
            busy,
            starved: none,
            blocked: none,
            waiting_for_cpu: none,
        }
    }

    #[test]
    fn what_a_worker_waits_for_a_cpu_is_divided_by_what_it_carried() {
        let registry = Registry {
            program: String::new(),
            structure: String::new(),
            cpus: 1,
            workers: 1,
            lanes: Vec::new(),
            stages: vec![carried("a"), carried("b")],
        };
        let roll = Roll::default();
        roll.enrolled(&[], &Scheduling::default(), PriorityRule::Default, |_| {
            let own = || run_delay(Thread::current()).map(|waited| waited.as_nanos() as u64);
            let Some(before) = own() else { return };
            let mut stages = [observed(3000), observed(1000)];
            roll.add_waits(&registry, &mut stages);
            let after = own().unwrap();
            let [a, b] = stages.map(|stage| stage.waiting_for_cpu.as_nanos());
            // Less than a nanosecond of each part is lost.
            assert!((before..=after + 2).contains(&(a + b + 2)), "{a} + {b} of {before} to {after}");
            assert!(a.abs_diff(3 * b) <= 4, "{a}, {b}");
            // What was told is not told again.
            let mut stages = [observed(3000), observed(1000)];
            roll.add_waits(&registry, &mut stages);
            assert!(stages[0].waiting_for_cpu.as_nanos() + a <= own().unwrap());
        });
        assert!(roll.threads.lock().is_empty());
    }
}
