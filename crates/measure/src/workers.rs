//! Workers: threads that do the same to many items, while somebody takes the results in the order of the items. What comes
//! out does not depend on how many there are.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// More workers than this are never started: no machine has use for them.
const MOST: usize = 1024;

/// Does `work` to every item on so many threads and gives `take` the results in the order of the items, each as soon as it
/// and all before it are there. One worker is the calling thread itself, which does nothing before it is asked for the
/// result. There are no more than `MOST`, and none is started once there are no items left. Once
/// `take` has returned no further item is begun; those that are under way are waited for.
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
    let (items, enough) = (Mutex::new(items.enumerate()), AtomicBool::new(false));
    // All that the lock guards is the way to the next item, so that nothing is broken where somebody panicked.
    let none_left = AtomicBool::new(false);
    let next = || {
        let item = items.lock().unwrap_or_else(PoisonError::into_inner).next();
        none_left.fetch_or(item.is_none(), Ordering::Relaxed);
        item
    };
    let (send, receive) = mpsc::channel();
    thread::scope(|scope| {
        let mut started = 0;
        for _ in 0..workers.get().min(MOST) {
            if none_left.load(Ordering::Relaxed) {
                break;
            }
            let (send, next, enough, work) = (send.clone(), &next, &enough, &work);
            let labour = move || {
                while !enough.load(Ordering::Relaxed)
                    && let Some((number, item)) = next()
                    && send.send((number, work(item))).is_ok()
                {}
            };
            // Fewer will do where no more threads can be had.
            let worker = thread::Builder::new().name("worker".to_owned()).spawn_scoped(scope, labour);
            started += usize::from(worker.is_ok());
        }
        drop(send);
        let taken = match started {
            0 => take(&mut std::iter::from_fn(next).map(|(_, item)| work(item))),
            _ => take(&mut Results { receive, early: BTreeMap::new(), next: 0 }),
        };
        enough.store(true, Ordering::Relaxed);
        taken
    })
}

/// Results in the order of their numbers. They end early only if a worker panicked, which its scope passes on.
struct Results<R> {
    receive: Receiver<(usize, R)>,
    /// Those that came before their turn.
    early: BTreeMap<usize, R>,
    next: usize,
}

impl<R> Iterator for Results<R> {
    type Item = R;

    fn next(&mut self) -> Option<R> {
        let result = loop {
            if let Some(result) = self.early.remove(&self.next) {
                break result;
            }
            let (number, result) = self.receive.recv().ok()?;
            self.early.insert(number, result);
        };
        self.next += 1;
        Some(result)
    }
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
    fn results_come_in_the_order_of_the_items_whatever_the_number_of_workers() {
        for number in [1, 2, 3, 50] {
            let squares: Vec<u64> =
                in_order(0..20_u64, workers(number), |item| item * item, |results| results.collect());
            assert_eq!(squares, (0..20).map(|item| item * item).collect::<Vec<_>>(), "{number} workers");
        }
    }

    #[test]
    fn a_result_that_is_there_early_waits_for_its_turn() {
        // The first item is not done before the second is.
        let (meeting, second_is_done) = (Barrier::new(2), AtomicBool::new(false));
        let work = |item| {
            if item == 0 {
                meeting.wait();
                assert!(second_is_done.load(Ordering::SeqCst));
            } else if item == 1 {
                second_is_done.store(true, Ordering::SeqCst);
            } else {
                // Taken by the worker that did the second and has sent it.
                meeting.wait();
            }
            item
        };
        assert_eq!(in_order(0..3, workers(2), work, |results| results.collect::<Vec<_>>()), [0, 1, 2]);
    }

    #[test]
    fn two_workers_work_at_the_same_time() {
        // Nobody would come through alone.
        let meeting = Barrier::new(2);
        let leaders =
            in_order(0..10, workers(2), |_| meeting.wait().is_leader(), |results| results.filter(|is| *is).count());
        assert_eq!(leaders, 5);
    }

    #[test]
    fn there_are_not_many_more_workers_than_items() {
        // Otherwise this would not end.
        assert_eq!(in_order(0..3, workers(usize::MAX), |item| item, |results| results.count()), 3);
    }

    #[test]
    fn nothing_is_begun_once_there_is_enough() {
        for number in [1, 2] {
            let begun = AtomicUsize::new(0);
            let work = |item: usize| {
                begun.fetch_add(1, Ordering::SeqCst);
                item
            };
            // An endless supply: this only returns if the workers stop.
            assert_eq!(in_order(0.., workers(number), work, |results| results.nth(4)), Some(4));
            assert!(begun.load(Ordering::SeqCst) >= 5);
        }
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn a_panic_in_a_worker_is_passed_on_and_nobody_waits_for_its_result() {
        in_order(0..4, workers(2), |item| assert_ne!(item, 2, "the oar broke"), |results| results.count());
    }
}
