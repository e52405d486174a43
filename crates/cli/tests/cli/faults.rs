//! A system call fails in each command: it succeeds anyway, or says what is wrong. Files that exist
//! stay as they were or are replaced completely, and nothing else is left.

use std::collections::BTreeMap;
use std::path::PathBuf;

use testing::faults::{CLASSES, Class, Ended, Fault, run_with_fault};

use crate::commands::{COMMANDS, Place, Subject};

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
        let place = Place::new();
        let before = place.files();
        let stdout = testing::run(&mut place.command(subject.line)).expect_exit(0).bytes;
        Expected { subject, before, complete: place.files(), stdout }
    }
}

/// Lets one call fail. Returns whether there were so many calls.
fn fail(expected: &Expected, class: &Class, fault: Fault, nth: u64) -> bool {
    let Expected { subject, before, complete, stdout } = expected;
    let place = Place::new();
    let Ended { output, has_failed_call, has_left_processes } =
        run_with_fault(&mut place.command(subject.line), class, fault, nth).unwrap();
    let what = format!("{} call {nth} with {fault:?}", class.name);
    let code = output.status.code();
    let says_why = code == Some(0) || !output.stderr.trim().is_empty();
    let has_printed = code != Some(0) || !subject.is_function || output.bytes == *stdout;
    let is_code = match fault.is_harmless() {
        true => code == Some(0),
        // 126: the program cannot be executed.
        false => matches!(code, Some(0..=2)) || code == Some(126) && subject.line.contains("./program"),
    };
    let is_right = is_code && has_printed && says_why && !output.stderr.contains("panicked");
    let output = output.expect(is_right, &format!("success or a sentence after {what}"));
    let after = place.files();
    // A folder of results keeps each run as soon as it ends.
    for (name, bytes) in after.iter().filter(|(name, _)| !name.starts_with("results")) {
        let is_expected = complete.contains_key(name);
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
    for subject in &COMMANDS {
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
    let (expected, open) = (Expected::of(&COMMANDS[0]), &CLASSES[0]);
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
        let (subject, class) = (&COMMANDS[draw(COMMANDS.len())], &CLASSES[draw(CLASSES.len())]);
        let (fault, expected) = (class.faults[draw(class.faults.len())], Expected::of(subject));
        for nth in 1.. {
            if !fail(&expected, class, fault, nth) {
                break;
            }
        }
    });
}
