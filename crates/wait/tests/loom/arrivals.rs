//! Loom models of the arrival tree: teams of three or four threads at trees of fan-in 2.
//!
//! As in the models of the barrier, a lost wakeup or a lost arrival is a deadlock, which loom
//! reports, and a missing happens-before edge lets a relaxed load return an old value.

use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::sync::atomic::Ordering::Relaxed;
use policy::waiting::WaitingRule;
use rowlock_wait::{Barrier, Waiting};

const BLOCK: WaitingRule = WaitingRule::AlwaysBlock;

/// The state that the threads of a model share.
struct Meeting {
    barrier: Barrier,
    /// The number of rounds that each thread has begun.
    begun: Vec<AtomicU64>,
    leaders: AtomicU64,
}

impl Meeting {
    fn new(threads: u32) -> Arc<Meeting> {
        Arc::new(Meeting {
            barrier: Barrier::with(threads, Waiting::by(BLOCK)).with_fan_in(2),
            begun: (0..threads).map(|_| AtomicU64::new(0)).collect(),
            leaders: AtomicU64::new(0),
        })
    }

    /// The part of one thread: meets the others `rounds` times as this party.
    fn attend(&self, thread: u32, party: u32, rounds: u64) {
        let mut party = self.barrier.party(party);
        for round in 1..=rounds {
            self.begun[thread as usize].store(round, Relaxed);
            if party.wait().is_leader() {
                self.leaders.fetch_add(1, Relaxed);
            }
            // The others have begun this round, and cannot have begun the one after the next.
            assert!(self.begun.iter().all(|begun| (round..=round + 1).contains(&begun.load(Relaxed))));
        }
    }
}

/// Checks a model in all interleavings with at most `preemptions` preemptions.
fn model(preemptions: usize, meeting: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    (model.preemption_bound, model.max_duration) = testing::depth(preemptions);
    model.check(meeting);
}

/// Checks threads that meet `rounds` times as these parties.
fn meet(parties: &'static [u32], rounds: u64, preemptions: usize) {
    model(preemptions, move || {
        let threads = parties.len() as u32;
        let meeting = Meeting::new(threads);
        let others: Vec<_> = (1..threads)
            .map(|thread| {
                let meeting = meeting.clone();
                loom::thread::spawn(move || meeting.attend(thread, parties[thread as usize], rounds))
            })
            .collect();
        meeting.attend(0, parties[0], rounds);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(meeting.leaders.load(Relaxed), rounds);
        assert_eq!(meeting.barrier.statistics().waits, rounds * u64::from(threads));
    });
}

#[test]
fn three_parties_meet_at_their_leaves() {
    meet(&[0, 1, 2], 2, 1);
}

#[test]
fn four_parties_meet_at_their_leaves() {
    meet(&[0, 1, 2, 3], 1, 1);
}

#[test]
fn parties_without_numbers_find_leaves_that_are_not_full() {
    meet(&[u32::MAX; 3], 2, 1);
}

#[test]
fn parties_with_the_same_number_find_leaves_that_are_not_full() {
    meet(&[2, 2, 2], 1, 2);
}

/// An additional arrival may find that the leaves are full. Then the ticket counter takes over.
#[test]
fn threads_that_arrive_twice_meet_in_turns() {
    model(2, || {
        let barrier = Arc::new(Barrier::with(3, Waiting::by(BLOCK)).with_fan_in(2));
        let arrive_twice = |barrier: &Barrier| {
            let mut party = barrier.anonymous();
            let arrivals = [party.arrive(), party.arrive()];
            arrivals.into_iter().filter(|arrival| arrival.number() % 3 == 2).count()
        };
        let others: Vec<_> = (0..2)
            .map(|_| {
                let barrier = barrier.clone();
                loom::thread::spawn(move || arrive_twice(&barrier))
            })
            .collect();
        let own = arrive_twice(&barrier);
        let leaders = own + others.into_iter().map(|other| other.join().unwrap()).sum::<usize>();
        assert_eq!((leaders, barrier.statistics().waits), (2, 6));
        let arrivals: Vec<_> = (0..7).filter_map(|number| barrier.arrival(number)).collect();
        assert_eq!(arrivals.len(), 6, "each number up to 5 is that of an arrival");
        assert!(arrivals.iter().all(|arrival| barrier.anonymous().has_completed(arrival)));
    });
}

/// The last of three additional arrivals may advance the generation before the last of the parties
/// does. Then it releases the party that waits, which must see what the others did nevertheless.
#[test]
fn a_party_that_additional_arrivals_release_sees_what_happened_before_those_of_its_round() {
    model(2, || {
        let barrier = Arc::new(Barrier::with(3, Waiting::by(BLOCK)).with_fan_in(2));
        let written = Arc::new(AtomicU64::new(0));
        let writing = {
            let (barrier, written) = (barrier.clone(), written.clone());
            loom::thread::spawn(move || {
                written.store(1, Relaxed);
                let mut party = barrier.anonymous();
                let _ = [party.arrive(), party.arrive()];
            })
        };
        let additional = {
            let barrier = barrier.clone();
            loom::thread::spawn(move || {
                let mut party = barrier.anonymous();
                [party.arrive(), party.arrive(), party.arrive()][0].number()
            })
        };
        barrier.wait();
        let seen = written.load(Relaxed);
        writing.join().unwrap();
        // If these arrivals are all additional, those of the other threads make the first round.
        assert!(additional.join().unwrap() < 3 || seen == 1);
    });
}

#[test]
fn a_team_continues_without_a_party_that_has_left() {
    model(2, || {
        let barrier = Arc::new(Barrier::with(3, Waiting::by(BLOCK)).with_fan_in(2));
        let left = Arc::new(AtomicU64::new(0));
        let staying: Vec<_> = (0..2)
            .map(|number| {
                let (barrier, left) = (barrier.clone(), left.clone());
                loom::thread::spawn(move || {
                    let mut party = barrier.party(number);
                    party.wait();
                    assert_eq!(left.load(Relaxed), 1, "the leaving party arrives in the first round");
                    party.wait();
                    party.wait();
                })
            })
            .collect();
        left.store(1, Relaxed);
        let _ = barrier.party(2).arrive_and_leave();
        staying.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(barrier.statistics().waits, 7);
    });
}

/// Each thread shares the ownership of the barrier, as at the barriers of C programs, which may be
/// destroyed as soon as one thread has passed them.
#[test]
fn the_last_thread_to_leave_destroys_the_barrier() {
    model(2, || {
        let barrier = Arc::new(Barrier::with(3, Waiting::by(BLOCK)).with_fan_in(2));
        let pass = |number: u32, barrier: Arc<Barrier>| {
            barrier.party(number).wait();
            // Only the owner of all may take it apart: no other thread accesses the tree any more.
            Arc::try_unwrap(barrier).map_or(0, |barrier| barrier.statistics().waits)
        };
        let others: Vec<_> = (1..3)
            .map(|number| {
                let barrier = barrier.clone();
                loom::thread::spawn(move || pass(number, barrier))
            })
            .collect();
        let own = pass(0, barrier);
        let seen = others.into_iter().map(|other| other.join().unwrap()).sum::<u64>() + own;
        assert!(seen == 0 || seen == 3, "{seen}");
    });
}
