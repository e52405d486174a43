//! The view of a fiber in gdb. The test is ignored by default, because it needs gdb.

use rowlock_fiber::{run, spawn, yield_now};
use testing::{command, isolated_by, through};

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
    let start = |test| {
        let mut gdb = command("gdb");
        gdb.args(["--batch", "--nx", "-iex", "set debuginfod enabled off", "-ex", "run", "-ex", "bt", "--args"]);
        let output = testing::run(&mut through(gdb, &test));
        let text = format!("{}{}", output.stdout, output.stderr);
        let place = |what: &str| text.find(what).unwrap_or_else(|| panic!("no {what} in\n{output}"));
        let (inner, outer, outermost) = (place("the_inner_of_two"), place("the_outer_of_two"), place("::outermost"));
        assert!(inner < outer && outer < outermost, "{output}");
        assert!(!text[outermost..].contains("\n#") && !text.contains("Backtrace stopped"), "{output}");
    };
    isolated_by(start, || run(|| spawn(the_outer_of_two).join().unwrap()));
}
