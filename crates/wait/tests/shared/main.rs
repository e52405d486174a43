//! Objects that several processes share. The other processes are this program again, started to play a part.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod barrier;

mod child;
mod memory;
mod others;

use std::path::{Path, PathBuf};

use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    if let Some(part) = child::part() {
        let play = if ["meet", "member"].contains(&part[0].as_str()) { barrier::play } else { others::play };
        return play(&part[0], Path::new(&part[1]), &part[2..]);
    }
    let trials = [barrier::trials(), memory::trials(), others::trials()].into_iter().flatten().collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn trial(name: &str, test: impl FnOnce() + Send + 'static) -> Trial {
    Trial::test(name, move || {
        test();
        Ok::<(), Failed>(())
    })
}

/// A path where nothing is, in a folder that is removed when it is dropped.
fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("object");
    (folder, path)
}
