//! `rowlock run --until`.

use std::fs;

use serde_json::Value;
use testing::Output;

const CREW: &str = r#"
machine = { cpus = 2, scheduler = "rr" }
job = [{ name = "crew", kind = "barrier", threads = 3, compute = { mean = "50 us", sd = "20 us" }, rounds = 20, waiting = "cs" }]
experiment.repeat = 3
"#;

fn run(folder: &tempfile::TempDir, arguments: &[&str]) -> Output {
    fs::write(folder.path().join("crew.toml"), CREW).unwrap();
    let always = ["run", "crew.toml", "--out", "out", "--format", "json"];
    testing::run(crate::rowlock(&[&always[..], arguments].concat()).current_dir(folder.path()))
}

fn report(folder: &tempfile::TempDir, arguments: &[&str]) -> Value {
    let done = run(folder, arguments).expect_exit(0);
    crate::json(&done)
}

#[test]
fn a_run_continues_until_it_is_precise_or_reaches_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let easy = report(&folder, &["--until", "90 %"]);
    assert_eq!((&easy["repeat"], &easy["precision"]["reached"]), (&10.into(), &true.into()));

    let hard = report(&folder, &["--until", "3 %", "--repeat", "5"]);
    let repeat = hard["repeat"].as_u64().unwrap();
    assert!(repeat > 5 && hard["precision"]["reached"] == true, "{}", hard["precision"]);
    assert_eq!((&hard["precision"]["first_stage"], &hard["precision"]["percent"]), (&5.into(), &3.0.into()));
    assert_eq!(hard["runs"].as_array().unwrap().len() as u64, repeat);

    let hopeless = report(&folder, &["--until", "0.001 %", "--at-most", "12"]);
    assert_eq!((&hopeless["repeat"], &hopeless["precision"]["reached"]), (&12.into(), &false.into()));

    // The first stage is ten runs, unless fewer are allowed.
    let short = report(&folder, &["--until", "90 %", "--at-most", "4"]);
    assert_eq!((&short["repeat"], &short["precision"]["first_stage"]), (&4.into(), &4.into()));
}

#[test]
fn impossible_precisions_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, message) in [
        (&["--until", "2"][..], "percent"),
        (&["--until", "-2 %"], "at least 0.001 %"),
        (&["--until", "2 %", "--repeat", "1"], "no scatter"),
        (&["--until", "2 %", "--repeat", "9", "--at-most", "8"], "--at-most"),
        (&["--until", "2 %", "--at-most", "2000000"], "1000000 runs"),
        (&["--at-most", "8"], "--until"),
    ] {
        let done = run(&folder, arguments).expect_exit(2).expect_stderr(message);
        assert!(done.stdout.is_empty(), "{done}");
    }
    assert!(!folder.path().join("out").exists());
}
