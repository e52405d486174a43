//! The line of processes that enter or leave a table, which may be hundreds at once: they change it
//! one after another. Otherwise each would repeat its change whenever another was faster.
//!
//! The line is only advice: `versions` needs no order. So a process that is late, stopped or killed
//! at the head of the line delays those behind it for a moment, after which the next one goes on.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use policy::{Instant, Span};
use sys::futex::{self, Scope};

use crate::clock;

/// How long one process at the head keeps the others waiting.
const PATIENCE: Span = Span::from_millis(250);

/// A word that is odd while a process is at the head, and that grows with each one that comes there
/// or goes.
#[derive(Debug)]
pub(crate) struct Line<'a>(pub(crate) &'a AtomicU32);

/// The head of the line, until it is dropped.
#[derive(Debug)]
pub(crate) struct Head<'a> {
    word: &'a AtomicU32,
    number: u32,
}

impl<'a> Line<'a> {
    /// Blocks until no other process is at the head, or one has been there for too long.
    pub(crate) fn stand(self) -> Head<'a> {
        let Line(word) = self;
        let mut seen: Option<(u32, Instant)> = None;
        loop {
            let (number, now) = (word.load(SeqCst), clock::now());
            let is_taken = number % 2 == 1;
            let first = seen.filter(|&(seen, _)| seen == number).map_or(now, |(_, first)| first);
            seen = Some((number, first));
            if is_taken && now.since(first) < PATIENCE {
                let deadline = Duration::from_nanos((first + PATIENCE).as_nanos());
                futex::wait(word, number, Some(deadline), Scope::Shared);
                continue;
            }
            let next = number.wrapping_add(if is_taken { 2 } else { 1 });
            if word.compare_exchange(number, next, SeqCst, SeqCst).is_ok() {
                return Head { word, number: next };
            }
        }
    }
}

impl Drop for Head<'_> {
    fn drop(&mut self) {
        // If it was too long at the head, another one is there.
        if self.word.compare_exchange(self.number, self.number.wrapping_add(1), SeqCst, SeqCst).is_ok() {
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
        let (word, at_head, done) = (AtomicU32::new(u32::MAX - 7), AtomicU32::new(0), AtomicU32::new(0));
        let come = || {
            for _ in 0..EACH {
                let head = Line(&word).stand();
                at_head.fetch_add(1, SeqCst);
                std::thread::yield_now();
                assert_eq!(at_head.fetch_sub(1, SeqCst), 1);
                drop(head);
                done.fetch_add(1, SeqCst);
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(come))));
        assert_eq!(done.into_inner(), 4 * EACH);
        assert_eq!(word.into_inner() % 2, 0);
    }

    #[test]
    fn one_that_stays_at_the_head_is_overtaken_and_does_not_end_the_time_of_the_next() {
        let word = AtomicU32::new(0);
        let stays = Line(&word).stand();
        let next = Line(&word).stand();
        drop(stays);
        assert_eq!(word.load(SeqCst), next.number);
        drop(next);
        assert_eq!(word.load(SeqCst) % 2, 0);
    }
}
