//! `rowlock regress`.

use std::fs;

use serde_json::Value;
use testing::Output;

const TIMES: &str = "clock,user,system,name\n12.61,23.50,1.05,a\n12.42,23.08,1.05,b\n12.44,23.06,1.10,c\n\
                     12.9,24.1,1.02,d\n,24,1,e\n13.1,24.4,1.2,f\n12.2,22.7,1.01,g\n12.75,23.6,1.12,h\n";

fn rowlock(folder: &tempfile::TempDir, arguments: &[&str]) -> Output {
    testing::run(crate::rowlock(arguments).current_dir(folder.path()))
}

fn with_times() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("times.csv"), TIMES).unwrap();
    folder
}

#[test]
fn coefficients_come_as_text_and_as_json() {
    let folder = with_times();
    let ask = ["regress", "times.csv", "--on", "clock", "--from", "user,system"];
    let done = rowlock(&folder, &ask).expect_exit(0);
    let text = done.stdout;
    assert!(
        text.contains("7 rows, 1 row left out") && text.contains("0.4770") && text.contains("R^2 0.9941"),
        "{text}"
    );

    let done = rowlock(&folder, &[&ask[..], &["--format", "json", "--no-intercept"]].concat());
    let found: Value = crate::json(&done);
    assert_eq!((&found["on"], &found["intercept"]), (&"clock".into(), &Value::Null));
    assert_eq!((&found["observations"], &found["left_out"]), (&7.into(), &1.into()));
    assert_eq!(found["coefficients"][1]["column"], "system");
    assert!(found["coefficients"][1]["p"].is_number(), "{found}");
}

#[test]
fn input_errors_name_the_file_and_the_position() {
    let folder = with_times();
    for (arguments, message) in [
        (
            &["times.csv", "--on", "clok", "--from", "user"][..],
            "times.csv: there is no column `clok`; did you mean `clock`?",
        ),
        (&["times.csv", "--on", "clock", "--from", "name"], "line 2, column `name`: `a` is not a number"),
        (&["times.csv", "--on", "clock", "--from", "user,user"], "column `user` is named twice"),
        (&["none.csv", "--on", "clock", "--from", "user"], "cannot read none.csv"),
        (&[".", "--on", "clock", "--from", "user"], "cannot read .: Is a directory"),
        (&["times.csv", "--on", "clock"], "--from"),
    ] {
        let done = rowlock(&folder, &[&["regress"][..], arguments].concat()).expect_exit(2).expect_stderr(message);
        assert!(done.stdout.is_empty(), "{done}");
    }
}

#[test]
fn the_table_of_a_run_can_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let crew = r#"
        machine = { cpus = 2, scheduler = "rr" }
        job = [
            { name = "crew", kind = "barrier", threads = 3, compute = { mean = "50 us", sd = "9 us" }, rounds = 20, waiting = "cs" },
            { name = "crowd", kind = "cpu" },
        ]
        experiment.repeat = 8
    "#;
    fs::write(folder.path().join("crew.toml"), crew).unwrap();
    rowlock(&folder, &["run", "crew.toml", "--out", "out"]).expect_success();
    let ask = ["regress", "out/runs.csv", "--on", "completion_ns", "--from", "cpu_ns", "--format", "json"];
    let done = rowlock(&folder, &ask);
    let found: Value = crate::json(&done);
    // The crowd is endless and has no completion time.
    assert_eq!((&found["observations"], &found["left_out"]), (&8.into(), &8.into()));
}
