//! The adaptive rule: spin where that can help, yield where nobody takes advantage of it, else block.
//!
//! Source: our own. Two-phase waiting and its bound of somewhat more than two context switches are those of Tsafrir and
//! Feitelson (sections 4.1 and 4.2).
//!
//! 1. **Occupancy.** As long as a missing sibling was last seen on the waiter's own CPU, spinning keeps from running whom it
//!    waits for. Then the waiter does not spin.
//! 2. **Bound.** It spins for 2.4 times CS, where CS is what waking a blocked sibling costs.
//! 3. **Timed yield.** Then it yields, and the time that takes tells who else wants this CPU: as short as a lone yield is nobody,
//!    and the waiter spins on for a while; longer is a sibling, or somebody as brief; a good part of a tick is another
//!    program that took what it was offered.
//! 4. **Strikes.** Two such programs within few yields are a strike: on this machine it does not pay to be kind. The whole team
//!    stops yielding for 50 ms, after the next strike for 100 ms, and so on up to 1 s. Meanwhile it goes by occupancy and
//!    bound alone; with more than two threads for each CPU it blocks.
//! 5. Nobody yields for more than 10 ms in one wait.

use super::{Costs, Decision, Observation, Team, TeamState};
use crate::units::{Instant, Span};

/// What of CS the bound is, in thousandths.
const BOUND: u64 = 2_400;
/// Two losses of a tick within so many yields are a strike.
const FEW_YIELDS: u32 = 64;
/// How long a team is careful after its first strike; doubled by each one after it, up to [`MOST_DOUBLINGS`].
const CAREFUL: Span = Span::from_millis(50);
/// 50 ms to 1.6 s.
const MOST_DOUBLINGS: u32 = 5;
/// How long one wait may take before it blocks.
const PATIENCE: Span = Span::from_millis(10);

/// The adaptive rule of one waiting thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Adaptive {
    bound: Span,
    /// A yield that took no longer was a lone one.
    lone: Span,
    /// A yield that took so long or longer fed another program.
    foreign: Span,
    began: Instant,
    /// The team was careful when this wait began.
    careful: bool,
    /// How long to spin between two yields.
    chunk: Span,
    /// How many yields there have been since the last that fed another program.
    yields: u32,
    strikes: u32,
}

impl Adaptive {
    pub(super) const fn new(costs: Costs) -> Adaptive {
        Adaptive {
            bound: costs.cs.scaled(BOUND),
            lone: costs.lone_yield.scaled(1_800),
            foreign: costs.tick.scaled(250),
            began: Instant::ZERO,
            careful: false,
            chunk: Span::ZERO,
            yields: FEW_YIELDS,
            strikes: 0,
        }
    }

    pub(super) const fn strikes(&self) -> u32 {
        self.strikes
    }

    pub(super) fn step(&mut self, team: &Team<'_>, state: &mut TeamState, seen: Observation) -> Decision {
        match seen {
            Observation::Arrived => self.arrive(team, *state),
            Observation::Spun(_) if self.careful || team.now.since(self.began) >= PATIENCE => Decision::Block,
            Observation::Spun(_) => Decision::Yield,
            Observation::Yielded(took) => {
                if self.strikes_after(took, team.now, state) || team.now.since(self.began) >= PATIENCE {
                    Decision::Block
                } else if took <= self.lone {
                    let chunk = self.chunk;
                    self.chunk = chunk.scaled(2_000).min(self.bound);
                    Decision::Spin(chunk)
                } else {
                    Decision::Yield
                }
            }
            Observation::Woken => Decision::Block,
        }
    }

    pub(super) fn over(&mut self, now: Instant, state: &mut TeamState, seen: Observation) {
        if let Observation::Yielded(took) = seen {
            self.strikes_after(took, now, state);
        }
    }

    fn arrive(&mut self, team: &Team<'_>, state: TeamState) -> Decision {
        self.began = team.now;
        self.chunk = self.bound.scaled(63);
        self.careful = Memory::from(state).is_careful(team.now);
        let missing_here = team.missing.iter().any(|missing| missing.last_seen == Some(team.own_cpu));
        match (self.careful, missing_here) {
            (false, true) => Decision::Yield,
            (false, false) => Decision::Spin(self.bound),
            (true, true) => Decision::Block,
            (true, false) if team.threads > 2 * team.cpus => Decision::Block,
            (true, false) => Decision::Spin(self.bound),
        }
    }

    /// Takes down a yield, and whether it was the one too many.
    fn strikes_after(&mut self, took: Span, now: Instant, state: &mut TeamState) -> bool {
        self.yields = self.yields.saturating_add(1);
        if took < self.foreign {
            return false;
        }
        let strike = self.yields < FEW_YIELDS;
        self.yields = 0;
        if strike {
            self.strikes = self.strikes.wrapping_add(1);
            *state = Memory::from(*state).after_strike(now).into();
        }
        strike
    }
}

/// The team's memory: until when it is careful, and how often it has been before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Memory {
    /// In units of 1024 ns: 48 bits of them are nine years.
    careful_until: u64,
    doublings: u32,
}

impl Memory {
    fn is_careful(self, now: Instant) -> bool {
        now.as_nanos() >> 10 < self.careful_until
    }

    fn after_strike(self, now: Instant) -> Memory {
        let until = now + CAREFUL.scaled(1_000 << self.doublings.min(MOST_DOUBLINGS));
        Memory { careful_until: until.as_nanos() >> 10, doublings: (self.doublings + 1).min(MOST_DOUBLINGS) }
    }
}

impl From<TeamState> for Memory {
    fn from(state: TeamState) -> Memory {
        Memory { careful_until: state.0 & ((1 << 48) - 1), doublings: (state.0 >> 48 & 0xff) as u32 }
    }
}

impl From<Memory> for TeamState {
    fn from(memory: Memory) -> TeamState {
        TeamState(u64::from(memory.doublings) << 48 | memory.careful_until)
    }
}
