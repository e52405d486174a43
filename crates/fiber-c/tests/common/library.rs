//! The library that programs in C are linked with.

use testing::c_library::CLibrary;

pub(crate) static LIBRARY: CLibrary =
    CLibrary::new("rowlock-fiber-c", "my_pthread", env!("CARGO_MANIFEST_DIR"), env!("CARGO_TARGET_TMPDIR"));
