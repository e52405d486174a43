use proptest::prelude::*;

use super::*;

const TICK: Span = Span::from_millis(4);
const ALL: Ways = Ways::BASIC.and(Way::Yield, true).and(Way::Colocate, true);

/// A team whose rounds take a certain time in each way.
struct Team {
    trials: Trials,
    now: Instant,
    round: u64,
    /// In microseconds, in the order of [`Way::ALL`].
    costs: [u64; 4],
    suitable: Ways,
}

impl Team {
    fn in_trouble(way: Way, costs: [u64; 4], suitable: Ways) -> Team {
        let now = Instant::from_nanos(1 << 33);
        let mut team = Team { trials: Trials::default(), now, round: 5, costs, suitable };
        team.trials.leave_calm(way, team.at());
        team
    }

    fn at(&self) -> Moment {
        Moment { now: self.now, round: self.round, tick: TICK }
    }

    /// Goes through one round. Members that wait check the trial from time to time.
    fn meet(&mut self) {
        self.trials = Trials::from(TeamState::from(self.trials));
        self.trials.advance(self.at(), self.suitable);
        for _ in 0..4 {
            let way = self.trials.way();
            self.now = self.now + Span::from_nanos(self.costs[way as usize] * 250);
            if self.trials.cut_off(self.at()) {
                break;
            }
        }
        self.round += 1;
    }

    /// How much longer than always in the best way it takes to go through the rounds, in percent.
    fn loss(&mut self, rounds: u64) -> f64 {
        let (from, best) = (self.now, self.costs[..2].iter().min().unwrap() * rounds * 1000);
        (0..rounds).for_each(|_| self.meet());
        100.0 * (self.now.since(from).as_nanos() as f64 / best as f64 - 1.0)
    }
}

#[test]
fn a_calm_team_spins_and_measures_nothing() {
    let mut trials = Trials::default();
    for round in 0..1000 {
        let at = Moment { now: Instant::from_nanos(round << 20), round, tick: TICK };
        trials.advance(at, ALL);
        assert_eq!((trials.way(), trials.cut_off(at)), (Way::Spin, false));
    }
    assert_eq!(TeamState::from(trials), TeamState::default());
}

#[test]
fn a_team_finds_the_fastest_way_wherever_it_starts() {
    for best in Way::ALL {
        for first in Way::ALL {
            let mut costs = [300; 4];
            costs[best as usize] = 100;
            let mut team = Team::in_trouble(first, costs, ALL);
            (0..2_000).for_each(|_| team.meet());
            assert_eq!(team.trials.kept, best, "from {first:?}");
        }
    }
}

#[test]
fn ways_that_do_not_suit_are_never_tried() {
    let mut team = Team::in_trouble(Way::Spin, [300, 200, 10, 10], Ways::BASIC);
    for _ in 0..5_000 {
        team.meet();
        assert!(Ways::BASIC.contain(team.trials.way()));
    }
    assert_eq!(team.trials.kept, Way::Block);
}

#[test]
fn exploration_costs_at_most_two_percent_where_ways_differ_by_less_than_two() {
    for costs in [[100, 190, 190, 190], [1000, 1900, 1900, 1900], [10, 19, 19, 19]] {
        let mut team = Team::in_trouble(Way::Spin, costs, ALL);
        // The first trials are not spread over a long time.
        (0..5_000).for_each(|_| team.meet());
        let loss = team.loss(40_000);
        assert!(loss < 2.0, "{costs:?}: {loss}");
    }
}

#[test]
fn a_hopeless_trial_ends_after_the_time_of_eight_rounds() {
    // A round takes forever: a member that waits ends the trial.
    let mut team = Team::in_trouble(Way::Spin, [1_000, 1_000_000, 300, 300], Ways::BASIC);
    // A measurement and not more.
    (0..MEASURED).for_each(|_| team.meet());
    team.trials.advance(team.at(), team.suitable);
    let from = team.now;
    assert_eq!(team.trials.way(), Way::Block);
    for microseconds in 0..20_000 {
        team.now = from + Span::from_micros(microseconds);
        if team.trials.cut_off(team.at()) {
            assert!((7_500..8_500).contains(&microseconds), "{microseconds} us");
            assert_eq!((team.trials.way(), team.trials.rejections[1]), (Way::Spin, 3));
            return;
        }
    }
    panic!("the trial goes on");
}

#[test]
fn a_change_of_the_load_is_noticed_within_rest_and_32_rounds() {
    let mut team = Team::in_trouble(Way::Spin, [100, 300, 300, 300], Ways::BASIC);
    (0..20_000).for_each(|_| team.meet());
    assert_eq!((team.trials.kept, team.trials.rejections[1]), (Way::Spin, 3));
    team.costs = [1_000, 300, 300, 300];
    let (from, round) = (team.now, team.round);
    for _ in 0..1_000 {
        if team.trials.kept != Way::Spin {
            break;
        }
        team.meet();
    }
    // A rest of the old length, a measurement, a trial and a confirmation.
    assert!(team.round - round < 64 + 32 + 8 + 32 + 8, "{} rounds", team.round - round);
    assert!(team.now.since(from) < Span::from_millis(150), "{:?}", team.now.since(from));
}

#[test]
fn noise_of_five_percent_changes_nothing() {
    let mut team = Team::in_trouble(Way::Block, [95, 100, 95, 95], ALL);
    for _ in 0..20_000 {
        team.meet();
        assert_eq!(team.trials.kept, Way::Block);
    }
}

#[test]
fn two_lost_ticks_within_few_rounds_lead_to_a_trial_at_once_first_of_colocation() {
    let mut team = Team::in_trouble(Way::Yield, [300; 4], ALL);
    team.now = team.now + TICK;
    team.round += 1;
    team.trials.lose_tick(CpuId(3), team.at(), team.suitable);
    assert_eq!(team.trials.way(), Way::Yield);
    assert!(team.trials.has_competition());
    team.now = team.now + TICK;
    team.round += 1;
    team.trials.lose_tick(CpuId(3), team.at(), team.suitable);
    assert_eq!(team.trials.way(), Way::Colocate);
    // Away from the CPU that has lost ticks, if possible; all members at the same.
    let mut alone = team.trials;
    assert_eq!(alone.meeting_cpu(CpuId(3), None), Some(CpuId(3)));
    assert_eq!(team.trials.meeting_cpu(CpuId(3), Some(CpuId(5))), Some(CpuId(5)));
    assert_eq!(team.trials.meeting_cpu(CpuId(3), Some(CpuId(3))), Some(CpuId(5)));
}

#[test]
fn lost_ticks_far_apart_lead_to_nothing() {
    let mut team = Team::in_trouble(Way::Yield, [300; 4], ALL);
    team.trials.lose_tick(CpuId(3), team.at(), team.suitable);
    team.round += FEW_ROUNDS;
    team.trials.lose_tick(CpuId(3), team.at(), team.suitable);
    assert_eq!(team.trials.way(), Way::Yield);
}

#[test]
fn the_meeting_cpu_is_unknown_if_its_number_does_not_fit() {
    for (cpu, meets) in [(0, true), (509, true), (510, false), (4_000, false)] {
        let mut trials = Trials::default();
        assert_eq!(trials.meeting_cpu(CpuId(cpu), None), meets.then_some(CpuId(cpu)), "{cpu}");
    }
}

#[test]
fn a_member_that_is_still_in_the_round_before_counts_no_rounds() {
    let mut trials = Trials::default();
    let at = |round| Moment { now: Instant::from_nanos(1 << 40), round, tick: TICK };
    trials.leave_calm(Way::Spin, at(100));
    assert_eq!([99, 100, 101, 1_124].map(|round| trials.rounds(at(round))), [0, 0, 1, 1_024]);
}

#[test]
fn codes_of_durations_are_within_four_percent() {
    for nanos in (1_024..60_000_000).step_by(997) {
        let back = duration(code(nanos));
        assert!(back <= nanos && nanos - back <= nanos / 32 + 1, "{nanos}: {back}");
    }
    assert_eq!(code(0), 1);
    assert_eq!(u64::from(code(u64::MAX)), LONGEST_CODE);
}

proptest! {
    #[test]
    fn every_word_is_a_record_and_every_record_keeps_its_word(
        (word, now, round, tick) in any::<(u64, u64, u64, u64)>(),
    ) {
        let mut trials = Trials::from(TeamState(word));
        prop_assert_eq!(Trials::from(TeamState::from(trials)), trials);
        // Nor does any word, time or round make it panic.
        let at = Moment { now: Instant::from_nanos(now), round, tick: Span::from_nanos(tick) };
        trials.cut_off(at);
        trials.advance(at, ALL);
        trials.lose_tick(CpuId(word as u32), at, ALL);
        trials.meeting_cpu(CpuId(round as u32), None);
        prop_assert_eq!(Trials::from(TeamState::from(trials)), trials);
    }
}
