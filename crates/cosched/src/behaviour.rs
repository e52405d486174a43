//! How a job behaves, as its agent sees it: see [`LibraryWaits`] and [`TurnTrial`].

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;

use policy::Instant;
use policy::gang::{Class, IntervalCounters, LibraryWaits, ThreadCounters, TurnTrial};

use crate::process_list::ProcessList;
use crate::processes::{Observer, mark};

/// The behaviour of a job, as its agent has observed it so far.
#[derive(Debug, Default)]
pub(crate) struct Behaviour {
    observer: Observer,
    /// How often the job's group had been stopped at the last look.
    stops_of_group: u32,
    /// How often its processes had waited by the preloaded library then.
    waits: u64,
    library_waits: LibraryWaits,
    trial: TurnTrial,
}

impl Behaviour {
    /// Looks at `now` at a job with these processes and of this class, or of none that can change
    /// now. They have waited so often by the preloaded library, as they say: it may be anything.
    /// The job has left most of its last turn unused, or used it.
    pub(crate) fn look(
        &mut self,
        before: Option<Class>,
        processes: &ProcessList,
        waits: u64,
        has_left_turn: bool,
        now: Instant,
    ) -> Option<Class> {
        let of_group = mark::stops(processes.group_mark().load(SeqCst));
        let stops = |own: &AtomicU32| mark::stops(own.load(SeqCst)).wrapping_add(of_group);
        let with_stops = processes.iter().map(|(process, own)| (process, stops(own)));
        let deltas = self.observer.observe(with_stops, std::mem::replace(&mut self.stops_of_group, of_group));
        let threads: Vec<ThreadCounters> = deltas.into_iter().map(|thread| thread.counters).collect();
        let waits = waits.saturating_sub(std::mem::replace(&mut self.waits, waits));
        let before = before?;
        let class = self.library_waits.classify(before, &threads, waits);
        if self.library_waits.is_left_alone() {
            return Some(class);
        }
        Some(self.trial.classify(before, class, &IntervalCounters::of_threads(&threads), has_left_turn, now))
    }
}

#[cfg(test)]
mod tests {
    use policy::Span;
    use testing::Child;

    use super::*;
    use crate::process_list::PLACES;
    use crate::process_list::tests::list;
    use crate::processes::tests::{identity, until};
    use Class::{Blocks, Spins, Unknown};

    #[test]
    fn a_job_that_spins_takes_turns_unless_it_waits_often_by_the_library() {
        // On one CPU, both run for about as long, beside any load.
        let cpu = sys::cpus::allowed().unwrap()[0];
        let spins = [(); 2].map(|()| {
            let mut command = testing::command("sh");
            command.args(["-c", "while :; do :; done"]);
            sys::cpus::bind_in(&mut command, &[cpu]).unwrap();
            Child::start(&mut command)
        });
        let list = list();
        list.set(&spins.each_ref().map(|child| identity(child.id())), PLACES);
        // Less than 20 ms of a thread tell nothing.
        let ran = || spins.each_ref().map(|child| running_time(child.id()));
        let run_for_a_while = || {
            let begun = ran();
            until(|| ran().iter().zip(begun).all(|(now, begun)| *now - begun >= Span::from_millis(20)));
        };
        let (mut behaviour, mut class, mut waits) = (Behaviour::default(), Unknown, 0);
        run_for_a_while();
        assert_eq!(behaviour.look(None, &list, 0, false, Instant::ZERO), None);
        let mut look = |new_waits: u64| {
            run_for_a_while();
            waits += new_waits;
            class = behaviour.look(Some(class), &list, waits, false, Instant::ZERO).unwrap();
            class
        };
        assert_eq!([0, 0, 1 << 40, 1 << 40, 0].map(&mut look), [Spins, Spins, Spins, Blocks, Spins]);
        // The count decreases.
        run_for_a_while();
        assert_eq!(behaviour.look(Some(Spins), &list, 0, false, Instant::ZERO), Some(Spins));
    }

    fn running_time(pid: u32) -> Span {
        let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
        Span::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
    }
}
