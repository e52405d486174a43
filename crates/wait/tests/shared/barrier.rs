//! Barriers for several processes, some of which are killed.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use policy::Span;
use policy::table::WAITING;
use policy::waiting::{Costs, WaitingRule};
use rowlock_wait::Waiting;
use rowlock_wait::shared::{Barrier, LostParty, Party, WaitError};

use crate::child::{ChildProcess, listen, say};
use crate::{object_path, trial};

const ROUNDS: u64 = 200;

pub(crate) fn by(rule: WaitingRule) -> Waiting {
    let costs = Costs {
        cs: Span::from_micros(10),
        margin: Span::from_micros(5),
        lone_yield: Span::from_nanos(500),
        tick: Span::from_millis(4),
    };
    Waiting::by(rule).with_costs(costs).with_cpus(2)
}

/// How parties wait if the rule does not matter.
fn anyhow() -> Waiting {
    by(WaitingRule::AlwaysBlock)
}

fn past() -> Instant {
    Instant::now()
}

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![
        trial("a_round_completes_after_a_party_was_killed_after_its_arrival", killed_after_its_arrival),
        trial("a_round_can_complete_after_a_deadline_has_passed", deadline_passes),
        trial("parties_that_have_not_joined_are_awaited", not_joined),
        trial("a_team_continues_without_a_process_that_has_left", left),
        trial("the_child_of_a_fork_does_not_share_the_membership_of_its_parent", fork),
        trial("a_dropped_party_is_lost_if_it_has_ever_arrived", dropped),
        trial("a_panic_between_arrival_and_completion_is_reported_to_the_others", panics),
        trial("a_nameless_barrier_is_opened_by_its_file", nameless),
    ];
    for entry in WAITING {
        let rule = entry.example;
        trials.push(trial(&format!("processes_meet_by_{rule}"), move || processes_meet(rule)));
        trials.push(trial(&format!("processes_meet_while_they_are_stopped_by_{rule}"), move || stopped(rule)));
        trials.push(trial(&format!("a_killed_party_is_reported_to_those_that_wait_by_{rule}"), move || killed(rule)));
    }
    trials
}

/// The actions of a child process.
pub(crate) fn run_child(role: &str, object: &Path, arguments: &[String]) {
    match role {
        // Meets the others for some rounds.
        "meet" => {
            let barrier = Barrier::open(object, by(arguments[0].parse().unwrap())).unwrap();
            let mut party = barrier.join().unwrap();
            for _ in 0..ROUNDS {
                party.wait().unwrap();
            }
            say("met");
            listen();
        }
        // Joins, and then obeys commands.
        "member" => {
            let barrier = Barrier::open(object, anyhow()).unwrap();
            let mut party = barrier.join().unwrap();
            say("joined");
            loop {
                match listen().as_str() {
                    "wait" => assert!(party.wait().is_ok()),
                    "arrive" => {
                        let arrival = party.arrive();
                        say("arrived");
                        assert!(party.complete(arrival).is_ok());
                    }
                    "leave" => {
                        let _ = party.arrive_and_leave();
                        return;
                    }
                    "fork" => fork_and_drop(&mut party),
                    other => panic!("{other}"),
                }
                say("done");
            }
        }
        other => panic!("{other}"),
    }
}

/// Forks a child that drops its parent's party and ends.
#[allow(unsafe_code, reason = "a fork")]
fn fork_and_drop(party: &mut Party<'_>) {
    // SAFETY: this process has one thread, so its child may do whatever it could do itself.
    match unsafe { libc::fork() } {
        0 => {
            // SAFETY: the original value is in the memory of the parent. The copy is dropped once
            // here.
            drop(unsafe { std::ptr::read(party) });
            // SAFETY: no preconditions.
            unsafe { libc::_exit(0) }
        }
        child => {
            let mut status = 0;
            // SAFETY: the status is written to an integer of this frame.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0);
        }
    }
}

fn member(path: &Path) -> ChildProcess {
    let mut child = ChildProcess::start("member", path, &[]);
    child.expect("joined");
    child
}

/// Waits for this number of arrivals.
fn until_arrived(barrier: &Barrier, arrivals: u64) {
    while barrier.statistics().waits < arrivals {
        std::thread::yield_now();
    }
}

fn barrier(parties: u32, rule: WaitingRule) -> (tempfile::TempDir, PathBuf, Barrier) {
    let (folder, path) = object_path();
    let barrier = Barrier::create(&path, parties, by(rule)).unwrap();
    (folder, path, barrier)
}

fn processes_meet(rule: WaitingRule) {
    let (_folder, path, barrier) = barrier(3, rule);
    let mut others = [0, 1].map(|_| ChildProcess::start("meet", &path, &[&rule.to_string()]));
    let mut party = barrier.join().unwrap();
    for _ in 0..ROUNDS {
        party.wait().unwrap();
    }
    others.iter_mut().for_each(|other| other.expect("met"));
    assert_eq!(barrier.statistics().waits, 3 * ROUNDS);
}

/// Stops one of the others again and again, wherever it is.
fn stopped(rule: WaitingRule) {
    let (_folder, path, barrier) = barrier(3, rule);
    let mut party = barrier.join().unwrap();
    let mut others = [0, 1].map(|_| ChildProcess::start("meet", &path, &[&rule.to_string()]));
    for round in 0..ROUNDS as usize {
        let other = &others[round % 2];
        if round.is_multiple_of(25) {
            other.send(libc::SIGSTOP);
        }
        // It succeeds if the process was stopped after its arrival.
        let met = party.wait_timeout(Duration::from_millis(1));
        other.send(libc::SIGCONT);
        if let Err(why) = met {
            party.complete(why.into_arrival().expect("a stopped party is not lost")).unwrap();
        }
    }
    others.iter_mut().for_each(|other| other.expect("met"));
    assert_eq!(barrier.statistics().waits, 3 * ROUNDS);
}

fn killed(rule: WaitingRule) {
    let (_folder, path, barrier) = barrier(3, rule);
    let mut mine = [0, 1].map(|_| barrier.join().unwrap());
    let mut victim = member(&path);
    let gone = LostParty { number: 2, pid: victim.pid() };
    std::thread::scope(|scope| {
        let waiting = mine.each_mut().map(|party| scope.spawn(move || party.wait()));
        until_arrived(&barrier, 2);
        victim.kill();
        for waiting in waiting {
            assert_eq!(waiting.join().unwrap(), Err(WaitError::Abandoned(gone)));
        }
    });
    // A second arrival does not take the place of the lost party.
    assert_eq!(mine[0].wait(), Err(WaitError::Abandoned(gone)));
    assert_eq!(mine[1].wait_timeout(past()), Err(WaitError::Abandoned(gone)));
    assert_eq!(barrier.statistics().waits, 2);
}

fn killed_after_its_arrival() {
    for rule in [WaitingRule::Adaptive, WaitingRule::AlwaysBlock] {
        let (_folder, path, barrier) = barrier(3, rule);
        let mut mine = [0, 1].map(|_| barrier.join().unwrap());
        let mut victim = member(&path);
        victim.write_line("arrive");
        victim.expect("arrived");
        victim.kill();
        // The dead party is not missing.
        let arrival = mine[0].wait_timeout(past()).unwrap_err().into_arrival().expect("the round can be completed");
        assert!(mine[1].wait().unwrap().is_leader());
        assert!(mine[0].complete(arrival).is_ok());
        let gone = LostParty { number: 2, pid: victim.pid() };
        assert_eq!(mine[0].wait(), Err(WaitError::Abandoned(gone)));
        assert_eq!(mine[1].wait(), Err(WaitError::Abandoned(gone)));
    }
}

fn deadline_passes() {
    let (_folder, path, barrier) = barrier(2, WaitingRule::Adaptive);
    let mut mine = barrier.join().unwrap();
    let mut other = member(&path);
    let mut arrival = mine.wait_timeout(past()).unwrap_err().into_arrival().unwrap();
    arrival = mine.complete_timeout(arrival, Duration::from_millis(1)).unwrap_err().into_arrival().unwrap();
    other.write_line("wait");
    assert!(!mine.complete(arrival).unwrap().is_leader());
    other.expect("done");
}

fn not_joined() {
    let (_folder, path, barrier) = barrier(2, WaitingRule::Adaptive);
    let mut mine = barrier.join().unwrap();
    // Longer than the interval of liveness checks.
    let late = mine.wait_timeout(Duration::from_millis(250)).unwrap_err();
    let arrival = late.into_arrival().expect("no party is lost");
    let mut other = member(&path);
    other.write_line("wait");
    assert!(mine.complete(arrival).is_ok());
    assert_eq!(barrier.join().unwrap_err().parties, 2);
}

fn left() {
    let (_folder, path, barrier) = barrier(3, WaitingRule::Adaptive);
    let mut mine = [0, 1].map(|_| barrier.join().unwrap());
    let mut other = member(&path);
    other.write_line("leave");
    other.assert_success();
    for round in 0..2 {
        let late = mine[0].wait_timeout(past()).unwrap_err();
        let arrival = late.into_arrival().unwrap_or_else(|| panic!("round {round}: no awaited party is lost"));
        assert!(mine[1].wait().is_ok());
        assert!(mine[0].complete(arrival).is_ok());
    }
    std::thread::scope(|scope| {
        for party in &mut mine {
            scope.spawn(move || (0..ROUNDS).for_each(|_| assert!(party.wait().is_ok())));
        }
    });
}

fn fork() {
    let (_folder, path, barrier) = barrier(2, WaitingRule::Adaptive);
    let mut mine = barrier.join().unwrap();
    let mut other = member(&path);
    for _ in 0..2 {
        other.write_line("fork");
        other.expect("done");
        assert!(barrier.join().is_err(), "its parent keeps its slot");
        let late = mine.wait_timeout(past()).unwrap_err();
        let arrival = late.into_arrival().expect("its parent is not lost");
        other.write_line("wait");
        assert!(mine.complete(arrival).is_ok());
        other.expect("done");
    }
}

fn dropped() {
    let (_folder, _path, barrier) = barrier(2, WaitingRule::Adaptive);
    let mut mine = barrier.join().unwrap();
    drop(barrier.join().unwrap());
    let mut other = barrier.join().unwrap();
    assert_eq!(other.number(), 1, "a number without an arrival is reused");
    let _ = other.arrive();
    assert!(mine.wait().is_ok());
    drop(other);
    assert!(barrier.join().is_err());
    assert_eq!(mine.wait(), Err(WaitError::Abandoned(LostParty { number: 1, pid: std::process::id() })));
}

fn panics() {
    let (_folder, _path, barrier) = barrier(2, WaitingRule::Adaptive);
    let mut mine = barrier.join().unwrap();
    let mut other = barrier.join().unwrap();
    std::thread::scope(|scope| {
        let panicking = scope.spawn(move || {
            let arrival = other.arrive();
            let complete = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
                let _other = other;
                std::panic::resume_unwind(Box::new("between arriving and completing"));
            }));
            drop(arrival);
            assert!(complete.is_err());
        });
        panicking.join().unwrap();
        assert!(mine.wait().unwrap().is_leader(), "the arrival counts");
        assert_eq!(mine.wait(), Err(WaitError::Abandoned(LostParty { number: 1, pid: std::process::id() })));
    });
}

fn nameless() {
    use std::os::fd::{AsFd, AsRawFd};
    let barrier = Barrier::nameless(2, by(WaitingRule::Adaptive)).unwrap();
    let mut mine = barrier.join().unwrap();
    let file = barrier.as_fd().try_clone_to_owned().unwrap();
    assert!(rustix::fs::ftruncate(&file, 0).is_err(), "its length is sealed");
    let same = Barrier::from_fd(file, anyhow()).unwrap();
    assert_eq!(same.parties(), 2);
    // A process with access to this process's open files can open them.
    let path = format!("/proc/{}/fd/{}", std::process::id(), barrier.as_fd().as_raw_fd());
    let mut other = member(Path::new(&path));
    other.write_line("wait");
    assert!(mine.wait().is_ok());
}
