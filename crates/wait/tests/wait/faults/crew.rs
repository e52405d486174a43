//! A team at work, while something happens to it.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI32};
use std::thread::ScopedJoinHandle;

use policy::waiting::WaitingRule;
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rowlock_wait::Waiting;

use crate::costs;
use crate::team::{Deed, Team};

/// The members of a team, as the kernel knows them.
pub(crate) struct Crew {
    /// Zero for one that has not begun.
    threads: Vec<AtomicI32>,
    has_ended: AtomicBool,
}

impl Crew {
    /// Those that have begun.
    pub(crate) fn threads(&self) -> impl Iterator<Item = i32> {
        self.threads.iter().map(|thread| thread.load(Relaxed)).filter(|&thread| thread != 0)
    }

    /// Whether all is done.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Acquire)
    }
}

pub(crate) fn by(rule: WaitingRule) -> Waiting {
    costs::by(rule)
}

/// The number by which the kernel knows the calling thread.
pub(crate) fn own_number() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Lets so many threads use all there is to wait at for so many rounds, one in four of them a meeting. Each first does `begin` with
/// its number, and meanwhile `happens` happens, in a thread of its own, which should end when the crew has ended.
pub(crate) fn work(
    rule: WaitingRule,
    threads: u32,
    rounds: u32,
    begin: impl Fn(u32) + Sync,
    happens: impl FnOnce(&Crew) + Send,
) {
    let team = Team::new(threads, by(rule));
    let crew = Crew { threads: (0..threads).map(|_| AtomicI32::new(0)).collect(), has_ended: AtomicBool::new(false) };
    std::thread::scope(|scope| {
        let (team, crew, begin) = (&team, &crew, &begin);
        let member = |number: u32| {
            let thread = &crew.threads[number as usize];
            thread.store(own_number(), Relaxed);
            begin(number);
            let mut random = Xoshiro256PlusPlus::seed_from_u64(number.into());
            let mut party = team.party(number);
            for round in 0..rounds {
                if round % 4 == 0 {
                    party.wait();
                } else {
                    team.act(Deed::draw(&mut random), &mut random);
                }
            }
            team.finish();
        };
        let members: Vec<_> = (0..threads).map(|number| scope.spawn(move || member(number))).collect();
        let happening = scope.spawn(|| happens(crew));
        // Whatever becomes of them, the other thread must end.
        let results: Vec<_> = members.into_iter().map(ScopedJoinHandle::join).collect();
        crew.has_ended.store(true, Release);
        happening.join().unwrap();
        results.into_iter().for_each(|result| result.unwrap());
    });
    assert!(team.is_at_rest(), "{rule}: {team:?}");
}
