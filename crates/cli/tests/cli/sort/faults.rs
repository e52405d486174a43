//! Failures: full disks, bad input, missing and removed folders. The target stays unchanged, no
//! other files are left, and the message names the cause.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use testing::{Child, Output};

use super::place::{Place, ended, records};

const HOW: &str = "--record 20 --key 0:4 --memory 512KiB";

/// Runs a shell command while the folder `disk` is a file system of 1 MiB that only this command
/// sees. `None` if that is not permitted. The output also lists what is on the disk, including
/// hidden files.
fn on_a_tiny_disk(place: &Place, line: &str) -> Option<Output> {
    fs::create_dir(place.path("disk")).unwrap();
    for how in ["unshare -m", "unshare -U -r -m"] {
        let mounted = "mount -t tmpfs -o size=1m tiny disk";
        if !place.shell(&format!("{how} {mounted}")).status.success() {
            continue;
        }
        let look = "code=$?; ls -A disk; cat disk/out; exit $code";
        let inner = format!("{mounted}; printf \"as it was\" > disk/out; {line}; {look}");
        return Some(place.shell(&format!("{how} bash -c '{inner}'")));
    }
    eprintln!("not tested: no permission to mount a file system, even in a new namespace");
    None
}

#[test]
fn a_full_disk_below_the_temporary_files_is_named() {
    let place = Place::new();
    fs::write(place.path("in"), records(150_000, 1)).unwrap();
    fs::write(place.path("out"), "as it was").unwrap();
    for input in ["in", "- < in", "- < <(cat in)"] {
        let Some(done) = on_a_tiny_disk(&place, &format!("rowlock sort {input} out --tmp disk {HOW}")) else { return };
        let done = done.expect_exit(1);
        assert!(done.stderr.contains("disk") && done.stderr.contains("No space left"), "{}", done.stderr);
        assert_eq!(done.stdout, "out\nas it was");
        assert_eq!(fs::read_to_string(place.path("out")).unwrap(), "as it was");
        assert_eq!(place.left(), ["disk", "in", "out"]);
        fs::remove_dir(place.path("disk")).unwrap();
    }
}

#[test]
fn a_full_disk_below_the_target_leaves_it_unchanged() {
    let place = Place::new();
    fs::write(place.path("in"), records(150_000, 2)).unwrap();
    // Without and with temporary files.
    for memory in ["32MiB", "512KiB"] {
        let line = format!("rowlock sort - disk/out --record 20 --memory {memory} < <(cat in)");
        let Some(done) = on_a_tiny_disk(&place, &line) else { return };
        let done = done.expect_exit(1);
        assert!(done.stderr.contains("disk") && done.stderr.contains("No space left"), "{}", done.stderr);
        assert_eq!(done.stdout, "out\nas it was");
        assert_eq!(place.left(), ["disk", "in"]);
        fs::remove_dir(place.path("disk")).unwrap();
    }
}

#[test]
fn a_truncated_last_record_is_reported() {
    let place = Place::new();
    fs::write(place.path("out"), "as it was").unwrap();
    for count in [0, 1, 50_000] {
        let mut bytes = records(count, 3);
        bytes.extend(b"seven.");
        for (input, bytes) in [("-", &bytes[..]), ("in", &[])] {
            fs::write(place.path("in"), bytes).unwrap();
            if input == "in" {
                fs::write(place.path("in"), [&records(count, 3)[..], b"seven."].concat()).unwrap();
            }
            let done =
                place.fed(bytes, &[&[input, "out"], &HOW.split(' ').collect::<Vec<_>>()[..]].concat()).expect_exit(2);
            assert!(done.stderr.contains("last 6 bytes") && done.stderr.contains("20"), "{}", done.stderr);
            assert_eq!(fs::read_to_string(place.path("out")).unwrap(), "as it was");
            assert_eq!(place.left(), ["in", "out"]);
        }
    }
}

#[test]
fn input_that_cannot_be_read_is_named() {
    let place = Place::new();
    fs::write(place.path("out"), "as it was").unwrap();
    // It can be opened, but reading its beginning fails.
    let done = place.rowlock(&["/proc/self/mem", "out"]);
    assert!(done.stderr.contains("cannot read /proc/self/mem"), "{}", done.stderr);
    assert!(matches!(done.status.code(), Some(1 | 2)), "{:?}", done.status);
    assert_eq!(fs::read_to_string(place.path("out")).unwrap(), "as it was");
    assert_eq!(place.left(), ["out"]);
}

#[test]
fn a_removed_temporary_folder_is_named_or_not_needed() {
    let place = Place::new();
    let bytes = records(150_000, 4);
    fs::write(place.path("out"), "as it was").unwrap();
    fs::create_dir(place.path("gone")).unwrap();
    let arguments = [&["-", "out", "--tmp", "gone"], &HOW.split(' ').collect::<Vec<_>>()[..]].concat();
    let mut child = Child::start(place.command(&arguments).stdin(Stdio::piped()));
    let mut stdin = child.process().stdin.take().unwrap();
    // More than a pipe holds, so the program has started to read and has checked the folder.
    stdin.write_all(&bytes[..100_000]).unwrap();
    // If files cannot be created without names, they have one for a moment.
    while place.path("gone").exists() {
        let _ = fs::remove_dir_all(place.path("gone"));
    }
    let _ = stdin.write_all(&bytes[100_000..]);
    drop(stdin);
    let done = ended(child);
    if done.status.success() {
        // It had created its file by then.
        assert_eq!(fs::read(place.path("out")).unwrap().len(), bytes.len());
    } else {
        assert!(done.stderr.contains("gone"), "{}", done.stderr);
        assert_eq!(fs::read_to_string(place.path("out")).unwrap(), "as it was");
        done.expect_exit(1);
    }
    assert_eq!(place.left(), ["out"]);
}
