//! A team of threads that uses all kinds of objects, and checks that each keeps its guarantees.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use policy::table::WAITING;
use policy::waiting::WaitingRule;
use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rowlock_wait::{Barrier, Condvar, Event, Latch, Mutex, Party, Reset, RwLock, Semaphore, Waiting};

/// The number of threads that the semaphore admits at a time.
const PERMITS: u32 = 3;

/// The rules by which a thread eventually blocks. The others do not guarantee progress with more
/// threads than CPUs, since they keep the CPU from the threads that they wait for.
pub(crate) fn rules_that_block() -> impl Iterator<Item = WaitingRule> {
    let never_blocks = [WaitingRule::AlwaysSpin, WaitingRule::AlwaysYield];
    WAITING.iter().map(|entry| entry.example).filter(move |rule| !never_blocks.contains(rule))
}

/// The next action of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Action {
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

impl Action {
    const ALL: [Action; 9] = [
        Action::Lock,
        Action::LockTimed,
        Action::Read,
        Action::Write,
        Action::Permit,
        Action::PermitTimed,
        Action::Token,
        Action::TokenTimed,
        Action::Room,
    ];

    pub(crate) fn draw(random: &mut Xoshiro256PlusPlus) -> Action {
        Action::ALL[random.next_u64() as usize % Action::ALL.len()]
    }
}

/// All the objects.
#[derive(Debug)]
pub(crate) struct Team {
    barrier: Barrier,
    /// Equal numbers, unless the lock admits two threads at a time.
    pair: Mutex<[u64; 2]>,
    read: RwLock<[u64; 2]>,
    permits: Semaphore,
    within: AtomicU64,
    /// A thread that passes sets it again.
    token: Event,
    holders: AtomicU64,
    /// The number of threads in the room, which holds one.
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

    /// Performs an action.
    pub(crate) fn act(&self, action: Action, random: &mut Xoshiro256PlusPlus) {
        match action {
            Action::Lock => bump(&mut self.pair.lock()),
            Action::LockTimed => {
                if let Ok(mut pair) = self.pair.lock_timeout(brief(random)) {
                    bump(&mut pair);
                }
            }
            Action::Read => {
                let pair = self.read.read();
                assert_eq!(pair[0], pair[1], "a reader and a writer are inside");
            }
            Action::Write => bump(&mut self.read.write()),
            Action::Permit => {
                self.permits.down();
                self.use_permit();
            }
            Action::PermitTimed => {
                if self.permits.down_timeout(brief(random)).is_ok() {
                    self.use_permit();
                }
            }
            Action::Token => {
                self.token.wait();
                self.hold();
            }
            Action::TokenTimed => {
                if self.token.wait_timeout(brief(random)).is_ok() {
                    self.hold();
                }
            }
            Action::Room => {
                *self.left.wait_while(self.room.lock(), |room| *room == 1) += 1;
                std::hint::spin_loop();
                *self.room.lock() -= 1;
                self.left.notify_one();
            }
        }
    }

    /// Waits until all threads have finished.
    pub(crate) fn finish(&self) {
        self.done.arrive_and_wait();
    }

    fn use_permit(&self) {
        assert!(self.within.fetch_add(1, Relaxed) < u64::from(PERMITS), "more threads than permits");
        self.within.fetch_sub(1, Relaxed);
        self.permits.up().unwrap();
    }

    fn hold(&self) {
        assert_eq!(self.holders.fetch_add(1, Relaxed), 0, "one set has let two threads pass");
        self.holders.fetch_sub(1, Relaxed);
        self.token.set();
    }

    /// Whether everything is as at first. To be called after all threads have finished.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.permits.value() == PERMITS && self.token.is_set() && *self.room.lock() == 0
    }
}

fn bump(pair: &mut [u64; 2]) {
    assert_eq!(pair[0], pair[1], "two threads hold the lock");
    pair[0] += 1;
    std::hint::black_box(&mut *pair);
    pair[1] += 1;
}

/// A timeout that is sometimes too short.
fn brief(random: &mut Xoshiro256PlusPlus) -> Duration {
    Duration::from_nanos(random.next_u64() % 50_000)
}
