//! Very many preemptible fibers.

use std::collections::BTreeSet;
use std::fs::File;
use std::hint::black_box;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use policy::Span;
use policy::feedback::{Boost, FeedbackRules};
use rowlock_fiber::{Config, Runtime, ScriptedClock, Semaphore, ThreadControlBlocks, preemptions, sleep, spawn};

use crate::adversary::case::{alone, hasty, thread_control_blocks};
use crate::scripted::TURN;

/// The pages that belong to the calling fiber: those of its stack except the lowest, and, unless it
/// has a kernel thread, those above it up to its thread control block.
fn own_pages() -> RangeInclusive<usize> {
    let page = |address: usize| address / rustix::param::page_size();
    let local = 0_u8;
    // A stack has sixteen. The local variable is on the highest one or on the one below.
    let stack = page(black_box(&raw const local).addr());
    // SAFETY: it only returns a value.
    let block = page(unsafe { libc::pthread_self() } as usize);
    stack - 14..=if thread_control_blocks() == ThreadControlBlocks::Auto { block } else { stack }
}

/// How many of these have memory, or were swapped out.
fn with_memory(pagemap: &File, pages: RangeInclusive<usize>) -> usize {
    let has_memory = |page: &usize| {
        let mut entry = [0; 8];
        pagemap.read_exact_at(&mut entry, *page as u64 * 8).unwrap();
        u64::from_ne_bytes(entry) >> 62 > 0
    };
    pages.filter(has_memory).count()
}

/// How many mappings the process has.
fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

#[test]
fn thousands_of_fibers_take_a_few_pages_and_two_mappings_each_and_are_interrupted() {
    alone(|| {
        // To make one takes a kernel thread, and so a timeslice of each program on a busy machine.
        // A process may have 65,000 mappings: if each takes two, there can be 30,000 of them.
        let many = if thread_control_blocks() == ThreadControlBlocks::Auto { 5_000 } else { 3_000 };
        let before = mappings();
        // No fiber is interrupted before all exist, because an interruption writes to its stack.
        let clock = ScriptedClock::new();
        let rules =
            FeedbackRules { levels: 4, running_time: Span::from_nanos(TURN.as_nanos() as u64), boost: Boost::Never };
        let thread_control_blocks = thread_control_blocks();
        let config =
            Config { rules, preemptible: true, thread_control_blocks, clock: Some(clock.clone()), ..Config::default() };
        let pagemap = File::open("/proc/self/pagemap").unwrap();
        let pages = Arc::new(Mutex::new(Vec::with_capacity(many)));
        let (sum, taken) = Runtime::new(config)
            .run(|| {
                let (come, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
                let fiber = |number: usize| {
                    let (come, go) = (Arc::clone(&come), Arc::clone(&go));
                    let (pages, clock) = (Arc::clone(&pages), clock.clone());
                    move || {
                        let own = Vec::from([number; 3]);
                        pages.lock().unwrap().push(own_pages());
                        come.release(1);
                        go.acquire().forget();
                        clock.advance(TURN);
                        own.iter().sum::<usize>() / 3
                    }
                };
                let fibers: Vec<_> = (0..many).map(|number| spawn(fiber(number))).collect();
                (0..many).for_each(|_| come.acquire().forget());
                let all = std::mem::take(&mut *pages.lock().unwrap());
                let each: BTreeSet<usize> = all.into_iter().map(|own| with_memory(&pagemap, own)).collect();
                println!("{each:?} pages for each");
                assert!(each.iter().all(|pages| (1..8).contains(pages)), "{each:?}");
                let added = mappings() - before;
                println!("{added} mappings for {many}");
                assert!(
                    thread_control_blocks == ThreadControlBlocks::KernelThreads || added < 2 * many + 100,
                    "{added}"
                );
                let before = preemptions().taken;
                go.release(many);
                let sum: usize = fibers.into_iter().map(|fiber| fiber.join().unwrap()).sum();
                (sum, preemptions().taken - before)
            })
            .unwrap();
        assert_eq!((sum, taken), (many * (many - 1) / 2, many as u64));
    });
}

#[test]
fn a_fiber_loops_forever_while_others_start_and_end() {
    alone(|| {
        for workers in [1, 2] {
            let over = Arc::new(AtomicBool::new(false));
            let loops = Arc::clone(&over);
            hasty(workers)
                .run(|| {
                    let endless = spawn(move || while !loops.load(Relaxed) {});
                    for round in 0..50_u64 {
                        let fibers: Vec<_> = (0..40).map(|i| spawn(move || vec![round; i])).collect();
                        sleep(std::time::Duration::from_micros(100));
                        for (i, fiber) in (0..).zip(fibers) {
                            assert_eq!(fiber.join().unwrap(), vec![round; i]);
                        }
                    }
                    over.store(true, Relaxed);
                    endless.join().unwrap();
                    println!("{:?}", preemptions());
                })
                .unwrap();
        }
    });
}
