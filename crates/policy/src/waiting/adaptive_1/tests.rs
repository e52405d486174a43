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

/// A waiting thread on CPU 0 of two.
struct Member {
    rule: Adaptive1,
    state: TeamState,
    now: Instant,
    threads: u32,
    own_cpu: CpuId,
    /// The CPU on which the missing sibling was last seen.
    missing: CpuId,
    movable: bool,
}

impl Member {
    fn of(threads: u32) -> Member {
        Member {
            rule: Adaptive1::new(COSTS),
            state: TeamState::default(),
            now: Instant::from_nanos(1 << 40),
            threads,
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
        let Member { now, threads, own_cpu, movable, .. } = *self;
        let team = Team { now, threads, cpus: 2, own_cpu, missing: &missing, movable, ..Team::default() };
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
    fn overload(&mut self) {
        self.step(HOGS_YIELD);
        assert_eq!(self.step(HOGS_YIELD), Decision::Block);
        self.end_wait(Observation::Woken);
    }
}

#[test]
fn a_thread_spins_to_its_bound_and_then_yields() {
    let mut member = Member::of(2);
    assert_eq!(member.step(Observation::Arrived), Decision::Spin(BOUND_HERE));
    assert_eq!(member.step(SPUN), Decision::Yield);
    // It does not spin on the CPU of the sibling that it waits for.
    member.missing = OWN;
    assert_eq!(member.step(Observation::Arrived), Decision::Yield);
}

#[test]
fn after_a_lone_yield_it_spins_longer_each_time_and_after_a_siblings_it_yields_again() {
    let mut member = Member::of(2);
    member.step(Observation::Arrived);
    let mut before = Span::ZERO;
    for _ in 0..4 {
        let Decision::Spin(chunk) = member.step(LONE_YIELD) else { panic!("a lone yield is no reason to yield again") };
        assert!(chunk > before && chunk <= BOUND_HERE);
        before = chunk;
    }
    assert_eq!(member.step(SIBLINGS_YIELD), Decision::Yield);
}

#[test]
fn an_unknown_tick_is_taken_to_be_the_usual_one() {
    let unknown = Adaptive1::new(Costs { tick: Span::ZERO, ..COSTS });
    assert_eq!(unknown, Adaptive1::new(COSTS));
}

#[test]
fn one_lost_tick_sets_no_mark_and_two_do() {
    let mut member = Member::of(2);
    member.step(Observation::Arrived);
    assert_eq!(member.step(HOGS_YIELD), Decision::Yield);
    assert_eq!(member.rule.overload_marks(), 0);
    assert_eq!(member.step(HOGS_YIELD), Decision::Block);
    assert_eq!(member.rule.overload_marks(), 1);
}

#[test]
fn two_lost_ticks_with_many_yields_between_them_set_no_mark() {
    let mut member = Member::of(2);
    for _ in 0..2 {
        for _ in 0..FEW_YIELDS {
            member.step(Observation::Arrived);
            member.end_wait(LONE_YIELD);
        }
        member.step(Observation::Arrived);
        member.end_wait(HOGS_YIELD);
    }
    assert_eq!(member.rule.overload_marks(), 0);
}

#[test]
fn a_tick_lost_while_the_others_arrive_counts_too() {
    let mut member = Member::of(2);
    for _ in 0..2 {
        member.step(Observation::Arrived);
        member.end_wait(HOGS_YIELD);
    }
    assert_eq!(member.rule.overload_marks(), 1);
}

#[test]
fn after_a_mark_the_whole_team_is_careful() {
    let mut marked = Member::of(3);
    marked.step(Observation::Arrived);
    marked.overload();
    let mut other = Member { state: marked.state, now: marked.now, ..Member::with_grain(3, Span::from_micros(5)) };
    assert_eq!(other.step(Observation::Arrived), Decision::Spin(BOUND_HERE));
    assert_eq!(other.step(SPUN), Decision::Block, "no yields");
    other.missing = OWN;
    assert_eq!(other.step(Observation::Arrived), Decision::Block);
    other.now = other.now + Span::from_millis(52);
    assert_eq!(other.step(Observation::Arrived), Decision::Yield, "its time is over");
}

#[test]
fn a_careful_team_of_more_than_two_threads_a_cpu_blocks() {
    let mut member = Member { movable: false, ..Member::of(5) };
    member.step(Observation::Arrived);
    member.overload();
    assert_eq!(member.step(Observation::Arrived), Decision::Block);
}

#[test]
fn a_careful_thread_leaves_out_failing_spins_and_tries_again_now_and_then() {
    let mut member = Member { movable: false, ..Member::of(3) };
    member.step(Observation::Arrived);
    member.overload();
    let mut spins = 0;
    for _ in 0..100 {
        // All at the same moment, so that the response holds.
        if let Decision::Spin(_) = member.step(Observation::Arrived) {
            spins += 1;
            member.step(Observation::Spun(Span::ZERO));
        }
        member.rule.over(member.now, &mut member.state, Observation::Woken);
    }
    assert_eq!(spins, u32::from(PERSISTENCE) + (100 - u32::from(PERSISTENCE)) / (u32::from(LEFT_OUT) + 1));
}

#[test]
fn a_fine_grained_team_colocates_away_from_its_mark() {
    let mut member = Member::with_grain(4, Span::from_micros(5));
    member.overload();
    assert_eq!(member.step(Observation::Arrived), Decision::Move(OTHER));
    member.own_cpu = OTHER;
    assert_eq!(member.step(Observation::Moved), Decision::Yield);
    assert_eq!(member.step(SIBLINGS_YIELD), Decision::Yield);
}

#[test]
fn a_thread_that_the_scheduler_moves_comes_back_once_a_tick() {
    let mut member = Member::with_grain(4, Span::from_micros(5));
    member.overload();
    assert_eq!(member.step(Observation::Arrived), Decision::Move(OTHER));
    assert_eq!(member.step(Observation::Moved), Decision::Yield, "it could not move, so it yields here");
    assert_eq!(member.step(Observation::Arrived), Decision::Yield);
    member.now = member.now + COSTS.tick;
    assert_eq!(member.step(SIBLINGS_YIELD), Decision::Move(OTHER));
}

#[test]
fn coarse_small_and_immovable_teams_do_not_colocate() {
    let coarse = Member::with_grain(4, Span::from_micros(50));
    let few = Member::with_grain(3, Span::from_micros(5));
    let immovable = Member { movable: false, ..Member::with_grain(4, Span::from_micros(5)) };
    for mut member in [coarse, few, immovable] {
        // Whether the team can be moved is learnt on arrival.
        member.step(Observation::Arrived);
        member.step(HOGS_YIELD);
        member.step(HOGS_YIELD);
        assert_eq!(member.rule.overload_marks(), 1);
        let decision = member.step(Observation::Arrived);
        assert!(!matches!(decision, Decision::Move(_)), "{decision:?}");
    }
}

#[test]
fn a_colocated_team_that_turns_coarse_gives_up_colocation() {
    let mut member = Member::with_grain(4, Span::from_micros(5));
    member.overload();
    for _ in 0..SAMPLES {
        member.step(Observation::Arrived);
        member.end_wait(Observation::Woken);
        member.now = member.now + Span::from_micros(50);
    }
    assert_eq!(member.step(Observation::Arrived), Decision::Spin(BOUND_HERE));
    assert_eq!(OverloadResponse::from(member.state).mode(member.now), TeamMode::Careful);
}

#[test]
fn coarse_threads_beyond_the_cpus_do_not_yield() {
    let mut member = Member::with_grain(3, Span::from_micros(50));
    assert_eq!(member.step(SPUN), Decision::Block);
    let mut fine = Member::with_grain(3, Span::from_micros(5));
    assert_eq!(fine.step(SPUN), Decision::Yield);
}

#[test]
fn one_long_computation_does_not_make_a_thread_coarse() {
    let mut member = Member::with_grain(3, Span::from_micros(5));
    member.end_wait(Observation::Woken);
    member.now = member.now + Span::from_millis(4);
    member.step(Observation::Arrived);
    assert_eq!(member.step(SPUN), Decision::Yield);
}

#[test]
fn without_known_members_a_thread_spins_briefly_and_blocks() {
    let mut member = Member::of(0);
    let moment = Span::from_nanos(3_750);
    assert_eq!(member.step(Observation::Arrived), Decision::Spin(moment));
    assert_eq!(member.step(Observation::Spun(moment)), Decision::Block);
    assert_eq!(member.step(Observation::Woken), Decision::Block);
    member.rule = Adaptive1::new(Costs::default());
    assert_eq!(member.step(Observation::Arrived), Decision::Block, "a wakeup costs nothing");
}

/// The observation that an arbitrary world makes after a decision.
fn seen_after(decision: Decision, span: Span) -> Observation {
    match decision {
        Decision::Spin(limit) => Observation::Spun(span.min(limit)),
        Decision::Yield => Observation::Yielded(span),
        Decision::Move(_) => Observation::Moved,
        Decision::Block => Observation::Woken,
        Decision::CheckRunning => Observation::Checked(Running::Unknown),
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
                    Decision::Yield | Decision::Block => {}
                    Decision::CheckRunning => proptest::prop_assert!(false, "it never checks"),
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
