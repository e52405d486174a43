//! Runtimes that end while fibers reach no safepoint.

use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use rowlock_fiber as fiber;
use rowlock_fiber::{Builder, Config, Runtime, ThreadControlBlocks, preemptions, scope, sleep, spawn, yield_now};

use crate::adversary::case::{alone, elsewhere, hasty, thread_control_blocks};

/// Ends runtimes of one worker and of two while four fibers call a function again and again, and
/// checks that what follows works. The function counts once that it has started.
fn ends_while(does: impl Fn(u64, &AtomicU64) + Clone + Send + 'static) {
    for round in 0..4 {
        let begun = Arc::new(AtomicU64::new(0));
        hasty(1 + round % 2)
            .run(|| {
                for who in 0..4 {
                    let (does, begun) = (does.clone(), Arc::clone(&begun));
                    spawn(move || does(who, &begun)).detach();
                }
                while begun.load(Relaxed) < 4 {
                    sleep(std::time::Duration::from_micros(500));
                }
            })
            .unwrap();
        // The process continues, and so do other runtimes, with everything that those fibers may
        // have been in the middle of.
        let all: Vec<_> = (0..100).map(|i| vec![round; i]).collect();
        let thread = std::thread::spawn(move || all.iter().map(Vec::len).sum::<usize>());
        assert_eq!(thread.join().unwrap(), 4950);
        let sums = || (0..8).map(|i| spawn(move || vec![i; 50].iter().sum::<u64>())).collect::<Vec<_>>();
        let sum: u64 = hasty(2).run(|| sums().into_iter().map(|sum| sum.join().unwrap()).sum()).unwrap();
        assert_eq!(sum, 1400);
    }
}

#[test]
fn fibers_loop() {
    alone(|| {
        ends_while(|_, begun| {
            begun.fetch_add(1, Relaxed);
            loop {
                std::hint::spin_loop();
            }
        });
    });
}

#[test]
fn fibers_allocate() {
    alone(|| {
        ends_while(|who, begun| {
            begun.fetch_add(1, Relaxed);
            loop {
                let all: Vec<_> = (0..50).map(|i| vec![who; i]).collect();
                assert!(all.iter().flatten().all(|each| *each == who));
            }
        });
    });
}

#[test]
fn fibers_print_and_hold_locks() {
    alone(|| {
        let shared = Arc::new(Mutex::new(Vec::new()));
        ends_while(move |who, begun| {
            begun.fetch_add(1, Relaxed);
            loop {
                let mut shared = shared.lock().unwrap();
                shared.push(who);
                if shared.len() > 100 {
                    print!("{}", "x".repeat(shared.len()));
                    shared.clear();
                }
            }
        });
    });
}

#[test]
fn fibers_catch_their_cancellation() {
    alone(|| {
        ends_while(|who, begun| {
            for round in 0_u64.. {
                let caught = catch_unwind(AssertUnwindSafe(|| {
                    begun.fetch_add(u64::from(round == 0), Relaxed);
                    (0..50).for_each(|i| drop(black_box(vec![who; i])));
                    if round % 16 == 0 {
                        yield_now();
                    }
                }));
                black_box(caught.is_err());
            }
        });
    });
}

#[test]
fn fibers_panic_again_and_again() {
    alone(|| {
        ends_while(|who, begun| {
            for round in 0_u64.. {
                begun.fetch_add(u64::from(round == 0), Relaxed);
                let caught = catch_unwind(|| std::panic::resume_unwind(Box::new(who)));
                assert_eq!(*caught.unwrap_err().downcast::<u64>().unwrap(), who);
            }
        });
    });
}

#[test]
fn fibers_have_scopes_whose_fibers_borrow_from_them() {
    alone(|| {
        ends_while(|who, begun| {
            let mut borrowed = [who; 2];
            scope(|scope| {
                for place in &mut borrowed {
                    scope.spawn(move || {
                        loop {
                            *place = black_box(who);
                        }
                    });
                }
                begun.fetch_add(1, Relaxed);
            });
            unreachable!("its fibers loop");
        });
    });
}

#[test]
fn fibers_reach_a_safepoint_very_late() {
    alone(|| {
        ends_while(|who, begun| {
            begun.fetch_add(1, Relaxed);
            let began = std::time::Instant::now();
            let own = vec![who; 100];
            while began.elapsed() < std::time::Duration::from_millis(110) {
                drop(black_box(vec![who; 100]));
            }
            assert!(own.iter().all(|each| *each == who));
            // By now they are orphaned, or about to be.
            fiber::checkpoint();
            sleep(std::time::Duration::from_secs(1_000));
            unreachable!("it unwinds");
        });
    });
}

#[test]
fn fibers_have_the_smallest_stacks() {
    alone(|| {
        // How much there must be for a fiber to start.
        let config = |stack_size| Config {
            preemptible: true,
            thread_control_blocks: thread_control_blocks(),
            stack_size,
            ..Config::default()
        };
        let begins = |size: &usize| Runtime::new(config(*size)).run(|| spawn(|| ()).join().is_ok()).unwrap();
        let stack_size = (1..).map(|pages| pages << 14).find(begins).unwrap();
        println!("{stack_size} bytes");
        for _ in 0..4 {
            let begun = Arc::new(AtomicU64::new(0));
            Runtime::new(config(stack_size))
                .run(|| {
                    for _ in 0..20 {
                        let begun = Arc::clone(&begun);
                        let work = move || {
                            begun.fetch_add(1, Relaxed);
                            loop {
                                drop(black_box(Box::new(1)));
                            }
                        };
                        spawn(work).detach();
                    }
                    while begun.load(Relaxed) < 20 {
                        sleep(std::time::Duration::from_micros(500));
                    }
                })
                .unwrap();
        }
    });
}

#[test]
fn a_fiber_overflows_its_stack_while_others_are_interrupted() {
    #[inline(never)]
    fn dive(depth: u64) -> u64 {
        let here = [depth; 16];
        if black_box(depth) == u64::MAX { 0 } else { dive(depth + 1) + black_box(&here)[7] }
    }

    let output = elsewhere(|| {
        hasty(2)
            .run(|| {
                (0..4).for_each(|who| spawn(move || while black_box(vec![who; 10])[0] == who {}).detach());
                let diver = Builder::new().name("diver").spawn(|| dive(0)).unwrap();
                diver.join().unwrap();
            })
            .unwrap();
    });
    if let Some(output) = output {
        output.expect_signal(libc::SIGABRT).expect_stderr("`diver` has overflowed its stack");
    }
}

#[test]
fn other_fibers_wait_in_the_kernel_for_what_they_hold() {
    alone(|| {
        for round in 0..10 {
            // Those of the round before may keep theirs until they get a CPU.
            let shared = Arc::new(Mutex::new(Vec::new()));
            let begun = Arc::new(AtomicU64::new(0));
            hasty(1 + round % 2)
                .run(|| {
                    for who in 0..8_u64 {
                        let (shared, begun) = (Arc::clone(&shared), Arc::clone(&begun));
                        let work = move || {
                            let mut rounds = 0_u64;
                            loop {
                                begun.fetch_add(u64::from(rounds == 0), Relaxed);
                                rounds += 1;
                                {
                                    let mut shared = shared.lock().unwrap();
                                    shared.clear();
                                    (0..500).for_each(|_| shared.push(who));
                                    assert!(shared.iter().all(|each| *each == who));
                                }
                                if who < 4 {
                                    black_box(preemptions());
                                }
                                if who >= 6 {
                                    yield_now();
                                }
                            }
                        };
                        Builder::new().preemptible(who < 6).spawn(work).unwrap().detach();
                    }
                    while begun.load(Relaxed) < 8 {
                        sleep(std::time::Duration::from_millis(2));
                    }
                    println!("{:?}", preemptions());
                })
                .unwrap();
        }
    });
}

#[test]
fn there_is_no_kernel_thread_for_a_fiber_that_loops() {
    if thread_control_blocks() == ThreadControlBlocks::KernelThreads {
        return eprintln!("skipped: each fiber has one of its own");
    }
    let output = elsewhere(|| {
        hasty(1)
            .run(|| {
                let begun = Arc::new(AtomicU64::new(0));
                let theirs = Arc::clone(&begun);
                let work = move || {
                    theirs.fetch_add(1, Relaxed);
                    loop {
                        std::hint::spin_loop();
                    }
                };
                spawn(work).detach();
                while begun.load(Relaxed) == 0 {
                    sleep(std::time::Duration::from_micros(500));
                }
                // Room for small allocations, but not for a thread's stack.
                let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
                let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
                let limit = pages * 4096 + (1 << 20);
                let limits = libc::rlimit { rlim_cur: limit, rlim_max: limit };
                // SAFETY: the limits are only read.
                assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limits) }, 0);
            })
            .unwrap();
    });
    if let Some(output) = output {
        output.expect_success().expect_stderr("because there is no kernel thread for it");
    }
}
