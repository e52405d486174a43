//! What a team has agreed on for some time because of strikes: one word that its members share.

use super::super::TeamState;
use crate::units::{CpuId, Instant, Span};

/// How the members of a team wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conduct {
    /// Nothing is agreed on: everybody spins, yields and blocks as it finds best.
    Open,
    /// Nobody yields.
    Careful,
    /// All meet on this CPU, and yield or block there.
    Gathered { cpu: CpuId, yields: bool },
}

/// How long an agreement holds after a first strike; doubled by each one after it, up to [`MOST_DOUBLINGS`].
const FIRST: Span = Span::from_millis(50);
/// 50 ms to 1.6 s.
const MOST_DOUBLINGS: u32 = 5;
/// How far strikes are counted: then again from two less, so that every second one can still be told.
const MOST_STRIKES: u32 = 7;

/// An agreement, in force or past.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Agreement {
    /// In units of 2^20 ns, a millisecond: the 44 bits that the word keeps are all that an [`Instant`] can hold.
    until: u64,
    /// How many there have been in a row; zero before the first.
    strikes: u32,
    way: Way,
    cpu: CpuId,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Way {
    #[default]
    Careful = 0,
    /// Gathered and yielding, on the first CPU that was tried.
    YieldsFirst = 1,
    /// The same, on a second.
    YieldsSecond = 2,
    Blocks = 3,
}

impl Agreement {
    /// How to wait at this moment.
    pub(super) fn conduct(self, now: Instant) -> Conduct {
        if units(now) >= self.until {
            return Conduct::Open;
        }
        match self.way {
            Way::Careful => Conduct::Careful,
            Way::YieldsFirst | Way::YieldsSecond => Conduct::Gathered { cpu: self.cpu, yields: true },
            Way::Blocks => Conduct::Gathered { cpu: self.cpu, yields: false },
        }
    }

    /// Whether there was a strike not long ago.
    pub(super) fn was_struck(self) -> bool {
        self.strikes > 0
    }

    /// The same for a team that does not gather.
    pub(super) fn scattered(self) -> Agreement {
        Agreement { way: Way::Careful, ..self }
    }

    /// What to agree on after a strike on the CPU `here`, when some of the team were `elsewhere`.
    ///
    /// A team that `gathers` does so away from where it was struck, first on one CPU, then on another; where that was
    /// of no use it blocks, and tries the former again at every second occasion.
    pub(super) fn after_strike(self, now: Instant, here: CpuId, elsewhere: Option<CpuId>, gathers: bool) -> Agreement {
        let forgotten = units(now) > self.until + (self.length().as_nanos() >> UNIT);
        let past = if forgotten { Agreement::default() } else { self };
        let in_force = past.conduct(now) != Conduct::Open;
        let (way, cpu) = match (past.way, elsewhere) {
            _ if !gathers => (Way::Careful, here),
            (_, None) => (Way::Blocks, here),
            (Way::YieldsFirst, Some(cpu)) if in_force => (Way::YieldsSecond, cpu),
            (Way::YieldsSecond, _) if in_force => (Way::Blocks, here),
            (Way::Blocks, _) if past.strikes % 2 == 0 => (Way::Blocks, past.cpu),
            (_, Some(cpu)) => (Way::YieldsFirst, cpu),
        };
        let strikes = if past.strikes < MOST_STRIKES { past.strikes + 1 } else { MOST_STRIKES - 1 };
        let next = Agreement { until: 0, strikes, way, cpu };
        Agreement { until: units(now + next.length()), ..next }
    }

    /// How long it is agreed on.
    fn length(self) -> Span {
        FIRST.scaled(1_000 << self.strikes.saturating_sub(1).min(MOST_DOUBLINGS))
    }
}

fn units(at: Instant) -> u64 {
    at.as_nanos() >> UNIT
}

const UNIT: u32 = 20;
const UNTIL: u32 = 44;
const STRIKES: u32 = 3;
const WAY: u32 = 2;

impl From<TeamState> for Agreement {
    fn from(TeamState(word): TeamState) -> Agreement {
        let field = |shift: u32, bits: u32| (word >> shift & ((1 << bits) - 1)) as u32;
        Agreement {
            until: word & ((1 << UNTIL) - 1),
            strikes: field(UNTIL, STRIKES),
            way: match field(UNTIL + STRIKES, WAY) {
                1 => Way::YieldsFirst,
                2 => Way::YieldsSecond,
                3 => Way::Blocks,
                _ => Way::Careful,
            },
            cpu: CpuId(field(UNTIL + STRIKES + WAY, u64::BITS - UNTIL - STRIKES - WAY)),
        }
    }
}

impl From<Agreement> for TeamState {
    fn from(agreement: Agreement) -> TeamState {
        let Agreement { until, strikes, way, cpu } = agreement;
        TeamState(
            until & ((1 << UNTIL) - 1)
                | u64::from(strikes) << UNTIL
                | (way as u64) << (UNTIL + STRIKES)
                | u64::from(cpu.0) << (UNTIL + STRIKES + WAY),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine that has been up for two years.
    const AT: Instant = Instant::from_nanos(1 << 56);
    const HERE: CpuId = CpuId(3);
    const THERE: CpuId = CpuId(1_000);

    fn millis(count: u64) -> Span {
        Span::from_millis(count)
    }

    fn struck(times: usize, gathers: bool) -> (Instant, Agreement) {
        let mut now = AT;
        let mut agreement = Agreement::default();
        for time in 0..times {
            if time > 0 {
                // At the end of the agreement before.
                now = Instant::from_nanos((agreement.until + 1) << UNIT);
            }
            agreement = agreement.after_strike(now, HERE, Some(THERE), gathers);
        }
        (now, agreement)
    }

    #[test]
    fn an_agreement_survives_the_word_that_it_is_kept_in() {
        for way in [Way::Careful, Way::YieldsFirst, Way::YieldsSecond, Way::Blocks] {
            for (until, strikes, cpu) in [(0, 0, 0), (1, 3, 7), ((1 << UNTIL) - 1, MOST_STRIKES, 0x7fff)] {
                let agreement = Agreement { until, strikes, way, cpu: CpuId(cpu) };
                assert_eq!(Agreement::from(TeamState::from(agreement)), agreement);
            }
        }
        assert_eq!(Agreement::from(TeamState::default()), Agreement::default());
    }

    #[test]
    fn nothing_is_agreed_on_before_the_first_strike_and_after_its_time() {
        assert_eq!(Agreement::default().conduct(AT), Conduct::Open);
        let (now, agreement) = struck(1, false);
        assert_eq!(agreement.conduct(now), Conduct::Careful);
        assert_eq!(agreement.conduct(now + millis(48)), Conduct::Careful);
        assert_eq!(agreement.conduct(now + millis(52)), Conduct::Open);
    }

    #[test]
    fn each_strike_in_a_row_doubles_the_time_up_to_a_limit() {
        for (times, lasts) in
            [(1, 50), (2, 100), (3, 200), (4, 400), (5, 800), (6, 1_600), (7, 1_600), (8, 1_600), (9, 1_600)]
        {
            let (now, agreement) = struck(times, false);
            assert_eq!(agreement.conduct(now + millis(lasts - 2)), Conduct::Careful, "{times} strikes");
            assert_eq!(agreement.conduct(now + millis(lasts + 2)), Conduct::Open, "{times} strikes");
        }
    }

    #[test]
    fn strikes_long_ago_are_forgotten() {
        let (now, agreement) = struck(4, false);
        let late = now + millis(400 + 404);
        assert_eq!(agreement.after_strike(late, HERE, None, false).length(), millis(50));
        let soon = now + millis(400 + 396);
        assert_eq!(agreement.after_strike(soon, HERE, None, false).length(), millis(800));
    }

    #[test]
    fn a_team_gathers_away_from_where_it_was_struck_then_elsewhere_and_then_blocks() {
        let (now, first) = struck(1, true);
        assert_eq!(first.conduct(now), Conduct::Gathered { cpu: THERE, yields: true });
        let second = first.after_strike(now, THERE, Some(HERE), true);
        assert_eq!(second.conduct(now), Conduct::Gathered { cpu: HERE, yields: true });
        let third = second.after_strike(now, HERE, Some(THERE), true);
        assert_eq!(third.conduct(now), Conduct::Gathered { cpu: HERE, yields: false });
    }

    #[test]
    fn a_team_that_sees_one_cpu_only_blocks_there() {
        let agreement = Agreement::default().after_strike(AT, HERE, None, true);
        assert_eq!(agreement.conduct(AT), Conduct::Gathered { cpu: HERE, yields: false });
    }

    #[test]
    fn a_team_that_blocks_tries_yielding_again_at_every_second_strike() {
        let blocks = Agreement { until: 0, strikes: 3, way: Way::Blocks, cpu: HERE };
        let now = Instant::from_nanos(1);
        let again = blocks.after_strike(now, HERE, Some(THERE), true);
        assert_eq!(again.conduct(now), Conduct::Gathered { cpu: THERE, yields: true });
        let blocks = Agreement { strikes: 4, ..blocks };
        let still = blocks.after_strike(now, THERE, Some(THERE), true);
        assert_eq!(still.conduct(now), Conduct::Gathered { cpu: HERE, yields: false });
        // However often.
        let mut agreement = blocks;
        let tries = (0..20).filter(|_| {
            let again = agreement.after_strike(now, THERE, Some(THERE), true);
            agreement = Agreement { strikes: again.strikes, ..blocks };
            again.conduct(now) != Conduct::Gathered { cpu: HERE, yields: false }
        });
        assert_eq!(tries.count(), 10);
    }

    #[test]
    fn a_team_that_scatters_is_careful_for_the_rest_of_the_time() {
        let (now, agreement) = struck(1, true);
        assert_eq!(agreement.scattered().conduct(now), Conduct::Careful);
        assert_eq!(agreement.scattered().conduct(now + millis(52)), Conduct::Open);
    }
}
