//! A fiber's stack as a panic and a debugger see it.

use std::backtrace::Backtrace;
use std::panic::{catch_unwind, panic_any};
use std::process::Command;

use rowlock_fiber::{run, spawn, yield_now};

#[inline(never)]
fn the_outer_of_two() -> String {
    let text = std::hint::black_box(the_inner_of_two)();
    std::hint::black_box(text)
}

#[inline(never)]
fn the_inner_of_two() -> String {
    yield_now();
    std::hint::black_box(Backtrace::force_capture().to_string())
}

#[test]
fn a_backtrace_shows_the_frames_of_a_fiber_and_ends_with_its_first() {
    // Once on a new stack, and once on one on which another fiber has ended.
    run(|| {
        for _ in 0..2 {
            let text = spawn(the_outer_of_two).join().unwrap();
            let place = |what: &str| text.find(what).unwrap_or_else(|| panic!("no {what} in\n{text}"));
            let (inner, outer) = (place("the_inner_of_two"), place("the_outer_of_two"));
            let (begin, outermost) = (place("begin\n"), place("::outermost"));
            assert!(inner < outer && outer < begin && begin < outermost, "{text}");
            // A frame has a line that starts with its number; there is no frame below the first
            // one.
            let frames = text[outermost..]
                .lines()
                .skip(1)
                .filter(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit()));
            assert_eq!(frames.count(), 0, "{text}");
        }
    });
}

#[test]
fn the_backtrace_of_a_panic_ends_with_the_function_of_the_fiber() {
    let start = |mut test: Command| {
        let output = testing::run(test.env("RUST_BACKTRACE", "1"));
        let shows = |function: &str| output.stderr.contains(function);
        assert!(shows("falls") && !shows("/start.rs") && !shows("catch_unwind"), "{output}");
    };
    testing::isolated_by(start, || {
        let end = run(|| spawn(|| falls(3, &std::cell::Cell::new(0))).join());
        assert!(end.is_err());
    });
}

/// Counts what is dropped.
struct Counts<'a>(&'a std::cell::Cell<u32>);

impl Drop for Counts<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[inline(never)]
fn falls(depth: u32, dropped: &std::cell::Cell<u32>) {
    let _counts = Counts(dropped);
    yield_now();
    if depth == 0 {
        panic_any(17_u32);
    }
    std::hint::black_box(falls)(depth - 1, dropped);
}

#[test]
fn a_panic_unwinds_through_the_frames_of_a_fiber_and_is_caught_there_or_by_its_joiner() {
    run(|| {
        let others: Vec<_> = (0..3).map(|_| spawn(|| (0..50).for_each(|_| yield_now()))).collect();
        let caught = spawn(|| {
            let dropped = std::cell::Cell::new(0);
            let payload = catch_unwind(std::panic::AssertUnwindSafe(|| falls(9, &dropped))).unwrap_err();
            (dropped.get(), *payload.downcast::<u32>().unwrap())
        });
        assert_eq!(caught.join().unwrap(), (10, 17));
        let error = spawn(|| falls(3, &std::cell::Cell::new(0))).join().unwrap_err();
        match error {
            rowlock_fiber::JoinError::Panicked(payload) => assert_eq!(*payload.downcast::<u32>().unwrap(), 17),
            other => panic!("{other}"),
        }
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// The sum of what vector and integer registers hold across many yields: a switch that lost one
/// would make it wrong.
#[inline(never)]
fn holds(seed: u64) -> f64 {
    let mut floats: [f64; 16] = std::array::from_fn(|index| (seed * 16 + index as u64) as f64);
    let mut words: [u64; 12] = std::array::from_fn(|index| seed.rotate_left(index as u32));
    for _ in 0..100 {
        yield_now();
        for (float, word) in floats.iter_mut().zip(words.iter_mut()) {
            *float += 1.0;
            *word = word.wrapping_mul(31).wrapping_add(seed);
        }
    }
    floats.iter().sum::<f64>() + words.iter().fold(0, |sum: u64, word| sum ^ word) as f64
}

#[test]
fn registers_of_a_fiber_are_preserved_across_a_yield() {
    let alone: Vec<f64> = run(|| (0..20).map(|seed| spawn(move || holds(seed)).join().unwrap()).collect());
    let together: Vec<f64> = run(|| {
        let fibers: Vec<_> = (0..20).map(|seed| spawn(move || holds(seed))).collect();
        fibers.into_iter().map(|fiber| fiber.join().unwrap()).collect()
    });
    assert_eq!(alone, together);
}
