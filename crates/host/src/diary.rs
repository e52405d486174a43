//! Diaries: what a thread takes down of itself, where it is asked to.
//!
//! Nobody but the kernel knows when a thread loses its CPU. But a thread knows where it is when it looks, and that it was away
//! where a stretch of work took much longer than it should. Where it is asked to keep a diary, it looks every 20 us while it
//! computes and whenever it does something else at its barrier; each look takes some 50 ns. Pages are bound beforehand: what
//! happens when they are full is counted and lost.

use policy::{Instant, Span};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use wait::watch::{Moment, Watch};
use wait::{Mutex, MutexGuard};

use crate::work::{Rate, Rod};

/// How long a thread computes between two looks.
const LOOK: Span = Span::from_micros(20);

/// Delays up to this are those of a thread that had its CPU: interrupts, caches, a slower clock.
const DELAY: Span = Span::from_micros(20);

/// What the threads of one job may take down together: 4 MiB.
const PAGES: u32 = 1 << 18;

/// The least and the most that one of them may.
const LEAST: u32 = 1 << 8;
const MOST: u32 = 1 << 16;

/// What a thread took down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// When, on `CLOCK_MONOTONIC`.
    pub at: Instant,
    /// The number of the CPU that it was on.
    pub cpu: u32,
    /// What it did.
    pub what: What,
}

/// What a thread does from some moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// It begins to compute.
    Computes,
    /// It spins at its barrier; it has arrived, and others are missing, as in the two below.
    Spins,
    /// It yields its CPU, perhaps many times.
    Yields,
    /// It goes to sleep until it is woken.
    Blocks,
    /// It waits for a lock, spinning or asleep.
    Waits,
    /// It is the last to arrive: the round is complete, and it wakes those that sleep.
    Completes,
    /// It was last seen for some time, though it meant to go on.
    Away,
    /// It is seen again, or for the first time on another CPU.
    Seen,
    /// It is through with what counts.
    Ends,
}

/// What one thread took down.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diary {
    /// The number of the thread in its job, from zero.
    pub number: u32,
    /// Its id.
    pub thread: i32,
    /// What it took down, in the order of time.
    pub entries: Vec<Entry>,
    /// How much more it would have taken down if there had been room.
    pub lost: u64,
}

/// Who keeps a diary, or does not.
pub(crate) trait Keeper: Watch {
    /// Carries out so many iterations, and looks about now and then.
    fn relax(&mut self, rod: &mut Rod, iterations: u64);

    /// Takes a lock.
    fn lock<'m>(&mut self, mutex: &'m Mutex<()>) -> MutexGuard<'m, ()>;

    /// Takes something down.
    fn note(&mut self, what: What);

    /// What was taken down, if anything.
    fn close(self) -> Option<Diary>;
}

/// Keeps none, at no cost.
impl Keeper for () {
    fn relax(&mut self, rod: &mut Rod, iterations: u64) {
        rod.relax(iterations);
    }

    fn lock<'m>(&mut self, mutex: &'m Mutex<()>) -> MutexGuard<'m, ()> {
        mutex.lock()
    }

    fn note(&mut self, _: What) {}

    fn close(self) -> Option<Diary> {
        None
    }
}

/// Keeps a diary.
#[derive(Debug)]
pub(crate) struct Observer {
    diary: Diary,
    rate: Rate,
    /// When and where it last looked.
    looked: Instant,
    cpu: u32,
    /// What it took down last but looks.
    doing: Option<What>,
}

impl Observer {
    /// A diary of the calling thread, which has this number among so many.
    pub(crate) fn new(number: u32, threads: u32, rate: Rate) -> Observer {
        let pages = (PAGES / threads.max(1)).clamp(LEAST, MOST) as usize;
        let entry = Entry { at: Instant::ZERO, cpu: 0, what: What::Ends };
        // Pages that were written to before are there when they are needed.
        let mut entries = vec![entry; pages];
        entries.clear();
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        let diary = Diary { number, thread, entries, lost: 0 };
        Observer { diary, rate, looked: now(), cpu: sys::cpus::current(), doing: None }
    }

    fn push(&mut self, at: Instant, what: What) {
        if self.diary.entries.len() < self.diary.entries.capacity() {
            self.diary.entries.push(Entry { at, cpu: self.cpu, what });
        } else {
            self.diary.lost += 1;
        }
    }

    /// It is now `at` and the thread was not expected to be away for longer than `expected` since it last looked.
    fn looks(&mut self, at: Instant, expected: Span) {
        let cpu = sys::cpus::current();
        let was_away = at.since(self.looked) > expected + DELAY;
        if was_away {
            self.push(self.looked, What::Away);
        }
        if was_away || cpu != self.cpu {
            self.cpu = cpu;
            self.push(at, What::Seen);
        }
        self.looked = at;
    }

    fn does(&mut self, at: Instant, what: What) {
        // A thread that yields does so a great many times, and that is one thing to know.
        if self.doing.replace(what) != Some(what) {
            self.push(at, what);
        }
    }
}

impl Watch for Observer {
    const ON: bool = true;

    fn sees(&mut self, at: Instant, what: Moment) {
        match self.doing {
            // It spins by the clock, and has said when it was away. Sleeping and waking others take as long as they take.
            Some(What::Spins | What::Blocks | What::Completes) => {
                self.looked = at;
                self.cpu = sys::cpus::current();
            }
            _ => self.looks(at, Span::ZERO),
        }
        self.does(
            at,
            match what {
                Moment::Spins => What::Spins,
                Moment::Yields => What::Yields,
                Moment::Blocks => What::Blocks,
                Moment::Completes => What::Completes,
                Moment::GoesOn => What::Computes,
            },
        );
    }

    fn was_away(&mut self, from: Instant, to: Instant) {
        self.looked = from;
        self.looks(to, Span::ZERO);
    }
}

impl Keeper for Observer {
    fn relax(&mut self, rod: &mut Rod, iterations: u64) {
        let stretch = self.rate.iterations(LOOK).max(1);
        let mut left = iterations;
        while left > 0 {
            let now_done = left.min(stretch);
            rod.relax(now_done);
            left -= now_done;
            self.looks(now(), LOOK);
        }
    }

    fn lock<'m>(&mut self, mutex: &'m Mutex<()>) -> MutexGuard<'m, ()> {
        mutex.try_lock().unwrap_or_else(|| {
            self.note(What::Waits);
            let guard = mutex.lock();
            self.note(What::Computes);
            guard
        })
    }

    fn note(&mut self, what: What) {
        let at = now();
        self.looked = at;
        self.cpu = sys::cpus::current();
        self.does(at, what);
    }

    fn close(self) -> Option<Diary> {
        Some(self.diary)
    }
}

/// `CLOCK_MONOTONIC`.
fn now() -> Instant {
    let now = clock_gettime(ClockId::Monotonic);
    Instant::from_nanos(now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is in a diary beside looks of a thread that the kernel has moved: it may, at any time.
    fn whats(observer: Observer) -> Vec<What> {
        let entries = observer.close().unwrap().entries;
        let mut whats: Vec<_> = entries.iter().map(|entry| entry.what).collect();
        let mut before = None;
        whats.retain(|&what| {
            let moved = what == What::Seen && before != Some(What::Away);
            before = Some(what);
            !moved
        });
        whats
    }

    fn observer(threads: u32) -> (Observer, Instant) {
        let observer = Observer::new(0, threads, Rate { iteration_ps: 2_000, start_ps: 0 });
        let start = observer.looked;
        (observer, start)
    }

    #[test]
    fn a_thread_is_away_where_something_took_much_longer_than_it_should() {
        let (mut observer, start) = observer(1);
        observer.looks(start + LOOK + DELAY, LOOK);
        observer.looks(start + LOOK + DELAY + LOOK, LOOK);
        assert_eq!(whats(observer), []);

        let (mut observer, start) = self::observer(1);
        observer.looks(start + LOOK + DELAY + Span::from_nanos(1), LOOK);
        assert_eq!(whats(observer), [What::Away, What::Seen]);
    }

    #[test]
    fn yields_are_one_entry_but_for_those_that_gave_the_cpu_to_somebody() {
        let (mut observer, start) = observer(1);
        for nanos in [0, 1_000, 2_000, 90_000, 91_000] {
            observer.sees(start + Span::from_nanos(nanos), Moment::Yields);
        }
        observer.sees(start + Span::from_nanos(92_000), Moment::GoesOn);
        assert_eq!(whats(observer), [What::Yields, What::Away, What::Seen, What::Computes]);
    }

    #[test]
    fn sleeping_is_not_being_away() {
        let (mut observer, start) = observer(1);
        observer.sees(start, Moment::Blocks);
        observer.sees(start + Span::from_millis(5), Moment::GoesOn);
        assert_eq!(whats(observer), [What::Blocks, What::Computes]);
    }

    #[test]
    fn what_a_diary_has_no_room_for_is_counted() {
        let (mut observer, start) = observer(u32::MAX);
        for round in 0..u64::from(LEAST) {
            let at = start + Span::from_nanos(round);
            observer.sees(at, Moment::Completes);
            observer.sees(at, Moment::GoesOn);
        }
        let diary = observer.close().unwrap();
        assert_eq!(diary.entries.len(), LEAST as usize);
        assert!(diary.lost >= u64::from(LEAST), "{}", diary.lost);
    }
}
