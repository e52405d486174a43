//! The arrival tree with real threads.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use policy::record::{Log, Recorder, replay};
use policy::waiting::WaitingRule;
use rowlock_wait::{Arrival, Barrier, Party};

use crate::costs::{COSTS, by};
use crate::team::rules_that_block;

fn blocking(parties: u32) -> Barrier {
    Barrier::with(parties, by(WaitingRule::AlwaysBlock))
}

/// Lets threads with these parties meet `rounds` times. Checks each round: no thread is released
/// before all have arrived, and one leads.
fn meet(barrier: &Barrier, parties: Vec<Party<'_>>, rounds: u64) {
    let begun: Vec<AtomicU64> = parties.iter().map(|_| AtomicU64::new(0)).collect();
    let leaders = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for (thread, mut party) in parties.into_iter().enumerate() {
            let (begun, leaders) = (&begun, &leaders);
            scope.spawn(move || {
                for round in 1..=rounds {
                    begun[thread].store(round, Relaxed);
                    leaders.fetch_add(party.wait().is_leader().into(), Relaxed);
                    assert!(begun.iter().all(|begun| (round..=round + 1).contains(&begun.load(Relaxed))));
                }
            });
        }
    });
    assert_eq!((leaders.into_inner(), barrier.statistics().waits), (rounds, rounds * begun.len() as u64));
}

#[test]
fn every_rule_lets_large_teams_meet() {
    for rule in rules_that_block() {
        for parties in [32, 130] {
            let barrier = Barrier::with(parties, by(rule));
            meet(&barrier, (0..parties).map(|number| barrier.party(number)).collect(), 5);
        }
    }
}

#[test]
fn trees_of_all_fan_ins_let_teams_meet() {
    for (parties, fan_in) in [(3, 2), (7, 2), (9, 3), (40, 6), (64, 63), (64, 64)] {
        let barrier = blocking(parties).with_fan_in(fan_in);
        meet(&barrier, (0..parties).map(|number| barrier.party(number)).collect(), 200);
    }
}

#[test]
fn threads_without_a_number_or_with_the_same_one_meet_at_a_tree() {
    let barrier = blocking(40);
    meet(&barrier, (0..40).map(|_| barrier.anonymous()).collect(), 200);
    let barrier = blocking(40);
    meet(&barrier, (0..40).map(|number| barrier.party(number % 3)).collect(), 200);
    let barrier = blocking(40);
    let either = |number| if number % 2 == 0 { barrier.party(number) } else { barrier.anonymous() };
    meet(&barrier, (0..40).map(either).collect(), 200);
}

#[test]
fn each_arrival_of_a_round_has_its_own_number_and_the_last_one_leads() {
    let barrier = blocking(70);
    for round in 0..3 {
        let mut numbers: Vec<u64> = (0..70).map(|number| barrier.party(69 - number).arrive().number()).collect();
        assert_eq!(numbers.last(), Some(&(70 * round + 69)));
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(70 * round..70 * (round + 1)));
        assert!(barrier.anonymous().has_completed(&barrier.arrival(70 * round).unwrap()));
    }
}

#[test]
fn an_arrival_at_a_tree_is_found_by_its_number_once_it_has_happened() {
    let barrier = blocking(40);
    let mut happened = Vec::new();
    for number in [39, 0, 7, 8, 38, 1] {
        let arrival = barrier.party(number).arrive();
        happened.push(arrival.number());
        assert_eq!(barrier.arrival(arrival.number()), Some(arrival));
        assert!((0..80).all(|number| barrier.arrival(number).is_some() == happened.contains(&number)));
    }
    assert_eq!(barrier.arrival(u64::MAX), None);
}

#[test]
fn a_thread_can_arrive_for_a_whole_team() {
    let barrier = blocking(40);
    let mut party = barrier.party(5);
    for round in 0..4 {
        let arrivals: Vec<Arrival> = (0..40).map(|_| party.arrive()).collect();
        assert!(arrivals.iter().all(|arrival| party.has_completed(arrival)));
        assert_eq!(barrier.statistics().waits, 40 * (round + 1));
    }
}

#[test]
fn an_arrival_beyond_the_team_does_not_wait_for_the_release_of_the_round() {
    let barrier = blocking(40);
    let mut party = barrier.party(0);
    (0..39).for_each(|_| drop(party.arrive()));
    // The completion arrives in the next round, while its own is not over.
    let mut early = None;
    let last = barrier.party(1).arrive_and(|| early = Some(barrier.party(2).arrive()));
    let early = early.unwrap();
    assert!(party.has_completed(&last) && !party.has_completed(&early));
    (0..39).for_each(|_| drop(party.arrive()));
    assert!(party.has_completed(&early));
    assert_eq!((last.number(), early.number(), barrier.statistics().waits), (39, 40, 80));
    assert!((0..=80).all(|number| barrier.arrival(number).is_some() == (number < 80)));
}

#[test]
fn more_threads_than_parties_meet_in_turns_at_a_tree() {
    let barrier = blocking(32);
    let leaders = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..128 {
            scope.spawn(|| leaders.fetch_add(barrier.wait().is_leader().into(), Relaxed));
        }
    });
    assert_eq!((leaders.into_inner(), barrier.statistics().waits), (4, 128));
}

#[test]
fn no_arrival_is_lost_when_the_ticket_counter_takes_over() {
    for _ in 0..20 {
        let barrier = blocking(32);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let mut party = barrier.anonymous();
                    let arrivals: Vec<Arrival> = (0..400).map(|_| party.arrive()).collect();
                    arrivals.into_iter().for_each(|arrival| {
                        party.complete(arrival);
                    });
                });
            }
        });
        assert_eq!(barrier.statistics().waits, 3_200);
        assert!((0..=3_200).all(|number| barrier.arrival(number).is_some() == (number < 3_200)));
    }
}

#[test]
fn a_large_team_continues_without_parties_that_have_left() {
    let barrier = blocking(40);
    std::thread::scope(|scope| {
        for number in 0..40 {
            let barrier = &barrier;
            scope.spawn(move || {
                let mut party = barrier.party(number);
                (0..number / 2).for_each(|_| {
                    party.wait();
                });
                let _ = party.arrive_and_leave();
            });
        }
    });
    assert_eq!(barrier.statistics().waits, (0..40).map(|number| number / 2 + 1).sum::<u64>());
}

#[test]
fn a_panic_in_a_completion_releases_a_large_team() {
    let barrier = blocking(33);
    let arrivals: Vec<Arrival> = (0..32).map(|number| barrier.party(number).arrive()).collect();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = barrier.party(32).arrive_and(|| panic!("a completion may panic"));
    }));
    assert!(panicked.is_err());
    assert!(arrivals.into_iter().all(|arrival| !barrier.anonymous().complete(arrival).is_leader()));
}

#[test]
fn the_record_of_a_large_team_replays_without_differences() {
    for rule in rules_that_block() {
        let barrier = Barrier::with_recorder(33, by(rule), Log::default());
        std::thread::scope(|scope| {
            for number in 0..33 {
                let barrier = &barrier;
                scope.spawn(move || {
                    let mut party = barrier.party(number);
                    (0..3).for_each(|_| {
                        party.wait();
                    });
                });
            }
        });
        assert_eq!(replay(rule, COSTS, &barrier.recorder().entries()), [], "{rule}");
    }
}
