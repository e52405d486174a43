//! Very many of them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use rowlock_fiber::{Config, PreemptBy, Runtime, Semaphore, preemptions, sleep, spawn};

use crate::adversary::case::{alone, hasty, means};

/// The pages that the process has written to, in memory or swapped out.
fn pages() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let kibibytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap()
    };
    (kibibytes("RssAnon:") + kibibytes("VmSwap:")) / (rustix::param::page_size() >> 10)
}

#[test]
fn thirty_thousand_are_there_at_once() {
    alone(|| {
        // A process may not have so many kernel threads.
        let many = if means() == PreemptBy::Auto { 30_000 } else { 3_000 };
        let before = pages();
        let config = Config { preemptible: true, preempt_by: means(), ..Config::default() };
        let sum: usize = Runtime::new(config)
            .run(|| {
                let (come, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
                let work = |number: usize, come: Arc<Semaphore>, go: Arc<Semaphore>| {
                    move || {
                        let own = Vec::from([number; 3]);
                        come.release(1);
                        go.acquire().forget();
                        own.iter().sum::<usize>() / 3
                    }
                };
                let fibers: Vec<_> =
                    (0..many).map(|number| spawn(work(number, Arc::clone(&come), Arc::clone(&go)))).collect();
                (0..many).for_each(|_| come.acquire().forget());
                let each = (pages() - before) / many;
                println!("{each} pages for each");
                assert!(each < 8, "{each}");
                go.release(many);
                fibers.into_iter().map(|fiber| fiber.join().unwrap()).sum()
            })
            .unwrap();
        assert_eq!(sum, many * (many - 1) / 2);
    });
}

#[test]
fn one_loops_for_ever_while_others_come_and_go() {
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
