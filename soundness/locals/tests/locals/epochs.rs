//! `crossbeam-epoch`: what a pinned thread can see is freed after it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use crossbeam_epoch::pin;
use ways::{switch, together};

/// How often a strand pins itself. It collects each time. Under a sanitizer a switch takes
/// microseconds, and the schedules are as many.
const ROUNDS: usize = if cfg!(any(rowlock_asan, rowlock_tsan)) { 25 } else { 100 };

/// Two strands retire versions.
const VERSIONS: usize = 2 * ROUNDS;

/// Versions of something that are retired one by one, and freed when no strand can see them.
struct Versions {
    current: AtomicUsize,
    is_freed: [AtomicBool; VERSIONS],
}

impl Versions {
    fn new() -> Arc<Versions> {
        let is_freed = [const { AtomicBool::new(false) }; VERSIONS];
        Arc::new(Versions { current: AtomicUsize::new(0), is_freed })
    }
}

fn a_pinned_strand_sees_nothing_that_is_freed() -> Vec<bool> {
    let versions = Versions::new();
    together(4, |who| {
        (0..ROUNDS - 1).all(|_| {
            let guard = pin();
            let seen = versions.current.load(SeqCst);
            if who < 2 {
                let old = versions.current.fetch_add(1, SeqCst);
                let versions = Arc::clone(&versions);
                guard.defer(move || versions.is_freed[old].store(true, SeqCst));
                guard.flush();
            }
            switch();
            let inner = pin();
            switch();
            let right = !versions.is_freed[seen].load(SeqCst);
            drop(inner);
            switch();
            right && !versions.is_freed[seen].load(SeqCst)
        })
    })
}

/// A deferred function runs in any strand that collects, in the middle of the library.
fn deferred_functions_may_switch_and_run_once() -> Vec<usize> {
    let ran: Arc<Vec<AtomicUsize>> = Arc::new((0..4 * ROUNDS).map(|_| AtomicUsize::new(0)).collect());
    together(4, |who| {
        for round in 0..ROUNDS {
            let mut guard = pin();
            let ran = Arc::clone(&ran);
            guard.defer(move || {
                switch();
                ran[who * ROUNDS + round].fetch_add(1, SeqCst);
                switch();
            });
            guard.flush();
            guard.repin();
        }
    });
    let many = || ran.iter().filter(|count| count.load(SeqCst) > 0).count();
    // The end of a strand does not run what it deferred, but later strands do.
    together(1, |_| {
        while many() < 4 * ROUNDS {
            pin().flush();
            switch();
        }
    });
    ran.iter().map(|count| count.load(SeqCst)).collect()
}

ways::in_every_way! {
    a_pinned_strand_sees_nothing_that_is_freed
    deferred_functions_may_switch_and_run_once
}
