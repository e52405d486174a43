//! Loom models of the barrier: all interleavings up to a bound on preemptions, all values that a
//! load may return.
//!
//! A lost wakeup is a deadlock, which loom reports. A missing happens-before edge lets a relaxed
//! load return an old value, which the test detects.
//!
//! Each model states its threads, rounds and preemptions. Much more of any takes minutes. Rules
//! that never block have two threads only: of three, loom would switch between two forever.

use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::sync::atomic::Ordering::Relaxed;
use policy::Span;
use policy::waiting::{Costs, WaitingRule};
use rowlock_wait::{Barrier, Waiting};

const COSTS: Costs =
    Costs { cs: Span::from_micros(1), margin: Span::ZERO, lone_yield: Span::ZERO, tick: Span::from_millis(4) };

/// The state that the threads of a model share.
struct Meeting {
    barrier: Barrier,
    /// The number of rounds that each thread has begun.
    begun: Vec<AtomicU64>,
    leaders: AtomicU64,
}

impl Meeting {
    /// The part of one thread: meets the others `rounds` times.
    fn attend(&self, number: u32, rounds: u64) {
        let mut party = self.barrier.party(number);
        for round in 1..=rounds {
            self.begun[number as usize].store(round, Relaxed);
            if party.wait().is_leader() {
                self.leaders.fetch_add(1, Relaxed);
            }
            // The others have begun this round, and cannot have begun the one after the next.
            assert!(self.begun.iter().all(|begun| (round..=round + 1).contains(&begun.load(Relaxed))));
        }
    }
}

/// Checks `meeting` in all interleavings with at most `preemptions` preemptions.
fn model(preemptions: usize, meeting: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    (model.preemption_bound, model.max_duration) = testing::depth(preemptions);
    model.check(meeting);
}

/// Checks `threads` threads that meet `rounds` times.
fn meet(rule: &str, threads: u32, rounds: u64, preemptions: usize) {
    let rule: WaitingRule = rule.parse().unwrap();
    model(preemptions, move || {
        let meeting = Arc::new(Meeting {
            barrier: Barrier::with(threads, Waiting::by(rule).with_costs(COSTS).with_cpus(2)),
            begun: (0..threads).map(|_| AtomicU64::new(0)).collect(),
            leaders: AtomicU64::new(0),
        });
        let others: Vec<_> = (1..threads)
            .map(|number| {
                let meeting = meeting.clone();
                loom::thread::spawn(move || meeting.attend(number, rounds))
            })
            .collect();
        meeting.attend(0, rounds);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(meeting.leaders.load(Relaxed), rounds);
        assert_eq!(meeting.barrier.statistics().waits, rounds * u64::from(threads));
    });
}

#[test]
fn two_blocking_threads_lose_no_wakeup() {
    meet("always-block", 2, 3, 4);
}

#[test]
fn three_blocking_threads_lose_no_wakeup() {
    meet("always-block", 3, 2, 2);
}

#[test]
fn two_threads_spin_and_then_block() {
    meet("cs", 2, 3, 5);
}

#[test]
fn three_threads_spin_and_then_block() {
    meet("cs", 3, 2, 1);
}

#[test]
fn two_threads_spin_until_they_meet() {
    meet("always-spin", 2, 3, 9);
}

#[test]
fn two_threads_yield_until_they_meet() {
    meet("always-yield", 2, 3, 9);
}

#[test]
fn more_threads_than_parties_meet_in_turns() {
    model(2, || {
        let barrier = Arc::new(Barrier::with(2, Waiting::by(WaitingRule::AlwaysBlock)));
        let others: Vec<_> = (0..3)
            .map(|_| {
                let barrier = barrier.clone();
                loom::thread::spawn(move || barrier.wait().is_leader())
            })
            .collect();
        let own = u32::from(barrier.wait().is_leader());
        let leaders = others.into_iter().map(|other| u32::from(other.join().unwrap())).sum::<u32>() + own;
        assert_eq!(leaders, 2);
    });
}

#[test]
fn a_team_continues_without_a_party_that_has_left() {
    model(3, || {
        let barrier = Arc::new(Barrier::with(3, Waiting::by(WaitingRule::AlwaysBlock)));
        let left = Arc::new(AtomicU64::new(0));
        let staying: Vec<_> = (0..2)
            .map(|number| {
                let (barrier, left) = (barrier.clone(), left.clone());
                loom::thread::spawn(move || {
                    let mut party = barrier.party(number);
                    party.wait();
                    assert_eq!(left.load(Relaxed), 1, "the leaving party arrives in the first round");
                    party.wait();
                })
            })
            .collect();
        left.store(1, Relaxed);
        let _ = barrier.party(2).arrive_and_leave();
        staying.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
