//! A guest and the ticks that come meanwhile: all that can happen, step by step, with a tick before any step and any number of them.
//!
//! A handler runs to its end before its thread goes on, but for the moments in which it lets further ticks come. So a state is where the guest stands, its marks, and what its worker is about,
//! and there are few enough to go through all of them.

use std::collections::BTreeSet;

/// What the guest does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    /// Its own things, or it calls the library.
    Own,
    /// Comes inside: marks itself.
    Marks,
    /// Has marked itself, and looks whether it is in exile, and then whether it runs in the place of another.
    Enters,
    /// Has the library do something for it.
    Works,
    /// Goes outside: takes the mark away.
    Unmarks,
    /// Looks whether a tick has left a note.
    Looks,
    /// Makes up for a tick, inside.
    MakesUp,
}

/// Everything there is to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    next: Next,
    /// If it enters, it does so to make up for a tick.
    makes_up: bool,
    inside: bool,
    missed: bool,
    /// A tick has come, and nobody has chosen since who goes on.
    owes: bool,
    /// It runs in the place of another.
    lent: bool,
    exile: bool,
}

const BEGIN: State =
    State { next: Next::Own, makes_up: false, inside: false, missed: false, owes: false, lent: false, exile: false };

/// What could be otherwise than it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Otherwise {
    Nothing,
    /// The note is looked for before the mark is taken away.
    LooksFirst,
    /// Who comes inside to make up for a tick does not look whether it is in exile.
    MakesUpInExile,
    /// Who has waited to come inside does not look again whether it is in exile.
    EntersFromExile,
    /// Who runs in the place of another comes inside.
    EntersLent,
}

impl State {
    /// It was left where it is, and goes on: in its turn, in the place of another, or in exile.
    fn goes_on(self, mut each: impl FnMut(State)) {
        let here = State { lent: false, ..self };
        each(here);
        each(State { lent: true, ..here });
        each(State { exile: true, ..here });
    }

    /// What a tick makes of it.
    fn ticks(self, mut each: impl FnMut(State)) {
        if self.exile {
            return;
        }
        if self.inside {
            // Where it runs in another's place the handler leaves no note: it goes back by itself.
            return each(if self.lent { self } else { State { missed: true, owes: true, ..self } });
        }
        assert!(matches!(self.next, Next::Own | Next::Marks | Next::Looks), "interrupted inside: {self:?}");
        // Somebody is chosen, or it goes back to whom it runs in the place of. Further ticks before and after that find the mark, and may leave a note.
        for note in [false, true] {
            let left = State { inside: true, missed: self.missed || note && !self.lent, owes: false, ..self };
            left.goes_on(|state| each(State { inside: false, ..state }));
        }
    }

    /// The library does something for it, on its worker.
    fn is_at_work(&self) {
        assert!(self.inside && !self.lent && !self.exile, "at work: {self:?}");
    }

    /// What its next step makes of it.
    fn steps(self, otherwise: Otherwise, mut each: impl FnMut(State)) {
        let to = |next| State { next, ..self };
        match self.next {
            Next::Own => {
                assert!(!self.inside || self.exile, "never interrupted again: {self:?}");
                assert!(!self.owes, "forgotten: {self:?}");
                each(to(Next::Marks));
            }
            Next::Marks => each(State { inside: true, ..to(Next::Enters) }),
            Next::Enters if self.exile && !(self.makes_up && otherwise == Otherwise::MakesUpInExile) => {
                each(State { makes_up: false, ..to(Next::Own) });
            }
            Next::Enters if self.lent && otherwise != Otherwise::EntersLent => self.goes_on(|state| {
                let works = state.exile && otherwise == Otherwise::EntersFromExile;
                each(if works { State { next: Next::Works, ..state } } else { state });
            }),
            Next::Enters => each(to(if self.makes_up { Next::MakesUp } else { Next::Works })),
            Next::Works => {
                self.is_at_work();
                each(to(if otherwise == Otherwise::LooksFirst { Next::Looks } else { Next::Unmarks }));
            }
            Next::Unmarks => {
                let next = if otherwise == Otherwise::LooksFirst { Next::Own } else { Next::Looks };
                each(State { inside: false, ..to(next) });
            }
            Next::Looks if self.missed => each(State { makes_up: true, ..to(Next::Marks) }),
            Next::Looks => each(to(if otherwise == Otherwise::LooksFirst { Next::Unmarks } else { Next::Own })),
            Next::MakesUp => {
                self.is_at_work();
                each(State { missed: false, owes: false, makes_up: false, ..to(Next::Unmarks) });
            }
        }
    }
}

/// Goes through everything that can happen. Returns how many states there are.
fn explore(otherwise: Otherwise) -> usize {
    let (mut seen, mut ahead) = (BTreeSet::from([BEGIN]), vec![BEGIN]);
    while let Some(state) = ahead.pop() {
        let mut see = |next: State| {
            if seen.insert(next) {
                ahead.push(next);
            }
        };
        state.steps(otherwise, &mut see);
        state.ticks(&mut see);
    }
    seen.len()
}

#[test]
fn nobody_is_interrupted_inside_and_no_tick_is_forgotten() {
    assert!(explore(Otherwise::Nothing) > 30);
}

#[test]
fn the_model_sees_what_is_otherwise() {
    use Otherwise::{EntersFromExile, EntersLent, LooksFirst, MakesUpInExile};
    for (otherwise, why) in
        [(LooksFirst, "forgotten"), (MakesUpInExile, "at work"), (EntersFromExile, "at work"), (EntersLent, "at work")]
    {
        let panic = std::panic::catch_unwind(|| explore(otherwise)).unwrap_err();
        let said = panic.downcast_ref::<String>().unwrap();
        assert!(said.starts_with(why), "{said}");
    }
}
