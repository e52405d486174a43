//! The barrier with real threads, by every waiting rule.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use policy::record::{Log, RecordedStep, Recorder, replay};
use policy::table::WAITING;
use policy::waiting::{Decision, Observation, Running, WaitingRule};
use policy::{Instant, Span, ThreadId};
use rowlock_wait::observer::{Observer, WaitEvent};
use rowlock_wait::{Barrier, Statistics};

use crate::costs::{COSTS, by};

/// Lets the parties meet `rounds` times. Checks each round: no thread is released before all have
/// arrived, and one leads.
fn meet<R: Recorder + Sync>(barrier: &Barrier<R>, rounds: u64) {
    let parties = barrier.parties();
    let begun: Vec<AtomicU64> = (0..parties).map(|_| AtomicU64::new(0)).collect();
    let leaders = AtomicU64::new(0);
    let work = |number: u32| {
        let mut party = barrier.party(number);
        for round in 1..=rounds {
            begun[number as usize].store(round, Relaxed);
            if party.wait().is_leader() {
                leaders.fetch_add(1, Relaxed);
            }
            assert!(begun.iter().all(|begun| (round..=round + 1).contains(&begun.load(Relaxed))));
            assert!((round - 1..=round + 1).contains(&leaders.load(Relaxed)));
        }
    };
    std::thread::scope(|scope| {
        (0..parties).for_each(|number| {
            scope.spawn(move || work(number));
        });
    });
    assert_eq!(leaders.into_inner(), rounds);
}

/// A number of rounds that takes little time even if more threads than CPUs never block: then each
/// turn may cost a timeslice.
fn rounds(rule: WaitingRule) -> u64 {
    match rule {
        WaitingRule::AlwaysSpin | WaitingRule::AlwaysYield | WaitingRule::OwnerRunning => 10,
        _ => 500,
    }
}

#[test]
fn every_rule_lets_every_team_meet() {
    for entry in WAITING {
        for parties in [1, 2, 5] {
            meet(&Barrier::with(parties, by(entry.example)), rounds(entry.example));
        }
    }
}

/// All calls to the observer.
#[derive(Default)]
struct Events(Vec<(Instant, WaitEvent)>);

impl Observer for Events {
    const ON: bool = true;

    fn on_event(&mut self, at: Instant, event: WaitEvent) {
        self.0.push((at, event));
    }

    fn on_off_cpu(&mut self, from: Instant, to: Instant) {
        assert!(from < to && self.0.last().is_some_and(|&(at, event)| at <= from && event == WaitEvent::Spinning));
    }
}

#[test]
fn observers_are_called_as_often_as_the_barrier_counts() {
    for entry in WAITING {
        let (rule, rounds) = (entry.example, rounds(entry.example));
        let barrier = Barrier::with(3, by(rule));
        let member = |number| {
            let (mut party, mut events) = (barrier.party(number), Events::default());
            let leads = (0..rounds).filter(|_| party.wait_observed(&mut events).is_leader()).count();
            assert_eq!(leads, events.0.iter().filter(|(_, what)| *what == WaitEvent::RoundCompleted).count());
            events.0
        };
        let events: Vec<Vec<(Instant, WaitEvent)>> = std::thread::scope(|scope| {
            let members: Vec<_> = (0..3)
                .map(|number| {
                    scope.spawn({
                        let member = &member;
                        move || member(number)
                    })
                })
                .collect();
            members.into_iter().map(|member| member.join().unwrap()).collect()
        });
        let count = |what| events.iter().flatten().filter(|(_, seen)| *seen == what).count() as u64;
        let Statistics { waits, spins, yields, blocks, moves, .. } = barrier.statistics();
        assert_eq!((count(WaitEvent::RoundCompleted), count(WaitEvent::Resumed)), (rounds, waits), "{rule}");
        assert_eq!((count(WaitEvent::Yielding), count(WaitEvent::Blocking)), (yields + moves, blocks), "{rule}");
        let mut waits_that_spun = 0;
        for events in &events {
            assert!(events.is_sorted_by_key(|&(at, _)| at), "{rule}");
            let waits = events.split_inclusive(|&(_, what)| what == WaitEvent::Resumed);
            waits_that_spun +=
                waits.filter(|wait| wait.iter().any(|&(_, what)| what == WaitEvent::Spinning)).count() as u64;
        }
        assert_eq!(waits_that_spun, spins, "{rule}");
    }
}

#[test]
fn a_barrier_is_reused_for_thousands_of_rounds() {
    for rule in ["always-block", "cs", "44 us"] {
        meet(&Barrier::with(3, by(rule.parse().unwrap())), 5_000);
    }
}

#[test]
fn a_single_party_leads_and_never_waits() {
    for parties in [0, 1] {
        let barrier = Barrier::with(parties, by(WaitingRule::AlwaysBlock));
        assert_eq!(barrier.parties(), 1);
        assert!((0..100).all(|_| barrier.wait().is_leader()));
        assert_eq!(barrier.statistics(), Statistics { waits: 100, ..Statistics::default() });
    }
}

#[test]
fn anonymous_and_numbered_parties_meet_at_one_barrier() {
    let barrier = Barrier::with(3, by("cs".parse().unwrap()));
    let leaders = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let (barrier, leaders) = (&barrier, &leaders);
        for number in [Some(0), Some(7), None] {
            scope.spawn(move || {
                let mut party = number.map(|number| barrier.party(number));
                for _ in 0..500 {
                    let result = party.as_mut().map_or_else(|| barrier.wait(), rowlock_wait::Party::wait);
                    leaders.fetch_add(u64::from(result.is_leader()), Relaxed);
                }
            });
        }
    });
    assert_eq!(leaders.into_inner(), 500);
    assert_eq!(barrier.statistics().waits, 1_500);
}

#[test]
fn more_threads_than_parties_meet_in_turns() {
    let barrier = Barrier::with(2, by(WaitingRule::AlwaysBlock));
    let leaders = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| leaders.fetch_add(u64::from(barrier.wait().is_leader()), Relaxed));
        }
    });
    assert_eq!(leaders.into_inner(), 2);
}

#[test]
fn statistics_add_up_for_every_rule() {
    for entry in WAITING {
        let (rounds, parties) = (rounds(entry.example), 3_u32);
        let barrier = Barrier::with(parties, by(entry.example));
        meet(&barrier, rounds);
        let Statistics { waits, spins, successful_spins, spin_time, yields, blocks, moves, .. } = barrier.statistics();
        let waited = waits - rounds;
        assert_eq!(waits, rounds * u64::from(parties), "{}", entry.form);
        match entry.example {
            WaitingRule::AlwaysBlock => {
                assert_eq!((spins, successful_spins, spin_time, yields), (0, 0, Span::ZERO, 0));
                assert!(blocks >= waited);
            }
            WaitingRule::AlwaysSpin => {
                assert_eq!((spins, successful_spins, yields, blocks), (waited, waited, 0, 0));
                assert_eq!(barrier.statistics().ssr_percent(), Some(100.0));
            }
            WaitingRule::AlwaysYield => {
                assert_eq!((spins, successful_spins, spin_time, blocks), (0, 0, Span::ZERO, 0));
                assert!(yields >= waited);
            }
            WaitingRule::TwoPhase(bound) => {
                assert_eq!((spins, yields), (waited, 0), "{}", entry.form);
                let failed = spins - successful_spins;
                assert!(blocks >= failed);
                // A failed spin uses up its budget, and may exceed it by one step.
                assert!(spin_time.as_nanos() >= failed * bound.on(COSTS).as_nanos());
                let most = bound.on(COSTS) + Span::from_micros(5);
                assert!(spin_time.as_nanos() <= spins * most.as_nanos());
            }
            // Whether the other rules spin depends on the situation.
            _ => {
                assert!(successful_spins <= spins && spins <= waited);
                // A check is not counted, and a wait may end during it.
                let checks = entry.example.waiter(COSTS).inputs().running;
                assert!(checks || spins + yields + blocks + moves >= waited, "{}", entry.form);
            }
        }
    }
}

#[test]
fn statistics_are_readable_while_threads_meet() {
    let barrier = Barrier::with(2, by(WaitingRule::AlwaysBlock));
    std::thread::scope(|scope| {
        scope.spawn(|| meet(&barrier, 500));
        let mut before = 0;
        while before < 1_000 {
            let waits = barrier.statistics().waits;
            assert!(before <= waits && waits <= 1_000);
            before = waits;
            std::thread::yield_now();
        }
    });
}

#[test]
fn the_record_of_real_threads_replays_without_differences() {
    for entry in WAITING {
        let barrier = Barrier::with_recorder(4, by(entry.example), Log::default());
        meet(&barrier, 10);
        let mut record = barrier.recorder().entries();
        assert!(record.len() >= 30, "three of four wait in each round: {}", record.len());
        assert_eq!(replay(entry.example, COSTS, &record), [], "{}", entry.form);

        let decided = |entry: &RecordedStep| entry.decision.is_some();
        let forged = record.len() / 2 + record[record.len() / 2..].iter().position(decided).unwrap();
        record[forged].decision = match record[forged].decision {
            Some(Decision::Block) => Some(Decision::Yield),
            _ => Some(Decision::Block),
        };
        let differences = replay(entry.example, COSTS, &record);
        assert_eq!(differences.iter().map(|difference| difference.index).collect::<Vec<_>>(), [forged]);
    }
}

#[test]
fn anonymous_waits_are_recorded_as_separate_threads() {
    let rule: WaitingRule = "cs".parse().unwrap();
    let barrier = Barrier::with_recorder(2, by(rule), Log::default());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..50 {
                    barrier.wait();
                }
            });
        }
    });
    let record = barrier.recorder().entries();
    assert_eq!(replay(rule, COSTS, &record), []);
    assert!(record.iter().all(|entry| entry.thread >= ThreadId(2) && entry.missing.is_empty()));
    let waits: std::collections::BTreeSet<ThreadId> = record.iter().map(|entry| entry.thread).collect();
    assert_eq!(waits.len(), 50);
}

#[test]
fn a_record_shows_missing_threads_and_their_last_cpus() {
    let barrier = Barrier::with_recorder(2, by(WaitingRule::AlwaysBlock), Log::default());
    let until_arrived = |times: usize| {
        while barrier.recorder().entries().iter().filter(|entry| entry.seen == Observation::Arrived).count() < times {
            std::thread::yield_now();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut party = barrier.party(0);
            party.wait();
            party.wait();
        });
        let mut party = barrier.party(1);
        until_arrived(1);
        party.wait();
        until_arrived(2);
        party.wait();
    });
    let arrivals: Vec<RecordedStep> =
        barrier.recorder().entries().into_iter().filter(|entry| entry.decision.is_some()).collect();
    let missing: Vec<_> = arrivals.iter().map(|entry| entry.missing.clone()).collect();
    assert!(arrivals.iter().all(|entry| entry.thread == ThreadId(0) && entry.threads == 2), "{arrivals:?}");
    let first = missing.first().unwrap();
    let last = missing.last().unwrap();
    assert_eq!((first.len(), first[0].thread, first[0].last_seen), (1, ThreadId(1), None));
    assert_eq!((last.len(), last[0].thread, last[0].last_seen.is_some()), (1, ThreadId(1), true));
}

#[test]
fn a_thread_can_work_between_its_arrival_and_its_wait() {
    let barrier = Barrier::new(2);
    let (mut early, mut late) = (barrier.party(0), barrier.party(1));
    for _ in 0..10 {
        let arrival = early.arrive();
        assert!(!early.has_completed(&arrival));
        assert!(late.wait().is_leader());
        assert!(early.has_completed(&arrival));
        assert!(!early.complete(arrival).is_leader());
    }
    assert_eq!(barrier.statistics().waits, 20);
}

#[test]
fn the_arrival_of_a_wait_that_timed_out_counts() {
    for entry in WAITING {
        let barrier = Barrier::with(2, by(entry.example));
        let (mut early, mut late) = (barrier.party(0), barrier.party(1));
        let arrival = early.wait_timeout(Duration::from_micros(50)).unwrap_err();
        let arrival = early.complete_timeout(arrival, std::time::Instant::now()).unwrap_err();
        let arrival = early.complete_timeout(arrival, Duration::ZERO).unwrap_err();
        assert!(late.wait_timeout(Duration::ZERO).unwrap().is_leader(), "{}", entry.form);
        assert!(!early.complete_timeout(arrival, Duration::ZERO).unwrap().is_leader());
    }
}

#[test]
fn a_deadline_beyond_the_clock_never_passes() {
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| barrier.party(0).wait_timeout(Duration::MAX).unwrap());
        barrier.party(1).wait_timeout(Duration::MAX).unwrap();
    });
}

#[test]
fn the_last_arrival_calls_its_completion_while_the_others_still_wait() {
    const PARTIES: u32 = 3;
    let barrier = Barrier::with(PARTIES, by(WaitingRule::AlwaysBlock));
    let completions = AtomicU64::new(0);
    let work = |number| {
        let mut party = barrier.party(number);
        for round in 1..=200 {
            let arrival = party.arrive_and(|| {
                completions.fetch_add(1, Relaxed);
            });
            party.complete(arrival);
            assert_eq!(completions.load(Relaxed), round);
            // No thread completes the next round before all have checked.
            party.wait();
        }
    };
    std::thread::scope(|scope| {
        (0..PARTIES).for_each(|number| {
            scope.spawn(move || work(number));
        });
    });
}

#[test]
fn a_panic_in_a_completion_releases_the_others() {
    let barrier = Barrier::new(2);
    let (mut early, mut late) = (barrier.party(0), barrier.party(1));
    let arrival = early.arrive();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = late.arrive_and(|| panic!("a completion may panic"));
    }));
    assert!(panicked.is_err());
    assert!(!early.complete(arrival).is_leader());
}

/// Each of several threads meets the others for a while and then leaves, in every order of leaving.
#[test]
fn a_team_continues_without_parties_that_have_left() {
    for lengths in [[0_u64, 3, 5], [4, 4, 0], [1, 0, 0], [2, 2, 2], [0, 0, 7]] {
        let barrier = Barrier::with(3, by(WaitingRule::AlwaysBlock));
        let rounds: Vec<AtomicU64> = lengths.iter().map(|_| AtomicU64::new(0)).collect();
        let work = |number: usize| {
            let mut party = barrier.party(number as u32);
            for round in 1..=lengths[number] {
                rounds[number].store(round, Relaxed);
                party.wait();
                // All threads that stay so long have begun this round.
                let all_present =
                    rounds.iter().zip(&lengths).all(|(begun, &last)| begun.load(Relaxed) >= round.min(last));
                assert!(all_present, "{lengths:?}");
            }
            let _ = party.arrive_and_leave();
        };
        std::thread::scope(|scope| {
            (0..lengths.len()).for_each(|number| {
                let work = &work;
                scope.spawn(move || work(number));
            });
        });
        let waits = lengths.iter().sum::<u64>() + 3;
        assert_eq!(barrier.statistics().waits, waits, "{lengths:?}");
    }
}

#[test]
fn a_check_finds_that_a_missing_party_sleeps_and_the_waiter_blocks() {
    let rule = WaitingRule::OwnerRunning;
    let barrier = Barrier::with_recorder(2, by(rule), Log::default());
    let has_found =
        || barrier.recorder().entries().iter().any(|entry| entry.seen == Observation::Checked(Running::NotAll));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut sleeper = barrier.party(1);
            sleeper.wait();
            while !has_found() {
                std::thread::sleep(Duration::from_millis(10));
            }
            sleeper.wait();
        });
        let mut waiter = barrier.party(0);
        (0..2).for_each(|_| {
            waiter.wait();
        });
    });
    let record = barrier.recorder().entries();
    // No decision follows if the wait was over during the check.
    let found = record.iter().filter(|entry| entry.seen == Observation::Checked(Running::NotAll));
    assert!(found.filter_map(|entry| entry.decision).all(|decision| decision == Decision::Block));
    assert_eq!(replay(rule, COSTS, &record), []);
}

#[test]
fn it_is_unknown_whether_a_party_runs_that_has_not_arrived_before() {
    let barrier = Barrier::with_recorder(2, by(WaitingRule::OwnerRunning), Log::default());
    let is_unknown =
        || barrier.recorder().entries().iter().any(|entry| entry.seen == Observation::Checked(Running::Unknown));
    std::thread::scope(|scope| {
        scope.spawn(|| barrier.party(0).wait());
        while !is_unknown() {
            std::thread::yield_now();
        }
        barrier.party(1).wait();
    });
}
