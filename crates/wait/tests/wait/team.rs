//! A team of threads that uses everything there is to wait at, and sees to it that each object keeps what it promises.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use policy::table::WAITING;
use policy::waiting::WaitingRule;
use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rowlock_wait::{Barrier, Condvar, Event, Latch, Mutex, Party, Reset, RwLock, Semaphore, Waiting};

/// How many threads the semaphore lets in at a time.
const PERMITS: u32 = 3;

/// The rules by which a thread blocks sooner or later. The others cannot be relied on for progress where there are more
/// threads than CPUs, since they keep the CPU from those that they wait for.
pub(crate) fn rules_that_block() -> impl Iterator<Item = WaitingRule> {
    let never_blocks = [WaitingRule::AlwaysSpin, WaitingRule::AlwaysYield];
    WAITING.iter().map(|entry| entry.example).filter(move |rule| !never_blocks.contains(rule))
}

/// What one thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Deed {
    Lock,
    LockTimed,
    Read,
    Write,
    Permit,
    PermitTimed,
    Token,
    TokenTimed,
    Room,
}

impl Deed {
    const ALL: [Deed; 9] = [
        Deed::Lock,
        Deed::LockTimed,
        Deed::Read,
        Deed::Write,
        Deed::Permit,
        Deed::PermitTimed,
        Deed::Token,
        Deed::TokenTimed,
        Deed::Room,
    ];

    pub(crate) fn draw(random: &mut Xoshiro256PlusPlus) -> Deed {
        Deed::ALL[random.next_u64() as usize % Deed::ALL.len()]
    }
}

/// All the objects.
#[derive(Debug)]
pub(crate) struct Team {
    barrier: Barrier,
    /// Equal numbers: a lock that lets two in at a time makes them differ.
    pair: Mutex<[u64; 2]>,
    read: RwLock<[u64; 2]>,
    permits: Semaphore,
    within: AtomicU64,
    /// Whoever passes sets it again.
    token: Event,
    holders: AtomicU64,
    /// How many are in the room, which holds one.
    room: Mutex<u64>,
    left: Condvar,
    done: Latch,
}

impl Team {
    pub(crate) fn new(threads: u32, waiting: Waiting) -> Team {
        let token = Event::with(Reset::Auto, waiting);
        token.set();
        Team {
            barrier: Barrier::with(threads, waiting),
            pair: Mutex::with([0; 2], waiting),
            read: RwLock::with([0; 2], waiting),
            permits: Semaphore::with(PERMITS, waiting),
            within: AtomicU64::new(0),
            token,
            holders: AtomicU64::new(0),
            room: Mutex::with(0, waiting),
            left: Condvar::with(waiting),
            done: Latch::with(threads, waiting),
        }
    }

    pub(crate) fn party(&self, number: u32) -> Party<'_> {
        self.barrier.party(number)
    }

    /// Does it.
    pub(crate) fn act(&self, deed: Deed, random: &mut Xoshiro256PlusPlus) {
        match deed {
            Deed::Lock => bump(&mut self.pair.lock()),
            Deed::LockTimed => {
                if let Ok(mut pair) = self.pair.lock_timeout(brief(random)) {
                    bump(&mut pair);
                }
            }
            Deed::Read => {
                let pair = self.read.read();
                assert_eq!(pair[0], pair[1], "a reader beside a writer");
            }
            Deed::Write => bump(&mut self.read.write()),
            Deed::Permit => {
                self.permits.down();
                self.within();
            }
            Deed::PermitTimed => {
                if self.permits.down_timeout(brief(random)).is_ok() {
                    self.within();
                }
            }
            Deed::Token => {
                self.token.wait();
                self.hold();
            }
            Deed::TokenTimed => {
                if self.token.wait_timeout(brief(random)).is_ok() {
                    self.hold();
                }
            }
            Deed::Room => {
                *self.left.wait_while(self.room.lock(), |room| *room == 1) += 1;
                std::hint::spin_loop();
                *self.room.lock() -= 1;
                self.left.notify_one();
            }
        }
    }

    /// The thread has done all that it had to do; returns when all have.
    pub(crate) fn finish(&self) {
        self.done.arrive_and_wait();
    }

    fn within(&self) {
        assert!(self.within.fetch_add(1, Relaxed) < u64::from(PERMITS), "more threads than permits");
        self.within.fetch_sub(1, Relaxed);
        self.permits.up().unwrap();
    }

    fn hold(&self) {
        assert_eq!(self.holders.fetch_add(1, Relaxed), 0, "one setting has let two pass");
        self.holders.fetch_sub(1, Relaxed);
        self.token.set();
    }

    /// Everything is as it was at first. To be called when nobody uses it any more.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.permits.value() == PERMITS && self.token.is_set() && *self.room.lock() == 0
    }
}

fn bump(pair: &mut [u64; 2]) {
    assert_eq!(pair[0], pair[1], "two have the lock");
    pair[0] += 1;
    std::hint::black_box(&mut *pair);
    pair[1] += 1;
}

/// At times too brief, at times not.
fn brief(random: &mut Xoshiro256PlusPlus) -> Duration {
    Duration::from_nanos(random.next_u64() % 50_000)
}
