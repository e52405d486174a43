//! `rowlock paper`.

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use host::{Host, HostCalibration, Machine};
use measure::experiment;
use measure::folder::Folder;
use measure::manifest::Manifest;
use measure::timestamp::Timestamp;
use measure::two_worlds::TwoWorlds;
use papers::figure::changes::Changes;
use papers::figure::evidence::Evidence;
use papers::figure::judgement::Judgement;
use papers::{PAPERS, Paper, Study};
use policy::Span;
use scenario::result::World;
use scenario::{JobKind, Message};
use testing::{Child, Output};

fn rowlock(folder: &Path, arguments: &[&str]) -> Output {
    testing::run(crate::rowlock(arguments).current_dir(folder))
}

#[test]
fn the_list_names_every_paper_with_its_content_size_and_duration() {
    let folder = tempfile::tempdir().unwrap();
    let done = rowlock(folder.path(), &["paper", "list"]).expect_success();
    let list = done.stdout;
    for Paper { name, source, takes, .. } in &PAPERS {
        let entry = list.split_once(&format!("{name}  {source}\n")).unwrap_or_else(|| panic!("{name}: {list}")).1;
        assert!(entry.contains(&format!("; about {takes} on two CPUs\n")), "{name}: {list}");
    }
    let of = |is_it: fn(&Study) -> bool| PAPERS.iter().filter(|paper| is_it(&paper.study)).count();
    assert_eq!(list.matches(" runs; about ").count(), of(|study| matches!(study, Study::Figure(_))), "{list}");
    assert_eq!(list.matches(" cells; about ").count(), of(|study| matches!(study, Study::Today)), "{list}");
    assert_eq!(list.matches("; about ").count(), PAPERS.len(), "{list}");
}

#[test]
fn a_paper_s_scenario_can_be_printed_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let done = rowlock(folder.path(), &["paper", "barrier/fig5", "--scenario"]).expect_success();
    fs::write(folder.path().join("fig5.toml"), done.stdout).unwrap();
    let checked = rowlock(folder.path(), &["check", "fig5.toml"]);
    checked.expect_success().expect_stdout("valid; 96 arms of 2 jobs");
}

#[test]
fn an_unknown_name_is_an_input_error_with_a_suggestion() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, tip) in [(&["paper", "barrier/fgi5"][..], "barrier/fig5"), (&["paper", "wakeup"], "barrier/wakeup")]
    {
        let done = rowlock(folder.path(), arguments).expect_exit(2);
        let message = done.stderr;
        assert!(message.contains(tip), "{message}");
    }
    rowlock(folder.path(), &["paper"]).expect_exit(2);
}

#[test]
fn a_paper_writes_its_results_and_its_exit_code_says_whether_its_bands_hold() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["paper", "barrier/fig4", "--repeat", "1", "--out", "out", "--format", "json"];
    let done = rowlock(folder.path(), &arguments);
    let judgement: serde_json::Value = crate::json(&done);
    assert_eq!(judgement["paper"], "barrier/fig4");
    let page = fs::read_to_string(folder.path().join("out/report.html")).unwrap();
    for band in judgement["bands"].as_array().unwrap() {
        assert!(page.contains(band["what"].as_str().unwrap()), "the page has all bands");
    }
    // Whether one run has a transition point depends on the seed.
    assert_eq!(judgement["transitions"].as_array().unwrap().len(), 1);
    done.expect_exit(if judgement["holds"] == true { 0 } else { 1 });
    let report = fs::read(folder.path().join("out/report.json")).unwrap();
    assert_eq!(judgement["report"], serde_json::from_slice::<serde_json::Value>(&report).unwrap());
}

#[test]
fn an_interrupted_paper_keeps_its_runs_and_is_not_judged() {
    let folder = tempfile::tempdir().unwrap();
    let incomplete = " runs were made; all figures are from these.";
    for (paper, format, words) in [
        ("barrier/fig5", "json", ["\"holds\": null", "\"complete\": false"]),
        ("barrier/fig5", "text", ["Not judged: only ", incomplete]),
        ("barrier/today", "text", ["Incomplete: ", incomplete]),
    ] {
        let arguments = ["paper", paper, "--repeat", "1000", "--workers", "1", "--format", format];
        let out = folder.path().join(paper.replace('/', "-") + format);
        let child = Child::start(crate::rowlock(&arguments).arg("--out").arg(&out));
        let runs = || fs::read_to_string(out.join("runs.csv")).unwrap_or_default().lines().count();
        let done = crate::interrupted_when(|| runs() >= 2, child, 2).expect_exit(130);
        assert!(words.iter().all(|words| done.stdout.contains(words)), "{done}");
        assert!(done.stderr.contains("interrupted: "), "{done}");
        let is_judged =
            ["Missed", "OUTSIDE", "\"inside\": true", "\"inside\": false"].map(|word| done.stdout.contains(word));
        assert_eq!(is_judged, [false; 4], "{done}");
        let page = fs::read_to_string(out.join("report.html")).unwrap();
        assert!(!page.contains("Missed: "), "{done}");
        assert_eq!(page.contains("Not judged: only "), paper != "barrier/today", "{done}");
        assert!(runs() >= 2, "{done}");
    }
}

/// The number of runs in a folder.
fn runs_in(folder: &Path) -> usize {
    fs::read_to_string(folder.join("runs.jsonl")).unwrap_or_default().lines().count()
}

#[test]
fn the_grid_is_continued_only_by_the_program_that_began_it() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["paper", "barrier/today", "--cell", "17", "--out", "out"];
    rowlock(folder.path(), &[&options[..], &["--repeat", "1"]].concat()).expect_success();
    let out = folder.path().join("out");
    // All rules, and the copy of the best.
    assert_eq!(runs_in(&out), 7);
    let append = [&options[..], &["--repeat", "2", "--append"]].concat();
    rowlock(folder.path(), &append).expect_success();
    // Another fixed rule may now be the best.
    let made = runs_in(&out);
    assert!((14..=15).contains(&made), "{made}");
    let manifest = fs::read_to_string(out.join("manifest.json")).unwrap();
    let value: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    let program = value["program_sha256"].as_str().unwrap();
    fs::write(out.join("manifest.json"), manifest.replace(program, &program.replace(&program[..1], "x"))).unwrap();
    let refused = rowlock(folder.path(), &append).expect_exit(2).stderr;
    assert!(refused.contains("another build of rowlock") && refused.contains("use another folder"), "{refused}");
    assert_eq!(runs_in(&out), made);
}

#[test]
fn a_cell_of_this_machine_is_measured_and_continued_after_an_interruption() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let options =
        ["paper", "barrier/today", "--world", "host", "--cell", "3", "--rule", "owner-running", "--out", "out"];
    let first = [&options[..], &["--repeat", "1000", "--format", "json"]].concat();
    let child = Child::start(crate::rowlock(&first).current_dir(folder.path()));
    let interrupted = crate::interrupted_when(|| runs_in(&out) >= 2, child, 2).expect_exit(130);
    let report: serde_json::Value = crate::json(&interrupted);
    assert_eq!((report["complete"].as_bool(), report["grids"][0]["grid"].as_str()), (Some(false), Some("host")));
    assert!(interrupted.stderr.contains("1 cell, 1000 rounds of 7 runs: about "), "{interrupted}");

    // The rules are those of the first command.
    let append = ["--append", "--repeat", "2"];
    let done = rowlock(folder.path(), &[&options[..6], &options[8..], &append].concat()).expect_success();
    assert!(done.stdout.contains("This machine, 1 cell: ") && done.stdout.contains("\n  owner-running "), "{done}");
    assert!(done.stderr.contains("send in out/barrier-today-host.json"), "{done}");
    let submission = fs::read_to_string(out.join("barrier-today-host.json")).unwrap();
    let submission: serde_json::Value = serde_json::from_str(&submission).unwrap();
    let runs = submission["runs"].as_array().unwrap();
    assert!(runs.len() >= 14 && runs.len() == runs_in(&out), "{submission}");
    assert!(runs.iter().all(|run| run["seconds"].as_f64() > Some(0.0)), "{submission}");
    let [cells, rules] = [&submission["report"]["grids"][0]["cells"], &submission["settings"]["rules"]];
    assert_eq!((cells.as_array().unwrap().len(), rules), (1, &serde_json::json!(["owner-running"])));
    assert_eq!(submission["doctor"]["machine"], submission["settings"]["calibration"]["machine"]);

    for (wrong, why) in [
        (&["--append", "--rule", "4cs"][..], "the runs in the folder are with owner-running"),
        (&["--append", "--cell", "26"], "the grid has 25 cells"),
        (&["--grid", "whole"], "--grid is for simulated machines"),
        (&["--scheduler", "cfs"], "--scheduler: barrier/today runs the schedulers"),
    ] {
        let refused = rowlock(folder.path(), &[&options[..6], &options[8..], wrong].concat()).expect_exit(2);
        assert!(refused.stderr.contains(why), "{refused}");
    }
    assert_eq!(runs_in(&out), runs.len());
}

#[test]
fn options_change_the_scheduler_and_rule_of_a_paper() {
    let folder = tempfile::tempdir().unwrap();
    let changed = ["--scheduler", "linux-2.4", "--waiting", "2cs+"];
    let done =
        rowlock(folder.path(), &[&["paper", "barrier/fig2", "--scenario"][..], &changed].concat()).expect_exit(0);
    let scenario = done.stdout;
    assert!(scenario.contains("scheduler = \"linux-2.4\"") && scenario.contains("waiting = \"2cs+\""), "{scenario}");

    // Measured papers use this machine's scheduler.
    let refused = rowlock(folder.path(), &[&["paper", "fg/table3"][..], &changed].concat()).expect_exit(2);
    assert!(refused.stderr.contains("--scheduler linux-2.4 is for simulated papers"));
}

#[test]
fn an_invalid_number_of_workers_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [["run", "crew.toml"], ["paper", "barrier/fig2"]] {
        for none in ["0", "-1", "all"] {
            let refused =
                rowlock(folder.path(), &[&arguments[..], &[&*format!("--workers={none}")]].concat()).expect_exit(2);
            let said = refused.stderr;
            assert!(said.contains("a whole number, 1 or more"), "{said}");
        }
    }
}

#[test]
fn the_results_do_not_depend_on_the_number_of_workers() {
    const CREW: &str = r#"
        machine = { cpus = 2, scheduler = "rr" }
        job = [{ name = "crew", kind = "barrier", threads = 3, granularity = "medium", rounds = 20, waiting = "cs" }]
        experiment = { repeat = 20, sweep = { "job.crew.waiting" = ["always-block", "2cs+"] } }
    "#;
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("crew.toml"), CREW).unwrap();
    let run = |workers| {
        let arguments = ["run", "crew.toml", "--out", "out", "--format", "json", "--workers", workers];
        let done = rowlock(folder.path(), &arguments).expect_success();
        (done.stdout, fs::read(folder.path().join("out/runs.csv")).unwrap())
    };
    let alone = run("1");
    for workers in ["2", "7"] {
        assert!(run(workers) == alone, "{workers} workers");
    }
}

#[test]
#[ignore = "takes a while; ./check --full runs it"]
fn the_time_to_start_jobs_on_this_machine_is_shown_beside_that_of_the_paper() {
    for (paper, theirs) in [("ap/table2", "0.83 (ring), 0.77 (one-to-all)"), ("ap/fig9", "almost linear")] {
        // The tables of the jobs are created here.
        let folder = tempfile::tempdir().unwrap();
        let arguments = ["paper", paper, "--world", "host", "--repeat", "1", "--out", "out"];
        let done =
            testing::run(crate::rowlock(&arguments).env("ROWLOCK_TABLE", folder.path()).current_dir(folder.path()));
        let done = done.expect_success();
        let beside = done.stdout.split_once("\nAgainst the paper\n").unwrap_or_else(|| panic!("{done}")).1;
        let (_, ours) = beside.split_once(theirs).unwrap_or_else(|| panic!("{done}"));
        let ours: f64 = ours.lines().next().unwrap().trim().parse().unwrap_or_else(|why| panic!("{why}: {done}"));
        assert!(ours > 0.0 && beside.contains("Not judged: "), "{done}");
        let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["out"], "{done}");
    }
}

/// This machine with invented costs.
fn host() -> Host {
    let calibration = HostCalibration::invented(Machine::current().unwrap());
    Host { program: env!("CARGO_BIN_EXE_rowlock").into(), calibration }
}

/// Measures a figure on this machine at a reduced size, and returns the comparison as text.
fn measured(name: &str) -> String {
    let paper = Paper::named(name).unwrap();
    let figure = paper.on_host().unwrap();
    let host = host();
    let mut scenario = figure.scenario(host::cells(&host.calibration.machine)).unwrap();
    scenario.experiment.repeat = 1;
    for setting in scenario.arms.iter_mut().map(|arm| &mut arm.setting) {
        // A job of `ap/skew` must have several turns.
        setting.coscheduling.as_mut().unwrap().slice = Span::from_millis(5);
        for job in &mut setting.jobs {
            let JobKind::Message(Message { rounds, .. }) = &mut job.kind else { panic!("{job:?}") };
            *rounds = (*rounds / 100).min(500);
        }
    }
    let place = tempfile::tempdir().unwrap();
    let manifest = Manifest::begin(name, &[World::Host], Timestamp::of(std::time::UNIX_EPOCH));
    let worlds = TwoWorlds::new(Some(host), NonZeroUsize::MIN);
    let (mut folder, cancel) = (Folder::create(place.path()).unwrap(), AtomicBool::new(false));
    let finished =
        experiment::run(scenario.clone(), None, &worlds, &mut folder, manifest, &mut |_| (), &cancel).unwrap();
    assert!(finished.error.is_none(), "{:?}", finished.error);
    let (expected, evidence) = (figure.expected().unwrap(), Evidence::new(&scenario, &finished.report.runs));
    let judgement = Judgement::new(paper, &expected, &evidence, &Changes::default(), &finished.report);
    for band in &judgement.bands {
        assert_eq!(band.ours.map(|ours| ours.samples), Some(1), "{name}: {band:?}");
    }
    papers::figure::text::render(&judgement, &expected, &evidence)
}

#[test]
#[ignore = "takes a while; ./check --full runs it"]
fn skew_and_baselines_are_measured_on_this_machine_at_a_reduced_size() {
    for (name, theirs) in [("ap/skew", ["about 10", "around 5"].as_slice()), ("ap/baselines", &["slower"])] {
        let text = measured(name);
        assert!(theirs.iter().all(|theirs| text.contains(theirs)), "{text}");
    }
}

#[test]
#[ignore = "takes a while; ./check --full runs it"]
fn jobs_that_share_the_cells_of_this_machine_are_measured_at_a_reduced_size() {
    for (name, theirs) in [
        ("ap/fig5", ["one-to-all, 1048576 rounds"].as_slice()),
        ("ap/fig6", &["about 3"]),
        ("ap/fig7", &["about 4"]),
        ("ap/table3", &["1.06", "3.78"]),
        ("ap/fig8", &["nearly flat", "no overlap", "proportional"]),
    ] {
        let text = measured(name);
        assert!(theirs.iter().all(|theirs| text.contains(theirs)), "{text}");
    }
}
