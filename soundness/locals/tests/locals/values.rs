//! `thread_local`: a value for each thread in an object, found by a number that is a thread-local.

use std::cell::{Cell, RefCell};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use thread_local::ThreadLocal;
use ways::{switch, together, until};

fn a_value_is_made_once_although_its_maker_switches() -> Vec<bool> {
    let (values, done) = (ThreadLocal::<String>::new(), AtomicUsize::new(0));
    together(4, |who| {
        let mine = values.get_or(|| {
            switch();
            let text = format!("strand {who}").repeat(10);
            switch();
            text
        });
        let before = mine.clone();
        switch();
        let noise = vec![b'x'; before.len()];
        switch();
        let right = *mine == before && mine.starts_with(&format!("strand {who}")) && noise.len() == before.len();
        // The number of a thread that has ended is given to the next, with the value.
        done.fetch_add(1, Relaxed);
        until(|| done.load(Relaxed) == 4);
        right
    })
}

fn values_of_all_strands_add_up() -> (Vec<bool>, u64) {
    let mut values: ThreadLocal<Cell<u64>> = ThreadLocal::new();
    let alone = together(4, |_| {
        let mine = values.get_or_default();
        // A strand may find what an earlier one left.
        (0..50).all(|_| {
            let before = mine.get();
            switch();
            mine.set(before + 1);
            values.get().is_some_and(|found| found.get() == before + 1)
        })
    });
    (alone, values.iter_mut().map(|value| value.get()).sum())
}

fn a_value_may_be_borrowed_across_a_switch() -> usize {
    let values: ThreadLocal<RefCell<Vec<usize>>> = ThreadLocal::new();
    together(3, |who| {
        for _ in 0..10 {
            let mut mine = values.get_or_default().borrow_mut();
            switch();
            mine.push(who);
        }
    });
    values.into_iter().map(|value| value.into_inner().len()).sum()
}

ways::in_every_way! {
    a_value_is_made_once_although_its_maker_switches
    values_of_all_strands_add_up
    a_value_may_be_borrowed_across_a_switch
}
