//! A team at work while a fault occurs.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI32};
use std::thread::ScopedJoinHandle;

use policy::waiting::WaitingRule;
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rowlock_wait::Waiting;

use crate::costs;
use crate::team::{Action, Team};

/// The threads of a team, by their kernel IDs.
pub(crate) struct Workers {
    /// Zero for a thread that has not begun.
    threads: Vec<AtomicI32>,
    has_ended: AtomicBool,
}

impl Workers {
    /// The threads that have begun.
    pub(crate) fn threads(&self) -> impl Iterator<Item = i32> {
        self.threads.iter().map(|thread| thread.load(Relaxed)).filter(|&thread| thread != 0)
    }

    /// Whether all threads have finished.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Acquire)
    }
}

pub(crate) fn by(rule: WaitingRule) -> Waiting {
    costs::by(rule)
}

/// The kernel ID of the calling thread.
pub(crate) fn own_id() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Runs this number of threads for `rounds` rounds in which they use all kinds of objects, and meet
/// in every fourth one. Each first calls `begin` with its number. Meanwhile `inject` runs on
/// another thread, and should return when the workers have ended.
pub(crate) fn work(
    rule: WaitingRule,
    threads: u32,
    rounds: u32,
    begin: impl Fn(u32) + Sync,
    inject: impl FnOnce(&Workers) + Send,
) {
    let team = Team::new(threads, by(rule));
    let workers =
        Workers { threads: (0..threads).map(|_| AtomicI32::new(0)).collect(), has_ended: AtomicBool::new(false) };
    std::thread::scope(|scope| {
        let (team, workers, begin) = (&team, &workers, &begin);
        let worker = |number: u32| {
            let thread = &workers.threads[number as usize];
            thread.store(own_id(), Relaxed);
            begin(number);
            let mut random = Xoshiro256PlusPlus::seed_from_u64(number.into());
            let mut party = team.party(number);
            for round in 0..rounds {
                if round % 4 == 0 {
                    party.wait();
                } else {
                    team.act(Action::draw(&mut random), &mut random);
                }
            }
            team.finish();
        };
        let handles: Vec<_> = (0..threads).map(|number| scope.spawn(move || worker(number))).collect();
        let injecting = scope.spawn(|| inject(workers));
        // End the other thread in any case.
        let results: Vec<_> = handles.into_iter().map(ScopedJoinHandle::join).collect();
        workers.has_ended.store(true, Release);
        injecting.join().unwrap();
        results.into_iter().for_each(|result| result.unwrap());
    });
    assert!(team.is_at_rest(), "{rule}: {team:?}");
}
