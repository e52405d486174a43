//! How a job uses its turns, as its agent sees it: see [`Idling`].

use policy::gang::{Action, Idling};
use policy::{Instant, JobId, Span};
use sys::identity::Identity;

use crate::processes::Demand;
use crate::state::State;

/// What an agent knows of the turns of its job.
#[derive(Debug, Default)]
pub(crate) struct TurnUse {
    idling: Idling,
    demand: Demand,
    /// When it last looked, and whether the job may run since then.
    looked: Instant,
    runs: bool,
    /// When the job's present turn ends. `None` in the turns of others, and if it is alone.
    end: Option<Instant>,
}

impl TurnUse {
    /// Looks at a job with these processes. Returns whether it idles if a turn of it has ended, and
    /// if it is unknown how much it wants its CPUs, it wants them all.
    pub(crate) fn look(
        &mut self,
        state: &State,
        job: JobId,
        now: Instant,
        processes: impl IntoIterator<Item = Identity>,
    ) -> Option<bool> {
        if self.runs {
            self.idling.allow(now.since(self.looked));
        }
        let cells = state.job(job).ok()?.cells.map_or(0, |cells| cells.shape.cells());
        let idles = self.end.is_some_and(|end| end <= now).then(|| {
            let wanted = self.demand.observe(processes).unwrap_or(Span::MAX);
            self.idling.end_turn(wanted, self.demand.threads(), cells)
        });
        self.looked = now;
        self.runs = state.action(job, now) == Some(Action::Run);
        self.end = state.next_boundary(now).filter(|_| state.has_turn(job, now));
        idles
    }
}

#[cfg(test)]
mod tests {
    use policy::gang::Gang;
    use testing::Child;

    use super::*;
    use crate::processes::tests::{identity, until};
    use crate::state::tests::{at, entering, state};

    #[test]
    fn a_job_whose_processes_sleep_is_accompanied_until_they_spin_and_one_that_is_alone_never() {
        let sleep = Child::start(testing::command("sleep").arg("1000"));
        let name = |child: &Child| sys::identity::Stat::of(child.id()).unwrap().name().to_vec();
        until(|| name(&sleep) == b"sleep" && crate::processes::tests::state(sleep.id()) == b'S');
        let sleeps = identity(sleep.id());
        let mut state = state(2);
        let first = state.enter(&entering(2, Gang::Adaptive, 1), at(0)).unwrap();
        let mut uses = TurnUse::default();
        let look = |uses: &mut TurnUse, state: &State, millis| uses.look(state, first, at(millis), [sleeps]);
        assert!((0..200).step_by(20).all(|millis| look(&mut uses, &state, millis).is_none()));
        let second = state.enter(&entering(2, Gang::Adaptive, 1), at(200)).unwrap();
        let both_run = |state: &State, millis| {
            [first, second].iter().all(|&job| state.action(job, at(millis)) == Some(Action::Run))
        };
        let begin = if state.has_turn(first, at(220)) { 220 } else { 240 };
        assert!((begin..begin + 40).all(|millis| !both_run(&state, millis)));
        // There are looks for other reasons in between.
        let mut found = Vec::new();
        for turn in 0..3 {
            let from = begin + 40 * turn;
            found.extend([0, 7, 20, 21, 30].into_iter().filter_map(|ahead| look(&mut uses, &state, from + ahead)));
        }
        assert_eq!(found, [false, true, true]);
        state.set_idles(first, true).unwrap();
        assert!(both_run(&state, begin + 120) && !both_run(&state, begin + 140));
        // In place of a job that wants its CPUs: one whose wish is unknown.
        assert_eq!(look(&mut uses, &state, begin + 120), None);
        assert_eq!(uses.look(&state, first, at(begin + 140), []), Some(false));
        // Both turns last as long as before.
        assert!(state.has_turn(first, at(begin + 120)) && state.has_turn(second, at(begin + 140)));
    }
}
