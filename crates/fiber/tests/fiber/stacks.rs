//! Fibers and their stacks, as a program sees them.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use policy::Span;
use policy::feedback::{Boost, FeedbackRules};
use rowlock_fiber::{Builder, Config, JoinError, Runtime, StackError, run, spawn, yield_now};

/// Uses this many bytes of the stack, in steps of a kilobyte.
#[inline(never)]
fn dive(bytes: usize) -> u64 {
    let kilobyte = [1_u8; 1024];
    let kilobyte = std::hint::black_box(&kilobyte);
    let below = if bytes > 2048 { dive(bytes - 1024) } else { 0 };
    below + u64::from(std::hint::black_box(kilobyte)[7])
}

#[test]
fn a_fiber_gets_the_stack_size_that_it_asks_for() {
    run(|| {
        for size in [64 << 10, 1 << 20, 16 << 20] {
            // A step takes more than its kilobyte.
            let fiber = Builder::new().stack_size(size).spawn(move || dive(size / 2)).unwrap();
            assert!(fiber.join().unwrap() > 0);
        }
        // And the next one has a stack of the default size again.
        assert!(spawn(|| dive(8 << 10)).join().unwrap() > 0);
    });
}

#[test]
fn sizes_mix_among_fibers_that_wait_and_end() {
    run(|| {
        let fibers: Vec<_> = (0..500_usize)
            .map(|number| {
                let body = move || {
                    yield_now();
                    dive(if number % 7 == 0 { 100 << 10 } else { 4 << 10 });
                    number
                };
                if number % 7 == 0 { Builder::new().stack_size(512 << 10).spawn(body).unwrap() } else { spawn(body) }
            })
            .collect();
        let sum: usize = fibers.into_iter().map(|fiber| fiber.join().unwrap()).sum();
        assert_eq!(sum, 499 * 250);
    });
}

/// Counts when it is dropped, and lets others run meanwhile.
struct Drops(Arc<AtomicUsize>);

impl Drop for Drops {
    fn drop(&mut self) {
        yield_now();
        self.0.fetch_add(1, Relaxed);
    }
}

#[test]
fn a_fiber_without_a_stack_never_runs_and_its_joiner_gets_the_reason() {
    let dropped = Arc::new(AtomicUsize::new(0));
    // No running time is used up, so fibers start in order.
    let rules =
        FeedbackRules { running_time: Span::from_millis(1_000_000), boost: Boost::Never, ..FeedbackRules::default() };
    let body = || {
        let ask = |drops: Drops| Builder::new().stack_size(1 << 40).spawn(move || drop(drops)).unwrap();
        let told = |result: Result<(), JoinError>| match result {
            Err(JoinError::NoStack(StackError::TooLarge { asked, .. })) => assert_eq!(asked, 1 << 40),
            other => panic!("{other:?}"),
        };
        told(ask(Drops(dropped.clone())).join());
        assert_eq!(dropped.load(Relaxed), 1);
        // The second one finds the last stack in use.
        let (one, other) = (ask(Drops(dropped.clone())), ask(Drops(dropped.clone())));
        told(one.join());
        told(other.join());
        assert_eq!(dropped.load(Relaxed), 2);
        // The next fiber with either record asks for no such stack.
        let fibers = [(); 3].map(|()| spawn(|| 7));
        assert_eq!(fibers.map(|fiber| fiber.join().unwrap()), [7; 3]);
        // And detached ones end as well, while others continue.
        for _ in 0..10 {
            ask(Drops(dropped.clone())).detach();
        }
        assert_eq!(spawn(|| 7).join().unwrap(), 7);
    };
    Runtime::new(Config { rules, ..Config::default() }).run(body).unwrap();
}
