//! `rowlock run --trace`: trace files are complete or do not exist.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use testing::Child;
use testing::perfetto::{self, Trace};

use crate::commands::CREW;

/// A scenario with one repetition.
fn crew() -> String {
    CREW.replace("repeat = 2", "repeat = 1")
}

/// A temporary folder in which the command runs.
struct Place(tempfile::TempDir);

impl Place {
    fn with(content: &str) -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        fs::write(place.path("crew.toml"), content).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = crate::rowlock(&[&["run", "crew.toml", "--out", "out"], arguments].concat());
        command.current_dir(self.0.path());
        command
    }

    /// Runs the command and returns its standard error.
    #[track_caller]
    fn run(&self, code: i32, arguments: &[&str]) -> String {
        testing::run(&mut self.command(arguments)).expect_exit(code).stderr
    }

    fn trace(&self, name: &str) -> Trace {
        perfetto::read(&fs::read(self.path(name)).unwrap()).unwrap()
    }

    /// The files except the scenario and the results.
    fn files(&self) -> Vec<String> {
        let names = fs::read_dir(self.0.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name != "crew.toml" && name != "out").collect();
        names.sort();
        names
    }
}

#[test]
fn a_trace_is_of_another_run_of_the_first_arm_and_depends_only_on_the_seed() {
    let place = Place::with(&crew());
    let messages = place.run(0, &["--trace", "a.pftrace"]);
    assert!(
        messages.contains("first arm, crew.waiting = always-block") && messages.contains("a.pftrace"),
        "{messages}"
    );
    assert_eq!(fs::read_to_string(place.path("out/runs.csv")).unwrap().lines().count(), 3, "it does not count");
    let trace = place.trace("a.pftrace");
    assert!(trace.processes.values().any(|name| name == "crew"), "{:?}", trace.processes);
    let names: Vec<_> = trace.marks.iter().map(|mark| mark.name.as_str()).collect();
    assert!(names.contains(&"block") && !names.contains(&"spin") && names.contains(&"round 20"), "{names:?}");

    place.run(0, &["--trace", "b.pftrace"]);
    place.run(0, &["--trace", "c.pftrace", "--seed", "2"]);
    let [a, b, c] = ["a", "b", "c"].map(|name| fs::read(place.path(&format!("{name}.pftrace"))).unwrap());
    assert_eq!(a, b);
    assert_ne!(a, c);
    assert_eq!(place.files(), ["a.pftrace", "b.pftrace", "c.pftrace"]);
}

#[test]
fn a_trace_that_cannot_be_written_is_refused_before_anything_runs() {
    let place = Place::with(&crew());
    fs::create_dir(place.path("folder")).unwrap();
    for path in ["nowhere/x.pftrace", "folder", "/dev/full"] {
        let messages = place.run(2, &["--trace", path]);
        assert!(messages.contains("cannot write the trace") && messages.contains(path), "{messages}");
    }
    assert_eq!(place.files(), ["folder"]);
    assert!(!place.path("out").exists());
}

#[test]
fn a_machine_with_too_many_cpus_for_perfetto_is_refused_before_anything_runs() {
    let place = Place::with(&crew().replace("cpus = 2", "cpus = 1025"));
    assert!(place.run(2, &["--trace", "x.pftrace"]).contains("1024"));
    assert_eq!(place.files(), [""; 0]);
}

#[test]
fn a_disk_that_becomes_full_is_an_error_and_leaves_no_trace() {
    let place = Place::with(&crew().replace("rounds = 20", "rounds = 6000"));
    // A limit of one megabyte for files, which only the trace exceeds.
    let rowlock = place.command(&["--trace", "x.pftrace"]);
    let mut shell = testing::command("sh");
    let limited = "trap '' XFSZ; ulimit -f 2000; exec \"$0\" \"$@\"";
    shell.args(["-c", limited]).arg(rowlock.get_program()).args(rowlock.get_args());
    let messages = testing::run(shell.current_dir(place.path(""))).expect_exit(1).stderr;
    assert!(messages.contains("cannot write the trace x.pftrace"), "{messages}");
    assert_eq!(place.files(), [""; 0]);
    assert_eq!(fs::read_to_string(place.path("out/runs.csv")).unwrap().lines().count(), 3, "results are kept");
}

#[test]
fn an_interrupted_trace_leaves_no_file_but_keeps_the_results() {
    // The first arm, which is traced, takes much longer than the other.
    let long = crew().replace("rounds = 20", "rounds = 300_000");
    let place = Place::with(&long.replace("[\"always-block\", \"2cs+\"]", "[\"always-block\"]"));
    let child = Child::start(&mut place.command(&["--trace", "x.pftrace"]));
    // The trace has no name yet.
    let (descriptors, folder) = (format!("/proc/{}/fd", child.id()), place.path(""));
    let is_trace = |path: &Path| {
        fs::read_link(path).is_ok_and(|file| file.starts_with(&folder) && file.to_string_lossy().ends_with("(deleted)"))
            && fs::metadata(path).is_ok_and(|about| about.len() > 0)
    };
    let has_begun = || fs::read_dir(&descriptors).into_iter().flatten().flatten().any(|entry| is_trace(&entry.path()));
    let messages = crate::interrupted_when(has_begun, child, 2).expect_exit(130).stderr;
    assert!(messages.contains("there is no trace x.pftrace"), "{messages}");
    assert_eq!(place.files(), [""; 0]);
    assert_eq!(fs::read_to_string(place.path("out/runs.csv")).unwrap().lines().count(), 2);
}

#[test]
fn the_traces_of_both_worlds_have_the_same_threads() {
    let here = crew().replace("cpus = 2\nscheduler = \"rr\"", "like = \"host\"");
    let place = Place::with(&here);
    let messages = place.run(0, &["--trace", "x.pftrace"]);
    assert!(messages.contains("sim world") && messages.contains("host world"), "{messages}");
    assert_eq!(place.files(), ["x.host.pftrace", "x.sim.pftrace"]);
    let [host, sim] = ["x.host.pftrace", "x.sim.pftrace"].map(|name| place.trace(name));
    let crew = |trace: &Trace| {
        let names = trace.threads.values().map(|(_, name)| name.clone());
        names.filter(|name| name.starts_with("crew/")).collect::<Vec<_>>()
    };
    assert_eq!(crew(&host), crew(&sim));
    // The same rounds. On the host, every thread has an activity from beginning to end.
    for trace in [&host, &sim] {
        assert!(trace.marks.iter().any(|mark| mark.name == "round 20"));
        assert!(!trace.marks.iter().any(|mark| mark.name == "round 21"));
        let count = |kind| trace.marks.iter().filter(|mark| mark.kind == kind).count();
        assert_eq!(count(1), count(2), "slices that begin end");
        assert_eq!(trace.marks.iter().filter(|mark| mark.name == "ends").count(), 3);
        for switches in trace.switches.values() {
            assert!(switches.is_sorted_by_key(|switch| switch.at));
        }
    }
}
