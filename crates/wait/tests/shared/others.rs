//! Mutexes, semaphores and events for several processes, some of which are killed.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use policy::table::WAITING;
use policy::waiting::WaitingRule;
use rowlock_wait::shared::{Event, LockError, MemoryError, Mutex, Semaphore, WaitFailure};
use rowlock_wait::{Reset, Waiting};

use crate::barrier::by;
use crate::child::{ChildProcess, listen, say};
use crate::{object_path, trial};

const TIMES: u32 = 200;
const SHORT: Duration = Duration::from_millis(1);

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![
        trial("a_killed_owner_is_reported_at_a_deadline_too", owner_killed_with_a_deadline),
        trial("a_mutex_is_damaged_until_it_is_recovered", damaged_until_recovered),
        trial("a_mutex_survives_many_killed_owners_and_waiters", many_are_killed),
        trial("a_living_owner_is_awaited", owner_lives),
        trial("a_thread_that_waits_for_a_mutex_may_be_killed", waiter_killed),
        trial("a_mutex_has_a_limited_number_of_process_slots", slots_of_a_mutex),
        trial("a_mutex_that_is_closed_while_locked_stays_locked", closed_while_locked),
        trial("new_processes_take_over_slots_of_dead_ones_that_are_still_reported", slots_of_dead_processes),
        trial("permits_pass_between_processes", permits_pass),
        trial("permits_may_be_lost_with_a_process", permits_gone),
        trial("a_semaphore_starts_with_its_permits", permits_at_first),
        trial("events_are_seen_by_other_processes", events_pass),
        trial("an_event_may_never_be_set_after_a_process_has_died", event_gone),
        trial("an_object_is_not_opened_as_one_of_another_kind", kinds),
    ];
    for entry in WAITING {
        let rule = entry.example;
        let name = format!("a_killed_owner_is_reported_to_those_that_wait_by_{rule}");
        trials.push(trial(&name, move || owner_killed(rule)));
    }
    trials
}

/// The actions of a child process.
pub(crate) fn run_child(role: &str, object: &Path, _: &[String]) {
    let waiting = by(WaitingRule::AlwaysBlock);
    match role {
        "mutex" => {
            let mutex = Mutex::open(object, waiting).unwrap();
            let mut guard = None;
            say("open");
            loop {
                match listen().as_str() {
                    "lock" => guard = Some(mutex.lock().unwrap()),
                    "unlock" => drop(guard.take()),
                    "hammer" => {
                        say("done");
                        loop {
                            drop(mutex.lock());
                        }
                    }
                    "wait" => {
                        say("done");
                        drop(mutex.lock());
                    }
                    other => panic!("{other}"),
                }
                say("done");
            }
        }
        "semaphore" => {
            let semaphore = Semaphore::open(object, waiting).unwrap();
            say("open");
            loop {
                match listen().as_str() {
                    "down" => drop(semaphore.down().unwrap()),
                    "up" => drop(semaphore.up().unwrap()),
                    "echo" => {
                        let back = Semaphore::open(way_back(object), by(WaitingRule::AlwaysBlock)).unwrap();
                        (0..TIMES).for_each(|_| {
                            semaphore.down().unwrap();
                            back.up_by(2).unwrap();
                        });
                    }
                    other => panic!("{other}"),
                }
                say("done");
            }
        }
        "event" => {
            let event = Event::open(object, waiting).unwrap();
            say("open");
            loop {
                match listen().as_str() {
                    "wait" => event.wait().unwrap(),
                    "set" => event.set(),
                    other => panic!("{other}"),
                }
                say("done");
            }
        }
        other => panic!("{other}"),
    }
}

fn child(role: &str, path: &Path) -> ChildProcess {
    let mut child = ChildProcess::start(role, path, &[]);
    child.expect("open");
    child
}

fn mutex(processes: u32, rule: WaitingRule) -> (tempfile::TempDir, PathBuf, Mutex) {
    let (folder, path) = object_path();
    let mutex = Mutex::create(&path, processes, by(rule)).unwrap();
    (folder, path, mutex)
}

fn lock(child: &mut ChildProcess) {
    child.write_line("lock");
    child.expect("done");
}

fn owner_killed(rule: WaitingRule) {
    let (_folder, path, mutex) = mutex(2, rule);
    let mut owner = child("mutex", &path);
    lock(&mut owner);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| mutex.lock().map(drop).map_err(|died| (died.pid(), drop(died.recover()))));
        while mutex.statistics().waits == 0 {
            std::thread::yield_now();
        }
        owner.kill();
        assert_eq!(waiter.join().unwrap().unwrap_err().0, owner.pid());
    });
    assert!(mutex.lock().is_ok(), "the mutex has been recovered");
}

fn owner_killed_with_a_deadline() {
    let (_folder, path, mutex) = mutex(2, WaitingRule::Adaptive);
    let mut owner = child("mutex", &path);
    lock(&mut owner);
    assert!(matches!(mutex.lock_timeout(SHORT), Err(LockError::TimedOut)));
    assert!(mutex.try_lock().unwrap().is_none());
    owner.kill();
    let error = mutex.lock_timeout(Instant::now()).unwrap_err();
    assert!(error.to_string().contains(&format!("process {} has died", owner.pid())), "{error}");
    assert!(matches!(error, LockError::OwnerDied(died) if died.pid() == owner.pid()));
}

fn damaged_until_recovered() {
    let (_folder, path, mutex) = mutex(2, WaitingRule::Adaptive);
    let mut owner = child("mutex", &path);
    lock(&mut owner);
    owner.kill();
    for _ in 0..3 {
        assert_eq!(mutex.lock().unwrap_err().pid(), owner.pid());
        assert_eq!(mutex.try_lock().unwrap_err().pid(), owner.pid());
    }
    let guard = mutex.lock().unwrap_err().recover();
    assert!(mutex.try_lock().unwrap().is_none());
    drop(guard);
    assert!(mutex.try_lock().unwrap().is_some());
}

fn many_are_killed() {
    let (_folder, path, mutex) = mutex(4, WaitingRule::Adaptive);
    let mut deaths = 0;
    for _ in 0..10 {
        let mut others = [0, 1, 2].map(|_| child("mutex", &path));
        for other in &mut others {
            other.write_line("hammer");
            other.expect("done");
        }
        // At any moment of acquiring and releasing.
        for other in &mut others {
            for _ in 0..20 {
                match mutex.lock() {
                    Ok(_) => {}
                    Err(died) => {
                        deaths += 1;
                        drop(died.recover());
                    }
                }
            }
            other.kill();
        }
        deaths += u32::from(mutex.lock().map_err(|died| drop(died.recover())).is_err());
        assert!(mutex.lock().is_ok());
    }
    eprintln!("{deaths} of 30 held the mutex when they were killed");
}

fn owner_lives() {
    let (_folder, path, mutex) = mutex(2, WaitingRule::Adaptive);
    let mut owner = child("mutex", &path);
    lock(&mut owner);
    // Longer than the interval of liveness checks.
    assert!(matches!(mutex.lock_timeout(Duration::from_millis(250)), Err(LockError::TimedOut)));
    owner.write_line("unlock");
    assert!(mutex.lock().is_ok());
}

fn waiter_killed() {
    let (_folder, path, mutex) = mutex(3, WaitingRule::Adaptive);
    let guard = mutex.lock().unwrap();
    let mut victim = child("mutex", &path);
    let mut other = child("mutex", &path);
    for waiter in [&mut victim, &mut other] {
        waiter.write_line("wait");
        waiter.expect("done");
    }
    while mutex.statistics().waits < 2 {
        std::thread::yield_now();
    }
    victim.kill();
    drop(guard);
    other.expect("done");
    assert!(mutex.lock().is_ok());
}

fn slots_of_a_mutex() {
    let (_folder, path, mutex) = mutex(2, WaitingRule::Adaptive);
    let mut other = child("mutex", &path);
    assert!(matches!(Mutex::open(&path, Waiting::default()), Err(MemoryError::Full(2))));
    lock(&mut other);
    other.kill();
    assert!(
        matches!(Mutex::open(&path, Waiting::default()), Err(MemoryError::Full(2))),
        "its death has not been reported yet"
    );
    drop(mutex.lock().unwrap_err().recover());
    let mut other = child("mutex", &path);
    other.kill();
    // A process that did not hold the mutex leaves its slot to the next one.
    assert!(Mutex::open(&path, Waiting::default()).is_ok());
}

fn closed_while_locked() {
    let (_folder, path, mutex) = mutex(3, WaitingRule::Adaptive);
    let closed = Mutex::open(&path, Waiting::default()).unwrap();
    std::mem::forget(closed.lock().unwrap());
    drop(closed);
    let other = Mutex::open(&path, Waiting::default()).unwrap();
    assert!(matches!(Mutex::open(&path, Waiting::default()), Err(MemoryError::Full(3))), "the owner keeps its slot");
    for mutex in [mutex, other] {
        assert!(matches!(mutex.lock_timeout(SHORT), Err(LockError::TimedOut)), "the process of its owner is alive");
    }
}

fn slots_of_dead_processes() {
    let (_folder, path, semaphore) = semaphore(0);
    let mut last = 0;
    for _ in 0..3 {
        let mut other = child("semaphore", &path);
        other.kill();
        last = other.pid();
    }
    let other = Semaphore::open(&path, Waiting::default()).unwrap();
    let error = Semaphore::open(&path, Waiting::default()).unwrap_err();
    assert!(matches!(error, MemoryError::Full(2)), "these processes are alive");
    assert_eq!(other.down_timeout(SHORT), Err(WaitFailure::Abandoned { pid: last }));
    assert_eq!(semaphore.forget_dead_processes(), [last]);
    assert_eq!(other.down_timeout(SHORT), Err(WaitFailure::TimedOut));
}

/// The path of the semaphore by which a process answers.
fn way_back(there: &Path) -> PathBuf {
    there.with_extension("back")
}

fn semaphore(permits: u32) -> (tempfile::TempDir, PathBuf, Semaphore) {
    let (folder, path) = object_path();
    let semaphore = Semaphore::create(&path, 2, permits, by(WaitingRule::Adaptive)).unwrap();
    (folder, path, semaphore)
}

fn permits_pass() {
    let (_folder, path, semaphore) = semaphore(0);
    let back = Semaphore::create(way_back(&path), 2, 0, by(WaitingRule::Adaptive)).unwrap();
    let mut other = child("semaphore", &path);
    other.write_line("echo");
    for _ in 0..TIMES {
        semaphore.up().unwrap();
        // The other process takes the one permit and adds two to the semaphore of the way back.
        back.down().unwrap();
        back.down().unwrap();
    }
    other.expect("done");
    assert_eq!((semaphore.value(), back.value()), (0, 0));
    other.write_line("down");
    semaphore.up().unwrap();
    other.expect("done");
    other.write_line("up");
    assert_eq!(semaphore.down(), Ok(0));
}

fn permits_gone() {
    let (_folder, path, semaphore) = semaphore(1);
    let mut victim = child("semaphore", &path);
    victim.write_line("down");
    victim.expect("done");
    assert_eq!(semaphore.down_timeout(SHORT), Err(WaitFailure::TimedOut));
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| semaphore.down());
        while semaphore.statistics().waits < 2 {
            std::thread::yield_now();
        }
        victim.kill();
        assert_eq!(waiter.join().unwrap(), Err(WaitFailure::Abandoned { pid: victim.pid() }));
    });
    assert_eq!(semaphore.down_timeout(SHORT), Err(WaitFailure::Abandoned { pid: victim.pid() }));
    assert_eq!(semaphore.forget_dead_processes(), [victim.pid()]);
    assert_eq!(semaphore.forget_dead_processes(), Vec::<u32>::new());
    assert_eq!(semaphore.down_timeout(SHORT), Err(WaitFailure::TimedOut));
    assert_eq!(semaphore.up(), Ok(1));
    assert_eq!(semaphore.down(), Ok(0));
}

fn permits_at_first() {
    for permits in [0, 7, u32::MAX] {
        let (_folder, path, semaphore) = semaphore(permits);
        assert_eq!(semaphore.value(), permits);
        assert_eq!(Semaphore::open(&path, Waiting::default()).unwrap().value(), permits);
        assert_eq!(semaphore.up().is_err(), permits == u32::MAX);
    }
    assert_eq!(Semaphore::nameless(1, 3, Waiting::default()).unwrap().down(), Ok(2));
}

fn event(reset: Reset) -> (tempfile::TempDir, PathBuf, Event) {
    let (folder, path) = object_path();
    let event = Event::create(&path, 3, reset, by(WaitingRule::Adaptive)).unwrap();
    (folder, path, event)
}

fn events_pass() {
    for reset in [Reset::Auto, Reset::Manual] {
        let (_folder, path, event) = event(reset);
        let mut others = [0, 1].map(|_| child("event", &path));
        others.iter_mut().for_each(|other| other.write_line("wait"));
        for other in &mut others {
            // Both pass by one set, or each by its own.
            event.set();
            if reset == Reset::Auto {
                while event.is_set() {
                    std::thread::yield_now();
                }
            } else {
                other.expect("done");
            }
        }
        if reset == Reset::Auto {
            others.iter_mut().for_each(|other| other.expect("done"));
        }
        event.reset();
        others[0].write_line("set");
        assert_eq!(event.wait(), Ok(()));
        assert_eq!(event.is_set(), reset == Reset::Manual);
    }
}

fn event_gone() {
    let (_folder, path, event) = event(Reset::Manual);
    assert_eq!(event.wait_timeout(SHORT), Err(WaitFailure::TimedOut));
    let mut victim = child("event", &path);
    victim.kill();
    assert_eq!(event.wait(), Err(WaitFailure::Abandoned { pid: victim.pid() }));
    assert_eq!(event.forget_dead_processes(), [victim.pid()]);
    event.set();
    assert_eq!(event.wait(), Ok(()));
}

fn kinds() {
    let (_folder, path, _event) = event(Reset::Auto);
    let waiting = Waiting::default();
    let errors = [Mutex::open(&path, waiting).err(), Semaphore::open(&path, waiting).err()];
    for error in errors {
        assert!(matches!(error, Some(MemoryError::Kind { found: 4, .. })), "{error:?}");
    }
    assert!(Event::open(&path, waiting).is_ok());
}
