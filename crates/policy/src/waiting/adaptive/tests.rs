use super::super::grain::SAMPLES;
use super::super::spin_predictor::{LEFT_OUT, PERSISTENCE};
use super::super::{Missing, Running};
use super::*;
use crate::units::ThreadId;

const COSTS: Costs = Costs {
    cs: Span::from_micros(15),
    margin: Span::ZERO,
    lone_yield: Span::from_nanos(500),
    tick: Span::from_millis(4),
};
const BOUND_HERE: Span = Span::from_micros(36);
const LONE_YIELD: Observation = Observation::Yielded(Span::from_nanos(600));
const SIBLINGS_YIELD: Observation = Observation::Yielded(Span::from_micros(3));
const HOGS_YIELD: Observation = Observation::Yielded(Span::from_millis(4));
const SPUN: Observation = Observation::Spun(BOUND_HERE);
const OWN: CpuId = CpuId(0);
const OTHER: CpuId = CpuId(1);
const SPIN: Decision = Decision::Spin(BOUND_HERE);
const ALL_RUN: Observation = Observation::Checked(Running::All);
const ONE_IS_OFF: Observation = Observation::Checked(Running::NotAll);
const UNKNOWN: Observation = Observation::Checked(Running::Unknown);
const FINE: Span = Span::from_micros(5);
const COARSE: Span = Span::from_micros(50);

/// A waiting thread on CPU 0 of two.
struct Member {
    rule: Adaptive,
    state: TeamState,
    now: Instant,
    threads: u32,
    cpus: u32,
    own_cpu: CpuId,
    /// The CPU on which the missing sibling was last seen.
    missing: CpuId,
    movable: bool,
}

impl Member {
    fn of(threads: u32) -> Member {
        Member {
            rule: Adaptive::new(COSTS),
            state: TeamState::default(),
            now: Instant::from_nanos(1 << 40),
            threads,
            cpus: 2,
            own_cpu: OWN,
            missing: OTHER,
            movable: true,
        }
    }

    /// A member whose computations have all been this long.
    fn with_grain(threads: u32, grain: Span) -> Member {
        let mut member = Member::of(threads);
        for _ in 0..SAMPLES {
            member.step(Observation::Arrived);
            member.end_wait(Observation::Spun(Span::ZERO));
            member.now = member.now + grain;
        }
        member.step(Observation::Arrived);
        member
    }

    fn step(&mut self, seen: Observation) -> Decision {
        self.advance(seen);
        let missing = [Missing { thread: ThreadId(1), last_seen: Some(self.missing) }];
        let Member { now, threads, cpus, own_cpu, movable, .. } = *self;
        let team = Team { now, threads, cpus, own_cpu, missing: &missing, movable, ..Team::default() };
        self.rule.step(&team, &mut self.state, seen)
    }

    fn end_wait(&mut self, seen: Observation) {
        self.advance(seen);
        self.rule.over(self.now, &mut self.state, seen);
    }

    fn advance(&mut self, seen: Observation) {
        if let Observation::Spun(span) | Observation::Yielded(span) = seen {
            self.now = self.now + span;
        }
    }

    /// Loses two ticks in a row to a hog.
    fn lose_two_ticks(&mut self) {
        assert_eq!(self.step(HOGS_YIELD), Decision::Yield);
        assert_eq!(self.step(HOGS_YIELD), Decision::Block);
        self.end_wait(Observation::Woken);
    }

    /// Lets this time pass.
    fn after(&mut self, span: Span) -> &mut Member {
        self.now = self.now + span;
        self
    }
}

#[test]
fn a_fine_thread_spins_while_its_siblings_run_and_then_yields() {
    let mut member = Member::with_grain(2, FINE);
    assert_eq!(member.step(Observation::Arrived), SPIN);
    for _ in 0..3 {
        assert_eq!(member.step(SPUN), Decision::CheckRunning);
        assert_eq!(member.step(ALL_RUN), SPIN);
    }
    for answer in [ONE_IS_OFF, UNKNOWN] {
        assert_eq!(member.step(SPUN), Decision::CheckRunning);
        assert_eq!(member.step(answer), Decision::Yield);
    }
    // It does not spin on the CPU of the sibling that it waits for.
    member.missing = OWN;
    assert_eq!(member.step(Observation::Arrived), Decision::Yield);
}

#[test]
fn a_coarse_thread_spins_while_its_siblings_run_and_then_blocks() {
    let mut member = Member::with_grain(2, COARSE);
    assert_eq!(member.step(Observation::Arrived), SPIN);
    assert_eq!(member.step(SPUN), Decision::CheckRunning);
    assert_eq!(member.step(ALL_RUN), SPIN);
    assert_eq!(member.step(SPUN), Decision::CheckRunning);
    assert_eq!(member.step(ONE_IS_OFF), Decision::Block);
    assert_eq!(member.step(Observation::Woken), Decision::Block);
    // On the CPU of the sibling that it waits for, it checks first.
    member.missing = OWN;
    assert_eq!(member.step(Observation::Arrived), Decision::CheckRunning);
    assert_eq!(member.step(ALL_RUN), SPIN);
}

#[test]
fn if_it_is_unknown_whether_siblings_run_a_coarse_thread_yields_unless_there_are_more_threads_than_cpus() {
    for (threads, decision) in [(2, Decision::Yield), (3, Decision::Block)] {
        let mut member = Member::with_grain(threads, COARSE);
        assert_eq!(member.step(Observation::Arrived), SPIN);
        assert_eq!(member.step(SPUN), Decision::CheckRunning);
        assert_eq!(member.step(UNKNOWN), decision, "{threads} threads");
    }
    let mut backs_off = Member::of(2);
    backs_off.step(Observation::Arrived);
    backs_off.lose_two_ticks();
    backs_off.step(Observation::Arrived);
    assert_eq!(backs_off.step(SPUN), Decision::CheckRunning);
    assert_eq!(backs_off.step(UNKNOWN), Decision::Block);
}

#[test]
fn with_an_unknown_grain_a_thread_is_careful_if_there_are_more_threads_than_cpus() {
    for (threads, decision) in [(2, Decision::Yield), (3, Decision::Block)] {
        let mut member = Member::of(threads);
        assert_eq!(member.step(Observation::Arrived), SPIN);
        assert_eq!(member.step(SPUN), Decision::CheckRunning);
        assert_eq!(member.step(ONE_IS_OFF), decision, "{threads} threads");
    }
}

#[test]
fn with_more_than_two_threads_for_each_cpu_a_fine_thread_yields_before_it_spins_unless_ticks_were_lost_recently() {
    assert_eq!(Member::with_grain(4, FINE).step(Observation::Arrived), SPIN);
    let mut member = Member { movable: false, ..Member::with_grain(5, FINE) };
    assert_eq!(member.step(Observation::Arrived), Decision::Yield);
    member.lose_two_ticks();
    // The backoff is over, but not forgotten.
    member.after(Span::from_millis(4 * 16 + 2));
    assert_eq!(member.step(Observation::Arrived), SPIN);
    member.after(Span::from_millis(100));
    assert_eq!(member.step(Observation::Arrived), Decision::Yield);
}

#[test]
fn after_a_lone_yield_it_spins_twice_as_long_each_time_and_after_a_siblings_it_yields_again() {
    let mut member = Member::of(2);
    for _ in 0..2 {
        member.step(Observation::Arrived);
        for nanos in [2_268, 4_536, 9_072, 18_144, 36_000, 36_000] {
            assert_eq!(member.step(LONE_YIELD), Decision::Spin(Span::from_nanos(nanos)));
        }
        assert_eq!(member.step(SIBLINGS_YIELD), Decision::Yield);
        // The next wait begins anew.
        member.end_wait(SIBLINGS_YIELD);
    }
}

#[test]
fn while_all_run_a_wait_spins_for_ten_milliseconds_and_then_blocks_and_its_first_spin_has_failed() {
    let mut member = Member::with_grain(3, COARSE);
    member.end_wait(Observation::Woken);
    for _ in 0..PERSISTENCE {
        member.after(COARSE);
        assert_eq!(member.step(Observation::Arrived), SPIN);
        assert_eq!(member.after(LONGEST_WAIT).step(SPUN), Decision::Block);
        member.end_wait(Observation::Woken);
    }
    member.after(COARSE);
    assert_eq!(member.step(Observation::Arrived), Decision::CheckRunning);
    assert_eq!(member.step(ALL_RUN), SPIN);
    assert_eq!(member.step(SPUN), Decision::CheckRunning);
    assert_eq!(member.after(LONGEST_WAIT).step(ALL_RUN), Decision::Block);
}

#[test]
fn checks_are_not_more_frequent_if_a_wakeup_costs_nothing() {
    let mut member = Member { rule: Adaptive::new(Costs::default()), ..Member::of(2) };
    member.step(Observation::Arrived);
    assert_eq!(member.step(ALL_RUN), Decision::Spin(SHORTEST_SPIN));
}

#[test]
fn an_unknown_tick_is_taken_to_be_the_usual_one() {
    let unknown = Adaptive::new(Costs { tick: Span::ZERO, ..COSTS });
    assert_eq!(unknown, Adaptive::new(COSTS));
}

#[test]
fn one_lost_tick_begins_no_backoff_and_two_do() {
    let mut member = Member::of(2);
    member.step(Observation::Arrived);
    assert_eq!(member.step(HOGS_YIELD), Decision::Yield);
    assert_eq!(member.rule.backoffs(), 0);
    assert_eq!(member.step(HOGS_YIELD), Decision::Block);
    assert_eq!(member.rule.backoffs(), 1);
}

#[test]
fn while_losses_are_recent_one_lost_tick_begins_a_backoff() {
    let mut member = Member::of(2);
    member.step(Observation::Arrived);
    member.lose_two_ticks();
    // Both times there were many yields in between.
    for (memory, backoffs) in [(0, 2), (102, 2)] {
        member.after(Span::from_millis(4 * 16 + 2 + memory)).step(Observation::Arrived);
        (0..FEW_YIELDS).for_each(|_| assert!(matches!(member.step(LONE_YIELD), Decision::Spin(_))));
        member.end_wait(HOGS_YIELD);
        assert_eq!(member.rule.backoffs(), backoffs, "after {memory} ms");
    }
}

#[test]
fn two_lost_ticks_with_many_yields_between_them_begin_no_backoff() {
    let mut member = Member::of(2);
    for _ in 0..2 {
        for _ in 0..FEW_YIELDS {
            member.step(Observation::Arrived);
            member.end_wait(LONE_YIELD);
        }
        member.step(Observation::Arrived);
        member.end_wait(HOGS_YIELD);
    }
    assert_eq!(member.rule.backoffs(), 0);
}

#[test]
fn a_tick_lost_while_the_others_arrive_or_after_ten_milliseconds_counts_too() {
    let mut member = Member::of(2);
    for _ in 0..2 {
        member.step(Observation::Arrived);
        member.end_wait(HOGS_YIELD);
    }
    assert_eq!(member.rule.backoffs(), 1);
    let mut member = Member::of(2);
    member.step(Observation::Arrived);
    assert_eq!(member.step(HOGS_YIELD), Decision::Yield);
    assert_eq!(member.step(Observation::Yielded(Span::from_millis(9))), Decision::Block);
    assert_eq!(member.rule.backoffs(), 1);
}

#[test]
fn a_yield_that_took_less_than_a_spin_is_no_lost_tick() {
    let costs = Costs { cs: Span::from_millis(1), ..COSTS };
    let mut member = Member { rule: Adaptive::new(costs), ..Member::of(2) };
    member.step(Observation::Arrived);
    for _ in 0..3 {
        assert_eq!(member.step(Observation::Yielded(Span::from_millis(2))), Decision::Yield);
    }
    assert_eq!(member.rule.backoffs(), 0);
}

#[test]
fn during_a_backoff_the_whole_team_is_careful() {
    let mut first = Member::of(2);
    first.step(Observation::Arrived);
    first.lose_two_ticks();
    let mut other = Member { state: first.state, now: first.now, ..Member::with_grain(2, FINE) };
    assert_eq!(other.step(Observation::Arrived), SPIN);
    assert_eq!(other.step(SPUN), Decision::CheckRunning);
    assert_eq!(other.step(ONE_IS_OFF), Decision::Block, "no yields");
    other.missing = OWN;
    assert_eq!(other.step(Observation::Arrived), Decision::CheckRunning);
    other.after(Span::from_millis(4 * 16 + 2));
    assert_eq!(other.step(Observation::Arrived), Decision::Yield, "its time is over");
}

#[test]
fn a_member_that_yields_blocks_once_another_one_has_begun_a_backoff() {
    let mut member = Member::with_grain(2, FINE);
    member.missing = OWN;
    assert_eq!(member.step(Observation::Arrived), Decision::Yield);
    let mut other = Member { now: member.now, ..Member::of(2) };
    other.step(Observation::Arrived);
    other.lose_two_ticks();
    (member.state, member.now) = (other.state, other.now);
    assert_eq!(member.step(HOGS_YIELD), Decision::Block);
    assert_eq!(member.rule.backoffs(), 0);
}

#[test]
fn a_careful_thread_checks_instead_of_failing_spins_and_tries_one_now_and_then() {
    let mut member = Member { movable: false, ..Member::with_grain(3, COARSE) };
    let mut spins = 0;
    for _ in 0..100 {
        if member.step(Observation::Arrived) == SPIN {
            spins += 1;
            assert_eq!(member.step(Observation::Spun(Span::ZERO)), Decision::CheckRunning);
        }
        assert_eq!(member.step(ONE_IS_OFF), Decision::Block);
        member.end_wait(Observation::Woken);
        member.after(COARSE);
    }
    assert_eq!(spins, u32::from(PERSISTENCE) + (100 - u32::from(PERSISTENCE)) / (u32::from(LEFT_OUT) + 1));
}

#[test]
fn only_the_first_spin_of_a_careful_wait_counts_as_failed_or_successful() {
    let mut member = Member::with_grain(3, COARSE);
    member.end_wait(Observation::Woken);
    for _ in 0..100 {
        member.after(COARSE);
        // Its first spin fails, and the siblings come in a later one.
        if member.step(Observation::Arrived) == SPIN {
            member.step(SPUN);
        }
        assert_eq!(member.step(ALL_RUN), SPIN);
        member.end_wait(SPUN);
    }
    assert_eq!(member.after(COARSE).step(Observation::Arrived), Decision::CheckRunning);
}

#[test]
fn careful_spins_that_succeed_as_often_as_they_fail_go_on() {
    let mut member = Member::with_grain(3, COARSE);
    member.end_wait(Observation::Woken);
    for _ in 0..2 * PERSISTENCE {
        assert_eq!(member.after(COARSE).step(Observation::Arrived), SPIN);
        member.step(SPUN);
        member.end_wait(Observation::Checked(Running::All));
        assert_eq!(member.after(COARSE).step(Observation::Arrived), SPIN);
        member.end_wait(SPUN);
    }
}

#[test]
fn a_first_spin_that_the_world_did_not_make_is_not_recorded_later() {
    let mut member = Member::with_grain(3, COARSE);
    member.end_wait(Observation::Woken);
    for _ in 0..2 * PERSISTENCE {
        // It is out of its turn, and so it has blocked.
        member.missing = OTHER;
        assert_eq!(member.after(COARSE).step(Observation::Arrived), SPIN);
        member.end_wait(Observation::Woken);
        member.missing = OWN;
        assert_eq!(member.after(COARSE).step(Observation::Arrived), Decision::CheckRunning);
        assert_eq!(member.step(ALL_RUN), SPIN);
        assert_eq!(member.step(SPUN), Decision::CheckRunning);
        member.end_wait(ONE_IS_OFF);
    }
}

#[test]
fn a_fine_grained_team_colocates_away_from_its_loss() {
    let mut member = Member::with_grain(4, FINE);
    member.lose_two_ticks();
    assert_eq!(member.step(Observation::Arrived), Decision::Move(OTHER));
    member.own_cpu = OTHER;
    assert_eq!(member.step(Observation::Moved), Decision::Yield);
    assert_eq!(member.step(SIBLINGS_YIELD), Decision::Yield);
}

#[test]
fn a_colocated_team_that_loses_ticks_moves_on_and_then_blocks() {
    let mut member = Member::with_grain(4, FINE);
    member.lose_two_ticks();
    // A tick that is lost elsewhere does not count.
    assert_eq!(member.step(Observation::Arrived), Decision::Move(OTHER));
    assert_eq!(member.step(Observation::Moved), Decision::Yield);
    assert_eq!(member.step(HOGS_YIELD), Decision::Yield);
    assert_eq!(member.step(HOGS_YIELD), Decision::Move(OTHER));
    for (from, to) in [(OTHER, OWN), (OWN, OTHER)] {
        (member.own_cpu, member.missing) = (from, to);
        assert_eq!(member.step(Observation::Moved), Decision::Yield);
        // The first one may end the wait.
        (0..FEW_YIELDS).for_each(|_| assert_eq!(member.step(SIBLINGS_YIELD), Decision::Yield));
        member.end_wait(HOGS_YIELD);
        assert_eq!(member.step(Observation::Arrived), Decision::Yield);
        assert_eq!(member.step(HOGS_YIELD), Decision::Block);
        member.end_wait(Observation::Woken);
        let next = member.step(Observation::Arrived);
        assert_eq!(next, if from == OTHER { Decision::Move(OWN) } else { Decision::Block });
    }
    // A member that yields when another one has decided to block there does so as well.
    let mut late = Member { state: member.state, now: member.now, own_cpu: OWN, ..Member::with_grain(4, FINE) };
    assert_eq!(late.step(Observation::Arrived), Decision::Block);
    assert_eq!(late.step(HOGS_YIELD), Decision::Block);
    assert_eq!(late.rule.backoffs(), 0);
}

#[test]
fn a_team_that_has_seen_no_other_cpu_lately_remembers_one_and_on_one_cpu_it_does_not_colocate() {
    let mut member = Member::with_grain(4, FINE);
    member.end_wait(Observation::Woken);
    member.missing = OWN;
    member.step(Observation::Arrived);
    member.lose_two_ticks();
    assert_eq!(member.step(Observation::Arrived), Decision::Move(OTHER));

    let mut single = Member { cpus: 1, ..Member::with_grain(4, FINE) };
    single.step(Observation::Arrived);
    single.lose_two_ticks();
    assert_eq!(single.step(Observation::Arrived), SPIN);
}

#[test]
fn a_thread_that_could_not_move_out_of_its_turn_moves_in_it() {
    let mut member = Member::with_grain(4, FINE);
    member.lose_two_ticks();
    assert_eq!(member.step(Observation::Arrived), Decision::Move(OTHER));
    // The world has blocked instead.
    assert_eq!(member.step(Observation::Arrived), Decision::Move(OTHER));
}

#[test]
fn a_thread_that_the_scheduler_moves_comes_back_once_a_tick() {
    let mut member = Member::with_grain(4, FINE);
    member.lose_two_ticks();
    assert_eq!(member.step(Observation::Arrived), Decision::Move(OTHER));
    assert_eq!(member.step(Observation::Moved), Decision::Yield, "it could not move, so it yields here");
    assert_eq!(member.step(Observation::Arrived), Decision::Yield);
    member.after(COSTS.tick);
    assert_eq!(member.step(SIBLINGS_YIELD), Decision::Move(OTHER));
}

#[test]
fn coarse_small_and_immovable_teams_do_not_colocate() {
    let coarse = Member::with_grain(4, COARSE);
    let few = Member::with_grain(3, FINE);
    let immovable = Member { movable: false, ..Member::with_grain(4, FINE) };
    for mut member in [coarse, few, immovable] {
        // Whether the team can be moved is learnt on arrival.
        member.step(Observation::Arrived);
        member.lose_two_ticks();
        assert_eq!(member.rule.backoffs(), 1);
        let decision = member.step(Observation::Arrived);
        assert!(!matches!(decision, Decision::Move(_)), "{decision:?}");
    }
}

#[test]
fn a_member_that_turns_coarse_gives_up_colocation() {
    let mut member = Member::with_grain(4, FINE);
    member.lose_two_ticks();
    for _ in 0..SAMPLES {
        member.step(Observation::Arrived);
        member.end_wait(Observation::Woken);
        member.after(Span::from_micros(20));
    }
    assert_eq!(member.step(Observation::Arrived), SPIN);
}

#[test]
fn one_long_computation_does_not_make_a_thread_coarse() {
    let mut member = Member::with_grain(3, FINE);
    member.end_wait(Observation::Woken);
    member.after(Span::from_millis(4)).step(Observation::Arrived);
    member.step(SPUN);
    assert_eq!(member.step(ONE_IS_OFF), Decision::Yield);
}

#[test]
fn at_a_lock_a_thread_spins_for_cs_at_most_and_only_while_the_owner_runs() {
    let quarter = COSTS.cs.scaled(SPIN_AT_A_LOCK);
    let (spin, spun, check) = (Decision::Spin(quarter), Observation::Spun(quarter), Decision::CheckRunning);
    let steps = |seen: &[Observation]| -> Vec<Decision> {
        let mut member = Member::of(0);
        seen.iter().map(|&seen| member.step(seen)).collect()
    };
    let seen = [Observation::Arrived, spun, ALL_RUN, spun, ALL_RUN, spun, ALL_RUN, spun, Observation::Woken];
    assert_eq!(steps(&seen), [spin, check, spin, check, spin, check, spin, Decision::Block, Decision::Block]);
    for answer in [ONE_IS_OFF, UNKNOWN] {
        assert_eq!(steps(&[Observation::Arrived, spun, answer]), [spin, check, Decision::Block]);
    }
    let mut free = Member { rule: Adaptive::new(Costs::default()), ..Member::of(0) };
    assert_eq!(free.step(Observation::Arrived), Decision::Block, "a wakeup costs nothing");
}

/// The observation that an arbitrary world makes after a decision.
fn seen_after(decision: Decision, span: Span) -> Observation {
    match decision {
        Decision::Spin(limit) => Observation::Spun(span.min(limit)),
        Decision::Yield => Observation::Yielded(span),
        Decision::Move(_) => Observation::Moved,
        Decision::Block => Observation::Woken,
        Decision::CheckRunning => match span.as_nanos() % 3 {
            0 => ALL_RUN,
            1 => ONE_IS_OFF,
            _ => UNKNOWN,
        },
    }
}

/// Lone yields, and yields to siblings and to hogs, in nanoseconds.
fn spans() -> impl proptest::strategy::Strategy<Value = u64> {
    proptest::prop_oneof![100_u64..900, 1_000_u64..10_000, 500_000_u64..6_000_000]
}

proptest::proptest! {
    /// In any world no spin is longer than the bound. No thread is told to move that cannot or is
    /// already there, or twice within a tick. Every wait blocks when its time is up.
    #[test]
    fn in_any_world_a_wait_is_bounded_and_moves_are_rare(
        threads in 1_u32..9,
        movable: bool,
        waits in proptest::collection::vec(
            (0_u64..100_000, proptest::collection::vec((spans(), 0_u32..3, 0_u32..3), 1..40)),
            1..30,
        ),
    ) {
        let mut member = Member { movable, ..Member::of(threads) };
        let mut moved: Option<Instant> = None;
        for (computes, steps) in waits {
            member.now = member.now + Span::from_nanos(computes);
            let began = member.now;
            let mut seen = Observation::Arrived;
            for (nanos, own_cpu, missing) in steps {
                (member.own_cpu, member.missing) = (CpuId(own_cpu), CpuId(missing));
                let decision = member.step(seen);
                match decision {
                    Decision::Spin(span) => proptest::prop_assert!(span <= BOUND_HERE),
                    Decision::Move(cpu) => {
                        proptest::prop_assert!(movable && cpu != member.own_cpu);
                        proptest::prop_assert!(moved.is_none_or(|moved| member.now.since(moved) > COSTS.tick));
                        moved = Some(member.now);
                    }
                    Decision::Yield | Decision::Block | Decision::CheckRunning => {}
                }
                let out_of_time = member.now.since(began) >= LONGEST_WAIT;
                if out_of_time && !matches!(seen, Observation::Arrived | Observation::Moved) {
                    proptest::prop_assert!(decision == Decision::Block, "{decision:?} after {seen:?}");
                }
                seen = seen_after(decision, Span::from_nanos(nanos));
            }
            member.end_wait(seen);
        }
    }
}
