//! SIGKILL at any moment: the target is unchanged or complete, and the next sort removes everything
//! that the killed one left.

use std::fs;
use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use testing::Child;

use super::place::{Place, ended, names, records};

const RECORDS: u32 = 60_000;

/// With this much memory there are several runs.
const HOW: [&str; 6] = ["--record", "20", "--key", "0:4", "--memory", "512KiB"];

/// A little more than all bytes that the sort reads and writes: 4 times the records, and what the
/// program reads to start.
const TRAFFIC: u64 = RECORDS as u64 * 20 * 5;

#[test]
fn a_killed_sort_leaves_the_target_unchanged_or_complete() {
    kill(10, 1);
}

#[test]
#[ignore = "takes a while; ./check --full runs it, and ./soak with other seeds"]
fn many_killed_sorts_leave_the_target_unchanged_or_complete() {
    testing::for_each_seed(5, |seed| kill(10, seed));
}

/// Kills this many sorts, at moments that are drawn from the seed.
fn kill(times: u64, seed: u64) {
    let place = Place::new();
    let bytes = records(RECORDS, 7);
    let mut expected: Vec<[u8; 20]> = bytes.as_chunks().0.to_vec();
    expected.sort_by_key(|record| record[..4].to_vec());
    let expected = expected.concat();
    fs::write(place.path("in"), &bytes).unwrap();
    // Multiples of the golden ratio are spread evenly between 0 and 1.
    let share = |number: u64| ((number + seed * 1000) as f64 * 0.618_033_988_749_895).fract();
    for number in 0..times {
        fs::write(place.path("out"), "as it was").unwrap();
        let child = match number % 2 {
            0 => kill_after_input(&place, &bytes[..(share(number) * bytes.len() as f64) as usize]),
            _ => kill_after_traffic(&place, (share(number) * TRAFFIC as f64) as u64),
        };
        let done = ended(child);
        // A sort that waits for more input cannot end before it is killed.
        let is_fed = number % 2 == 0;
        assert!(!is_fed || done.status.code().is_none(), "kill {number} of seed {seed} found it ended");
        let out = fs::read(place.path("out")).unwrap();
        assert!(out == b"as it was" || out == expected, "kill {number} of seed {seed} left {} bytes", out.len());
        assert!(out == expected || !done.status.success(), "kill {number} of seed {seed}: it said that it was done");

        place.rowlock(&[&["in", "out"], &HOW[..]].concat()).expect_exit(0);
        assert_eq!(names(place.temporary()), [""; 0], "after kill {number} of seed {seed}");
        assert_eq!(place.left(), ["in", "out"], "after kill {number} of seed {seed}");
        assert!(fs::read(place.path("out")).unwrap() == expected);
    }
}

/// A sort that is killed when it was given this many bytes, of which it has read all except those
/// in the pipe.
fn kill_after_input(place: &Place, bytes: &[u8]) -> Child {
    let mut child = Child::start(place.command(&[&["-", "out"], &HOW[..]].concat()).stdin(Stdio::piped()));
    child.process().stdin.as_mut().unwrap().write_all(bytes).unwrap();
    child.process().kill().unwrap();
    child
}

/// A sort that is killed when it has read and written this much, unless it has ended by then.
fn kill_after_traffic(place: &Place, traffic: u64) -> Child {
    let mut child = Child::start(&mut place.command(&[&["in", "out"], &HOW[..]].concat()));
    while child.process().try_wait().unwrap().is_none() && traffic_of(child.id()) < traffic {
        std::thread::sleep(Duration::from_micros(200));
    }
    child.process().kill().unwrap();
    child
}

/// How many bytes a process has read and written.
pub(super) fn traffic_of(process: u32) -> u64 {
    let counted = fs::read_to_string(format!("/proc/{process}/io")).unwrap_or_default();
    let numbers = counted.lines().filter_map(|line| {
        let (name, number) = line.split_once(": ")?;
        if matches!(name, "rchar" | "wchar") { number.parse::<u64>().ok() } else { None }
    });
    numbers.sum()
}
