//! `rowlock pipeline explore`, with a shell script in place of a program built on the crate.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use testing::Output;

/// The report of a program with three stages.
const REPORT: &str = r#"{"schema_version":1,"program":"fake","structure":"","pipelines":[{"name":"fake","buffers":8,"block":65536}],"stages":[
{"name":"read","pipeline":"fake","kind":"io","place":"threads","can_fork":false,"copies":1,"is_fused":false,"repeated":REPEATED},
{"name":"work","pipeline":"fake","kind":"compute","place":"workers","can_fork":true,"copies":2,"is_fused":false},
{"name":"send","pipeline":"fake","kind":"communicate","place":"threads","can_fork":false,"copies":1,"is_fused":false,"repeated":0}]}"#;

/// A temporary folder with a program that records how it was run and then runs shell commands.
struct Place(tempfile::TempDir);

impl Place {
    fn with(does: &str) -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        let (report, runs) = (REPORT.replace('\n', " "), place.path("runs").display().to_string());
        let script = format!(
            "#!/bin/sh\n\
             repeated=0; case \"$ROWLOCK_PIPELINE\" in *double=io*) repeated=3;; esac\n\
             [ -z \"$ROWLOCK_PIPELINE_REPORT\" ] || echo '{report}' | sed \"s/REPEATED/$repeated/\" >> \"$ROWLOCK_PIPELINE_REPORT\"\n\
             echo \"${{ROWLOCK_PIPELINE_REPORT:+reported }}$1 [$ROWLOCK_PIPELINE]\" >> {runs}\n\
             {does}\n"
        );
        place.write("program", &script);
        place
    }

    fn write(&self, name: &str, script: &str) {
        fs::write(self.path(name), script).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, options: &[&str]) -> Command {
        crate::rowlock(&[&["pipeline", "explore"], options].concat())
    }

    /// Explores the program.
    fn explore(&self, options: &[&str]) -> Output {
        testing::run(self.command(options).arg("--").arg(self.path("program")).arg("argument"))
    }

    /// Explores the program and parses the JSON output.
    fn json(&self, options: &[&str]) -> Value {
        let output = self.explore(&[options, &["--format", "json"]].concat()).expect_success();
        crate::json(&output)
    }

    /// How the program was run, in order.
    fn runs(&self) -> Vec<String> {
        fs::read_to_string(self.path("runs")).unwrap_or_default().lines().map(str::to_owned).collect()
    }
}

/// The result of a variant.
fn result_of<'a>(report: &'a Value, structure: &str) -> &'a str {
    let variants = report["variants"].as_array().unwrap();
    let found = variants.iter().find(|variant| variant["structure"] == structure);
    found.unwrap_or_else(|| panic!("no {structure} in {report}"))["fate"].as_str().unwrap()
}

#[test]
fn each_block_runs_every_suggested_variant_and_the_program_s_own_structure() {
    let place = Place::with("echo same");
    let report = place.json(&["--runs", "2"]);
    let runs = place.runs();
    assert_eq!(runs[0], "reported argument []");
    assert!(runs[1..].iter().all(|run| run.starts_with("argument [")), "{runs:?}");
    let variants = report["heats"][0]["variants"].as_u64().unwrap() as usize;
    let block: Vec<&String> = runs[1..].iter().take(variants + 1).collect();
    for structure in
        ["", "fuse=read+work", "fork=work*1", "buffers=16", "block=16KiB", "threads=each", "priority=dynamic-up"]
    {
        assert_eq!(
            block.iter().filter(|run| **run == &format!("argument [{structure}]")).count(),
            1,
            "{structure}: {block:?}"
        );
    }
    assert_eq!(
        (&report["end"], &report["planned_pairs"], &report["command"][1]),
        (&"complete".into(), &2.into(), &"argument".into())
    );
    assert_eq!(report["pipelines"][0]["stages"][1]["can_fork"], true);
}

#[test]
fn variants_that_fail_or_print_something_else_are_left_out() {
    let does = "case \"$ROWLOCK_PIPELINE\" in\n\
                *threads=each*) echo first >&2; echo 'no more threads' >&2; exit 3;;\n\
                *block=16KiB*) echo other;;\n\
                *) echo same;; esac";
    let place = Place::with(does);
    let report = place.json(&["--runs", "2", "--only", "threads,block"]);
    assert_eq!((result_of(&report, "threads=each"), result_of(&report, "block=16KiB")), ("failed", "other_output"));
    let told = place.explore(&["--runs", "2", "--only", "threads,block"]);
    let text = told.stdout.replace("\n  ", " ");
    assert!(
        text.contains(
            "Excluded: `threads=each`, because the program failed: exit status: 3, and last said: no more threads"
        ),
        "{text}"
    );
    assert!(
        text.contains("Pipeline `fake`, 8 buffers of 64KiB: read (io), work (compute, 2 copies, can be forked), send"),
        "{text}"
    );
}

#[test]
fn requested_structures_are_tried_alone_or_with_others() {
    let place = Place::with("");
    let structures = |options: &[&str]| {
        let report = place.json(&[&["--runs", "2"], options].concat());
        let variants = report["variants"].as_array().unwrap().clone();
        let structure = |variant: &Value| variant["structure"].as_str().unwrap().to_owned();
        let mut structures: Vec<String> = variants.iter().map(structure).filter(|text| !text.contains(' ')).collect();
        structures.sort_unstable();
        structures
    };
    assert_eq!(structures(&["--try", "fork=work*3,5"]), ["fork=work*3", "fork=work*5"]);
    assert_eq!(structures(&["--try", "nice=read:5"]), ["nice=read:5"]);
    assert_eq!(structures(&["--try", "fork=work*3", "--only", "threads"]), ["fork=work*3", "threads=each"]);
}

#[test]
fn the_environment_applies_to_all_variants() {
    let place = Place::with("");
    let mut command = place.command(&["--runs", "2", "--try", "fork=work*3"]);
    command.env("ROWLOCK_PIPELINE", "workers=2 fork=work*1").env("ROWLOCK_PIPELINE_TRACE", "/dev/null");
    testing::run(command.arg(place.path("program"))).expect_success();
    let runs = place.runs();
    assert_eq!(runs[0], "reported  [workers=2 fork=work*1]");
    assert_eq!(runs.iter().filter(|run| *run == " [workers=2 fork=work*3]").count(), 2);
    assert_eq!(runs.len(), 5);
}

#[test]
fn a_command_can_run_before_each_run() {
    let place = Place::with("");
    let prepare = format!("echo prepared >> {}", place.path("runs").display());
    place.json(&["--runs", "2", "--try", "buffers=2", "--prepare", &prepare]);
    let runs = place.runs();
    assert_eq!(runs.len(), 10);
    assert!(runs.chunks(2).all(|two| two[0] == "prepared" && two[1] != "prepared"), "{runs:?}");
    let failed = place.explore(&["--prepare", "echo no right >&2; exit 4"]).expect_exit(1);
    let said = "the command before each run failed: exit status: 4, and last said: no right";
    assert!(failed.stderr.contains(said), "{failed:?}");
}

#[test]
fn a_program_that_is_not_built_on_the_crate_is_distinguished_from_one_that_fails() {
    let place = Place::with("exit 5");
    place.write("stranger", "#!/bin/sh\n");
    let stranger = testing::run(place.command(&[]).arg(place.path("stranger")));
    assert_eq!((stranger.status.code(), stranger.stdout.as_str()), (Some(1), ""));
    assert!(stranger.stderr.contains("it is not built on the crate rowlock-pipeline"), "{stranger:?}");
    let failing = place.explore(&[]);
    assert_eq!((failing.status.code(), failing.stdout.as_str()), (Some(1), ""));
    assert!(failing.stderr.contains("the program fails: exit status: 5"), "{failing:?}");
    testing::run(place.command(&[]).arg("rowlock-has-no-such-program")).expect_exit(127);
}

#[test]
fn impossible_variants_are_refused_before_any_measurement() {
    let place = Place::with("");
    for (options, said) in [
        (&["--try", "bufers=3"][..], "did you mean `buffers`?"),
        (&["--try", ""], "it is empty"),
        (&["--try", "fork=wrok*3"], "there is no stage `wrok` (did you mean `work`?); the stages are read, work, send"),
        (&["--only", "forks"], "did you mean `fork`?"),
        (&["--time-limit", "10"], "write a time as \"90 s\", \"10 min\" or \"1 h\""),
        (&["--double", "--try", "buffers=3"], "cannot be used with"),
    ] {
        let refused = place.explore(options).expect_exit(2);
        assert!(refused.stderr.contains(said), "{options:?}: {}", refused.stderr);
    }
    let base = testing::run(place.command(&[]).env("ROWLOCK_PIPELINE", "x").arg(place.path("program"))).expect_exit(2);
    assert!(base.stderr.contains("ROWLOCK_PIPELINE in the environment"), "{base:?}");
    // The one run that reports the stages.
    assert_eq!(place.runs().len(), 1);
}

#[test]
fn doubling_runs_the_stages_that_can_repeat_and_names_the_others() {
    let place = Place::with("");
    let report = place.json(&["--runs", "3", "--double"]);
    let [io, communicate] = &report["doubled"].as_array().unwrap()[..] else { panic!("{report}") };
    assert_eq!((&io["kind"], io["pairs_ns"].as_array().unwrap().len()), (&"io".into(), 3));
    assert_eq!((&communicate["kind"], &communicate["slowdown"]), (&"communicate".into(), &Value::Null));
    assert!(communicate["why_not"].as_str().unwrap().contains("no stage of this kind can repeat its work"));
    let runs = place.runs();
    assert_eq!(
        runs[..3],
        ["reported argument []", "reported argument [double=io]", "reported argument [double=communicate]"]
    );
    assert_eq!(runs[3..].iter().filter(|run| *run == "argument [double=io]").count(), 3);
    assert_eq!(runs.len(), 9);
}

#[test]
fn an_interrupted_exploration_prints_its_results() {
    // In the fifteenth run the program interrupts the parent of its keeper and waits to be ended.
    let does = "[ $(wc -l < \"$(dirname \"$0\")/runs\") -lt 15 ] || { kill -INT $(cut -d ' ' -f 4 /proc/$PPID/stat); exec sleep 600; }";
    for (format, told) in [("text", "It was interrupted."), ("json", "\"end\": \"interrupted\"")] {
        let place = Place::with(does);
        let output = place.explore(&["--runs", "2", "--only", "buffers,block", "--format", format]).expect_exit(130);
        assert!(output.stdout.contains(told), "{output:?}");
        assert!(output.stderr.contains("interrupted: 14 runs were made"), "{output:?}");
        assert_eq!(place.runs().len(), 15);
    }
}
