//! `rowlock paper` as its users meet it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn rowlock(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rowlock")).current_dir(folder).args(arguments).output().unwrap()
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

#[test]
fn the_list_names_every_paper_with_what_it_shows_its_size_and_how_long_it_takes() {
    let folder = tempfile::tempdir().unwrap();
    let done = rowlock(folder.path(), &["paper", "list"]);
    assert!(done.status.success());
    let list = text(done.stdout);
    for name in ["barrier/fig3", "barrier/fig4", "barrier/fig5", "barrier/fig7", "barrier/wakeup"] {
        assert!(list.contains(&format!("{name}  Tsafrir and Feitelson, section ")), "{list}");
    }
    assert_eq!(list.matches(" runs; about ").count(), 5, "{list}");
}

#[test]
fn a_papers_scenario_can_be_printed_checked_and_changed() {
    let folder = tempfile::tempdir().unwrap();
    let done = rowlock(folder.path(), &["paper", "barrier/fig5", "--scenario"]);
    assert!(done.status.success());
    fs::write(folder.path().join("fig5.toml"), done.stdout).unwrap();
    let checked = rowlock(folder.path(), &["check", "fig5.toml"]);
    assert!(text(checked.stdout).contains("valid; 96 arms of 2 jobs"));
}

#[test]
fn an_unknown_name_is_an_input_error_that_names_the_nearest() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, tip) in [(&["paper", "barrier/fgi5"][..], "barrier/fig5"), (&["paper", "wakeup"], "barrier/wakeup")] {
        let done = rowlock(folder.path(), arguments);
        assert_eq!(done.status.code(), Some(2));
        let message = text(done.stderr);
        assert!(message.contains(tip), "{message}");
    }
    assert_eq!(rowlock(folder.path(), &["paper"]).status.code(), Some(2));
}

#[test]
fn a_paper_prints_the_same_whatever_the_number_of_workers_and_leaves_its_results() {
    let folder = tempfile::tempdir().unwrap();
    let run = |workers| {
        let arguments = ["paper", "barrier/fig4", "--repeat", "2", "--out", "out", "--format", "json", "--workers", workers];
        let done = rowlock(folder.path(), &arguments);
        let report = fs::read(folder.path().join("out/report.json")).unwrap();
        (text(done.stdout), report, done.status.code())
    };
    let (stdout, report, code) = run("1");
    let judgement: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(judgement["paper"], "barrier/fig4");
    assert_eq!(judgement["transitions"].as_array().unwrap().len(), 2);
    // The exit code says what the judgement says.
    assert_eq!(code, Some(if judgement["holds"] == true { 0 } else { 1 }));
    assert_eq!(judgement["report"], serde_json::from_slice::<serde_json::Value>(&report).unwrap());
    assert!(run("3") == (stdout, report, code));
}
