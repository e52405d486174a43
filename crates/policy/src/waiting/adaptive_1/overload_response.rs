//! The team's response to overload marks: one word that its members share.

use super::super::step::TeamState;
use crate::units::{CpuId, Instant, Span};

/// How the members of a team wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TeamMode {
    /// Without a common response: each thread spins, yields and blocks on its own.
    Independent,
    /// No thread yields.
    Careful,
    /// All threads meet on this CPU, and yield or block there.
    Colocated { cpu: CpuId, yields: bool },
}

/// How long a response holds after a first mark; doubled by each further one, up to
/// [`MOST_DOUBLINGS`] times.
const FIRST: Span = Span::from_millis(50);
/// 50 ms to 1.6 s.
const MOST_DOUBLINGS: u32 = 5;
/// Marks are counted up to this; then they alternate between this and one less, so that every
/// second one can still be recognized.
const MOST_MARKS: u32 = 7;

/// A response, in force or past.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OverloadResponse {
    /// In units of 2^20 ns, about a millisecond: the 44 bits in the word hold every [`Instant`].
    until: u64,
    /// The number of marks in a row; zero before the first.
    marks: u32,
    strategy: Strategy,
    cpu: CpuId,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Strategy {
    #[default]
    Careful = 0,
    /// Colocated and yielding, on the first CPU that was tried.
    YieldsFirst = 1,
    /// The same, on a second CPU.
    YieldsSecond = 2,
    Blocks = 3,
}

impl OverloadResponse {
    /// How to wait at this moment.
    pub(super) fn mode(self, now: Instant) -> TeamMode {
        if units(now) >= self.until {
            return TeamMode::Independent;
        }
        match self.strategy {
            Strategy::Careful => TeamMode::Careful,
            Strategy::YieldsFirst | Strategy::YieldsSecond => TeamMode::Colocated { cpu: self.cpu, yields: true },
            Strategy::Blocks => TeamMode::Colocated { cpu: self.cpu, yields: false },
        }
    }

    /// Whether there was a recent mark.
    pub(super) fn has_marks(self) -> bool {
        self.marks > 0
    }

    /// The same for a team that does not colocate.
    pub(super) fn without_colocation(self) -> OverloadResponse {
        OverloadResponse { strategy: Strategy::Careful, ..self }
    }

    /// The response to a new mark on the CPU `here`, when some of the team were `elsewhere`.
    ///
    /// A team that `colocates` moves away from the marked CPU, first to one CPU, then to another.
    /// If that did not help, it blocks, and tries yielding again at every second mark.
    pub(super) fn after_overload(
        self,
        now: Instant,
        here: CpuId,
        elsewhere: Option<CpuId>,
        colocates: bool,
    ) -> OverloadResponse {
        let forgotten = units(now) > self.until + (self.length().as_nanos() >> UNIT);
        let past = if forgotten { OverloadResponse::default() } else { self };
        let in_force = past.mode(now) != TeamMode::Independent;
        let (strategy, cpu) = match (past.strategy, elsewhere) {
            _ if !colocates => (Strategy::Careful, here),
            (_, None) => (Strategy::Blocks, here),
            (Strategy::YieldsFirst, Some(cpu)) if in_force => (Strategy::YieldsSecond, cpu),
            (Strategy::YieldsSecond, _) if in_force => (Strategy::Blocks, here),
            (Strategy::Blocks, _) if past.marks % 2 == 0 => (Strategy::Blocks, past.cpu),
            (_, Some(cpu)) => (Strategy::YieldsFirst, cpu),
        };
        let marks = if past.marks < MOST_MARKS { past.marks + 1 } else { MOST_MARKS - 1 };
        let next = OverloadResponse { until: 0, marks, strategy, cpu };
        OverloadResponse { until: units(now + next.length()), ..next }
    }

    /// How long the response holds.
    fn length(self) -> Span {
        FIRST.scaled(1_000 << self.marks.saturating_sub(1).min(MOST_DOUBLINGS))
    }
}

fn units(at: Instant) -> u64 {
    at.as_nanos() >> UNIT
}

const UNIT: u32 = 20;
const UNTIL: u32 = 44;
const MARKS: u32 = 3;
const STRATEGY: u32 = 2;

impl From<TeamState> for OverloadResponse {
    fn from(TeamState(word): TeamState) -> OverloadResponse {
        let field = |shift: u32, bits: u32| (word >> shift & ((1 << bits) - 1)) as u32;
        OverloadResponse {
            until: word & ((1 << UNTIL) - 1),
            marks: field(UNTIL, MARKS),
            strategy: match field(UNTIL + MARKS, STRATEGY) {
                1 => Strategy::YieldsFirst,
                2 => Strategy::YieldsSecond,
                3 => Strategy::Blocks,
                _ => Strategy::Careful,
            },
            cpu: CpuId(field(UNTIL + MARKS + STRATEGY, u64::BITS - UNTIL - MARKS - STRATEGY)),
        }
    }
}

impl From<OverloadResponse> for TeamState {
    fn from(response: OverloadResponse) -> TeamState {
        let OverloadResponse { until, marks, strategy, cpu } = response;
        TeamState(
            until & ((1 << UNTIL) - 1)
                | u64::from(marks) << UNTIL
                | (strategy as u64) << (UNTIL + MARKS)
                | u64::from(cpu.0) << (UNTIL + MARKS + STRATEGY),
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

    fn overloaded(times: usize, colocates: bool) -> (Instant, OverloadResponse) {
        let mut now = AT;
        let mut response = OverloadResponse::default();
        for time in 0..times {
            if time > 0 {
                // At the end of the previous response.
                now = Instant::from_nanos((response.until + 1) << UNIT);
            }
            response = response.after_overload(now, HERE, Some(THERE), colocates);
        }
        (now, response)
    }

    #[test]
    fn a_response_survives_the_round_trip_through_its_word() {
        for strategy in [Strategy::Careful, Strategy::YieldsFirst, Strategy::YieldsSecond, Strategy::Blocks] {
            for (until, marks, cpu) in [(0, 0, 0), (1, 3, 7), ((1 << UNTIL) - 1, MOST_MARKS, 0x7fff)] {
                let response = OverloadResponse { until, marks, strategy, cpu: CpuId(cpu) };
                assert_eq!(OverloadResponse::from(TeamState::from(response)), response);
            }
        }
        assert_eq!(OverloadResponse::from(TeamState::default()), OverloadResponse::default());
    }

    #[test]
    fn there_is_no_response_before_the_first_mark_and_after_its_time() {
        assert_eq!(OverloadResponse::default().mode(AT), TeamMode::Independent);
        let (now, response) = overloaded(1, false);
        assert_eq!(response.mode(now), TeamMode::Careful);
        assert_eq!(response.mode(now + millis(48)), TeamMode::Careful);
        assert_eq!(response.mode(now + millis(52)), TeamMode::Independent);
    }

    #[test]
    fn each_mark_in_a_row_doubles_the_time_up_to_a_limit() {
        for (times, lasts) in
            [(1, 50), (2, 100), (3, 200), (4, 400), (5, 800), (6, 1_600), (7, 1_600), (8, 1_600), (9, 1_600)]
        {
            let (now, response) = overloaded(times, false);
            assert_eq!(response.mode(now + millis(lasts - 2)), TeamMode::Careful, "{times} marks");
            assert_eq!(response.mode(now + millis(lasts + 2)), TeamMode::Independent, "{times} marks");
        }
    }

    #[test]
    fn old_marks_are_forgotten() {
        let (now, response) = overloaded(4, false);
        let late = now + millis(400 + 404);
        assert_eq!(response.after_overload(late, HERE, None, false).length(), millis(50));
        let soon = now + millis(400 + 396);
        assert_eq!(response.after_overload(soon, HERE, None, false).length(), millis(800));
    }

    #[test]
    fn a_team_colocates_away_from_its_mark_then_elsewhere_and_then_blocks() {
        let (now, first) = overloaded(1, true);
        assert_eq!(first.mode(now), TeamMode::Colocated { cpu: THERE, yields: true });
        let second = first.after_overload(now, THERE, Some(HERE), true);
        assert_eq!(second.mode(now), TeamMode::Colocated { cpu: HERE, yields: true });
        let third = second.after_overload(now, HERE, Some(THERE), true);
        assert_eq!(third.mode(now), TeamMode::Colocated { cpu: HERE, yields: false });
    }

    #[test]
    fn a_team_that_sees_only_one_cpu_blocks_there() {
        let response = OverloadResponse::default().after_overload(AT, HERE, None, true);
        assert_eq!(response.mode(AT), TeamMode::Colocated { cpu: HERE, yields: false });
    }

    #[test]
    fn a_team_that_blocks_tries_yielding_again_at_every_second_mark() {
        let blocks = OverloadResponse { until: 0, marks: 3, strategy: Strategy::Blocks, cpu: HERE };
        let now = Instant::from_nanos(1);
        let again = blocks.after_overload(now, HERE, Some(THERE), true);
        assert_eq!(again.mode(now), TeamMode::Colocated { cpu: THERE, yields: true });
        let blocks = OverloadResponse { marks: 4, ..blocks };
        let still = blocks.after_overload(now, THERE, Some(THERE), true);
        assert_eq!(still.mode(now), TeamMode::Colocated { cpu: HERE, yields: false });
        // The marks alternate from now on.
        let mut response = blocks;
        let tries = (0..20).filter(|_| {
            let again = response.after_overload(now, THERE, Some(THERE), true);
            response = OverloadResponse { marks: again.marks, ..blocks };
            again.mode(now) != TeamMode::Colocated { cpu: HERE, yields: false }
        });
        assert_eq!(tries.count(), 10);
    }

    #[test]
    fn a_team_that_gives_up_colocation_is_careful_for_the_rest_of_the_time() {
        let (now, response) = overloaded(1, true);
        assert_eq!(response.without_colocation().mode(now), TeamMode::Careful);
        assert_eq!(response.without_colocation().mode(now + millis(52)), TeamMode::Independent);
    }
}
