//! Loom models of threads that sleep on the turn page while switchers change it. A lost wakeup is a
//! deadlock, which loom reports: the clock of a model never reaches a boundary.
//!
//! `.ci/models rowlock_wait::turn::model` runs them.

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::sync::AtomicU64;

const SLICE_LENGTH: Span = Span::from_millis(1_000);

/// A boundary, by its number.
const fn boundary(number: u64) -> Instant {
    Instant::from_nanos(1_000_000_000 + number)
}

const fn ours(number: u64) -> Turn {
    Turn::OursUntil(boundary(number))
}

const fn others(number: u64) -> Turn {
    Turn::OthersUntil(boundary(number))
}

/// Threads of the job wait for its turn from that of others on, while switchers write these turns.
fn all_are_woken(sleepers: usize, switchers: &'static [&'static [Turn]], preemptions: usize) {
    let mut model = loom::model::Builder::new();
    (model.preemption_bound, model.max_duration) = testing::depth(preemptions);
    model.check(move || {
        let words: WrittenWords = Arc::new(vec![AtomicU64::new(0), AtomicU64::new(encode(others(0)))]);
        let start = |run: fn(&WrittenWords, &[Turn]), turns: &'static [Turn]| {
            let words = words.clone();
            thread::spawn(move || run(&words, turns))
        };
        let sleepers = (0..sleepers).map(|_| start(sleep, &[]));
        let threads: Vec<_> = sleepers.chain(switchers.iter().map(|turns| start(switch, turns))).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

fn sleep(words: &WrittenWords, _: &[Turn]) {
    TurnPage { words: ReadOnlyWords(words.clone()), slice: SLICE_LENGTH }.await_turn(None);
}

fn switch(words: &WrittenWords, turns: &[Turn]) {
    let page = WrittenPage(words.clone());
    turns.iter().for_each(|&turn| page.set(turn));
}

#[test]
fn threads_that_sleep_out_of_their_turn_are_woken_by_it() {
    const TURNS: &[&[Turn]] = &[&[others(1), ours(2)]];
    all_are_woken(2, TURNS, 3);
}

#[test]
fn threads_that_sleep_out_of_their_turn_are_woken_when_there_are_no_turns_any_more() {
    const TURNS: &[&[Turn]] = &[&[ours(1), others(2), Turn::NoTurns]];
    all_are_woken(2, TURNS, 3);
}

#[test]
fn a_thread_is_woken_if_two_switchers_say_at_the_same_time_that_its_turn_has_come() {
    const TURNS: &[&[Turn]] = &[&[ours(1)], &[ours(1), others(2), ours(3)]];
    all_are_woken(1, TURNS, 3);
}
