//! How a job uses its turns, as its agent sees it: see [`Idling`] and [`Share`].

use policy::gang::{Action, Idling};
use policy::{Instant, JobId, Span};
use sys::identity::Identity;

use crate::processes::Demand;
use crate::state::State;

/// How a job has used a turn and those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TurnEnd {
    /// Whether it idles.
    pub(crate) idles: bool,
    /// The share of the CPU time of its last turns that it has used, in thousandths. `None` if it
    /// is unknown.
    pub(crate) share: Option<u32>,
}

/// The CPU time that a job could have in its last turns, and that it had. Older turns count less.
#[derive(Debug, Default)]
struct Share {
    could: Span,
    ran: Span,
}

impl Share {
    /// How much of a turn counts after the next one, in thousandths: about eight turns count.
    const KEPT: u64 = 875;

    /// Its CPUs could run for so long, all together, and its threads ran for so long. Returns the
    /// share in thousandths.
    fn end_turn(&mut self, could: Span, ran: Span) -> Option<u32> {
        self.could = self.could.scaled(Self::KEPT) + could;
        self.ran = self.ran.scaled(Self::KEPT) + ran;
        let thousandths = u128::from(self.ran.as_nanos()) * 1000;
        // It also ran for a moment before it was stopped.
        let share = thousandths.checked_div(u128::from(self.could.as_nanos()))?.min(1000);
        u32::try_from(share).ok()
    }
}

/// The knowledge of an agent about the turns of its job.
#[derive(Debug, Default)]
pub(crate) struct TurnUse {
    idling: Idling,
    share: Share,
    /// How long it could run since the end of its last turn.
    allowed: Span,
    demand: Demand,
    /// When it last looked, and whether the job may run since then.
    looked: Instant,
    runs: bool,
    /// When the job's present turn ends. `None` in the turns of others, and if it is alone.
    end: Option<Instant>,
}

impl TurnUse {
    /// Whether the job has left most of its last turn unused.
    pub(crate) fn has_left_turn(&self) -> bool {
        self.idling.has_left_turn()
    }

    /// Looks at a job with these processes. Returns how it uses its turns if one has ended. If it
    /// is unknown how much it wants its CPUs, it wants them all.
    pub(crate) fn look(
        &mut self,
        state: &State,
        job: JobId,
        now: Instant,
        processes: impl IntoIterator<Item = Identity>,
    ) -> Option<TurnEnd> {
        if !state.facts(job).is_some_and(|facts| facts.takes_turns()) {
            // Earlier turns say nothing about later ones.
            self.idling = Idling::default();
        }
        if self.runs {
            self.idling.allow(now.since(self.looked));
            self.allowed += now.since(self.looked);
        }
        let cpus = state.cpus(job);
        let end = self.end.is_some_and(|end| end <= now).then(|| {
            // The times of the first observation began when the threads did.
            let is_known = self.demand.threads() > 0;
            let times = self.demand.observe(processes);
            let wanted = times.map_or(Span::MAX, |times| times.wanted);
            let could = std::mem::take(&mut self.allowed).scaled(1_000 * u64::from(cpus));
            TurnEnd {
                idles: self.idling.end_turn(wanted, self.demand.threads(), cpus),
                share: times.filter(|_| is_known).and_then(|times| self.share.end_turn(could, times.ran)),
            }
        });
        self.looked = now;
        self.runs = state.action(job, now) == Some(Action::Run);
        self.end = state.next_boundary(now).filter(|_| state.has_turn(job, now));
        end
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
    fn the_share_of_the_last_turns_is_that_of_their_time_and_at_most_all_of_it() {
        let mut share = Share::default();
        let millis = Span::from_millis;
        assert_eq!(share.end_turn(Span::ZERO, Span::ZERO), None);
        assert_eq!(share.end_turn(millis(40), millis(30)), Some(750));
        // Of 75 ms: 26.25 ms of the first turn count, and 40 ms.
        assert_eq!(share.end_turn(millis(40), millis(40)), Some(883));
        assert!((0..50).all(|_| share.end_turn(millis(40), millis(41)).is_some_and(|share| share <= 1000)));
        assert_eq!(share.end_turn(millis(40), millis(40)), Some(1000));
        assert_eq!(share.end_turn(Span::MAX, Span::MAX), Some(1000));
    }

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
        assert_eq!(found.iter().map(|end| end.idles).collect::<Vec<_>>(), [false, true, true]);
        assert_eq!(found.iter().map(|end| end.share).collect::<Vec<_>>(), [None, Some(0), Some(0)]);
        state.set_idles(first, true).unwrap();
        assert!(both_run(&state, begin + 120) && !both_run(&state, begin + 140));
        // In place of a job that wants its CPUs: one whose wish is unknown.
        assert_eq!(look(&mut uses, &state, begin + 120), None);
        let unknown = TurnEnd { idles: false, share: None };
        assert_eq!(uses.look(&state, first, at(begin + 140), []), Some(unknown));
        // Both turns last as long as before.
        assert!(state.has_turn(first, at(begin + 120)) && state.has_turn(second, at(begin + 140)));
    }
}
