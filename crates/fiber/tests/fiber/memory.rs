//! What fibers cost in memory, and that it goes back.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex};

use rowlock_fiber::{run, spawn, yield_now};

/// Bytes of memory that this process has. What `statm` says lags behind on some kernels, by some pages for each CPU.
fn resident() -> usize {
    let smaps = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let kilobytes = smaps.lines().find_map(|line| line.strip_prefix("Rss:")?.strip_suffix("kB")).unwrap();
    kilobytes.trim().parse::<usize>().unwrap() << 10
}

/// The tests measure their process, so only one runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// How many fibers have begun to wait.
static STARTED: AtomicUsize = AtomicUsize::new(0);

#[test]
fn a_million_fibers_one_after_the_other_take_no_more_memory() {
    testing::isolated(|| {
        let _alone = ALONE.lock().unwrap();
        run(|| {
            let some = || (0..10_000).for_each(|number: u64| assert_eq!(spawn(move || number).join().unwrap(), number));
            some();
            let before = resident();
            (0..100).for_each(|_| some());
            let after = resident();
            assert!(after < before + (1 << 20), "{before} {after}");
        });
    });
}

#[test]
fn the_memory_of_many_fibers_that_waited_goes_back_when_they_have_ended() {
    testing::isolated(|| {
        let _alone = ALONE.lock().unwrap();
        run(|| {
            let many = 20_000;
            let over = Arc::new(AtomicBool::new(false));
            let seen = over.clone();
            let mut last = spawn(move || {
                while !seen.load(Relaxed) {
                    yield_now();
                }
            });
            for _ in 0..many {
                last = spawn(move || {
                    STARTED.fetch_add(1, Relaxed);
                    last.join().unwrap();
                });
            }
            while STARTED.load(Relaxed) < many {
                yield_now();
            }
            let full = resident();
            over.store(true, Relaxed);
            last.join().unwrap();
            let after = resident();
            assert!(after + many * 4096 / 2 < full, "{full} {after}");
        });
    });
}
