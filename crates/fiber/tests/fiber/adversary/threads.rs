//! Kernel threads that fibers start, wait for, and are woken by.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::{Duration, Instant};

use crate::adversary::case::{alone, hazard};

#[test]
fn threads_are_spawned_and_joined() {
    alone(|| {
        hazard(|who, round| {
            let here = thread::current().id();
            let thread = thread::spawn(move || (vec![who; 100], thread::current().id()));
            let (theirs, there) = thread.join().unwrap();
            assert!(theirs.len() == 100 && theirs.iter().all(|each| *each == who));
            assert!(here != there && here == thread::current().id());
            if round % 8 == 0 {
                // They are joined: `pthread_detach` of a thread that ends may free the thread that
                // the C library has started in its place (bug 19951 of glibc).
                let sum = || (0..100).sum::<u64>();
                let sums = thread::scope(|scope| [(); 2].map(|()| scope.spawn(sum)).map(|sum| sum.join().unwrap()));
                assert_eq!(sums, [4950; 2]);
            }
        });
    });
}

#[test]
fn a_parked_fiber_is_woken_by_a_thread() {
    alone(|| {
        hazard(|_, _| {
            let (me, woken) = (thread::current(), Arc::new(AtomicBool::new(false)));
            let theirs = Arc::clone(&woken);
            let thread = thread::spawn(move || {
                theirs.store(true, SeqCst);
                me.unpark();
            });
            while !woken.load(SeqCst) {
                thread::park();
            }
            thread.join().unwrap();
        });
    });
}

#[test]
fn a_sleep_in_the_kernel_is_long_enough() {
    alone(|| {
        hazard(|who, _| {
            let time = Duration::from_micros(20 * (who + 1));
            let began = Instant::now();
            thread::sleep(time);
            assert!(began.elapsed() >= time);
            let end = Instant::now() + Duration::from_micros(100);
            while Instant::now() < end {}
            thread::park_timeout(Duration::from_micros(10));
            thread::yield_now();
        });
    });
}
