//! Trials: a team measures ways of waiting and keeps the one in which its rounds take the least
//! time. The record is one word that its members share.
//!
//! ```text
//!             trouble          32 rounds,          8 rounds,          32 rounds,
//!                              one tick            faster             faster
//!   Calm ---------------> Measure --------> Try --------> Confirm --------> Rest (way adopted)
//!                            ^               |               |                |
//!                            |               v  not faster   v                |
//!                            +------------- Rest <-----------+     64 rounds, |
//!                            ^                     at most 50 ms              |
//!                            +------------------------------------------------+
//! ```
//!
//! In *Calm* nothing is measured; the team waits in the first way. The kept way is measured anew
//! before every trial, so that both meet the same load. The ways are tried in turn.
//!
//! # Bounds
//!
//! The model: between two changes of the load, a round takes a constant time on average in each
//! way, `c` in the kept one, whatever was done before. (A real scheduler has a memory: a thread
//! that slept is preferred afterwards. So a measurement lasts for at least a tick.)
//!
//! * **A trial costs at most 8c and 0.13 ms more than no trial**, the latter by the units of time,
//!   and one round of detection: it ends as soon as it has taken that much longer than its rounds
//!   would in the kept way, and every member checks that at every step. Colocation may cost two
//!   ticks more, since the threads have to move.
//! * **Rejected ways cost less and less.** After 1, 2 and 3 rejections a way is left out of 1, 3
//!   and 15 of its turns, and a way that was cut off goes straight to the last. A period has one
//!   turn, and at least 32 rounds and 12 ms if a tick takes 4. So ways that were all rejected cost
//!   together at most 9 of 16 * 32 = 512 rounds, 1.8 %, and a third of that if a round takes less
//!   than 0.78 ms. Before that, each costs at most 9 rounds four times.
//! * **A change is noticed** by the next measurement, 32 rounds. It begins at the end of a rest, at
//!   most 50 ms, or of a trial, 40 rounds. If rounds take 2.8 times as long as before, or as short,
//!   all rejections are forgotten.
//! * **The worst case.** Let the load change at most once in P periods. In each stretch the team
//!   loses the rounds until it notices (one period at the old way's new speed), three trials, and
//!   if its way became worse by less than a factor of 2.8, up to 64 periods until the turn of the
//!   better way, at less than 2.8 times its time. No bound holds against a load that changes faster
//!   than a period: any rule that learns from the past can be misled.

use super::super::step::TeamState;
use crate::units::{CpuId, Instant, Span};

/// A way of waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Way {
    #[default]
    Spin,
    Block,
    Yield,
    Colocate,
}

impl Way {
    const ALL: [Way; 4] = [Way::Spin, Way::Block, Way::Yield, Way::Colocate];
}

/// The ways that may be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ways(u8);

impl Ways {
    /// Spinning and blocking suit every team.
    pub(super) const BASIC: Ways = Ways(1 << Way::Spin as u8 | 1 << Way::Block as u8);

    /// These and `way`, if it suits.
    pub(super) const fn and(self, way: Way, suits: bool) -> Ways {
        Ways(self.0 | (suits as u8) << way as u8)
    }

    pub(super) const fn contain(self, way: Way) -> bool {
        self.0 >> way as u8 & 1 == 1
    }
}

/// The moment at which a member looks at the record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) now: Instant,
    pub(super) round: u64,
    pub(super) tick: Span,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    #[default]
    Calm,
    Rest,
    Measure,
    Try,
    Confirm,
}

impl Phase {
    const ALL: [Phase; 5] = [Phase::Calm, Phase::Rest, Phase::Measure, Phase::Try, Phase::Confirm];
}

/// The rounds of a measurement, a trial and a confirmation.
const MEASURED: u64 = 32;
const TRIED: u64 = 8;
const CONFIRMED: u64 = 32;
/// The least duration of a trial and of a confirmation.
const SHORTEST: Span = Span::from_micros(500);
/// The same of a colocated team, in ticks: its threads have to be spread first.
const SHORTEST_APART: u64 = 4;
/// The rounds of a rest, and its least duration in ticks.
const RESTED: u64 = 64;
const SHORTEST_REST: u64 = 2;
/// The longest rest.
const LONGEST_REST: u64 = 50_000_000;
/// A trial is cut off if it costs this many rounds.
const EXCESS: u64 = 8;
/// The same in which threads move, in ticks.
const EXCESS_OF_MOVES: u64 = 2;
/// A way is faster if its code of a duration is smaller by this: 7 %.
const FASTER: u16 = 3;
/// A change of the load changes the code by this: a factor of 2.8.
const CHANGE: u16 = 48;
/// Of so many of its turns a rejected way gets one, by the number of rejections.
const BACK_OFF: [u8; 4] = [1, 2, 4, 16];
/// Two ticks lost within this many rounds end a measurement.
const FEW_ROUNDS: u64 = 64;

/// The record of a team's trials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Trials {
    phase: Phase,
    kept: Way,
    /// Counts the turns of all ways. Modulo four it is the way that is tried, or was last.
    turn: u8,
    /// For each way, how often it was rejected; at most 3.
    rejections: [u8; 4],
    /// The duration of a round in the kept way, as a [`code`]; zero before the first measurement.
    cost: u16,
    /// When the phase began.
    began: u16,
    first_round: u16,
    /// While the team is colocated, the CPU where it meets; else the one on which a yield last lost
    /// a tick to another program. As a number plus one, or zero.
    cpu: u16,
    /// Whether the colocated team has agreed on its CPU.
    has_met: bool,
    /// Whether a yield has lost a tick in this phase.
    has_lost_tick: bool,
}

/// The widths of the fields in the word.
const WIDTHS: [u32; 13] = [3, 2, 6, 2, 2, 2, 2, 9, 14, 11, 9, 1, 1];
const TIMES: u64 = (1 << 14) - 1;
const ROUNDS: u64 = (1 << 11) - 1;
/// Rounds are counted up to here.
const MANY_ROUNDS: u64 = 1 << 10;
const LONGEST_CODE: u64 = (1 << 9) - 1;
const CPUS: u32 = (1 << 9) - 1;
/// Times are in units of 2^16 ns, some 65 us.
const UNIT: u32 = 16;

impl From<TeamState> for Trials {
    fn from(TeamState(word): TeamState) -> Trials {
        let mut at = 0;
        let [phase, kept, turn, spin, block, yields, colocate, cost, began, first_round, cpu, met, lost] =
            WIDTHS.map(|bits| {
                let value = word >> at & ((1 << bits) - 1);
                at += bits;
                value as u16
            });
        Trials {
            // No other number is written.
            phase: Phase::ALL.get(usize::from(phase)).copied().unwrap_or_default(),
            kept: Way::ALL[usize::from(kept)],
            turn: turn as u8,
            rejections: [spin, block, yields, colocate].map(|count| count as u8),
            cost,
            began,
            first_round,
            cpu,
            has_met: met == 1,
            has_lost_tick: lost == 1,
        }
    }
}

impl From<Trials> for TeamState {
    fn from(trials: Trials) -> TeamState {
        let Trials { phase, kept, turn, rejections, cost, began, first_round, cpu, has_met, has_lost_tick } = trials;
        let [spin, block, yields, colocate] = rejections.map(u16::from);
        let (turn, met, lost) = (u16::from(turn), u16::from(has_met), u16::from(has_lost_tick));
        let fields =
            [phase as u16, kept as u16, turn, spin, block, yields, colocate, cost, began, first_round, cpu, met, lost];
        let (mut word, mut at) = (0, 0);
        for (field, bits) in fields.into_iter().zip(WIDTHS) {
            word |= u64::from(field) << at;
            at += bits;
        }
        TeamState(word)
    }
}

impl Trials {
    /// How the team waits now.
    pub(super) fn way(&self) -> Way {
        if self.is_trial() { self.tried() } else { self.kept }
    }

    /// Whether another program has used a CPU that was yielded to it.
    pub(super) fn has_competition(&self) -> bool {
        self.cpu > 0
    }

    /// Leaves the calm, and keeps `way` for now. Changes nothing otherwise.
    pub(super) fn leave_calm(&mut self, way: Way, at: Moment) {
        if self.phase == Phase::Calm {
            *self = Trials { kept: way, turn: way as u8, ..Trials::default() };
            self.begin(Phase::Measure, at);
        }
    }

    /// Goes on to the next phase if this one is over.
    pub(super) fn advance(&mut self, at: Moment, suitable: Ways) {
        if self.phase == Phase::Calm || self.cut_off(at) {
            return;
        }
        let (rounds, nanos) = (self.rounds(at), self.nanos(at));
        if self.phase == Phase::Rest {
            let shortest = at.tick.scaled(1_000 * SHORTEST_REST).as_nanos().min(LONGEST_REST);
            if nanos >= (RESTED * duration(self.cost)).clamp(shortest, LONGEST_REST) {
                self.begin(Phase::Measure, at);
            }
            return;
        }
        let (wanted, shortest) = match self.phase {
            Phase::Measure => (MEASURED, at.tick),
            Phase::Try => (TRIED, self.shortest_trial(at)),
            _ => (CONFIRMED, self.shortest_trial(at)),
        };
        if rounds < wanted || nanos < shortest.as_nanos() && rounds < MANY_ROUNDS {
            return;
        }
        let cost = code(nanos / rounds);
        let is_faster = cost + FASTER < self.cost;
        match self.phase {
            Phase::Measure => {
                if self.cost > 0 && cost.abs_diff(self.cost) > CHANGE {
                    self.rejections = [0; 4];
                }
                self.cost = cost;
                self.try_next(at, suitable);
            }
            Phase::Try if is_faster => self.begin(Phase::Confirm, at),
            Phase::Confirm if is_faster => {
                (self.kept, self.cost, self.rejections) = (self.tried(), cost, [0; 4]);
                self.begin(Phase::Rest, at);
            }
            _ => self.reject(1, at),
        }
    }

    /// Ends a trial that has cost too much. Returns whether it did.
    pub(super) fn cut_off(&mut self, at: Moment) -> bool {
        if !self.is_trial() {
            return false;
        }
        let cost = duration(self.cost);
        let excess = self.nanos(at).saturating_sub(self.rounds(at) * cost);
        let slack = if self.has_moves() { at.tick.scaled(1_000 * EXCESS_OF_MOVES).as_nanos() } else { 1 << UNIT };
        let is_hopeless = excess > (EXCESS * cost).saturating_add(slack);
        if is_hopeless {
            self.reject(3, at);
        }
        is_hopeless
    }

    /// Notes that a yield on this CPU has lost a tick to another program. The second time within a
    /// few rounds, the team tries another way at once: 32 rounds would take too long.
    pub(super) fn lose_tick(&mut self, cpu: CpuId, at: Moment, suitable: Ways) {
        if !self.has_met {
            self.cpu = number(cpu);
        }
        let is_second = std::mem::replace(&mut self.has_lost_tick, true);
        let is_kept = matches!(self.phase, Phase::Rest | Phase::Measure);
        if is_second && is_kept && self.rounds(at) < FEW_ROUNDS {
            self.cost = code(self.nanos(at) / self.rounds(at).max(1));
            self.turn = self.turn & !3 | Way::Yield as u8;
            self.try_next(at, suitable);
        }
    }

    /// The CPU where the colocated team meets: that of the first member that asks, unless that one
    /// is known for lost ticks and there is one `elsewhere`. `None` if its number is too large.
    pub(super) fn meeting_cpu(&mut self, own: CpuId, elsewhere: Option<CpuId>) -> Option<CpuId> {
        if !self.has_met {
            let other = if number(own) == self.cpu { elsewhere } else { None };
            (self.has_met, self.cpu) = (true, number(other.unwrap_or(own)));
        }
        let cpu = u32::from(self.cpu).checked_sub(1)?;
        (cpu < CPUS - 1).then_some(CpuId(cpu))
    }

    fn begin(&mut self, phase: Phase, at: Moment) {
        self.phase = phase;
        self.began = time(at.now);
        self.first_round = (at.round & ROUNDS) as u16;
        self.has_lost_tick = false;
        self.has_met &= self.way() == Way::Colocate;
    }

    /// Begins the trial of the way whose turn it is, or a rest if that is left out this time.
    fn try_next(&mut self, at: Moment, suitable: Ways) {
        for _ in Way::ALL {
            self.turn = (self.turn + 1) % 64;
            let way = self.tried();
            if way != self.kept && suitable.contain(way) {
                let back_off = BACK_OFF[usize::from(self.rejections[way as usize])];
                let phase = if (self.turn / 4).is_multiple_of(back_off) { Phase::Try } else { Phase::Rest };
                return self.begin(phase, at);
            }
        }
        self.begin(Phase::Rest, at);
    }

    fn reject(&mut self, times: u8, at: Moment) {
        let rejections = &mut self.rejections[usize::from(self.turn % 4)];
        *rejections = (*rejections + times).min(3);
        self.begin(Phase::Rest, at);
    }

    fn tried(&self) -> Way {
        Way::ALL[usize::from(self.turn % 4)]
    }

    /// Whether the team tries another way than the kept one.
    pub(super) fn is_trial(&self) -> bool {
        self.phase >= Phase::Try
    }

    fn has_moves(&self) -> bool {
        self.kept == Way::Colocate || self.tried() == Way::Colocate
    }

    fn shortest_trial(&self, at: Moment) -> Span {
        if self.kept == Way::Colocate { at.tick.scaled(1_000 * SHORTEST_APART) } else { SHORTEST }
    }

    /// The rounds since the phase began.
    fn rounds(&self, at: Moment) -> u64 {
        let rounds = at.round.wrapping_sub(u64::from(self.first_round)) & ROUNDS;
        // A member that was interrupted as it arrived may be in the round before.
        if rounds > ROUNDS - MANY_ROUNDS / 2 { 0 } else { rounds }
    }

    /// The time since the phase began. Longer times than a second come out too short.
    fn nanos(&self, at: Moment) -> u64 {
        (u64::from(time(at.now).wrapping_sub(self.began)) & TIMES) << UNIT
    }
}

fn time(at: Instant) -> u16 {
    (at.as_nanos() >> UNIT & TIMES) as u16
}

fn number(cpu: CpuId) -> u16 {
    cpu.0.saturating_add(1).min(CPUS) as u16
}

/// The code of the duration of a round: 32 for each octave, from 1 us to 65 ms.
fn code(nanos: u64) -> u16 {
    let nanos = nanos.max(1 << 10);
    let octave = u64::from(nanos.ilog2());
    let code = (octave - 10) * 32 + (nanos >> (octave - 5) & 31) + 1;
    code.min(LONGEST_CODE) as u16
}

/// The duration that has this code.
fn duration(code: u16) -> u64 {
    let code = u64::from(code.max(1)) - 1;
    (32 + code % 32) << (code / 32 + 5)
}

#[cfg(test)]
mod tests;
