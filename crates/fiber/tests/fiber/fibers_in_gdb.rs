//! The view in gdb of the fibers of a process that has died, and of its core file. Ignored by
//! default, because it needs gdb.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use policy::Span;
use policy::feedback::{Boost, FeedbackRules};
use rowlock_fiber as fiber;
use rowlock_fiber::{Builder, Config, Mutex, Runtime, ScriptedClock};
use testing::{Output, command, isolated_by, through};

#[inline(never)]
fn parse_the_input(mutex: &Mutex<u64>) {
    *mutex.lock() += std::hint::black_box(1);
}

#[inline(never)]
fn compute_forever(begun: &AtomicBool, clock: &ScriptedClock) {
    begun.store(true, Relaxed);
    loop {
        clock.advance(Duration::from_micros(100));
    }
}

#[inline(never)]
fn die_with_fibers() {
    // Only the fiber that computes lets time pass: so this one ends before it must give way.
    let clock = ScriptedClock::new();
    let rules = FeedbackRules { levels: 2, running_time: Span::from_millis(1), boost: Boost::Never };
    let _ = Runtime::new(Config { rules, clock: Some(clock.clone()), ..Config::default() }).run(|| {
        let mutex = Arc::new(Mutex::new(0));
        let _held = mutex.lock();
        let theirs = Arc::clone(&mutex);
        let parser = Builder::new().name("parser").spawn(move || parse_the_input(&theirs));
        let printer = Builder::new().name("printer").spawn(move || drop(parser.map(fiber::JoinHandle::join)));
        fiber::yield_now();
        let begun = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&begun);
        let _busy = Builder::new().name("busy").preemptible(true).spawn(move || compute_forever(&theirs, &clock));
        while !begun.load(Relaxed) {
            fiber::sleep(Duration::from_millis(1));
        }
        let _late = Builder::new().name("late").spawn(|| ());
        let _ended = fiber::spawn(|| ());
        std::mem::forget(printer);
        std::process::abort()
    });
}

#[test]
#[ignore = "needs gdb, which .ci/setup-fiber installs on Debian"]
fn gdb_lists_fibers_and_shows_where_they_are_in_a_process_and_in_its_core_file() {
    // A closure of this test, by which the test is found.
    isolated_by(look_with_gdb, || {
        die_with_fibers();
    });
}

/// The output of gdb for a test and its fibers after this first command.
fn gdb(first: &str, test: &Command) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("gdb/fibers.py");
    let mut gdb = command("gdb");
    gdb.args(["-q", "-nx", "-batch", "-ex", "set pagination off", "-ex", "set width 0", "-x"]).arg(&script);
    gdb.args(["-ex", first]);
    for line in
        ["echo [fibers]\\n", "fibers", "echo [one]\\n", "fiber 1", "bt 3", "fiber off", "echo [thread]\\n", "bt"]
    {
        gdb.args(["-ex", line]);
    }
    gdb.args(["-ex", "echo [all]\\n", "-ex", "fiber apply all bt", "-ex", "echo [end]\\n", "-ex", "bt 1", "--args"]);
    testing::run(&mut through(gdb, test))
}

fn look_with_gdb(test: Command) {
    let folder = tempfile::tempdir().unwrap();
    // The kernel's core file: that of gdb's `generate-core-file` ends at the first guard page.
    let mut shell = command("sh");
    shell.args(["-c", "ulimit -c unlimited && exec \"$@\"", "sh"]).current_dir(&folder);
    testing::run(&mut through(shell, &test)).expect_signal(libc::SIGABRT);
    let core = std::fs::read_dir(&folder).unwrap().next();
    let load = core.map(|core| format!("core-file {}", core.unwrap().path().display()));
    if load.is_none() {
        eprintln!(
            "skipped: core files, because the kernel passes them to another program; see /proc/sys/kernel/core_pattern"
        );
    }
    for first in std::iter::once("run").chain(load.as_deref()) {
        let said = gdb(first, &test);
        let part = |from: &str, to: &str| {
            let (_, rest) = said.stdout.split_once(from).unwrap_or_else(|| panic!("no {from} in {said}"));
            rest.split_once(to).unwrap_or_else(|| panic!("no {to} in {said}")).0
        };
        let list: Vec<_> = part("[fibers]\n", "[one]").lines().collect();
        assert_eq!(list.len(), 6, "{said}");
        for (line, start) in list.iter().zip([
            "fiber 0: runs; level ",
            "fiber 1 `parser`: waits for a mutex held by fiber 0; level 0, ",
            "fiber 2 `printer`: waits for the end of fiber 1 `parser`; level 0, ",
            "fiber 3 `busy`: is ready; level ",
            "fiber 4 `late`: has not started; level 0, ",
            "fiber 5: has not started; level 0, ",
        ]) {
            assert!(line.starts_with(start), "{line}\n{said}");
        }
        assert!(part("[one]\n", "[thread]").contains("parse_the_input"), "{said}");
        let thread = part("[thread]\n", "[all]");
        assert!(thread.contains("die_with_fibers") && !thread.contains("parse_the_input"), "{said}");
        let all = part("[all]\n", "[end]");
        let (parser, printer) = all.split_once("fiber 2 `printer`").unwrap();
        assert!(parser.contains("parse_the_input") && !printer.contains("parse_the_input"), "{said}");
        let (printer, busy) = printer.split_once("fiber 3 `busy`").unwrap();
        assert!(printer.contains("join") && !printer.contains("compute_forever"), "{said}");
        assert!(busy.contains("<signal handler called>") && busy.contains("compute_forever"), "{said}");
        for text in [&said.stdout, &said.stderr] {
            assert!(!text.contains("corrupt stack") && !text.contains("Python Exception"), "{said}");
        }
    }
}
