//! Explores every interleaving of a preemptible fiber's steps with ticks.
//!
//! A handler runs to its end before its thread continues, except while it allows further ticks. So
//! a state consists of the fiber's next step, its flags and what its worker does. There are few
//! enough states to visit all of them.

use std::collections::BTreeSet;

/// The next step of the fiber.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// Runs its own code, or calls the library.
    #[default]
    OwnCode,
    /// Sets the flag that says that it is in the runtime.
    SetFlag,
    /// Has set the flag to handle a missed tick, and forgets that one.
    ClearMissed,
    /// Has set the flag. Checks whether it is orphaned, and then whether it runs on a donated
    /// timeslice.
    Enter,
    /// The library works for it.
    Work,
    /// Leaves the runtime: clears the flag.
    ClearFlag,
    /// Checks whether a tick was missed.
    CheckMissed,
    /// Handles a missed tick, in the runtime.
    HandleMissed,
}

/// The whole state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    next: Step,
    /// It enters the runtime to handle a missed tick.
    handles_missed: bool,
    in_runtime: bool,
    missed_tick: bool,
    /// A tick came, and the worker has not chosen the next fiber since.
    choice_is_due: bool,
    /// It runs on a timeslice that another fiber donates.
    on_donation: bool,
    orphan: bool,
}

/// A mistake that the model must detect.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Defect {
    None,
    /// The fiber checks for a missed tick before it clears the flag.
    ChecksBeforeClearing,
    /// A fiber that enters to handle a missed tick does not check whether it is orphaned.
    HandlesMissedAsOrphan,
    /// A fiber that has waited for a donor does not check again whether it is orphaned.
    EntersAsOrphan,
    /// A fiber enters the runtime on a donated timeslice.
    EntersOnDonation,
}

impl State {
    /// The fiber was switched out at this step and continues: in its own turn, on a donated
    /// timeslice, or as an orphan.
    fn resume(self, mut visit: impl FnMut(State)) {
        let here = State { on_donation: false, ..self };
        visit(here);
        visit(State { on_donation: true, ..here });
        visit(State { orphan: true, ..here });
    }

    /// The states that a tick leads to.
    fn tick(self, mut visit: impl FnMut(State)) {
        if self.orphan {
            return;
        }
        if self.in_runtime {
            // On a donated timeslice the handler notes nothing: the fiber returns it by itself.
            return visit(if self.on_donation {
                self
            } else {
                State { missed_tick: true, choice_is_due: true, ..self }
            });
        }
        assert!(
            matches!(self.next, Step::OwnCode | Step::SetFlag | Step::CheckMissed),
            "interrupted in the runtime: {self:?}"
        );
        // The worker chooses the next fiber, or the donor reclaims its timeslice. Further ticks
        // before and after that find the flag set, and may note that they were missed.
        for noted in [false, true] {
            let left = State {
                in_runtime: true,
                missed_tick: self.missed_tick || noted && !self.on_donation,
                choice_is_due: false,
                ..self
            };
            left.resume(|state| visit(State { in_runtime: false, ..state }));
        }
    }

    /// The library works for the fiber, on its worker.
    fn assert_may_work(&self) {
        assert!(self.in_runtime && !self.on_donation && !self.orphan, "must not work: {self:?}");
    }

    /// The states that the fiber's next step leads to.
    fn step(self, defect: Defect, mut visit: impl FnMut(State)) {
        let to = |next| State { next, ..self };
        let checks_first = defect == Defect::ChecksBeforeClearing;
        match self.next {
            Step::OwnCode => {
                assert!(!self.in_runtime || self.orphan, "never interrupted again: {self:?}");
                assert!(!self.choice_is_due, "forgotten tick: {self:?}");
                visit(to(Step::SetFlag));
            }
            Step::SetFlag => {
                let next = if self.handles_missed { Step::ClearMissed } else { Step::Enter };
                visit(State { in_runtime: true, ..to(next) });
            }
            Step::ClearMissed => visit(State { missed_tick: false, ..to(Step::Enter) }),
            Step::Enter if self.orphan && !(self.handles_missed && defect == Defect::HandlesMissedAsOrphan) => {
                visit(State { handles_missed: false, ..to(Step::OwnCode) });
            }
            Step::Enter if self.on_donation && defect != Defect::EntersOnDonation => self.resume(|state| {
                let works = state.orphan && defect == Defect::EntersAsOrphan;
                visit(if works { State { next: Step::Work, ..state } } else { state });
            }),
            Step::Enter => visit(to(if self.handles_missed { Step::HandleMissed } else { Step::Work })),
            Step::Work => {
                self.assert_may_work();
                visit(to(if checks_first { Step::CheckMissed } else { Step::ClearFlag }));
            }
            Step::ClearFlag => {
                let next = if checks_first { Step::OwnCode } else { Step::CheckMissed };
                visit(State { in_runtime: false, ..to(next) });
            }
            Step::CheckMissed if self.missed_tick => visit(State { handles_missed: true, ..to(Step::SetFlag) }),
            Step::CheckMissed => visit(to(if checks_first { Step::ClearFlag } else { Step::OwnCode })),
            Step::HandleMissed => {
                self.assert_may_work();
                visit(State { choice_is_due: false, handles_missed: false, ..to(Step::ClearFlag) });
            }
        }
    }
}

/// Visits all states that can be reached. Returns their number.
fn explore(defect: Defect) -> usize {
    let (mut seen, mut ahead) = (BTreeSet::from([State::default()]), vec![State::default()]);
    while let Some(state) = ahead.pop() {
        let mut visit = |next: State| {
            if seen.insert(next) {
                ahead.push(next);
            }
        };
        state.step(defect, &mut visit);
        state.tick(&mut visit);
    }
    seen.len()
}

#[test]
fn no_fiber_is_interrupted_in_the_runtime_and_no_tick_is_forgotten() {
    assert!(explore(Defect::None) > 30);
}

#[test]
fn the_model_detects_defects() {
    use Defect::{ChecksBeforeClearing, EntersAsOrphan, EntersOnDonation, HandlesMissedAsOrphan};
    for (defect, expected) in [
        (ChecksBeforeClearing, "forgotten tick"),
        (HandlesMissedAsOrphan, "must not work"),
        (EntersAsOrphan, "must not work"),
        (EntersOnDonation, "must not work"),
    ] {
        let panic = std::panic::catch_unwind(|| explore(defect)).unwrap_err();
        let message = panic.downcast_ref::<String>().unwrap();
        assert!(message.starts_with(expected), "{message}");
    }
}
