//! `rowlock pipeline verdict`, with a shell script in place of a program built on the crate.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::Value;
use testing::Output;

/// The report of a run of one second on two CPUs, in which one stage was always busy.
const REPORT: &str = r#"{"schema_version":1,"program":"fake","structure":"buffers=8","clock_ns":1000000000,"cpus":2,"workers":2,
"user_ns":1000000000,"system_ns":0,"failure":null,"machine":{"device":"vda","device_busy_ns":20000000,"read_bytes":0,"written_bytes":0,
"pressure_cpu":3,"pressure_io":0},"pipelines":[{"name":"fake","buffers":8,"buffers_back":8,"block":65536,"rounds":100}],"stages":[
{"name":"work","pipeline":"fake","kind":"compute","place":"workers","can_fork":true,"copies":1,"is_ordered":true,"is_fused":false,"calls":100,
"repeated":0,"bytes":6553600,"busy_ns":990000000,"starved_ns":0,"blocked_ns":10000000,"waiting_for_worker_ns":0,"user_ns":990000000,"system_ns":0,
"depths":[0,100],"grants":[{"wish":"nice=-5","outcome":{"refused":{"why":"not permitted","needs":"CAP_SYS_NICE"}}}]}]}"#;

/// A temporary folder with a program that writes a report and then runs a shell command.
struct Place(tempfile::TempDir);

impl Place {
    fn with(report: &str, command: &str) -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        let report = report.replace('\n', "");
        let script = format!("#!/bin/sh\necho '{report}' >> \"$ROWLOCK_PIPELINE_REPORT\"\n{command}\n");
        fs::write(place.path("program"), script).unwrap();
        fs::set_permissions(place.path("program"), fs::Permissions::from_mode(0o755)).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn verdict(&self, options: &[&str]) -> Output {
        let mut command = crate::rowlock(&[&["pipeline", "verdict"], options].concat());
        command.env("TMPDIR", self.0.path()).arg("--").arg(self.path("program")).arg("argument");
        testing::run(&mut command)
    }

    /// The files in the folder.
    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn the_verdict_is_on_standard_error_and_not_on_the_program_s_standard_output() {
    let place = Place::with(REPORT, "echo \"$1\"");
    let output = place.verdict(&[]).expect_success();
    assert_eq!(output.stdout, "argument\n");
    let text = output.stderr;
    assert!(text.starts_with("fake: 1.00 s, limited by stage 'work': at work 99 % of the time; "), "{text}");
    assert!(text.contains("1.01 times its floor, which stage 'work' sets\n"), "{text}");
    assert!(text.contains("\nwork   compute  worker  99 %"), "{text}");
    assert!(text.ends_with("work: nice=-5: not permitted; it takes CAP_SYS_NICE\n"), "{text}");
    assert_eq!(place.files(), ["program"], "nothing is left behind");
}

#[test]
fn the_json_file_has_the_verdict_and_the_device_s_bandwidth() {
    let place = Place::with(REPORT, "");
    let (json, folder) = (place.path("verdict.json"), place.0.path().to_str().unwrap());
    let output = place.verdict(&["--json", json.to_str().unwrap(), "--device", folder]).expect_success();
    let written: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert_eq!(written["schema_version"], 1);
    assert!(written["bandwidth"]["read"].as_u64().unwrap() > 0, "{written}");
    let run = &written["runs"][0];
    assert_eq!(run["verdict"]["limit"]["stage"], "work");
    assert_eq!(run["report"]["stages"][0]["busy_ns"], 990_000_000);
    assert_eq!(run["verdict"]["floors"].as_array().unwrap().len(), 3);
    assert!(output.stderr.contains("at least    0 ns by the device vda"), "{}", output.stderr);
    assert_eq!(place.files(), ["program", "verdict.json"]);
}

#[test]
fn verdict_ends_as_the_program_does() {
    let place = Place::with(REPORT, "exit 7");
    let output = place.verdict(&[]).expect_exit(7);
    assert!(output.stderr.contains("limited by"), "what is known is told all the same: {output:?}");
    let place = Place::with(REPORT, "kill -TERM $$");
    place.verdict(&[]).expect_signal(15);
    assert_eq!(place.files(), ["program"]);
}

#[test]
fn a_missing_or_invalid_report_is_an_error() {
    let output = Place::with("", "").verdict(&[]).expect_exit(1);
    assert!(output.stderr.contains("is it built on the crate rowlock-pipeline"), "{output:?}");
    let output = Place::with("{\"schema_version\":1}", "").verdict(&[]).expect_exit(1);
    assert!(output.stderr.contains("this rowlock cannot read the program's report"), "{output:?}");
    let output = Place::with(REPORT, "").verdict(&["--device", "/nonexistent"]).expect_exit(1);
    assert!(output.stderr.contains("cannot measure the device below /nonexistent"), "{output:?}");
    testing::run(&mut crate::rowlock(&["pipeline", "verdict", "--", "/nonexistent/program"])).expect_exit(127);
}
