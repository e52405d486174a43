//! Ctrl-C and SIGTERM end a sort in an orderly way, wherever it waits.

use std::fs;
use std::io::{Read, Write};
use std::process::Stdio;

use testing::Child;

use super::place::{Place, ended, records};

/// More than a pipe holds, so part of the input has been read.
const MORE_THAN_A_PIPE: usize = 1 << 20;

#[test]
fn a_signal_ends_a_sort_that_waits_for_input_and_the_target_stays_unchanged() {
    for (signal, code) in [(2, 130), (15, 143)] {
        for memory in ["256KiB", "16MiB"] {
            let place = Place::new();
            fs::write(place.path("out"), "as it was").unwrap();
            let arguments = ["-", "out", "--record", "20", "--memory", memory];
            let mut child = Child::start(place.command(&arguments).stdin(Stdio::piped()));
            let mut stdin = child.process().stdin.take().unwrap();
            stdin.write_all(&records(60_000, 1)[..MORE_THAN_A_PIPE]).unwrap();
            child.send(signal);
            let done = ended(child).expect_exit(code);
            // The writer exists until the end.
            drop(stdin);
            assert!(done.stderr.contains("interrupted"), "{}", done.stderr);
            assert_eq!(fs::read_to_string(place.path("out")).unwrap(), "as it was");
            assert_eq!(place.left(), ["out"]);
        }
    }
}

#[test]
fn a_signal_ends_a_sort_whose_output_is_not_read() {
    let place = Place::new();
    fs::write(place.path("in"), records(60_000, 2)).unwrap();
    let mut child =
        Child::start_into(&mut place.command(&["in", "-", "--record", "20", "--memory", "256KiB"]), Stdio::piped());
    let mut stdout = child.process().stdout.take().unwrap();
    stdout.read_exact(&mut [0; 20]).unwrap();
    child.send(15);
    ended(child).expect_exit(143);
    drop(stdout);
    assert_eq!(place.left(), ["in"]);
}

#[test]
fn a_sort_whose_output_is_closed_ends_with_the_exit_code_of_sigpipe() {
    for memory in ["256KiB", "16MiB"] {
        let place = Place::new();
        fs::write(place.path("in"), records(60_000, 3)).unwrap();
        let mut child =
            Child::start_into(&mut place.command(&["in", "-", "--record", "20", "--memory", memory]), Stdio::piped());
        let mut stdout = child.process().stdout.take().unwrap();
        stdout.read_exact(&mut [0; 20]).unwrap();
        drop(stdout);
        let done = ended(child).expect_exit(141);
        assert_eq!(done.stderr, "");
        assert_eq!(place.left(), ["in"]);
    }
}
