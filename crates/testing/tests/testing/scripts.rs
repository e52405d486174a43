//! The scripts at the root refuse invalid arguments before they build anything.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use testing::run;

fn script(name: &str) -> Command {
    let mut script = testing::command(name);
    script.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    script
}

#[test]
fn invalid_arguments_are_refused() {
    let soak = [
        "",
        "0",
        "x",
        "5,nowhere",
        "5,",
        "5,fiber sort",
        "5,fiber,5",
        "--fast",
        "--canaries,unknown",
        "--canaries,",
        "--canaries,a,b",
        "--list,fiber",
    ];
    let check = ["--foo", "fiber", "--full,5"];
    for (name, lines) in [("./soak", &soak[..]), ("./check", &check)] {
        for line in lines {
            run(script(name).args(line.split(' '))).expect_exit(2).expect_stderr(&format!("usage: {name}"));
        }
    }
}

#[test]
fn each_target_of_the_search_has_a_canary() {
    let list = run(script("./soak").arg("--list")).expect_success().stdout;
    let words = list.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let (targets, canaries): (Vec<_>, Vec<_>) = words.partition(|words| words[0] == "target");
    let found_by: BTreeSet<&str> = canaries.iter().map(|words| words[2]).collect();
    let without: Vec<&str> = targets.iter().map(|words| words[1]).filter(|name| !found_by.contains(name)).collect();
    assert!(!targets.is_empty() && without.is_empty(), "no canary proves that these find anything: {without:?}");
}

/// `./check` builds by clippy, and denies warnings with one toolchain. Under a plain `cargo test`
/// there is nothing to see.
#[test]
fn a_build_of_the_gate_fails_if_clippy_has_a_warning() {
    let is_set_to = |name: &str, start: &str| std::env::var(name).is_ok_and(|value| value.starts_with(start));
    if is_set_to("RUSTC_WORKSPACE_WRAPPER", "clippy-driver") && is_set_to("CLIPPY_ARGS", "-Dwarnings") {
        let folder = tempfile::tempdir().unwrap();
        let manifest = "[package]\nname = \"untidy\"\nedition = \"2024\"\n[lib]\npath = \"lib.rs\"\n[workspace]\n";
        std::fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
        std::fs::write(folder.path().join("lib.rs"), "pub fn none(x: Option<u8>) -> bool { x == None }\n").unwrap();
        let mut cargo = testing::command("cargo");
        cargo.args(["build", "--offline", "--target-dir", "target"]).current_dir(folder.path());
        run(cargo.env_remove("RUSTFLAGS")).expect_exit(101).expect_stderr("clippy::partialeq-to-none");
    }
}
