//! Applies a function to many items on several threads. The results come in the order of the items.
//!
//! This is not a [`pipeline`], whose stages share a fixed set of buffers and end together, nor
//! rayon, whose ordered iterators collect all results before the caller sees the first: here the
//! caller consumes a possibly endless stream on its own thread and may stop early.

use std::collections::BTreeMap;
use std::iter;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

/// The most workers that are started.
const MOST: usize = 1024;

/// Applies `work` to every item on up to `workers` threads. `take` consumes the results in the
/// order of the items, each as soon as it and all earlier ones are available. A single worker is
/// the calling thread, which starts an item when its result is requested. No thread starts after
/// the last item. After `take` has returned, no item starts, and the current ones are awaited.
pub fn in_order<I, R, T>(
    items: I,
    workers: NonZeroUsize,
    work: impl Fn(I::Item) -> R + Sync,
    take: impl FnOnce(&mut dyn Iterator<Item = R>) -> T,
) -> T
where
    I: Iterator + Send,
    R: Send,
{
    if workers.get() == 1 {
        return take(&mut items.map(work));
    }
    // The lock only guards the way to the next item, so a panic leaves nothing inconsistent.
    let (items, is_over) = (Mutex::new(items.enumerate()), AtomicBool::new(false));
    let next = || {
        let item = items.lock().unwrap_or_else(PoisonError::into_inner).next();
        is_over.fetch_or(item.is_none(), Ordering::Relaxed);
        item
    };
    let (send, receive) = mpsc::channel();
    thread::scope(|scope| {
        let start = |_: &usize| {
            let (send, next, is_over, work) = (send.clone(), &next, &is_over, &work);
            let run = move || {
                while !is_over.load(Ordering::Relaxed)
                    && let Some((number, item)) = next()
                    && send.send((number, work(item))).is_ok()
                {}
            };
            // If no more threads are available, fewer do the work.
            !is_over.load(Ordering::Relaxed)
                && thread::Builder::new().name("worker".to_owned()).spawn_scoped(scope, run).is_ok()
        };
        let started = (0..workers.get().min(MOST)).take_while(start).count();
        drop(send);
        let taken = match started {
            0 => take(&mut iter::from_fn(next).map(|(_, item)| work(item))),
            _ => {
                // Results that came early. They end early only if a worker panicked; the scope then
                // panics.
                let mut early = BTreeMap::new();
                take(&mut (0..).map_while(|number: usize| {
                    while !early.contains_key(&number) {
                        early.extend([receive.recv().ok()?]);
                    }
                    early.remove(&number)
                }))
            }
        };
        is_over.store(true, Ordering::Relaxed);
        taken
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize;

    fn workers(number: usize) -> NonZeroUsize {
        NonZeroUsize::new(number).unwrap()
    }

    #[test]
    fn results_come_in_the_order_of_the_items_for_any_number_of_workers() {
        // With `usize::MAX` threads this would not end.
        for number in [1, 2, 3, 50, usize::MAX] {
            let squares: Vec<u64> =
                in_order(0..20_u64, workers(number), |item| item * item, |results| results.collect());
            assert_eq!(squares, (0..20).map(|item| item * item).collect::<Vec<_>>(), "{number} workers");
        }
    }

    #[test]
    fn an_early_result_waits_for_the_earlier_items() {
        // The first item is not done before the second is.
        let (meeting, second_is_done) = (Barrier::new(2), AtomicBool::new(false));
        let work = |item| {
            if item == 0 {
                meeting.wait();
                assert!(second_is_done.load(Ordering::SeqCst));
            } else if item == 1 {
                second_is_done.store(true, Ordering::SeqCst);
            } else {
                // Taken by the worker that has sent the second.
                meeting.wait();
            }
            item
        };
        assert_eq!(in_order(0..3, workers(2), work, |results| results.collect::<Vec<_>>()), [0, 1, 2]);
    }

    #[test]
    fn two_workers_work_at_the_same_time() {
        // One worker alone would wait forever.
        let meeting = Barrier::new(2);
        let leaders =
            in_order(0..10, workers(2), |_| meeting.wait().is_leader(), |results| results.filter(|is| *is).count());
        assert_eq!(leaders, 5);
    }

    #[test]
    fn no_item_starts_after_the_caller_has_enough_results() {
        for number in [1, 2] {
            let begun = AtomicUsize::new(0);
            let work = |item: usize| {
                begun.fetch_add(1, Ordering::SeqCst);
                item
            };
            // The items are endless: this only returns if the workers stop.
            assert_eq!(in_order(0.., workers(number), work, |results| results.nth(4)), Some(4));
            assert!(begun.load(Ordering::SeqCst) >= 5);
        }
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn a_panic_of_a_worker_propagates() {
        in_order(0..4, workers(2), |item| assert_ne!(item, 2, "the test panics"), |results| results.count());
    }
}
