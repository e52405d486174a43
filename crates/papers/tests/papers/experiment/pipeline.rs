//! From a scenario to its results, with worlds that need no clock.

use std::fs;
use std::path::Path;
use std::sync::Mutex;

use crate::experiment::mock::{BOTH, CREW, Fault, Mock, read};
use measure::folder::Folder;
use measure::plan::Plan;
use measure::results::{csv, text};
use report::json;
use scenario::result::World;

fn json_file(folder: &Path, name: &str) -> serde_json::Value {
    serde_json::from_slice(&fs::read(folder.join(name)).unwrap()).unwrap()
}

fn lines(folder: &Path, name: &str) -> usize {
    fs::read_to_string(folder.join(name)).unwrap().lines().count()
}

#[test]
fn runs_follow_the_plan_after_one_warm_up_of_the_first_arm_on_the_host() {
    let (folder, mock, scenario) = (tempfile::tempdir().unwrap(), Mock::new(), read(CREW));
    let finished = mock.experiment(scenario.clone(), BOTH, folder.path());
    assert!(finished.error.is_none() && finished.report.complete);

    let factor = |arm: usize, number: usize| {
        let value = &scenario.arms[arm].factors[number].1;
        value.as_str().map_or(value.to_string(), str::to_owned)
    };
    let call = |step: measure::plan::Step| {
        format!("{} {} {} seed {}", step.world.name(), factor(step.arm, 1), factor(step.arm, 0), step.seed)
    };
    let mut expected = vec!["host always-block 1 seed 40".to_owned()];
    expected.extend(Plan::new(&scenario, BOTH).steps().map(call));
    assert_eq!(mock.calls(), expected);
    assert_eq!(finished.report.runs.len(), 36);
}

#[test]
fn both_worlds_and_all_arms_of_a_repetition_have_the_same_seed() {
    let (folder, mock) = (tempfile::tempdir().unwrap(), Mock::new());
    let report = mock.experiment(read(CREW), BOTH, folder.path()).report;
    assert!(report.runs.iter().all(|run| run.seed == 40 + u64::from(run.repeat)));
}

#[test]
fn the_report_matches_the_snapshot_in_every_format() {
    let (folder, mock) = (tempfile::tempdir().unwrap(), Mock::new());
    let report = mock.experiment(read(CREW), BOTH, folder.path()).report;
    let text = text::render(&report);
    assert!(text.lines().all(|line| line.chars().count() <= report::WIDTH), "{text}");
    insta::assert_snapshot!("text", text);
    insta::assert_snapshot!("csv", csv::render(&report).unwrap());
    let json = json::render(&report).unwrap();
    assert_eq!(fs::read_to_string(folder.path().join("report.json")).unwrap(), json);
    insta::assert_snapshot!("json", json);
    assert_eq!(fs::read_to_string(folder.path().join("runs.csv")).unwrap(), csv::render(&report).unwrap());
}

#[test]
fn a_report_without_a_comparison_shows_every_arm_separately() {
    let (folder, mock) = (tempfile::tempdir().unwrap(), Mock::new());
    let scenario = read(&CREW.replace("compare = \"job.crew.waiting\"\n", "").replace("repeat = 3", "repeat = 1"));
    let report = mock.experiment(scenario, &[World::Sim], folder.path()).report;
    assert!(report.verdicts.is_empty() && report.summaries.iter().all(|summary| summary.speedup.is_none()));
    insta::assert_snapshot!("text without a comparison", text::render(&report));
}

#[test]
fn every_sample_is_written_before_the_next_run() {
    let folder = tempfile::tempdir().unwrap();
    let seen = Mutex::new(Vec::new());
    let before_call = || seen.lock().unwrap().push(lines(folder.path(), "runs.csv"));
    let mock = Mock { before_call: &before_call, ..Mock::new() };
    mock.experiment(read(CREW), BOTH, folder.path());
    // A header, nothing for the warm-up, then two jobs per run.
    let expected: Vec<usize> = std::iter::once(1).chain((0..36).map(|run| 1 + 2 * run)).collect();
    assert_eq!(*seen.lock().unwrap(), expected);
    assert_eq!(lines(folder.path(), "runs.csv"), 1 + 2 * 36);
}

#[test]
fn the_runs_before_an_interruption_are_kept_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let mock = Mock { fault: Fault::Cancel(8), ..Mock::new() };
    let finished = mock.experiment(read(CREW), BOTH, folder.path());
    assert!(finished.error.unwrap().is_cancelled());
    assert_eq!(finished.report.runs.len(), 7);
    assert!(!finished.report.complete && finished.report.notes[0].contains("7 of 36"), "{:?}", finished.report.notes);
    assert_eq!(lines(folder.path(), "runs.csv"), 1 + 2 * 7);
    assert_eq!(json_file(folder.path(), "report.json")["runs"].as_array().unwrap().len(), 7);
    let manifest = json_file(folder.path(), "manifest.json");
    assert_eq!((&manifest["ending"], &manifest["runs"]), (&"interrupted".into(), &7.into()));
    // No run was started after the interruption.
    assert_eq!(mock.calls().len(), 9);
}

#[test]
fn an_interruption_before_the_first_run_leaves_an_empty_report() {
    let folder = tempfile::tempdir().unwrap();
    let mock = Mock { fault: Fault::Cancel(0), ..Mock::new() };
    let finished = mock.experiment(read(CREW), BOTH, folder.path());
    assert!(finished.error.unwrap().is_cancelled() && finished.report.runs.is_empty());
    assert!(text::render(&finished.report).contains("0 of 36"));
    assert_eq!(lines(folder.path(), "runs.csv"), 1);
}

#[test]
fn the_error_names_the_failed_run_and_earlier_runs_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let mock = Mock { fault: Fault::Fail(5), ..Mock::new() };
    let finished = mock.experiment(read(CREW), BOTH, folder.path());
    let error = finished.error.unwrap();
    let step = Plan::new(&read(CREW), BOTH).steps().nth(4).unwrap();
    let message = error.to_string();
    assert!(message.starts_with(&format!("{} world, repetition 0, crowd.threads = ", step.world.name())), "{message}");
    assert!(message.ends_with("the oar broke"), "{message}");
    assert!(!error.is_cancelled() && !error.is_input());
    assert_eq!(finished.report.runs.len(), 4);
    let manifest = json_file(folder.path(), "manifest.json");
    assert_eq!((&manifest["ending"], &manifest["error"]), (&"failed".into(), &message.into()));
}

#[test]
fn the_manifest_says_what_was_run_and_how_it_ended() {
    let (folder, mock) = (tempfile::tempdir().unwrap(), Mock::new());
    let before_call = || assert_eq!(json_file(folder.path(), "manifest.json")["ending"], "unfinished");
    Mock { before_call: &before_call, ..mock }.experiment(read(CREW), BOTH, folder.path());
    let manifest = json_file(folder.path(), "manifest.json");
    assert_eq!(manifest["ending"], "complete");
    assert_eq!(manifest["scenario"]["text"], CREW);
    assert_eq!(manifest["scenario"]["sha256"].as_str().unwrap().len(), 64);
    assert_eq!(manifest["started"], "1970-01-01T00:00:00Z");
    assert_eq!(manifest["arguments"], serde_json::json!(["rowlock", "run", "mock.toml"]));
    assert_eq!((&manifest["seed"], &manifest["planned_runs"]), (&40.into(), &36.into()));
}

const COMMAND: &str = r#"
title = "Two packers"
machine = { like = "host" }
job = [
    { name = "zip", kind = "command", argv = ["gzip", "-9", "a"] },
    { name = "zap", kind = "command", argv = ["gzip", "-9", "a"] },
    { name = "crowd", kind = "cpu" },
]
experiment = { repeat = 2, sweep = { "job.crowd.threads" = [1, 2] } }
"#;

#[test]
fn a_command_is_measured_once_before_all_runs_and_the_report_says_so() {
    let (folder, mock) = (tempfile::tempdir().unwrap(), Mock::new());
    let report = mock.experiment(read(COMMAND), BOTH, folder.path()).report;
    let calls = mock.calls();
    assert_eq!(calls[0], "alone gzip -9 a");
    assert!(calls[1..].iter().all(|call| call.contains(" 812 ms 812 ms ")), "{calls:?}");
    for job in ["zip", "zap"] {
        let note = format!("sim: `{job}` is simulated as a cpu job of 812.0 ms");
        assert_eq!(report.notes.iter().filter(|known| known.starts_with(&note)).count(), 1, "{:?}", report.notes);
    }
}

#[test]
fn commands_are_not_measured_if_only_the_host_runs() {
    let (folder, mock) = (tempfile::tempdir().unwrap(), Mock::new());
    mock.experiment(read(COMMAND), &[World::Host], folder.path());
    assert!(mock.calls().iter().all(|call| call.starts_with("host unknown unknown ")));
}

#[test]
fn a_command_that_cannot_be_measured_ends_the_experiment() {
    let folder = tempfile::tempdir().unwrap();
    let mock = Mock { fault: Fault::Fail(0), ..Mock::new() };
    let finished = mock.experiment(read(COMMAND), BOTH, folder.path());
    assert!(finished.error.unwrap().to_string().starts_with("command `gzip -9 a`"));
    assert_eq!(json_file(folder.path(), "manifest.json")["ending"], "failed");
}

#[test]
fn a_simulated_machine_unlike_the_host_has_no_gap_and_the_report_says_why() {
    let (folder, mock) = (tempfile::tempdir().unwrap(), Mock::new());
    let scenario = read(&CREW.replace("like = \"host\"", "cpus = 2"));
    let report = mock.experiment(scenario, BOTH, folder.path()).report;
    assert!(report.gaps.is_empty() && report.accuracy.is_empty());
    assert!(report.verdicts.iter().all(|verdict| verdict.agreement.is_none()));
    assert!(report.notes.iter().any(|note| note.starts_with("No gap is shown")), "{:?}", report.notes);
}

#[test]
fn copies_of_a_job_are_reported_as_one() {
    let (folder, mock) = (tempfile::tempdir().unwrap(), Mock::new());
    let scenario = read(&CREW.replace("threads = 2\n", "threads = 2\ncopies = 3\n"));
    let report = mock.experiment(scenario, &[World::Sim], folder.path()).report;
    assert_eq!(report.runs[0].outcome.jobs.len(), 4);
    assert_eq!(report.summaries.len(), 12);
    assert!(report.summaries.iter().all(|summary| summary.copies == if summary.job == "crew" { 3 } else { 1 }));
    assert!(text::render(&report).contains("\ncrew (mean of its copies)\n"));
}

#[test]
fn the_hosts_samples_of_thread_states_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let timeline = r#"[{ "at_ns": 7000, "job": 1, "runnable": 2, "sleeping": 1 }]"#;
    let mock = Mock { timeline, ..Mock::new() };
    mock.experiment(read(CREW), BOTH, folder.path());
    let kept = fs::read_to_string(folder.path().join("timeline.csv")).unwrap();
    let mut lines = kept.lines();
    assert_eq!(lines.next(), Some("world,repeat,job.crowd.threads,job.crew.waiting,at_ns,job,runnable,sleeping"));
    assert!(lines.clone().all(|line| line.starts_with("host,") && line.ends_with(",7000,crowd,2,1")), "{kept}");
    assert_eq!(lines.count(), 18);
}

#[test]
fn a_folder_is_created_with_its_parents_and_only_its_own_files_are_replaced() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("a/b");
    Mock::new().experiment(read(CREW), BOTH, &folder);
    fs::write(folder.join("notes.txt"), "mine").unwrap();
    fs::write(folder.join("timeline.csv"), "old").unwrap();
    Mock::new().experiment(read(CREW), &[World::Sim], &folder);
    assert_eq!(lines(&folder, "runs.csv"), 1 + 2 * 18);
    assert!(!folder.join("timeline.csv").exists());
    assert_eq!(fs::read_to_string(folder.join("notes.txt")).unwrap(), "mine");
}

#[test]
fn a_folder_that_cannot_be_written_is_an_input_error_that_names_it() {
    let parent = tempfile::tempdir().unwrap();
    let file = parent.path().join("file");
    fs::write(&file, "").unwrap();
    let error = Folder::create(&file.join("out")).unwrap_err();
    assert!(error.is_input());
    let message = error.to_string();
    assert!(message.contains(&file.display().to_string()) && message.contains("--out DIR"), "{message}");
}
