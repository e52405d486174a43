//! A system call of each command, or of a process that it starts, fails: the command succeeds
//! anyway, or says what is wrong. Files that exist stay as they were or are replaced completely,
//! and nothing else is left.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use testing::faults::{
    CLASSES, Counts, Ended, Fault, Injection, SIGNALS, SIGNALS_OF_CHILDREN, Side, run_and_count, run_with_fault,
};
use testing::perfetto;

use crate::commands::{COMMANDS, Place, Subject, errors_are_explained};
use crate::kills::Draws;

/// How long a machine under load may take to remove everything.
const LIMIT: Duration = Duration::from_secs(30);

/// Whether the kernel lets this process answer system calls of a child.
fn can_inject() -> bool {
    match run_and_count(&mut crate::rowlock(&["policies"])) {
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

/// A command, its files before and after it succeeds, what it prints, and how many calls it makes.
struct Expected {
    subject: &'static Subject,
    before: BTreeMap<PathBuf, Vec<u8>>,
    complete: BTreeMap<PathBuf, Vec<u8>>,
    stdout: Vec<u8>,
    counts: Counts,
}

impl Expected {
    fn of(subject: &'static Subject) -> Expected {
        let place = Place::new();
        let before = place.files();
        let (output, counts) = run_and_count(&mut place.command(subject.line)).unwrap();
        Expected { subject, before, complete: place.files(), stdout: output.expect_success().bytes, counts }
    }

    /// The number of calls of a class, given by its index.
    fn count(&self, side: Side, class: usize) -> u64 {
        self.counts[side as usize][class]
    }

    /// Draws one of these calls, of which there must be some.
    fn draw(&self, (side, class): (Side, usize), fault: Fault, draws: &mut Draws) -> Injection {
        let nth = 1 + draws.below(self.count(side, class) as usize) as u64;
        Injection { side, class: &CLASSES[class], fault, nth }
    }

    /// Whether a file may have this content after a failure.
    fn allows(&self, name: &Path, bytes: &Vec<u8>) -> bool {
        let is_json = || serde_json::from_slice::<serde_json::Value>(bytes).is_ok();
        let is_complete = match name.to_str() {
            // A folder of results keeps each run as soon as it ends.
            _ if name.starts_with("results") => true,
            _ if name.starts_with("cache") => is_json(),
            Some("out") if !self.subject.is_function => is_json(),
            Some("trace") => perfetto::read(bytes).is_ok(),
            _ => self.complete.get(name) == Some(bytes),
        };
        is_complete || self.before.get(name) == Some(bytes)
    }
}

/// The classes of calls on both sides.
fn classes() -> impl Iterator<Item = (Side, usize)> {
    [Side::Command, Side::Children].into_iter().flat_map(|side| (0..CLASSES.len()).map(move |class| (side, class)))
}

/// The failures of a class of calls.
fn faults(side: Side, class: usize) -> Vec<Fault> {
    let signals = if side == Side::Command { &SIGNALS[..] } else { &SIGNALS_OF_CHILDREN };
    // One of the signals for each class: they are many.
    CLASSES[class].faults.iter().chain(signals.get(class % signals.len())).copied().collect()
}

/// Whether a command may end like this.
fn is_orderly(subject: &Subject, Injection { fault, .. }: Injection, ended: &Ended) -> bool {
    let status = ended.output.status;
    // How a program ends that fails is its own affair.
    if status.success() || ended.has_failed_elsewhere {
        return true;
    }
    if fault.is_harmless() {
        return false;
    }
    let is_by = |signal: i32| status.signal() == Some(signal) || status.code() == Some(128 + signal);
    let has_reason = !ended.output.stderr.trim().is_empty() && errors_are_explained(&ended.output.stderr);
    match status.code() {
        _ if matches!(fault, Fault::Signal(signal) if is_by(signal)) => true,
        Some(1 | 2) => has_reason,
        Some(126 | 127) => has_reason && subject.line.contains("./program"),
        _ => false,
    }
}

/// Lets a call fail. Returns whether there were so many calls.
fn fail(expected: &Expected, injection: Injection) -> bool {
    let Expected { subject, before, complete, stdout, .. } = expected;
    let place = Place::new();
    let mut command = place.command(subject.line);
    let ended = run_with_fault(&mut command, injection).unwrap();
    let Injection { side, class, fault, nth } = injection;
    let what = format!("{} call {nth} of {side:?} with {fault:?}", class.name);
    let is_orderly = is_orderly(subject, injection, &ended);
    let Ended { output, process, has_failed_call, has_left_processes, .. } = ended;
    let has_succeeded = output.status.success();
    let has_printed = !has_succeeded || !subject.is_function || output.bytes == *stdout;
    let is_calm = output.killed.is_none() && !output.stderr.contains("panicked");
    let output = output.expect(is_orderly && is_calm && has_printed, &format!("success or a sentence after {what}"));
    let after = place.files();
    let required = if has_succeeded { complete } else { before };
    // Costs that vary too much are not cached. Without reports of its runs, a paper has no scenario
    // that predicts them, and says so.
    let has_no_prediction = output.stdout.contains("no prediction of the");
    let may_be_missing =
        |name: &Path| name.starts_with("cache") || has_no_prediction && name.to_string_lossy().contains("-pass-");
    for name in required.keys().filter(|name| !may_be_missing(name)) {
        output.clone().expect(after.contains_key(name), &format!("{} after {what}", name.display()));
    }
    for (name, bytes) in &after {
        let is_new = complete.get(name) == Some(bytes) || !has_succeeded || !subject.is_function;
        let holds = expected.allows(name, bytes) && (is_new || name.starts_with("results"));
        output.clone().expect(holds, &format!("no damage in {} after {what}", name.display()));
    }
    // It may have been killed, or kept from removing them.
    if matches!(fault, Fault::Signal(_)) || class.name == "name" {
        place.remove_abandoned(subject);
    }
    let start = Instant::now();
    let left = || [place.left(subject, process), place.temporary_files()].concat();
    while !left().is_empty() && start.elapsed() < LIMIT {
        std::thread::sleep(Duration::from_millis(5));
    }
    let left = left();
    let output = output.expect(left.is_empty(), &format!("no other file than {left:?} after {what}"));
    output.expect(!has_left_processes, &format!("no process after {what}"));
    has_failed_call
}

#[test]
fn every_failure_of_every_class_is_survived() {
    if !can_inject() {
        return;
    }
    let mut draws = Draws(1);
    let all: Vec<Expected> = COMMANDS.iter().map(Expected::of).collect();
    let mut failed = 0;
    for (side, class) in classes() {
        let users: Vec<&Expected> = all.iter().filter(|expected| expected.count(side, class) > 0).collect();
        for fault in faults(side, class).into_iter().filter(|_| !users.is_empty()) {
            // Long commands are drawn twice, and so less often.
            let drawn = users[draws.below(users.len())];
            let expected = if drawn.subject.is_long { users[draws.below(users.len())] } else { drawn };
            failed += u64::from(fail(expected, expected.draw((side, class), fault, &mut draws)));
        }
    }
    assert!(failed > 60, "only {failed} calls failed");
}

#[test]
fn opening_a_file_is_repeated_after_a_signal() {
    if !can_inject() {
        return;
    }
    let (expected, class) = (Expected::of(&COMMANDS[0]), &CLASSES[0]);
    let fault = *class.faults.iter().find(|fault| fault.is_harmless()).unwrap();
    let interrupted = |&nth: &u64| fail(&expected, Injection { side: Side::Command, class, fault, nth });
    assert!((1..20).filter(interrupted).count() > 5);
}

#[test]
fn every_call_of_some_classes_may_fail() {
    if !can_inject() {
        return;
    }
    for (line, side, class) in [
        ("sort in out --record 20 --algorithm", Side::Command, "write"),
        ("exec --report", Side::Children, "thread"),
        ("exec --report", Side::Children, "execute"),
        ("exec --compare", Side::Command, "signal"),
    ] {
        let expected = Expected::of(COMMANDS.iter().find(|subject| subject.line.starts_with(line)).unwrap());
        let class = CLASSES.iter().find(|known| known.name == class).unwrap();
        let fault = class.faults[0];
        let failed = (1..20).filter(|&nth| fail(&expected, Injection { side, class, fault, nth }));
        assert!(failed.count() > 0, "{line}: {}", class.name);
    }
}

#[test]
#[ignore = "takes a while; ./soak runs it"]
fn every_command_survives_any_failed_system_call() {
    if !can_inject() {
        return;
    }
    testing::for_each_seed(10, |seed| {
        let mut draws = Draws(seed);
        let expected = Expected::of(&COMMANDS[draws.below(COMMANDS.len())]);
        let used: Vec<_> = classes().filter(|&(side, class)| expected.count(side, class) > 0).collect();
        for _ in 0..20 {
            let (side, class) = used[draws.below(used.len())];
            let faults = faults(side, class);
            fail(&expected, expected.draw((side, class), faults[draws.below(faults.len())], &mut draws));
        }
    });
}
