//! A system call fails in each command: it succeeds anyway, or says what is wrong. Files that exist
//! stay as they were or are replaced completely, and nothing else is left.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use testing::faults::{CLASSES, Class, Ended, Fault, run_with_fault};

use crate::sort::place::records;

/// A command, and its files.
struct Subject {
    arguments: &'static [&'static str],
    /// Whether the bytes that it writes depend on its arguments only.
    is_function: bool,
    /// The highest exit code of a failure.
    highest_code: i32,
}

/// A command whose output depends on its arguments only.
const fn function(arguments: &'static [&'static str]) -> Subject {
    Subject { arguments, is_function: true, highest_code: 2 }
}

/// A command that measures.
const fn measurement(arguments: &'static [&'static str]) -> Subject {
    Subject { arguments, is_function: false, highest_code: 2 }
}

/// A command that starts a program: 126 says that it cannot be executed.
const fn start(arguments: &'static [&'static str]) -> Subject {
    Subject { arguments, is_function: false, highest_code: 126 }
}

const SORT: &[&str] = &["sort", "in", "out", "--record", "20", "--key", "0:4", "--memory", "256KiB", "--verify"];

const SUBJECTS: [Subject; 12] = [
    function(SORT),
    function(&["sort", "in", "out", "--record", "20", "--algorithm", "columnsort", "--memory", "2MiB"]),
    function(&["sort", "in", "-", "--record", "20", "--memory", "256KiB", "--quiet"]),
    function(&["check", "crew.toml"]),
    function(&["export", "crew.toml", "--to", "ftrace", "--out", "out"]),
    function(&["import", "crew.json", "--out", "out"]),
    function(&["regress", "runs.csv", "--on", "y", "--from", "x"]),
    function(&["policies"]),
    measurement(&["calibrate"]),
    measurement(&["run", "crew.toml", "--world", "sim", "--out", "results"]),
    start(&["exec", "--json", "out", "--", "true"]),
    start(&["pipeline", "verdict", "--json", "out", "--", "ROWLOCK", "sort", "in", "sorted"]),
];

const CREW: &str = r#"
title = "A crew"

[machine]
cpus = 2
scheduler = "rr"

[[job]]
name = "crew"
kind = "barrier"
threads = 2
compute = { mean = "50 us", sd = "5 us" }
rounds = 5
waiting = "cs"
"#;

/// The files of a folder and those below it.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), fs::read(path).unwrap());
        }
    }
    found
}

/// A subject in its folder.
struct Trial {
    folder: tempfile::TempDir,
    subject: &'static Subject,
}

impl Trial {
    fn new(subject: &'static Subject) -> Trial {
        let trial = Trial { folder: tempfile::tempdir().unwrap(), subject };
        let write = |name: &str, bytes: &[u8]| fs::write(trial.folder.path().join(name), bytes).unwrap();
        write("in", &records(6_000, 3));
        write("out", b"as it was");
        write("crew.toml", CREW.as_bytes());
        write("crew.json", br#"{ "tasks": { "crew": { "instance": 2, "loop": 5, "run": 50, "sleep": 50 } } }"#);
        write("runs.csv", b"x,y\n1,2\n2,3\n3,5\n4,4\n5,7\n");
        trial
    }

    fn command(&self) -> std::process::Command {
        let program = env!("CARGO_BIN_EXE_rowlock");
        let arguments: Vec<&str> =
            self.subject.arguments.iter().map(|word| if *word == "ROWLOCK" { program } else { word }).collect();
        let mut command = crate::rowlock(&arguments);
        command.current_dir(self.folder.path()).env("TMPDIR", self.folder.path());
        command
    }

    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let names = files(self.folder.path()).into_iter();
        names.map(|(path, bytes)| (path.strip_prefix(self.folder.path()).unwrap().to_owned(), bytes)).collect()
    }
}

/// Whether the kernel lets this process answer system calls of a child.
fn can_inject() -> bool {
    let probe = run_with_fault(&mut crate::rowlock(&["policies"]), &CLASSES[0], CLASSES[0].faults[0], u64::MAX);
    match probe {
        Ok(_) => true,
        Err(why) => {
            testing::skip_part(
                "ROWLOCK_REQUIRE_CAGE",
                &format!("no system call can be answered: {why}"),
                "run as root",
            );
            false
        }
    }
}

/// A subject, its files before and after it succeeds, and what it prints.
struct Expected {
    subject: &'static Subject,
    before: BTreeMap<PathBuf, Vec<u8>>,
    complete: BTreeMap<PathBuf, Vec<u8>>,
    stdout: Vec<u8>,
}

impl Expected {
    fn of(subject: &'static Subject) -> Expected {
        let trial = Trial::new(subject);
        let before = trial.files();
        let stdout = testing::run(&mut trial.command()).expect_exit(0).bytes;
        Expected { subject, before, complete: trial.files(), stdout }
    }
}

/// Lets one call fail. Returns whether there were so many calls.
fn fail(expected: &Expected, class: &Class, fault: Fault, nth: u64) -> bool {
    let Expected { subject, before, complete, stdout } = expected;
    let trial = Trial::new(subject);
    let Ended { output, has_failed_call, has_left_processes } =
        run_with_fault(&mut trial.command(), class, fault, nth).unwrap();
    let what = format!("{} call {nth} with {fault:?}", class.name);
    let code = output.status.code();
    let says_why = code == Some(0) || !output.stderr.trim().is_empty();
    let has_printed = code != Some(0) || !subject.is_function || output.bytes == *stdout;
    let is_code = match fault.is_harmless() {
        true => code == Some(0),
        false => matches!(code, Some(0..=2)) || code == Some(subject.highest_code),
    };
    let is_right = is_code && has_printed && says_why && !output.stderr.contains("panicked");
    let output = output.expect(is_right, &format!("success or a sentence after {what}"));
    let after = trial.files();
    for (name, bytes) in &after {
        let is_expected = complete.contains_key(name) || name.starts_with("results");
        let is_intact = before.get(name) == Some(bytes) || complete.get(name) == Some(bytes) || !subject.is_function;
        let is_new = code == Some(0) && complete.get(name) != Some(bytes) && subject.is_function;
        let holds = is_expected && is_intact && !is_new;
        output.clone().expect(holds, &format!("no other file and no damage in {} after {what}", name.display()));
    }
    for name in before.keys() {
        output.clone().expect(after.contains_key(name), &format!("{} after {what}", name.display()));
    }
    output.expect(!has_left_processes, &format!("no process after {what}"));
    has_failed_call
}

#[test]
fn every_command_survives_some_failed_system_calls() {
    if !can_inject() {
        return;
    }
    let mut failed = 0;
    for subject in &SUBJECTS {
        let expected = Expected::of(subject);
        for class in &CLASSES {
            failed += u64::from(fail(&expected, class, class.faults[0], 1 + failed % 7));
        }
    }
    assert!(failed > 30, "only {failed} calls failed");
}

#[test]
fn opening_a_file_is_repeated_after_a_signal() {
    if !can_inject() {
        return;
    }
    let (expected, open) = (Expected::of(&SUBJECTS[0]), &CLASSES[0]);
    let interrupted = open.faults.iter().find(|fault| fault.is_harmless()).unwrap();
    assert!((1..20).filter(|&nth| fail(&expected, open, *interrupted, nth)).count() > 5);
}

#[test]
#[ignore = "takes a while; ./soak runs it"]
fn every_command_survives_any_failed_system_call() {
    if !can_inject() {
        return;
    }
    testing::for_each_seed(10, |seed| {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut draw = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as usize % below
        };
        let (subject, class) = (&SUBJECTS[draw(SUBJECTS.len())], &CLASSES[draw(CLASSES.len())]);
        let (fault, expected) = (class.faults[draw(class.faults.len())], Expected::of(subject));
        for nth in 1.. {
            if !fail(&expected, class, fault, nth) {
                break;
            }
        }
    });
}
