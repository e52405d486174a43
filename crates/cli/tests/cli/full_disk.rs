//! Full disks below the files that commands write: results are still printed, and errors named.

use std::fs;

use testing::Output;

use crate::commands::CREW;

/// A folder that contains a scenario, and a folder that can be a small disk.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        fs::write(place.0.path().join("crew.toml"), CREW).unwrap();
        fs::create_dir(place.0.path().join("disk")).unwrap();
        place
    }

    /// Runs a shell command while `disk` is a file system of this size. `None` if that is not
    /// permitted.
    fn run(&self, size: &str, line: &str) -> Option<Output> {
        let mounted = format!("mount -t tmpfs -o size={size} tiny disk");
        for how in [&["-m"][..], &["-U", "-r", "-m"]] {
            let run = |line: &str| {
                let mut unshare = testing::command("unshare");
                unshare.args(how).args(["sh", "-c", &format!("{mounted} && {line}"), "sh"]);
                testing::run(testing::through(unshare, &crate::rowlock(&[])).current_dir(&self.0))
            };
            if run("true").status.success() {
                return Some(run(line));
            }
        }
        eprintln!("not tested: no permission to mount a file system, even in a new namespace");
        None
    }
}

#[test]
fn the_report_is_printed_on_a_full_disk_and_then_the_error() {
    let place = Place::new();
    for arguments in ["run crew.toml", "run crew.toml --format json"] {
        let run = |size: &str| place.run(size, &format!("\"$1\" {arguments} --out disk/out"));
        let Some(whole) = run("16m") else { return };
        let whole = whole.expect_success();
        for size in ["4k", "8k", "16k", "32k"] {
            let done = run(size).unwrap().expect_exit(1);
            assert_eq!(done.stdout, whole.stdout, "{arguments} {size}");
            assert!(done.stderr.contains("error: cannot write disk/out/"), "{done}");
            assert!(
                done.stderr.contains("No space left on device") && !done.stderr.contains("results are in"),
                "{done}"
            );
        }
    }
}

#[test]
fn an_output_on_a_full_disk_is_an_error_and_leaves_no_file() {
    let place = Place::new();
    for (arguments, prefix) in [
        ("run crew.toml --out out --trace disk/file", "error: cannot write the trace disk/file"),
        ("export crew.toml --to ftrace --out disk/file", "error: cannot write disk/file"),
    ] {
        let look = "code=$?; ls -A disk >&2; exit $code";
        let Some(done) = place.run("4k", &format!("{{ \"$1\" {arguments}; {look}; }}")) else { return };
        let done = done.expect_exit(1);
        assert_eq!(done.stdout.contains("fastest in sim"), arguments.starts_with("run"), "{done}");
        let last = done.stderr.lines().last().unwrap_or_default();
        assert!(last.starts_with(prefix) && last.contains("No space left on device"), "{done}");
    }
}
