//! The runner, with tests that fail in different ways.

use std::fs::File;
use std::io::Read;
use std::process::Command;

use testing::{Child, Output};

const TESTS: &str = r#"
use std::process::Command as Process;
#[test] fn computes() {
    let until = "until read -r fields < /proc/$$/stat; set -- $fields; [ $((${14} + ${15})) -ge 10 ]; do :; done";
    Process::new("sh").args(["-c", until]).status().unwrap();
}
#[test] fn crashes() { eprintln!("about to crash"); std::process::abort(); }
#[test] fn ends_well_too_early() { std::process::exit(0); }
#[test] fn fails() { assert_eq!(1, 2); }
#[test] fn hangs() { Process::new("sleep").arg("1000").status().unwrap(); }
#[test] fn leaves_a_process() {
    // The kernel shows a process without arguments until it runs.
    let mut shell = Process::new("sh");
    let child = shell.args(["-c", "echo begun; kill -STOP $$"]).stdout(std::process::Stdio::piped()).spawn();
    std::io::Read::read_exact(&mut child.unwrap().stdout.unwrap(), &mut [0; 6]).unwrap();
}
#[test] fn passes() {}
#[test] fn says_so_and_stays() {
    let mut fifo = std::fs::OpenOptions::new().write(true).open("fifo").unwrap();
    std::io::Write::write_all(&mut fifo, b"begun").unwrap();
    std::thread::sleep(std::time::Duration::MAX);
}
#[test] fn sleeps() { std::thread::sleep(std::time::Duration::MAX); }
#[test] fn prints_nothing() { std::process::exit(3); }
mod alone { #[test] fn passes() { std::env::var("ROWLOCK_TEST_END").unwrap(); } }
"#;

/// A command of the runner with these options.
fn runner(folder: &tempfile::TempDir, options: &[&str]) -> Command {
    let manifest = "[package]\nname = \"bad\"\nedition = \"2024\"\n[lib]\npath = \"bad.rs\"\n[workspace]\n";
    std::fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
    std::fs::write(folder.path().join("bad.rs"), TESTS).unwrap();
    let mut runner = testing::command(env!("CARGO_BIN_EXE_run-tests"));
    runner.args(options).args(["--", "--offline", "--target-dir", "target"]).current_dir(folder.path());
    // The flags of this build must not apply to the other one.
    for name in ["RUSTFLAGS", "RUSTC_WORKSPACE_WRAPPER", "CARGO_TARGET_DIR"] {
        runner.env_remove(name);
    }
    runner
}

fn run(folder: &tempfile::TempDir, options: &[&str]) -> Output {
    testing::run(&mut runner(folder, options))
}

#[test]
fn a_test_that_crashes_fails_or_prints_nothing_is_reported_by_name_and_the_others_run() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["crashes", "ends_well", "fails", "passes", "prints"].map(|name| format!("--filter={name}"));
    let output = run(&folder, &options.each_ref().map(String::as_str)).expect_exit(1);
    let report = ["about to crash", "SIGABRT", "assertion `left == right` failed", "exit status: 3"];
    let names = ["crashes", "ends_well_too_early", "fails", "prints_nothing"];
    let failed = names.map(|name| format!("FAILED bad::bad::{name}"));
    let expected = failed.iter().map(String::as_str).chain(report).chain(["2 passed, 4 failed, 5 skipped"]);
    expected.fold(output, Output::expect_stdout);
}

#[test]
fn a_test_that_hangs_is_killed_and_shown_with_what_it_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["--limit=0", "--grace=0", "--jobs=1", "--filter=hangs", "--filter=sleeps"];
    let output = run(&folder, &options).expect_exit(1);
    let report =
        ["FAILED bad::bad::hangs", "FAILED bad::bad::sleeps", "its time was up", "state", "0 passed, 2 failed"];
    report.into_iter().fold(output, Output::expect_stdout);
}

#[test]
fn a_process_that_a_test_leaves_behind_is_killed_and_is_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(&folder, &["--grace=0", "--filter=leaves"]).expect_exit(1);
    let report = ["left behind", "by bad::bad::leaves_a_process:", "sh -c echo begun", "1 passed, 0 failed"];
    report.into_iter().fold(output, Output::expect_stdout);
}

#[test]
fn the_cpu_time_of_tests_includes_that_of_their_children() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(&folder, &["--times", "--filter=computes", "--filter=bad::passes"]).expect_success();
    let time = |name: &str| {
        let line = output.stdout.lines().rfind(|line| line.ends_with(name)).unwrap();
        line.split_whitespace().next().unwrap().parse::<f64>().unwrap()
    };
    assert!(time("::computes") >= 0.1 && time("::passes") < time("::computes"), "{output}");
}

#[test]
fn tests_end_with_a_runner_that_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    testing::run(testing::command("mkfifo").arg(&fifo)).expect_success();
    let runner = Child::start(&mut runner(&folder, &["--filter=says_so"]));
    let mut test = File::open(&fifo).unwrap();
    test.read_exact(&mut [0; 5]).unwrap();
    runner.send(9);
    // The end of the file, because the test has ended.
    assert_eq!(test.read(&mut [0]).unwrap(), 0);
    runner.finish().expect_signal(9);
}

#[test]
fn invalid_options_and_empty_selections_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    run(&folder, &["--filter=no-such"]).expect_exit(1).expect_stdout("0 passed, 0 failed, 11 skipped");
    for options in [
        &["--jobs=0"][..],
        &["--jobs=many"],
        &["--limit=x"],
        &["--grace="],
        &["--faster"],
        &["--changed", "--filter=a"],
    ] {
        run(&folder, options).expect_exit(2).expect_stderr("usage: run-tests");
    }
}
