//! Steps with stamps, in a temporary repository.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use testing::{Output, run};

fn git(folder: &Path, arguments: &[&str]) {
    let mut git = testing::command("git");
    // Without the hooks and signatures in the user's configuration.
    git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    git.args(["-c", "user.name=test", "-c", "user.email=test"]).args(arguments).current_dir(folder);
    run(&mut git).expect_success();
}

/// A repository with one package, and a step that prints the ignored file `result`.
fn repository() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("package")).unwrap();
    for (file, text) in [
        ("Cargo.toml", "[workspace]\nmembers = [\"package\"]\n"),
        ("package/Cargo.toml", "[package]\nname = \"package\"\nedition = \"2024\"\n[lib]\npath = \"lib.rs\"\n"),
        ("package/lib.rs", ""),
        (".gitignore", "result\n"),
        ("result", "one\n"),
    ] {
        fs::write(folder.path().join(file), text).unwrap();
    }
    git(folder.path(), &["init", "--quiet"]);
    git(folder.path(), &["add", "."]);
    git(folder.path(), &["commit", "--quiet", "--message", "all"]);
    folder
}

fn stamped(folder: &TempDir, options: &[&str]) -> Output {
    let mut stamped = testing::command(env!("CARGO_BIN_EXE_stamped"));
    stamped.args(["step", "--tests", "package"]).args(options).args(["--", "cat", "result"]);
    run(stamped.current_dir(folder.path()))
}

const SKIPPED: &str = "skipped: its inputs have not changed";

#[test]
fn a_step_that_passed_is_skipped_until_an_input_changes() {
    let folder = repository();
    stamped(&folder, &[]).expect_success().expect_stdout("one\n").expect_stdout("step: passed, and stamped in stamps");
    stamped(&folder, &["--repeat", "another"]).expect_success().expect_stdout(SKIPPED);
    fs::write(folder.path().join("package/lib.rs"), "// changed\n").unwrap();
    stamped(&folder, &[]).expect_success().expect_stdout("one\n").expect_stdout("no stamp is written");
}

#[test]
fn a_step_that_is_repeated_fails_if_its_result_differs_from_that_of_its_stamp() {
    let folder = repository();
    stamped(&folder, &[]).expect_success();
    for options in [&["--all"][..], &["--repeat", "step"]] {
        fs::write(folder.path().join("result"), "one\n").unwrap();
        stamped(&folder, options).expect_success().expect_stdout("one\n");
        fs::write(folder.path().join("result"), "two\n").unwrap();
        stamped(&folder, options).expect_exit(1).expect_stdout("the result differs from that of its stamp");
    }
}

#[test]
fn a_step_that_fails_gets_no_stamp() {
    let folder = repository();
    fs::remove_file(folder.path().join("result")).unwrap();
    stamped(&folder, &[]).expect_exit(1);
    assert!(!folder.path().join("stamps").exists());
    fs::write(folder.path().join("result"), "one\n").unwrap();
    stamped(&folder, &[]).expect_success().expect_stdout("one\n");
}

#[test]
fn arguments_without_a_package_or_a_command_are_refused() {
    for arguments in [&["step", "--", "true"][..], &["step", "--tests", "a"], &["step", "--fast", "--", "true"], &[]] {
        run(testing::command(env!("CARGO_BIN_EXE_stamped")).args(arguments))
            .expect_exit(2)
            .expect_stderr("usage: stamped");
    }
}
