//! Fibers that are interrupted anywhere.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use policy::Span;
use policy::feedback::{Boost, Rules};
use rowlock_fiber::{Builder, Config, Runtime, preemptions, remote, sleep, spawn, yield_now};

fn runtime() -> Runtime {
    let rules = Rules { levels: 4, running_time: Span::from_micros(200), boost: Boost::Every(Span::from_millis(10)) };
    Runtime::new(Config { rules, preemptible: true, ..Config::default() })
}

#[test]
fn a_fiber_that_comes_to_no_point_gives_way() {
    let over = Arc::new(AtomicBool::new(false));
    let loops = Arc::clone(&over);
    runtime()
        .run(|| {
            let fiber = spawn(move || while !loops.load(Relaxed) {});
            let other = spawn(move || over.store(true, Relaxed));
            fiber.join().unwrap();
            other.join().unwrap();
        })
        .unwrap();
}

#[test]
fn a_sleeper_wakes_beside_an_endless_loop() {
    let over = Arc::new(AtomicBool::new(false));
    let loops = Arc::clone(&over);
    let taken = runtime()
        .run(|| {
            let fiber = spawn(move || while !loops.load(Relaxed) {});
            for _ in 0..10 {
                sleep(Duration::from_millis(1));
            }
            over.store(true, Relaxed);
            fiber.join().unwrap();
            preemptions().taken
        })
        .unwrap();
    assert!(taken >= 10, "{taken}");
}

#[test]
fn a_runtime_ends_while_a_fiber_loops() {
    runtime()
        .run(|| {
            Builder::new()
                .spawn(|| {
                    loop {
                        std::hint::spin_loop();
                    }
                })
                .unwrap();
            sleep(Duration::from_millis(1));
        })
        .unwrap();
}

#[test]
fn memory_is_allocated_everywhere() {
    let over = Arc::new(AtomicBool::new(false));
    runtime()
        .run(|| {
            let work = |byte: u8, over: Arc<AtomicBool>| {
                move || {
                    let mut rounds = 0_u64;
                    while !over.load(Relaxed) {
                        let all: Vec<Vec<u8>> = (0..20).map(|i| vec![byte; 16 + 37 * i]).collect();
                        assert!(all.iter().all(|vec| vec.iter().all(|is| *is == byte)));
                        rounds += 1;
                    }
                    rounds
                }
            };
            let fibers: Vec<_> = (0..8).map(|byte| spawn(work(byte, Arc::clone(&over)))).collect();
            sleep(Duration::from_secs(1));
            over.store(true, Relaxed);
            for fiber in fibers {
                assert!(fiber.join().unwrap() > 0);
            }
            eprintln!("{:?}", preemptions());
        })
        .unwrap();
}

#[test]
fn a_workers_first_one_comes_from_outside() {
    thread_local! { static MARK: Cell<u32> = const { Cell::new(0) } }
    runtime()
        .run(|| {
            MARK.set(1);
            let remote = remote();
            let outside = std::thread::spawn(move || {
                let look = || {
                    yield_now();
                    MARK.get()
                };
                remote.spawn(look).unwrap().join().unwrap()
            });
            while !outside.is_finished() {
                sleep(Duration::from_micros(100));
            }
            assert_eq!(outside.join().unwrap(), 0, "it has thread-locals of its own");
        })
        .unwrap();
}
