//! `arc-swap`: readers note what they read in slots that belong to their thread.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use arc_swap::{ArcSwap, Cache};
use ways::{switch, together};

/// A value that counts itself.
struct Counted<'a>(&'a AtomicUsize, u64, Box<u64>);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize, value: u64) -> Arc<Counted<'a>> {
        count.fetch_add(1, Relaxed);
        Arc::new(Counted(count, value, Box::new(value)))
    }

    fn is_whole(&self) -> bool {
        self.1 == *self.2
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        // Code of the program, in the middle of whatever drops the last reference.
        switch();
        self.0.fetch_sub(1, Relaxed);
    }
}

fn a_guard_keeps_its_value_across_switches() -> (Vec<bool>, usize) {
    let count = AtomicUsize::new(0);
    let value = ArcSwap::new(Counted::new(&count, 0));
    let whole = together(4, |who| {
        (0..20).all(|round| {
            let guards: Vec<_> = (0..who * 4).map(|_| value.load()).collect();
            let numbers: Vec<_> = guards.iter().map(|guard| guard.1).collect();
            switch();
            value.store(Counted::new(&count, who as u64 * 100 + round));
            switch();
            let whole = guards.iter().zip(numbers).all(|(guard, number)| guard.is_whole() && guard.1 == number);
            drop(guards);
            whole
        })
    });
    // The last value switches, too, and only strands may.
    let rest = together(1, |_| {
        value.store(Counted::new(&count, 0));
        count.load(Relaxed)
    });
    let last = value.into_inner();
    together(1, |_| assert!(last.is_whole()));
    std::mem::forget(last);
    (whole, rest[0])
}

fn updates_are_not_lost() -> u64 {
    let value = ArcSwap::from_pointee(0_u64);
    together(4, |_| {
        for _ in 0..20 {
            value.rcu(|old| {
                let new = **old + 1;
                switch();
                new
            });
        }
    });
    **value.load()
}

fn a_cache_sees_the_last_value() -> Vec<bool> {
    let value = ArcSwap::from_pointee(0_usize);
    together(3, |who| {
        let mut cache = Cache::new(&value);
        (1..20).all(|round| {
            switch();
            let seen = **cache.load();
            if who == 0 {
                value.store(Arc::new(round));
            }
            switch();
            **cache.load() >= seen
        })
    })
}

ways::in_every_way! {
    a_guard_keeps_its_value_across_switches
    updates_are_not_lost
    a_cache_sees_the_last_value
}
