//! `rowlock paper threads/...`, with so few runs that the times have no meaning.

use std::fs;
use std::path::Path;

use serde_json::Value;
use testing::Output;

fn paper(folder: &Path, arguments: &[&str]) -> Output {
    testing::run(crate::rowlock(&[&["paper"], arguments].concat()).current_dir(folder))
}

fn json(output: Output) -> Value {
    crate::json(&output.expect_success())
}

fn rows(file: &Path) -> usize {
    fs::read_to_string(file).unwrap().lines().count() - 1
}

#[test]
fn the_table_has_posix_threads_fibers_and_the_figures_of_the_study() {
    let folder = tempfile::tempdir().unwrap();
    let output = paper(
        folder.path(),
        &["threads/table2", "--fibers", "50,7", "--repeat", "2", "--format", "json", "--out", "out"],
    );
    let table = json(output);
    let rows_of = table["rows"].as_array().unwrap();
    let arms = ["pthreads", "pthreads, one CPU", "fibers 10/100"];
    let expected: Vec<(u64, &str)> = [7, 50].into_iter().flat_map(|threads| arms.map(|arm| (threads, arm))).collect();
    let found: Vec<(u64, &str)> =
        rows_of.iter().map(|row| (row["threads"].as_u64().unwrap(), row["arm"].as_str().unwrap())).collect();
    assert_eq!(found, expected);
    for row in rows_of {
        assert!(row["cold_us"]["median"].as_f64().unwrap() > 0.0 && row["warm_us"]["samples"] == 2, "{row}");
        assert_eq!(row["demotions"].is_u64(), row["arm"] == "fibers 10/100");
    }
    assert_eq!((&rows_of[3]["study_us"], &rows_of[4]["study_us"]), (&3510.0.into(), &Value::Null));
    // Two rivals, two temperatures, two numbers of threads.
    assert_eq!(table["factors"].as_array().unwrap().len(), 8);
    assert_eq!((&table["complete"], rows(&folder.path().join("out/runs.csv"))), (&true.into(), 12));
    assert!(fs::read_to_string(folder.path().join("out/report.html")).unwrap().contains("<svg"));
}

#[test]
fn all_nine_configurations_run_and_the_claims_are_judged() {
    let folder = tempfile::tempdir().unwrap();
    let output = paper(folder.path(), &["threads/configs", "--fibers", "10,1000", "--repeat", "1", "--out", "out"])
        .expect_success();
    let said = output.stdout;
    for configuration in ["10/50", "10/100", "10/150", "50/50", "50/100", "50/150", "100/50", "100/100", "100/150"] {
        assert!(said.lines().any(|line| line.trim_start().starts_with(&format!("fibers {configuration} "))), "{said}");
    }
    // One run decides nothing, whether it is a first run or not.
    assert_eq!(said.matches("UNDECIDED").count(), 6, "{said}");
    assert_eq!(rows(&folder.path().join("out/runs.csv")), 18);
}

#[test]
fn preemptible_fibers_replace_the_others_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let output = paper(
        folder.path(),
        &["threads/configs", "--preemptive", "--fibers", "10", "--repeat", "1", "--format", "json", "--out", "out"],
    );
    let table = json(output);
    assert_eq!(table["settings"]["preemptible"], true);
    for rows in ["rows", "simulated"] {
        let rows = table[rows].as_array().unwrap();
        assert_eq!(rows.len(), 9, "{}", table["notes"]);
        assert!(rows.iter().all(|row| row["arm"].as_str().unwrap().starts_with("preemptible ")), "{rows:?}");
    }
    assert!(fs::read_to_string(folder.path().join("out/study.toml")).unwrap().contains("preemptible = true"));
}

#[test]
fn each_workload_has_response_times_under_each_configuration_and_of_posix_threads() {
    let folder = tempfile::tempdir().unwrap();
    let output = paper(folder.path(), &["threads/workloads", "--repeat", "1", "--format", "json", "--out", "out"]);
    let table = json(output);
    let responses = table["responses"].as_array().unwrap();
    assert_eq!(responses.len(), 3 * 11, "{}", table["notes"]);
    for row in responses {
        let at = |name: &str| row[name]["median"].as_f64().unwrap();
        assert!(
            at("p50_us") <= at("p95_us") && at("p95_us") <= at("p99_us") && at("p99_us") <= at("worst_us"),
            "{row}"
        );
    }
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, why) in [
        (&["barrier/fig4", "--fibers", "5"][..], "--fibers is for threads/... papers"),
        (&["fg/table3", "--fibers", "5"], "--fibers is for threads/... papers"),
        (&["barrier/fig4", "--preemptive"], "--preemptive is for threads/... papers"),
        (&["threads/table2", "--size", "1MiB"], "--size is not for threads/table2"),
        (&["threads/table2", "--scheduler", "cfs"], "--scheduler"),
        (&["threads/table2", "--scenario"], "is measured"),
        (&["threads/workloads", "--fibers", "5"], "their own number"),
        (&["threads/table2", "--fibers", "0"], "--fibers"),
    ] {
        let output = paper(folder.path(), arguments).expect_exit(2);
        let said = output.stderr;
        assert!(said.contains(why), "{arguments:?}: {said}");
    }
}

#[test]
fn an_appended_study_makes_only_the_runs_that_are_missing() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["threads/table2", "--fibers", "7", "--out", "out", "--append", "--format", "json", "--repeat"];
    let repeat = |count: &str| json(paper(folder.path(), &[&options[..], &[count]].concat()));
    let records = || fs::read_to_string(folder.path().join("out/runs.jsonl")).unwrap();
    repeat("1");
    let first = records();
    let table = repeat("3");
    assert!(records().starts_with(&first) && records().lines().count() == 9, "{}", records());
    assert_eq!((&table["complete"], rows(&folder.path().join("out/runs.csv"))), (&true.into(), 9));
    let manifest: Value = serde_json::from_slice(&fs::read(folder.path().join("out/manifest.json")).unwrap()).unwrap();
    assert_eq!((&manifest["study"], &manifest["ending"]), (&"threads/table2".into(), &"complete".into()));
    assert_eq!((&manifest["runs"], &manifest["settings"]["preemptible"]), (&9.into(), &false.into()));
    for (arguments, why) in [
        (&["threads/configs", "--out", "out", "--append"][..], "another study"),
        (&["threads/table2", "--out", "out", "--append", "--seed", "2"], "another seed"),
        (&["threads/table2", "--out", "out", "--append", "--preemptive"], "--preemptive in both or in neither"),
    ] {
        let output = paper(folder.path(), arguments).expect_exit(2);
        assert!(output.stderr.contains(why), "{arguments:?}: {}", output.stderr);
    }
}

#[test]
fn a_measurement_that_lacks_descriptors_says_what_for() {
    for descriptors in 4..=12 {
        let folder = tempfile::tempdir().unwrap();
        let mut shell = testing::command("sh");
        shell.args(["-c", &format!("ulimit -n {descriptors}; exec \"$@\""), "sh"]).current_dir(folder.path());
        let arguments = ["paper", "threads/table2", "--fibers", "10", "--repeat", "1", "--out", "results"];
        let output = testing::run(&mut testing::through(shell, &crate::rowlock(&arguments)));
        let holds = crate::commands::errors_are_explained(&output.stderr);
        output.expect(holds, "what the descriptors are for");
    }
}
