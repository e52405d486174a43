//! Objects for several processes. The child processes are this program, started again in another
//! role.
#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot continue has failed")]

mod barrier;

mod child;
mod guest;
mod memory;
mod others;

use std::path::{Path, PathBuf};

use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    if let Some(role) = child::role() {
        let run_child =
            if ["meet", "member"].contains(&role[0].as_str()) { barrier::run_child } else { others::run_child };
        return run_child(&role[0], Path::new(&role[1]), &role[2..]);
    }
    let trials =
        [barrier::trials(), guest::trials(), memory::trials(), others::trials()].into_iter().flatten().collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn trial(name: &str, test: impl FnOnce() + Send + 'static) -> Trial {
    Trial::test(name, move || {
        test();
        Ok::<(), Failed>(())
    })
}

/// A path of a missing file, in a folder that is removed when dropped.
fn object_path() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("object");
    (folder, path)
}
