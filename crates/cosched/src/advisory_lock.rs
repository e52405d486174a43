//! An advisory lock for processes that enter or leave a table, which may be hundreds at once: they
//! change it one after another. Otherwise each would repeat its change whenever another was faster.
//!
//! The lock is only advice: `versions` needs no order. So an owner that is late, stopped or killed
//! delays the others for a moment, after which the next one takes the lock from it. An owner that
//! only lacks a CPU keeps it for longer: otherwise it would have to compete for the CPUs with all
//! that have lost their patience.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use policy::{Instant, Span};
use sys::futex::{self, Scope};
use sys::identity::{Identity, Stat};

/// How long an owner keeps the others waiting if it is stopped or has ended.
const PATIENCE: Span = Span::from_millis(250);
/// How long it does so in any case.
const LONGEST: Span = Span::from_millis(5_000);
/// The bits for the id of a process.
const PROCESS: u32 = (1 << 22) - 1;

/// A word with the process that owns the lock, below a number that distinguishes its acquisitions.
/// Zero if the lock is free.
#[derive(Debug)]
pub(crate) struct AdvisoryLock<'a>(pub(crate) &'a AtomicU32);

/// Releases the lock when it is dropped.
#[derive(Debug)]
pub(crate) struct Guard<'a> {
    word: &'a AtomicU32,
    own: u32,
}

impl<'a> AdvisoryLock<'a> {
    /// Blocks until no other process owns the lock, or one has owned it for too long.
    pub(crate) fn acquire(self) -> Guard<'a> {
        static TIMES: AtomicU32 = AtomicU32::new(0);
        let AdvisoryLock(word) = self;
        let own = TIMES.fetch_add(1, SeqCst) << PROCESS.count_ones() | Identity::own().pid & PROCESS;
        let mut seen: Option<(u32, Instant)> = None;
        loop {
            let (head, now) = (word.load(SeqCst), wait::now());
            let first = seen.filter(|&(seen, _)| seen == head).map_or(now, |(_, first)| first);
            seen = Some((head, first));
            if head == 0 || is_overdue(head & PROCESS, now.since(first)) {
                if word.compare_exchange(head, own, SeqCst, SeqCst).is_ok() {
                    return Guard { word, own };
                }
                continue;
            }
            futex::wait(word, head, Some(Duration::from_nanos((now + PATIENCE).as_nanos())), Scope::Shared);
        }
    }
}

/// Whether the others need not wait for a process that has owned the lock for this time.
fn is_overdue(process: u32, time: Span) -> bool {
    let is_stopped = || Stat::of(process).is_none_or(|stat| stat.has_ended() || matches!(stat.state, b'T' | b't'));
    time >= LONGEST || time >= PATIENCE && is_stopped()
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        // If it has owned the lock for too long, another process may own it.
        if self.word.compare_exchange(self.own, 0, SeqCst, SeqCst).is_ok() {
            futex::wake(self.word, 1, Scope::Shared);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_after_another_comes_to_the_head() {
        const EACH: u32 = 200;
        let (word, at_head, done) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
        let come = || {
            for _ in 0..EACH {
                let head = AdvisoryLock(&word).acquire();
                at_head.fetch_add(1, SeqCst);
                std::thread::yield_now();
                assert_eq!(at_head.fetch_sub(1, SeqCst), 1);
                drop(head);
                done.fetch_add(1, SeqCst);
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(come))));
        assert_eq!((done.into_inner(), word.into_inner()), (4 * EACH, 0));
    }

    #[test]
    fn one_that_has_ended_at_the_head_is_overtaken_and_one_that_lives_later() {
        let ended = PROCESS;
        let word = AtomicU32::new(ended);
        let next = AdvisoryLock(&word).acquire();
        assert_eq!(word.load(SeqCst), next.own);
        let own = Identity::own().pid;
        assert!(is_overdue(ended, PATIENCE) && !is_overdue(own, PATIENCE) && is_overdue(own, LONGEST));
    }

    #[test]
    fn one_that_was_overtaken_does_not_end_the_time_of_the_next() {
        let word = AtomicU32::new(0);
        let late = AdvisoryLock(&word).acquire();
        word.store(0, SeqCst);
        let next = AdvisoryLock(&word).acquire();
        drop(late);
        assert_eq!(word.load(SeqCst), next.own);
        drop(next);
        assert_eq!(word.load(SeqCst), 0);
    }
}
