//! The team's backoff from yielding: one word that its members share.

use super::super::step::TeamState;
use crate::units::{CpuId, Instant, Span};

/// How long a backoff lasts, as a multiple of the loss that began it.
const LENGTH: u64 = 16;
/// A loss counts as at most this long: the program may have been stopped meanwhile.
const LONGEST_LOSS: Span = Span::from_millis(100);
/// How long after its end a backoff is recent.
const MEMORY: Span = Span::from_millis(100);

/// How a team waits during a backoff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Response {
    /// No thread yields.
    BeCareful,
    /// All threads meet on this CPU, and yield or block there.
    Colocate { cpu: CpuId, yields: bool },
}

/// A backoff, in force or past.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Backoff {
    /// In units of 2^20 ns, about a millisecond: the 44 bits in the word hold every [`Instant`].
    /// Zero before the first.
    until: u64,
    strategy: Strategy,
    cpu: CpuId,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Strategy {
    #[default]
    Careful = 0,
    /// Colocated and yielding, on the first CPU that was tried.
    OnFirst = 1,
    /// The same, on a second CPU.
    OnSecond = 2,
    /// Colocated and blocking.
    AndBlocks = 3,
}

impl Strategy {
    const ALL: [Strategy; 4] = [Strategy::Careful, Strategy::OnFirst, Strategy::OnSecond, Strategy::AndBlocks];
}

impl Backoff {
    /// How to wait at this moment. `None` if no backoff is in force.
    pub(super) fn response(self, now: Instant) -> Option<Response> {
        let Backoff { until, strategy, cpu } = self;
        (units(now) < until).then_some(match strategy {
            Strategy::Careful => Response::BeCareful,
            Strategy::OnFirst | Strategy::OnSecond => Response::Colocate { cpu, yields: true },
            Strategy::AndBlocks => Response::Colocate { cpu, yields: false },
        })
    }

    /// Whether a backoff is in force or ended a short while ago.
    pub(super) fn is_recent(self, now: Instant) -> bool {
        self.until > 0 && units(now) < self.until + units(Instant::ZERO + MEMORY)
    }

    /// The backoff after a yield on the CPU `here` that took as long as `loss`, when some of the
    /// team were `elsewhere`.
    ///
    /// A team that `colocates` moves away from the lost CPU, first to one CPU, then to another. If
    /// that did not help, it blocks.
    pub(super) fn after_loss(
        self,
        now: Instant,
        loss: Span,
        here: CpuId,
        elsewhere: Option<CpuId>,
        colocates: bool,
    ) -> Backoff {
        let past = if self.is_recent(now) { self.strategy } else { Strategy::Careful };
        let (strategy, cpu) = match (past, elsewhere) {
            _ if !colocates => (Strategy::Careful, here),
            (_, None) | (Strategy::OnSecond, _) => (Strategy::AndBlocks, here),
            (Strategy::OnFirst, Some(cpu)) => (Strategy::OnSecond, cpu),
            (Strategy::Careful | Strategy::AndBlocks, Some(cpu)) => (Strategy::OnFirst, cpu),
        };
        let length = loss.min(LONGEST_LOSS).scaled(1_000 * LENGTH);
        // Rounded up, so that a backoff from a short loss is in force at all.
        Backoff { until: units(now + length) + 1, strategy, cpu }
    }
}

fn units(at: Instant) -> u64 {
    at.as_nanos() >> UNIT
}

const UNIT: u32 = 20;
const UNTIL: u32 = 44;
const STRATEGY: u32 = 2;

impl From<TeamState> for Backoff {
    fn from(TeamState(word): TeamState) -> Backoff {
        let strategy = Strategy::ALL[(word >> UNTIL & ((1 << STRATEGY) - 1)) as usize];
        let cpu = CpuId((word >> (UNTIL + STRATEGY)) as u32);
        Backoff { until: word & ((1 << UNTIL) - 1), strategy, cpu }
    }
}

impl From<Backoff> for TeamState {
    fn from(Backoff { until, strategy, cpu }: Backoff) -> TeamState {
        let until = until & ((1 << UNTIL) - 1);
        TeamState(until | (strategy as u64) << UNTIL | u64::from(cpu.0) << (UNTIL + STRATEGY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine that has been up for two years.
    const AT: Instant = Instant::from_nanos(1 << 56);
    const HERE: CpuId = CpuId(3);
    const THERE: CpuId = CpuId(1_000);
    const LOSS: Span = Span::from_millis(4);

    fn yields_on(cpu: CpuId) -> Option<Response> {
        Some(Response::Colocate { cpu, yields: true })
    }

    #[test]
    fn a_backoff_survives_the_round_trip_through_its_word() {
        for strategy in Strategy::ALL {
            for (until, cpu) in [(0, 0), (1, 7), ((1 << UNTIL) - 1, 0x3_ffff)] {
                let backoff = Backoff { until, strategy, cpu: CpuId(cpu) };
                assert_eq!(Backoff::from(TeamState::from(backoff)), backoff);
            }
        }
        assert_eq!(Backoff::from(TeamState::default()), Backoff::default());
    }

    #[test]
    fn a_backoff_lasts_sixteen_times_as_long_as_the_loss_and_is_recent_for_a_while() {
        assert_eq!((Backoff::default().response(AT), Backoff::default().is_recent(AT)), (None, false));
        assert!(!Backoff::default().is_recent(Instant::ZERO));
        let backoff = Backoff::default().after_loss(AT, LOSS, HERE, Some(THERE), false);
        let after = |millis| AT + Span::from_millis(millis);
        for (millis, response, is_recent) in [
            (0, Some(Response::BeCareful), true),
            (62, Some(Response::BeCareful), true),
            (66, None, true),
            (160, None, true),
            (168, None, false),
        ] {
            let seen = (backoff.response(after(millis)), backoff.is_recent(after(millis)));
            assert_eq!(seen, (response, is_recent), "after {millis} ms");
        }
    }

    #[test]
    fn a_team_colocates_away_from_its_loss_then_elsewhere_then_blocks_and_then_begins_anew() {
        let next = |backoff: Backoff, here, there| backoff.after_loss(AT, LOSS, here, Some(there), true);
        let first = next(Backoff::default(), HERE, THERE);
        assert_eq!(first.response(AT), yields_on(THERE));
        let second = next(first, THERE, HERE);
        assert_eq!(second.response(AT), yields_on(HERE));
        let third = next(second, HERE, THERE);
        assert_eq!(third.response(AT), Some(Response::Colocate { cpu: HERE, yields: false }));
        assert_eq!(next(third, HERE, THERE).response(AT), yields_on(THERE));
        // So it does if its last losses are long ago.
        let later = AT + Span::from_millis(200);
        assert_eq!(first.after_loss(later, LOSS, THERE, Some(HERE), true).response(later), yields_on(HERE));
        assert_eq!(first.after_loss(later, LOSS, THERE, Some(HERE), true).strategy, Strategy::OnFirst);
    }

    #[test]
    fn short_losses_have_a_backoff_at_any_time_and_long_ones_one_of_a_second_or_two() {
        let after = |now, loss| Backoff::default().after_loss(now, loss, HERE, None, false);
        for nanos in [0, 1, 1_040_000, 5_000_000] {
            let now = Instant::from_nanos(nanos);
            let backoff = after(now, Span::from_micros(10));
            assert_eq!(backoff.response(now + Span::from_micros(160)), Some(Response::BeCareful), "{nanos}");
        }
        let stopped = after(AT, Span::from_millis(600_000));
        assert!(stopped.response(AT + Span::from_millis(1_599)).is_some());
        assert!(stopped.response(AT + Span::from_millis(1_610)).is_none());
    }

    #[test]
    fn a_team_that_sees_only_one_cpu_blocks_there() {
        let backoff = Backoff::default().after_loss(AT, LOSS, HERE, None, true);
        assert_eq!(backoff.response(AT), Some(Response::Colocate { cpu: HERE, yields: false }));
    }
}
