//! Fibers that wait for descriptors.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use rowlock_fiber as fiber;
use rowlock_fiber::Pollable;

#[test]
fn a_fiber_that_waits_for_a_pipe_lets_others_run_and_goes_on_when_it_is_filled() {
    fiber::run(|| {
        let (output, input) = std::io::pipe().unwrap();
        let steps = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&steps);
        let reader = fiber::spawn(move || {
            let mut byte = [0];
            Pollable::new(output).unwrap().read_exact(&mut byte).unwrap();
            (byte[0], seen.load(Relaxed))
        });
        for _ in 0..10 {
            steps.fetch_add(1, Relaxed);
            fiber::yield_now();
        }
        (&input).write_all(b"x").unwrap();
        assert_eq!(reader.join().unwrap(), (b'x', 10));
    });
}
