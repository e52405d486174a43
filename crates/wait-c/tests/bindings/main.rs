//! The library in C and C++: the header, and programs that are compiled with it.

mod c;

use testing::c_library::CLibrary;

static LIBRARY: CLibrary =
    CLibrary::new("rowlock-wait-c", "rowlock_wait", env!("CARGO_MANIFEST_DIR"), env!("CARGO_TARGET_TMPDIR"));

#[test]
fn the_header_is_generated_from_the_sources() {
    LIBRARY.expect_generated_header(&[
        "src/failure.rs",
        "../c-abi/src/statistics.rs",
        "src/barrier.rs",
        "src/mutex.rs",
        "src/condvar.rs",
        "src/rwlock.rs",
        "src/semaphore.rs",
        "src/event.rs",
        "src/latch.rs",
        "src/word.rs",
    ]);
}
