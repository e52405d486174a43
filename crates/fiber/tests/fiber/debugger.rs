//! What gdb shows of a fiber: an ignored test, since it needs one.

use std::process::Command;

use rowlock_fiber::{run, spawn, yield_now};

const CASE: &str = "ROWLOCK_TEST_CASE";

#[inline(never)]
fn the_outer_of_two() {
    yield_now();
    std::hint::black_box(the_inner_of_two)();
    yield_now();
}

#[inline(never)]
fn the_inner_of_two() {
    if std::hint::black_box(true) {
        std::process::abort();
    }
}

#[test]
#[ignore = "needs gdb, which .ci/setup-fiber installs on Debian"]
fn a_backtrace_in_gdb_shows_the_frames_of_a_fiber_and_ends_with_its_first() {
    if std::env::var_os(CASE).is_some() {
        return run(|| spawn(the_outer_of_two).join().unwrap());
    }
    let name = "debugger::a_backtrace_in_gdb_shows_the_frames_of_a_fiber_and_ends_with_its_first";
    let mut gdb = Command::new("gdb");
    gdb.args(["--batch", "--nx", "-iex", "set debuginfod enabled off", "-ex", "run", "-ex", "bt", "--args"]);
    gdb.arg(std::env::current_exe().unwrap()).args([name, "--exact", "--ignored"]).env(CASE, name);
    let output = gdb.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let place = |what: &str| text.find(what).unwrap_or_else(|| panic!("no {what} in\n{text}"));
    let (inner, outer, entry) = (place("the_inner_of_two"), place("the_outer_of_two"), place("::entry"));
    assert!(inner < outer && outer < entry, "{text}");
    assert!(!text[entry..].contains("\n#") && !text.contains("Backtrace stopped"), "{text}");
}
