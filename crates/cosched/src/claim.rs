//! The claim of a switch: which agent stops and continues the processes of all jobs at a boundary.
//!
//! `protocol.md` explains the protocol, and `model` checks it.

#[cfg(all(test, loom))]
mod model;

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

/// A word that all agents share.
pub trait Word {
    /// Its value.
    fn read(&self) -> u64;
    /// Sets its value.
    fn write(&self, value: u64);
    /// Sets its value if it is `from`. Returns whether it was.
    fn replace(&self, from: u64, to: u64) -> bool;
}

impl Word for AtomicU64 {
    fn read(&self) -> u64 {
        self.load(SeqCst)
    }

    fn write(&self, value: u64) {
        self.store(value, SeqCst);
    }

    fn replace(&self, from: u64, to: u64) -> bool {
        self.compare_exchange(from, to, SeqCst, SeqCst).is_ok()
    }
}

/// The words by which agents agree on who switches.
#[derive(Debug)]
pub struct Claims<'a, W> {
    /// Odd while an agent switches. It grows with each claim and each release, so each claim has a
    /// number of its own.
    pub claim: &'a W,
    /// The turn that the last finished switch has begun.
    pub switched: &'a W,
}

/// The claim of one switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim(u64);

/// The answer to an agent that is ready to switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This agent switches.
    Granted(Claim),
    /// The switch to this turn is done.
    Done,
    /// Another agent has this claim.
    Busy(Claim),
}

/// Which switches an agent wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// That to this turn, unless it is done.
    Turn(u64),
    /// Another one in any case, because the last one may have been incomplete.
    Again,
}

impl<W: Word> Claims<'_, W> {
    /// Claims a switch. A claim of another agent is taken over if it is `overdue`. Does not block.
    pub fn claim(&self, wanted: Wanted, overdue: Option<Claim>) -> Answer {
        loop {
            let number = self.claim.read();
            let is_busy = number % 2 == 1;
            if is_busy && overdue != Some(Claim(number)) {
                return Answer::Busy(Claim(number));
            }
            if !is_busy && wanted == Wanted::Turn(self.switched.read()) {
                return Answer::Done;
            }
            let next = number.wrapping_add(if is_busy { 2 } else { 1 });
            if self.claim.replace(number, next) {
                return Answer::Granted(Claim(next));
            }
        }
    }

    /// Ends a switch to `turn`. Returns `false` if another agent has taken the claim over: then the
    /// signals of this switch may have come after those of a later one, and it has to switch
    /// [again](Wanted::Again).
    #[must_use]
    pub fn finish(&self, Claim(number): Claim, turn: u64) -> bool {
        if self.claim.read() == number {
            self.switched.write(turn);
        }
        self.claim.replace(number, number.wrapping_add(1)) || cfg!(rowlock_canary = "a-late-agent-is-believed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> [AtomicU64; 2] {
        Default::default()
    }

    fn granted(answer: Answer) -> Claim {
        let Answer::Granted(claim) = answer else { panic!("{answer:?}") };
        claim
    }

    #[test]
    fn one_agent_switches_and_the_others_find_it_done() {
        let [claim, switched] = words();
        let claims = Claims { claim: &claim, switched: &switched };
        let ours = granted(claims.claim(Wanted::Turn(7), None));
        assert_eq!(claims.claim(Wanted::Turn(7), None), Answer::Busy(ours));
        assert!(claims.finish(ours, 7));
        assert_eq!(claims.claim(Wanted::Turn(7), None), Answer::Done);
        assert!(matches!(claims.claim(Wanted::Turn(8), None), Answer::Granted(_)));
    }

    #[test]
    fn a_finished_switch_is_repeated_on_request() {
        let [claim, switched] = words();
        let claims = Claims { claim: &claim, switched: &switched };
        assert!(claims.finish(granted(claims.claim(Wanted::Turn(7), None)), 7));
        assert!(claims.finish(granted(claims.claim(Wanted::Again, None)), 7));
    }

    #[test]
    fn an_overdue_claim_is_taken_over_and_its_agent_has_to_switch_again() {
        let [claim, switched] = words();
        let claims = Claims { claim: &claim, switched: &switched };
        let late = granted(claims.claim(Wanted::Turn(7), None));
        let next = granted(claims.claim(Wanted::Turn(8), Some(late)));
        // It is not overdue itself.
        assert_eq!(claims.claim(Wanted::Turn(8), Some(late)), Answer::Busy(next));
        assert!(!claims.finish(late, 7));
        assert_eq!(switched.read(), 0, "the late agent does not say what is switched");
        assert!(claims.finish(next, 8));
        assert!(!claims.finish(late, 7));
        assert_eq!(claims.claim(Wanted::Turn(8), None), Answer::Done);
    }
}
