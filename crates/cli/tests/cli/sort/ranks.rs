//! `rowlock sort --ranks N`: the ranks of a job sort as one process does, and no end of a rank
//! leaves anything.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use testing::{Child, Output};

use super::kills::traffic_of;
use super::place::{Place, records};
use crate::prun::ranks;

const PROGRAM: &str = env!("CARGO_BIN_EXE_rowlock");

/// Runs `rowlock sort` with these arguments in each rank of a job.
fn in_ranks(place: &Place, ranks: &str, arguments: &[&str]) -> Output {
    let sort = ["prun", "-n", ranks, "--", PROGRAM, "sort", "--ranks", ranks];
    place.done(&mut place.any_command(&[&sort, arguments].concat()))
}

/// Checks that one rank has said why, and that `out` is as it was.
#[track_caller]
fn expect_unchanged(place: &Place, output: &Output, message: &str) {
    let said: Vec<&str> = output.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    assert!(matches!(said[..], [said] if said.contains(message)), "{message}: {output}");
    assert_eq!(fs::read(place.path("out")).unwrap(), b"as it was");
    assert_eq!(place.left(), ["in", "out"]);
    place.table.expect_gone();
}

#[test]
fn the_output_of_ranks_is_that_of_one_process() {
    let place = Place::new();
    let (few, many) = (records(3, 1), records(30_000, 2));
    for (content, keys, memory) in [
        (&[][..], &["--key", "0:4"][..], "8MiB"),
        (&few, &["--key", "0:4:descending"], "8MiB"),
        (&many, &["--key", "0:4", "--variant", "compute-bound"], "8MiB"),
        (&many, &["--key", "1:2:unsigned-le", "--key", "12:8:float-be:descending"], "12MiB"),
        (&many, &["--key", "4:decimal", "--reverse"], "64MiB"),
    ] {
        fs::write(place.path("in"), content).unwrap();
        let keys = [&["in", "one", "--record", "20", "--algorithm", "columnsort"], keys].concat();
        place.rowlock(&keys).expect_exit(0);
        let one = fs::read(place.path("one")).unwrap();
        for ranks in ["1", "2", "3", "4"] {
            let arguments = [&["in", "out"], &keys[2..], &["--verify", "--memory", memory]].concat();
            // Within a job, and as one.
            for is_within in [true, false] {
                let done = match is_within {
                    true => in_ranks(&place, ranks, &arguments),
                    false => place.rowlock(&[&["--ranks", ranks], &arguments[..]].concat()),
                };
                let done = done.expect_exit(0);
                assert!(fs::read(place.path("out")).unwrap() == one, "{ranks} ranks, {arguments:?}");
                let records = content.len() / 20;
                assert!(done.stderr.starts_with(&format!("sorted {records} records: ")), "{done}");
                assert_eq!(done.stderr.matches("verified").count(), 1, "{done}");
                fs::remove_file(place.path("out")).unwrap();
            }
        }
        assert_eq!(place.left(), ["in", "one"]);
    }
    place.table.expect_gone();
}

#[test]
fn ranks_sort_a_file_into_itself_and_report_it_as_json() {
    let place = Place::new();
    let bytes = records(20_000, 3);
    fs::write(place.path("file"), &bytes).unwrap();
    let arguments = ["file", "file", "--record", "20", "--key", "0:4", "--memory", "16MiB", "--format", "json"];
    let report: Value = crate::json(&in_ranks(&place, "2", &arguments).expect_exit(0));
    assert_eq!((&report["ranks"], &report["algorithm"]), (&2.into(), &"columnsort".into()));
    assert_eq!((&report["records"], &report["written_records"]), (&20_000.into(), &20_000.into()));
    assert_eq!((&report["memory_bytes"], &report["passes"]), (&(16 << 20).into(), &3.into()));
    let mut expected: Vec<[u8; 20]> = bytes.as_chunks().0.to_vec();
    expected.sort_by_key(|record| record[..4].to_vec());
    assert!(fs::read(place.path("file")).unwrap() == expected.concat());
    assert_eq!(place.left(), ["file"]);
}

#[test]
fn sorts_that_ranks_cannot_do_are_refused_with_one_message() {
    let place = Place::new();
    fs::write(place.path("in"), records(100, 4)).unwrap();
    fs::write(place.path("out"), "as it was").unwrap();
    for (arguments, message) in [
        (&["in", "out"][..], "--ranks: it sorts records of one size; give the size with --record"),
        (&["in", "out", "--record", "20", "--algorithm", "merge"], "several ranks sort by columnsort"),
        (&["-", "out", "--record", "20"], "IN and OUT have to be files"),
        (&["in", "-", "--record", "20"], "IN and OUT have to be files"),
        (&["in", "out", "--record", "20", "--unique"], "cannot be used with '--unique'"),
        (&["in", "/dev/null", "--record", "20"], "/dev/null: several ranks write only files"),
        (&["/dev/zero", "out", "--record", "20"], "/dev/zero: several ranks read only files"),
        (&["missing", "out", "--record", "20"], "cannot read missing"),
        (&["in", "out", "--record", "30"], "its last 20 bytes are less than a record of 30"),
        (&["in", "out", "--record", "20", "--memory", "100K"], "102400 bytes of memory are too few"),
    ] {
        let done = place.rowlock(&[&["--ranks", "2"], arguments].concat()).expect_exit(2);
        expect_unchanged(&place, &done, message);
    }
    for ranks in ["0", "257", "two"] {
        let done = place.rowlock(&["--ranks", ranks, "in", "out", "--record", "20"]).expect_exit(2);
        expect_unchanged(&place, &done, "'--ranks <N>': write a whole number from 1 to 256");
    }
    // Also if each rank finds that out.
    for (arguments, message) in [
        (&["in", "out", "--record", "20", "--unique"][..], "cannot be used with '--unique'"),
        (&["in", "out", "--parallel=4"], "unexpected argument '--parallel'"),
        (&["in", "--record", "20"], "the following required arguments"),
    ] {
        expect_unchanged(&place, &in_ranks(&place, "4", arguments).expect_exit(2), message);
    }
    let three = ["prun", "-n", "2", "--", PROGRAM, "sort", "in", "out", "--record", "20", "--ranks", "3"];
    let done = place.done(&mut place.any_command(&three)).expect_exit(2);
    expect_unchanged(&place, &done, "--ranks 3: this job has 2 ranks");
}

#[test]
fn a_full_disk_of_one_rank_ends_all_and_keeps_the_output() {
    let place = Place::new();
    // More than its disk has, or so much that the disk is full later.
    for (count, size, problem) in [(200_000, "1m", "has room for 1.0 MiB"), (20_000, "360k", "is full")] {
        fs::write(place.path("in"), records(count, 5)).unwrap();
        fs::write(place.path("out"), "as it was").unwrap();
        for folder in ["whole", "tiny"] {
            fs::create_dir(place.path(folder)).unwrap();
        }
        let rank = |tmp: &str| format!("-n 1 -- \"$1\" sort in out --ranks 2 --record 20 --memory 16MiB --tmp {tmp}");
        let sort = format!("\"$1\" prun {} : {}", rank("whole"), rank("tiny"));
        let line = format!("mount -t tmpfs -o size={size} none tiny && {{ {sort}; code=$?; ls -A tiny; exit $code; }}");
        let done = ["-m", "-U -r -m"].into_iter().find_map(|how| {
            let run = |line: &str| {
                let mut unshare = testing::command("unshare");
                unshare.args(how.split(' ')).args(["sh", "-c", line, "sh"]);
                place.done(testing::through(unshare, &place.any_command(&[])).current_dir(place.path("")))
            };
            run("mount -t tmpfs none tiny").status.success().then(|| run(&line))
        });
        for folder in ["whole", "tiny"] {
            fs::remove_dir(place.path(folder)).unwrap();
        }
        let Some(done) = done else {
            return eprintln!("not tested: no permission to mount a file system, even in a new namespace");
        };
        let done = done.expect_exit(1);
        assert!(done.stdout.is_empty(), "{done}");
        expect_unchanged(&place, &done, "error: rank 1: cannot ");
        assert!(done.stderr.contains(&format!("tiny: its file system {problem}")), "{done}");
        assert!(done.stderr.contains("rowlock: rank 1 has failed (exit status: 1)"), "{done}");
    }
}

/// Less than each rank of these sorts reads and writes, in bytes.
const TRAFFIC: u64 = 2_000_000;

#[test]
fn killed_ranks_end_the_sort_and_leave_nothing() {
    testing::for_each_seed(1, |seed| kill(6, seed));
}

/// Kills a rank of this many sorts, or asks the job to end, at moments that are drawn from the
/// seed.
fn kill(times: u64, seed: u64) {
    let place = Place::new();
    let bytes = records(60_000, 6);
    fs::write(place.path("in"), &bytes).unwrap();
    let how = ["in", "out", "--record", "20", "--key", "0:4", "--memory", "16MiB", "--ranks", "3", "--quiet"];
    let mut expected: Vec<[u8; 20]> = bytes.as_chunks().0.to_vec();
    expected.sort_by_key(|record| record[..4].to_vec());
    let expected = expected.concat();
    for number in 0..times {
        fs::write(place.path("out"), "as it was").unwrap();
        let mut child = Child::start(&mut place.command(&how));
        let victim = |child: &Child| ranks(child.id()).get(number as usize % 3).copied();
        let traffic = (number + seed * 1000) * 618_034 % TRAFFIC;
        while victim(&child).is_none_or(|rank| traffic_of(rank) < traffic) {
            if child.process().try_wait().unwrap().is_some() {
                break;
            }
            sleep(Duration::from_micros(200));
        }
        let (victim, signal) = match victim(&child) {
            Some(rank) if number % 4 > 0 => (rank, Signal::KILL),
            _ => (child.id(), Signal::TERM),
        };
        let _ = kill_process(Pid::from_raw(victim as i32).unwrap(), signal);
        let done = child.wait();
        let out = fs::read(place.path("out")).unwrap();
        let what = format!("sort {number} of seed {seed}: {done}");
        assert!(!done.stderr.contains("panicked"), "{what}");
        // It may have ended before.
        assert!(out == b"as it was" && !done.status.success() || out == expected, "{what}");
        assert!(done.stderr.lines().filter(|line| line.starts_with("error: ")).count() <= 1, "{what}");
        place.table.expect_gone();
        // Where files need names, the next sort removes those of killed ranks.
        place.rowlock(&how).expect_exit(0);
        assert_eq!(place.left(), ["in", "out"], "{what}");
        assert!(fs::read(place.path("out")).unwrap() == expected, "{what}");
    }
}
