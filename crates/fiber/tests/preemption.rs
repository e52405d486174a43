//! Fibers that are interrupted anywhere.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use policy::Span;
use policy::feedback::{Boost, Rules};
use rowlock_fiber::{Builder, Config, Doing, Runtime, dump, preemptions, remote, sleep, spawn, yield_now};

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

#[test]
fn nothing_is_looked_at_of_one_that_goes_on_elsewhere() {
    struct AtEnd(Arc<AtomicBool>);

    impl Drop for AtEnd {
        fn drop(&mut self) {
            let looper = loop {
                let all = dump().fibers;
                let looper = all.into_iter().find(|fiber| fiber.label.number == 1 || fiber.label.name.is_some());
                let looper = looper.unwrap();
                if looper.doing == Doing::Running {
                    break looper;
                }
                yield_now();
            };
            self.0.store(true, Relaxed);
            assert!(looper.backtrace.is_none(), "{looper}");
        }
    }

    let (over, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (loops, at_end) = (Arc::clone(&over), AtEnd(Arc::clone(&seen)));
    runtime()
        .run(|| {
            Builder::new().name("looper").spawn(move || while !loops.load(Relaxed) {}).unwrap();
            let waits = Builder::new().preemptible(false).spawn(move || {
                let _at_end = at_end;
                loop {
                    sleep(Duration::from_secs(1));
                }
            });
            waits.unwrap();
            sleep(Duration::from_millis(1));
        })
        .unwrap();
    over.store(true, Relaxed);
    assert!(seen.load(Relaxed));
}

#[test]
fn a_running_time_that_is_shorter_than_a_tick_keeps_nobody_from_running() {
    let rules = Rules { levels: 4, running_time: Span::from_nanos(1), boost: Boost::Never };
    let runtime = Runtime::new(Config { rules, preemptible: true, ..Config::default() });
    runtime
        .run(|| {
            let count = || (0..10_000).map(std::hint::black_box).sum::<u64>();
            let fibers: Vec<_> = (0..3).map(|_| spawn(count)).collect();
            assert!(fibers.into_iter().all(|fiber| fiber.join().unwrap() == 49_995_000));
        })
        .unwrap();
}
