use super::super::Missing;
use super::super::grain::SAMPLES;
use super::*;
use crate::units::{CpuId, ThreadId};

const COSTS: Costs = Costs {
    cs: Span::from_micros(16),
    margin: Span::ZERO,
    lone_yield: Span::from_nanos(500),
    tick: Span::from_millis(4),
};
const BOUND_HERE: Span = COSTS.cs.scaled(BOUND);
const SPUN: Observation = Observation::Spun(BOUND_HERE);
const HOGS_YIELD: Observation = Observation::Yielded(Span::from_millis(4));
const SPIN: Decision = Decision::Spin(BOUND_HERE);

/// A waiting thread on CPU 0 of two.
struct Member {
    rule: Adaptive2,
    state: TeamState,
    now: Instant,
    round: u64,
    threads: u32,
    /// The CPU on which the missing sibling was last seen.
    missing: CpuId,
}

impl Member {
    /// A member whose computations were all this long.
    fn with_grain(threads: u32, grain: Span) -> Member {
        let now = Instant::from_nanos(1 << 40);
        let mut member =
            Member { rule: Adaptive2::new(COSTS), state: TeamState(0), now, round: 0, threads, missing: CpuId(1) };
        for _ in 0..=SAMPLES {
            member.meet(grain);
        }
        member
    }

    fn of(threads: u32) -> Member {
        Member::with_grain(threads, Span::from_micros(1))
    }

    /// Computes, arrives and waits for nothing more.
    fn meet(&mut self, grain: Span) {
        self.now = self.now + grain;
        self.step(Observation::Arrived);
        self.rule.over(self.now);
        self.round += 1;
    }

    fn step(&mut self, seen: Observation) -> Decision {
        let missing = [Missing { thread: ThreadId(1), last_seen: Some(self.missing) }];
        let Member { now, round, threads, .. } = *self;
        let team = Team { now, threads, round, cpus: 2, missing: &missing, movable: true, ..Team::default() };
        self.rule.step(&team, &mut self.state, seen)
    }

    /// Follows a way for the rest of the test.
    fn keep(&mut self, way: Way) {
        let mut trials = Trials::default();
        trials.leave_calm(way, Moment { now: self.now, round: self.round, tick: COSTS.tick });
        self.state = trials.into();
    }

    fn after(&mut self, span: Span) -> &mut Member {
        self.now = self.now + span;
        self
    }
}

#[test]
fn a_spin_goes_on_while_all_missing_threads_run_and_ends_in_a_block_if_one_does_not() {
    let mut member = Member::of(2);
    assert_eq!(member.step(Observation::Arrived), SPIN);
    assert_eq!(member.step(SPUN), Decision::CheckRunning);
    assert_eq!(member.step(Observation::Checked(Running::All)), SPIN);
    assert_eq!(member.step(SPUN), Decision::CheckRunning);
    assert_eq!(member.step(Observation::Checked(Running::NotAll)), Decision::Block);
    assert_eq!(member.step(Observation::Woken), Decision::Block);
    // That was trouble.
    assert_ne!(member.state, TeamState(0));
}

#[test]
fn a_thread_blocks_if_it_is_unknown_whether_a_missing_one_runs() {
    let mut member = Member::of(2);
    member.step(Observation::Arrived);
    member.step(SPUN);
    assert_eq!(member.step(Observation::Checked(Running::Unknown)), Decision::Block);
}

#[test]
fn a_thread_does_not_spin_on_the_cpu_of_a_missing_sibling() {
    let mut member = Member::of(2);
    member.missing = CpuId(0);
    assert_eq!(member.step(Observation::Arrived), Decision::CheckRunning);
}

#[test]
fn a_fine_grained_team_with_more_threads_than_cpus_starts_by_yielding_and_a_coarse_one_by_spinning() {
    let mut fine = Member::of(3);
    fine.missing = CpuId(0);
    assert_eq!(fine.step(Observation::Arrived), Decision::Yield);
    // A sibling ran, then none: it spins for longer and longer before it yields again.
    assert_eq!(fine.step(Observation::Yielded(Span::from_micros(3))), Decision::Yield);
    let lone = Observation::Yielded(Span::from_nanos(600));
    let Decision::Spin(first) = fine.step(lone) else { panic!("no spin") };
    assert_eq!(fine.step(Observation::Spun(first)), Decision::Yield);
    assert_eq!(fine.step(lone), Decision::Spin(first.scaled(2_000)));

    let mut coarse = Member::with_grain(3, Span::from_micros(100));
    assert_eq!(coarse.step(Observation::Arrived), SPIN);
}

#[test]
fn a_yield_that_another_program_has_used_ends_in_a_block() {
    let mut member = Member::of(3);
    member.missing = CpuId(0);
    member.step(Observation::Arrived);
    assert_eq!(member.step(HOGS_YIELD), Decision::Block);
}

#[test]
fn a_team_that_blocks_blocks_at_once() {
    let mut member = Member::of(3);
    member.keep(Way::Block);
    assert_eq!(member.step(Observation::Arrived), Decision::Block);
}

#[test]
fn a_colocated_team_meets_on_one_cpu_and_moves_there_at_most_once_a_tick() {
    let mut member = Member::of(4);
    member.keep(Way::Colocate);
    // The first member stays where it is.
    assert_eq!(member.step(Observation::Arrived), Decision::Yield);
    let state = member.state;
    let mut other = Member::of(4);
    (other.state, other.now) = (state, member.now);
    let missing = [Missing { thread: ThreadId(1), last_seen: None }];
    let arrive = |member: &mut Member, own_cpu, seen| {
        let Member { now, round, threads, .. } = *member;
        let team = Team { now, threads, round, cpus: 2, own_cpu, missing: &missing, movable: true, ..Team::default() };
        member.rule.step(&team, &mut member.state, seen)
    };
    assert_eq!(arrive(&mut other, CpuId(1), Observation::Arrived), Decision::Move(CpuId(0)));
    assert_eq!(arrive(&mut other, CpuId(0), Observation::Moved), Decision::Yield);
    assert_eq!(arrive(&mut other, CpuId(1), Observation::Arrived), Decision::Yield);
    other.after(COSTS.tick + Span::from_nanos(1));
    assert_eq!(arrive(&mut other, CpuId(1), Observation::Arrived), Decision::Move(CpuId(0)));
}

#[test]
fn no_wait_spins_or_yields_for_more_than_ten_milliseconds() {
    let mut member = Member::of(2);
    member.step(Observation::Arrived);
    assert_eq!(member.after(LONGEST_WAIT).step(SPUN), Decision::Block);
    member.step(Observation::Arrived);
    assert_eq!(member.after(LONGEST_WAIT).step(Observation::Checked(Running::All)), Decision::Block);
}

#[test]
fn at_a_lock_a_thread_spins_for_cs_at_most_and_only_while_the_owner_runs() {
    let quarter = COSTS.cs.scaled(SPIN_AT_A_LOCK);
    let (spin, spun, runs) = (Decision::Spin(quarter), Observation::Spun(quarter), Observation::Checked(Running::All));
    let steps = |seen: &[Observation]| -> Vec<Decision> {
        let mut member = Member::of(0);
        seen.iter().map(|&seen| member.step(seen)).collect()
    };
    let check = Decision::CheckRunning;
    let seen = [Observation::Arrived, spun, runs, spun, runs, spun, runs, spun, Observation::Woken];
    assert_eq!(steps(&seen), [spin, check, spin, check, spin, check, spin, Decision::Block, Decision::Block]);
    for answer in [Running::NotAll, Running::Unknown] {
        let seen = [Observation::Arrived, spun, Observation::Checked(answer)];
        assert_eq!(steps(&seen), [spin, check, Decision::Block]);
    }
}

#[test]
fn a_team_whose_rounds_are_not_counted_measures_nothing() {
    let mut member = Member::of(2);
    (member.threads, member.round) = (3, 0);
    member.state = TeamState(0);
    assert_eq!(member.step(Observation::Arrived), SPIN);
    member.step(SPUN);
    assert_eq!(member.step(Observation::Checked(Running::NotAll)), Decision::Block);
    assert_eq!(member.state, TeamState(0));
}

#[test]
fn a_member_blocks_once_another_one_has_ended_the_trial() {
    let mut member = Member::of(3);
    member.keep(Way::Block);
    // Until the trial of another way, by which the member spins or yields.
    for _ in 0..1_000 {
        if member.step(Observation::Arrived) != Decision::Block {
            break;
        }
        member.rule.over(member.now);
        member.after(Span::from_micros(200)).round += 1;
    }
    assert!(member.rule.is_trial);
    let during = member.state;
    assert_ne!(member.step(SPUN), Decision::Block);
    // The other member ends it.
    let Member { now, round, .. } = member;
    let mut trials = Trials::from(during);
    assert!(trials.cut_off(Moment { now: now + Span::from_millis(100), round, tick: COSTS.tick }));
    member.state = trials.into();
    assert_eq!(member.step(SPUN), Decision::Block);
}
