//! The library in C and C++: the header, and programs that are compiled with it.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod c;

use testing::c_library::CLibrary;

static LIBRARY: CLibrary =
    CLibrary::new("rowlock-message-c", "rowlock_message", env!("CARGO_MANIFEST_DIR"), env!("CARGO_TARGET_TMPDIR"));

#[test]
fn the_header_is_generated_from_the_sources() {
    LIBRARY.expect_generated_header(&[
        "src/failure.rs",
        "../c-abi/src/statistics.rs",
        "src/join.rs",
        "src/communicator.rs",
        "src/request.rs",
        "src/collective.rs",
        "src/operation.rs",
        "src/window.rs",
    ]);
}
