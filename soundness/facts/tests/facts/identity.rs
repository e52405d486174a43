//! `std::thread`: who a thread is, and how others wake it.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::thread::{self, Thread, ThreadId};

use ways::{switch, together, until};

fn the_current_thread_stays_the_same() -> Vec<bool> {
    together(3, |_| {
        let before = thread::current().id();
        (0..10).all(|_| {
            switch();
            thread::current().id() == before
        })
    })
}

fn count(ids: impl Iterator<Item = ThreadId>) -> usize {
    ids.map(|id| format!("{id:?}")).collect::<BTreeSet<_>>().len()
}

fn strands_at_a_time_are_different_threads() -> usize {
    let ids = Mutex::new(Vec::new());
    together(4, |_| {
        ids.lock().unwrap().push(thread::current().id());
        until(|| ids.lock().unwrap().len() == 4);
    });
    count(ids.into_inner().unwrap().into_iter())
}

fn strands_after_each_other_are_different_threads() -> usize {
    count((0..4).flat_map(|_| together(1, |_| thread::current().id())))
}

fn a_token_is_kept_for_its_strand() -> Vec<()> {
    together(3, |_| {
        for _ in 0..5 {
            thread::current().unpark();
            switch();
            thread::park();
        }
    })
}

fn a_strand_that_parks_is_woken() -> usize {
    let (parked, is_over) = (Mutex::new(None::<Thread>), AtomicBool::new(false));
    let wakes = |who| {
        if who == 0 {
            *parked.lock().unwrap() = Some(thread::current());
            while !is_over.load(SeqCst) {
                thread::park();
            }
            return 1;
        }
        until(|| parked.lock().unwrap().is_some());
        switch();
        is_over.store(true, SeqCst);
        parked.lock().unwrap().as_ref().unwrap().unpark();
        2
    };
    together(2, wakes).into_iter().sum()
}

mod switching {
    use super::*;
    ways::in_every_way! {
        the_current_thread_stays_the_same
        strands_at_a_time_are_different_threads
        a_token_is_kept_for_its_strand
        strands_after_each_other_are_different_threads
    }
}

mod waiting {
    use super::*;
    ways::in_every_way! {
        a_strand_that_parks_is_woken
    }
}
