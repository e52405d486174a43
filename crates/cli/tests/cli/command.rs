//! The command's arguments, files, output, messages and exit codes.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use policy::table::{GANG, PARTITION, PRIORITY, PolicyEntry, SCHEDULER, WAITING, WAKEUP};
use serde_json::Value;
use testing::{Child, Output};

use crate::commands::CREW;

/// A temporary folder in which the command runs.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn with(content: impl AsRef<[u8]>) -> Place {
        let place = Place::new();
        fs::write(place.path("crew.toml"), content).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = crate::rowlock(arguments);
        command.current_dir(self.0.path());
        command
    }

    fn rowlock(&self, arguments: &[&str]) -> Output {
        testing::run(&mut self.command(arguments))
    }

    /// The names of the files except the scenario.
    fn left_behind(&self) -> Vec<String> {
        let names = fs::read_dir(self.0.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name != "crew.toml").collect()
    }
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn the_output_in_every_format_depends_only_on_the_seed() {
    let place = Place::with(CREW);
    for format in ["text", "json", "csv"] {
        let run = |seed| {
            place
                .rowlock(&["run", "crew.toml", "--out", "out", "--format", format, "--seed", seed])
                .expect_exit(0)
                .stdout
        };
        let first = run("1");
        assert_eq!(first, run("1"), "{format}");
        assert_ne!(first, run("2"), "{format}");
    }
}

#[test]
fn a_run_leaves_its_results_in_a_new_folder_in_rowlock_out() {
    let place = Place::with(CREW);
    for _ in 0..2 {
        place.rowlock(&["run", "crew.toml"]).expect_exit(0);
    }
    let folders: Vec<_> = fs::read_dir(place.path("rowlock-out")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(folders.len(), 2, "{folders:?}");
    for folder in folders {
        assert!(folder.file_name().unwrap().to_string_lossy().starts_with("crew-2"), "{folder:?}");
        let manifest = json(&folder.join("manifest.json"));
        assert_eq!((&manifest["ending"], &manifest["runs"]), (&"complete".into(), &4.into()));
        assert_eq!(json(&folder.join("report.json"))["runs"].as_array().unwrap().len(), 4);
        assert_eq!(fs::read_to_string(folder.join("runs.csv")).unwrap().lines().count(), 5);
    }
    assert_eq!(place.left_behind(), ["rowlock-out"]);
}

#[test]
fn options_replace_keys_of_the_scenario() {
    let place = Place::with(CREW);
    let arguments = ["run", "crew.toml", "--repeat", "3", "--seed", "7", "--scheduler", "eevdf", "--format", "json"];
    let report = crate::json(&place.rowlock(&arguments).expect_exit(0));
    let runs = report["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 6);
    for run in runs {
        assert_eq!(run["machine"]["scheduler"], "eevdf");
        assert_eq!(run["seed"].as_u64().unwrap(), 7 + run["repeat"].as_u64().unwrap());
    }
}

#[test]
fn a_run_that_is_appended_prints_what_a_longer_run_prints() {
    let place = Place::with(CREW);
    let run = |arguments: &[&str]| {
        place.rowlock(&[&["run", "crew.toml", "--format", "json"], arguments].concat()).expect_exit(0).stdout
    };
    run(&["--repeat", "2", "--out", "parts"]);
    let appended = run(&["--repeat", "5", "--out", "parts", "--append"]);
    assert_eq!(appended, run(&["--repeat", "5", "--out", "whole"]));
    let read = |name: &str| fs::read_to_string(place.path(name)).unwrap();
    assert_eq!(read("parts/runs.csv").lines().count(), read("whole/runs.csv").lines().count());
    let refused =
        place.rowlock(&["run", "crew.toml", "--scheduler", "cfs", "--out", "parts", "--append"]).expect_exit(2);
    assert!(refused.stderr.contains("another scenario"), "{}", refused.stderr);
    place.rowlock(&["run", "crew.toml", "--append"]).expect_exit(2);
}

#[test]
fn bad_scenarios_are_refused_with_file_and_line_and_leave_no_files() {
    let changed = |from: &str, to: &str| {
        assert!(CREW.contains(from), "{from}");
        CREW.replace(from, to).into_bytes()
    };
    let cases: [(Vec<u8>, &str, &str); 10] = [
        (changed("rounds = 20", "round = 20"), "crew.toml:12", "rounds"),
        (changed("\"50 us\"", "50"), "crew.toml:11", "50 us"),
        (changed("\"50 us\"", "\"50 uss\""), "crew.toml:11", "uss"),
        (changed("threads = 3", "threads = 0"), "crew.toml:10", "threads"),
        (changed("cpus = 2", "cpus = -2"), "crew.toml:4", "cpus"),
        (changed("\"rr\"", "\"lottery\""), "crew.toml:5", "eevdf"),
        (changed("[\"always-block\"", "[\"always-blok\""), "crew.toml:18", "always-block"),
        (changed("\"2cs+\"]", "\"often\"]"), "crew.toml:18", "often"),
        (changed("[[job]]", "[[job"), "crew.toml:7", "]"),
        (b"\x7fELF\x02\x01\x01\0\xff\xfe".to_vec(), "crew.toml", ""),
    ];
    for (content, place_in_file, hint) in cases {
        let place = Place::with(&content);
        for command in ["run", "check"] {
            let done = place.rowlock(&[command, "crew.toml"]).expect_exit(2);
            assert!(done.stderr.contains(place_in_file) && done.stderr.contains(hint), "{hint}: {}", done.stderr);
            assert_eq!(done.stdout, "");
            assert!(!done.stderr.contains("panicked"), "{}", done.stderr);
        }
        assert!(place.left_behind().is_empty(), "{:?}", place.left_behind());
    }
}

#[test]
fn bad_arguments_are_refused_and_named() {
    let place = Place::with(CREW);
    for (arguments, message) in [
        (&["run", "missing.toml"][..], "missing.toml"),
        (&["run", "."], "cannot read ."),
        (&["check", "/dev/zero"], "/dev/zero"),
        (&["run", "crew.toml", "--repeat", "0"], "--repeat"),
        (&["run", "crew.toml", "--repeat", "4000000000"], "--repeat"),
        (&["run", "crew.toml", "--seed", "-1"], "-1"),
        (&["run", "crew.toml", "--world", "mars"], "mars"),
        (&["run", "crew.toml", "--scheduler", "lottery"], "eevdf"),
        (&["run", "crew.toml", "--out", "crew.toml/out"], "crew.toml/out"),
        (&["run", "crew.toml", "--out", "/proc/rowlock"], "/proc/rowlock"),
        (&["run"], "FILE"),
        (&["row"], "row"),
    ] {
        let done = place.rowlock(arguments).expect_exit(2);
        assert!(done.stderr.contains(message), "{arguments:?}: {}", done.stderr);
        assert_eq!(done.stdout, "");
    }
    assert!(place.left_behind().is_empty(), "{:?}", place.left_behind());
}

#[test]
fn a_scheduler_that_the_scenario_sweeps_cannot_be_an_option() {
    let place = Place::with(CREW.replace("sweep = {", "sweep = { \"machine.scheduler\" = [\"rr\", \"eevdf\"],"));
    let done = place.rowlock(&["run", "crew.toml", "--scheduler", "rr"]).expect_exit(2);
    assert!(done.stderr.contains("machine.scheduler"), "{}", done.stderr);
}

#[test]
fn what_only_the_simulator_can_do_is_refused_elsewhere_with_a_way_out() {
    let cells = r#"
        machine = { like = "host", cells = "2x1" }
        coscheduling.how = "moderate"
        [[job]]
        name = "ring"
        kind = "message"
        ranks = 2
        pattern = "ring"
        bytes = 1
        rounds = 1
        waiting = "cs"
    "#;
    let place = Place::with(cells);
    let line = ["run", "crew.toml", "--scheduler", "fifo"];
    place.rowlock(&line).expect_exit(2).expect_stderr("--scheduler: `how = \"moderate\"` needs priorities");
    place.rowlock(&["export", "crew.toml", "--to", "rt-app"]).expect_exit(2).expect_stderr("the machine: rt-app runs");
    let many = Place::with(cells.replace("like = \"host\", cells = \"2x1\"", "cells = \"64x32\""));
    let line = ["run", "crew.toml", "--trace", "trace"];
    many.rowlock(&line).expect_exit(2).expect_stderr("traces of 1024 CPUs at the most, and this machine has 2048");
    let place = Place::with(cells.replace("moderate", "cellos"));
    let refused = "only the simulator has `coscheduling.how = \"cellos\"`; add `--world sim`";
    for world in ["both", "host"] {
        place.rowlock(&["run", "crew.toml", "--world", world]).expect_exit(2).expect_stderr(refused);
    }
    let done = place.rowlock(&["check", "crew.toml"]).expect_exit(0);
    assert!(done.stdout.ends_with("runs in sim\n"), "{}", done.stdout);
}

fn with_command(argv: &str) -> Place {
    let command = format!("[[job]]\nname = \"tool\"\nkind = \"command\"\nargv = {argv}\n\n[experiment]");
    Place::with(CREW.replace("[experiment]", &command))
}

#[test]
fn a_command_that_does_not_exist_is_refused_before_anything_runs() {
    for world in ["sim", "host"] {
        let place = with_command("[\"rowlock-no-such-command\"]");
        let done = place.rowlock(&["run", "crew.toml", "--world", world]).expect_exit(2);
        assert!(done.stderr.contains("rowlock-no-such-command") && done.stderr.contains("tool"), "{}", done.stderr);
        assert!(place.left_behind().is_empty(), "{:?}", place.left_behind());
    }
}

#[test]
fn a_failed_command_fails_the_run_and_its_standard_error_is_shown() {
    let place = with_command("[\"sh\", \"-c\", \"echo the oar broke >&2; echo and sank >&2; exit 7\"]");
    let done = place.rowlock(&["run", "crew.toml", "--world", "host", "--out", "out"]).expect_exit(1);
    assert!(done.stderr.contains("\n  the oar broke\n  and sank\n") && done.stderr.contains('7'), "{}", done.stderr);
    assert_eq!(json(&place.path("out/manifest.json"))["ending"], "failed");
}

#[test]
fn a_scenario_about_this_machine_runs_in_both_worlds_and_compares_them() {
    let place = Place::with(CREW.replace("cpus = 2\nscheduler = \"rr\"", "like = \"host\""));
    let done = place.rowlock(&["run", "crew.toml", "--format", "json", "--out", "out"]).expect_exit(0);
    let report: Value = crate::json(&done);
    assert_eq!(report["runs"].as_array().unwrap().len(), 8);
    assert_eq!(report["gaps"].as_array().unwrap().len(), 2);
    assert!(report["gaps"][0]["completion_percent"]["mean"].is_number());
    assert!(report["verdicts"][0]["agreement"].is_string());
    let manifest = json(&place.path("out/manifest.json"));
    assert!(manifest["calibration"]["wake"].is_object() && manifest["machine"].is_object(), "{manifest}");
}

/// Sends a signal to an endless run after its first run, and waits for its end.
fn run_interrupted_by(signal: i32) -> (Place, Output) {
    let place = Place::with(CREW);
    let child = Child::start(&mut place.command(&["run", "crew.toml", "--repeat", "100000", "--out", "out"]));
    let runs = || fs::read_to_string(place.path("out/runs.csv")).unwrap_or_default().lines().count();
    let output = crate::interrupted_when(|| runs() >= 2, child, signal);
    (place, output)
}

#[test]
fn an_interrupted_run_reports_its_results_and_has_the_exit_code_of_the_signal() {
    for (signal, code) in [(2, 130), (15, 143)] {
        let (place, done) = run_interrupted_by(signal);
        let done = done.expect_exit(code);
        assert!(done.stdout.contains("Incomplete: ") && done.stderr.contains("interrupted"), "{}", done.stderr);
        let (report, manifest) = (json(&place.path("out/report.json")), json(&place.path("out/manifest.json")));
        assert_eq!((&report["complete"], &manifest["ending"]), (&false.into(), &"interrupted".into()));
        let runs = report["runs"].as_array().unwrap().len();
        assert!(runs > 0);
        assert_eq!(fs::read_to_string(place.path("out/runs.csv")).unwrap().lines().count(), 1 + runs);
    }
}

#[test]
fn a_closed_standard_output_is_not_an_error() {
    let place = Place::with(CREW);
    for arguments in [&["policies"][..], &["run", "crew.toml"], &["check", "crew.toml"]] {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let output = Child::start_into(&mut place.command(arguments), writer).wait().expect_exit(0);
        assert!(!output.stderr.contains("panicked"), "{output}");
    }
}

#[test]
fn a_full_disk_is_an_error() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    Child::start_into(&mut Place::new().command(&["policies"]), full)
        .wait()
        .expect_exit(1)
        .expect_stderr("standard output");
}

#[test]
fn a_full_standard_error_does_not_change_the_exit_code() {
    let place = Place::with(CREW);
    let run = |arguments: &[&str]| {
        let rowlock = place.command(arguments);
        let mut shell = testing::command("sh");
        shell.args(["-c", "exec \"$0\" \"$@\" 2> /dev/full"]).arg(rowlock.get_program()).args(rowlock.get_args());
        testing::run(shell.current_dir(place.path("")))
    };
    run(&["run", "crew.toml"]).expect_exit(0);
    run(&["run", "missing.toml"]).expect_exit(2);
}

#[test]
fn the_policies_are_those_of_the_table() {
    let place = Place::new();
    let text = place.rowlock(&["policies"]).expect_exit(0).stdout;
    let json: Value = crate::json(&place.rowlock(&["policies", "--format", "json"]).expect_exit(0));
    let listed: Vec<&str> =
        json["policies"].as_array().unwrap().iter().map(|of| of["form"].as_str().unwrap()).collect();
    fn rows<P>(table: &[PolicyEntry<P>]) -> Vec<(&'static str, &'static str)> {
        table.iter().map(|policy| (policy.form, policy.meaning)).collect()
    }
    let expected = [rows(WAITING), rows(WAKEUP), rows(SCHEDULER), rows(PRIORITY), rows(GANG), rows(PARTITION)].concat();
    assert!(listed.into_iter().eq(expected.iter().map(|&(form, _)| form)));
    assert!(expected.iter().all(|(_, meaning)| text.contains(meaning)), "{text}");
}

#[test]
fn the_calibration_is_printed_as_text_and_json() {
    let place = Place::new();
    let text = place.rowlock(&["calibrate"]).expect_exit(0).stdout;
    assert!(text.contains("context switch") && text.contains("CPU"), "{text}");
    let json: Value = crate::json(&place.rowlock(&["calibrate", "--format", "json"]).expect_exit(0));
    assert!(json["schema_version"] == 1 && json["switch"]["median_ns"].is_number(), "{json}");
}

#[test]
fn the_doctor_examines_this_machine_as_text_and_json() {
    let place = Place::new();
    let text = place.rowlock(&["doctor"]).expect_exit(0).stdout;
    let json: Value = crate::json(&place.rowlock(&["doctor", "--format", "json"]).expect_exit(0));
    assert_eq!(json["schema_version"], 1);
    let findings = json["findings"].as_array().unwrap();
    assert!(!findings.is_empty());
    let mut last = "";
    for finding in findings {
        let word = |key: &str| finding[key].as_str().unwrap_or_else(|| panic!("{key}: {finding}"));
        // Its line begins with the state, and is below the heading of its capability.
        let line = |line: &&str| line.split_whitespace().take(2).eq([word("state"), word("name")]);
        assert_eq!(text.lines().filter(line).count(), 1, "{finding}\n{text}");
        if word("capability") != last {
            last = word("capability");
            assert!(text.lines().any(|line| line.starts_with(&format!("{last}: "))), "{last}\n{text}");
        }
        assert!(["no", "partly", "unknown", "yes"].contains(&word("state")) && !word("seen").is_empty(), "{finding}");
        assert_eq!(finding["costs"].as_array().unwrap().is_empty(), word("state") == "yes", "{finding}");
    }
    assert_eq!(place.left_behind(), [] as [&str; 0]);
}

#[test]
fn the_scenarios_of_the_repository_are_valid() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> = files.filter(|path| path.extension().is_some_and(|ending| ending == "toml")).collect();
    assert!(!files.is_empty());
    for file in files {
        let done = Place::new().rowlock(&["check", file.to_str().unwrap()]).expect_exit(0);
        assert!(done.stdout.contains("valid"), "{}", done.stdout);
    }
}
