//! Ctrl-C and SIGTERM end a sort in order, wherever it waits.

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use super::place::{Done, Place, records};

/// More than a pipe holds, so that what is fed has been read in part.
const MORE_THAN_A_PIPE: usize = 1 << 20;

fn signal(child: &Child, name: &str) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{name} {}", child.id())]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn a_sort_that_waits_for_more_ends_and_leaves_the_target_as_it_was() {
    for (name, code) in [("INT", 130), ("TERM", 143)] {
        for memory in ["256KiB", "16MiB"] {
            let place = Place::new();
            fs::write(place.path("out"), "as it was").unwrap();
            let arguments = ["-", "out", "--record", "20", "--memory", memory];
            let mut child = place.command(&arguments).stdin(Stdio::piped()).spawn().unwrap();
            let mut stdin = child.stdin.take().unwrap();
            stdin.write_all(&records(60_000, 1)[..MORE_THAN_A_PIPE]).unwrap();
            signal(&child, name);
            let done = Done::of(child).exits(code);
            // Whoever writes to it is there until the end.
            drop(stdin);
            assert!(done.stderr.contains("interrupted"), "{}", done.stderr);
            assert_eq!(fs::read_to_string(place.path("out")).unwrap(), "as it was");
            assert_eq!(place.left(), ["out"]);
        }
    }
}

#[test]
fn a_sort_whose_output_nobody_reads_on_ends_all_the_same() {
    let place = Place::new();
    fs::write(place.path("in"), records(60_000, 2)).unwrap();
    let mut child = place.command(&["in", "-", "--record", "20", "--memory", "256KiB"]).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 20]).unwrap();
    signal(&child, "TERM");
    Done::of(child).exits(143);
    drop(stdout);
    assert_eq!(place.left(), ["in"]);
}

#[test]
fn a_sort_whose_output_is_closed_ends_quietly_as_if_by_the_signal_for_that() {
    for memory in ["256KiB", "16MiB"] {
        let place = Place::new();
        fs::write(place.path("in"), records(60_000, 3)).unwrap();
        let mut child = place.command(&["in", "-", "--record", "20", "--memory", memory]).spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut [0; 20]).unwrap();
        drop(stdout);
        let done = Done::of(child).exits(141);
        assert_eq!(done.stderr, "");
        assert_eq!(place.left(), ["in"]);
    }
}
