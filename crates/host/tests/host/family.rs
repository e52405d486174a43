//! Waiting in tests of process families.

use std::time::{Duration, Instant};

pub(crate) use testing::family::Family;

/// Waits until a condition holds, and panics after a long time. The limit only ends a failed test.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let (started, limit) = (Instant::now(), testing::child::limit());
    while !is_so() {
        assert!(started.elapsed() < limit, "{what}: not yet after {limit:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
