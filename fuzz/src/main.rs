//! Runs the target that `FUZZ_TARGET` names with libFuzzer, whose options are the arguments.

#![no_main]

use std::sync::OnceLock;

use fuzz::Target;

static TARGET: OnceLock<Target> = OnceLock::new();

/// Finds the target.
fn init() {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    match fuzz::target(&name) {
        Some(target) => drop(TARGET.set(target)),
        None => {
            let names = fuzz::TARGETS.map(|target| target.name).join(", ");
            eprintln!("set FUZZ_TARGET to one of {names}");
            std::process::exit(2);
        }
    }
}

libfuzzer_sys::fuzz_target!(init: init(), |bytes: &[u8]| {
    if let Some(target) = TARGET.get() {
        (target.read)(bytes);
    }
});
