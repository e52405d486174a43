//! `rowlock paper fg/...`, with files so small that the times have no meaning.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testing::{Child, NOBODY, Output};

fn command(folder: &Path, arguments: &[&str]) -> Command {
    fs::create_dir_all(folder.join("tmp")).unwrap();
    let mut command = crate::rowlock(&[&["paper"], arguments].concat());
    command.current_dir(folder);
    command
}

/// Measures with little data.
fn measure(folder: &Path, arguments: &[&str]) -> Output {
    let small = ["--size", "200kB", "--memory", "16MiB", "--tmp", "tmp"];
    testing::run(&mut command(folder, &[arguments, &small].concat()))
}

fn json(output: Output) -> Value {
    crate::json(&output.expect_success())
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

/// The number of pages of a file that are in the page cache. Reading them evicts and loads none.
fn cached_pages(file: &fs::File) -> u64 {
    let is_cached = |page: &u64| {
        let mut byte = [0];
        let buffers = &mut [std::io::IoSliceMut::new(&mut byte)];
        rustix::io::preadv2(file, buffers, page * 4096, rustix::io::ReadWriteFlags::NOWAIT).is_ok()
    };
    (0..file.metadata().unwrap().len() / 4096).filter(is_cached).count() as u64
}

#[test]
fn other_programs_keep_their_pages_in_the_cache() {
    // A file system in memory has all pages there.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("others");
    fs::write(&path, [7; 16 * 4096]).unwrap();
    let others = fs::File::open(&path).unwrap();
    // Only clean pages can be evicted.
    others.sync_all().unwrap();
    assert_eq!(fs::read(&path).unwrap().len(), 16 * 4096);
    assert_eq!(cached_pages(&others), 16);
    measure(folder.path(), &["fg/table3", "--repeat", "1", "--rate", "none", "--out", "out"]).expect_success();
    assert_eq!(cached_pages(&others), 16);
}

#[test]
fn a_table_has_a_row_for_each_rule_and_another_one_in_the_folder_makes_only_the_missing_runs() {
    let folder = tempfile::tempdir().unwrap();
    let runs = || {
        let text = fs::read_to_string(folder.path().join("out/runs.csv")).unwrap();
        text.lines().skip(1).map(|line| line.split(',').take(3).collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    };
    let options = ["--repeat", "2", "--rate", "none", "--out", "out", "--append", "--format", "json"];
    let table = json(measure(folder.path(), &[&["fg/table3"], &options[..]].concat()));
    let rows = table["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 6);
    for (row, (variant, arm)) in rows.iter().zip(
        ["compute-bound", "io-bound"]
            .into_iter()
            .flat_map(|variant| ["default", "nice-down-io", "nice-up-io"].map(|arm| (variant, arm))),
    ) {
        assert_eq!((&row["variant"], &row["arm"], &row["observations"]), (&variant.into(), &arm.into(), &2.into()));
        assert_eq!(row["against"].is_null(), arm == "default");
        assert!(row["paper"]["clock_s"].is_f64() && row["clock_s"]["mean"].as_f64().unwrap() > 0.0);
    }
    assert_eq!((&table["complete"], &table["settings"]["size"]), (&true.into(), &200_000.into()));
    let predicted = table["predictions"].as_array().unwrap();
    assert_eq!(predicted.len(), 6, "{}", table["notes"]);
    assert!(folder.path().join("out/compute-bound-pass-1.toml").exists());
    assert!(is_empty(&folder.path().join("tmp")));
    let first = runs();
    assert_eq!(first.len(), 12);

    // Two rules of two variants, twice. The runs without a rule exist already.
    let table = json(measure(folder.path(), &[&["fg/table4"], &options[..]].concat()));
    let arms = |rows: &Value| rows.as_array().unwrap().len();
    assert_eq!(arms(&table["rows"]), 10);
    let second = runs();
    assert_eq!(second[..12], first[..]);
    assert_eq!(second.len(), 12 + 2 * 2 * 4);
    assert!(second[12..].iter().all(|run| !run.contains(" default ") && !run.contains("nice")), "{second:?}");

    // All runs exist, so none is made. Runs with another size cannot be added.
    let table = json(measure(folder.path(), &[&["fg/table5"], &options[..]].concat()));
    assert_eq!((runs().len(), arms(&table["balances"]), arms(&table["rows"])), (28, 2, 14));
    let refused =
        testing::run(&mut command(folder.path(), &["fg/table3", "--size", "1MiB", "--out", "out", "--append"]));
    refused.expect_exit(2).expect_stderr("pooled only");
}

#[test]
fn a_user_who_may_not_empty_the_page_cache_can_continue_a_table() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    // Other users may not be able to reach the built one.
    let program = folder.path().join("rowlock");
    fs::copy(env!("CARGO_BIN_EXE_rowlock"), &program).unwrap();
    let arguments = ["paper", "fg/table3", "--size", "200kB", "--memory", "16MiB", "--repeat", "1", "--rate", "none"];
    for _ in 0..2 {
        let mut command = crate::rowlock_at(&program, &arguments);
        command.args(["--tmp", ".", "--out", "out", "--append"]).current_dir(folder.path());
        command.env("XDG_CACHE_HOME", folder.path().join("cache"));
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        testing::run(&mut command).expect_success().expect_stdout("what is sorted");
    }
}

#[test]
fn an_interrupted_table_keeps_its_runs_and_removes_its_files_and_the_throttle() {
    let folder = tempfile::tempdir().unwrap();
    let small = ["--size", "200kB", "--memory", "16MiB", "--tmp", "tmp", "--rate", "1GB"];
    let arguments = [&["fg/table3", "--repeat", "1000", "--out", "out"][..], &small].concat();
    let child = Child::start(&mut command(folder.path(), &arguments));
    let process = child.id();
    let runs = || fs::read_to_string(folder.path().join("out/runs.csv")).unwrap_or_default().lines().count();
    // It makes its first run some time, or fails.
    let output = crate::interrupted_when(|| runs() >= 2, child, 15);
    let said = &output.stderr;
    assert!(is_empty(&folder.path().join("tmp")));
    assert_eq!(crate::groups::of(process), [""; 0]);
    if ["limit the disk", "limit disks", "block device"].iter().any(|why| said.contains(why)) {
        // Throttling is not permitted here, and the message said so.
        output.expect_exit(1);
        return;
    }
    assert!(said.contains("interrupted: ") && said.contains(" runs were made"), "{output}");
    output.expect_exit(143);
    let report: Value = serde_json::from_slice(&fs::read(folder.path().join("out/report.json")).unwrap()).unwrap();
    assert_eq!((&report["complete"], report["rows"].as_array().unwrap().is_empty()), (&false.into(), false));
    assert_eq!(report["settings"]["rate"], 1_000_000_000);
}

#[test]
fn table2_simulates_kernels_and_measures_threads_and_workers() {
    let folder = tempfile::tempdir().unwrap();
    let table = json(measure(
        folder.path(),
        &["fg/table2", "--repeat", "1", "--rate", "none", "--format", "json", "--out", "out"],
    ));
    let simulated = table["simulated"].as_array().unwrap();
    let schedulers: Vec<&str> = simulated.iter().map(|row| row["scheduler"].as_str().unwrap()).collect();
    assert_eq!(schedulers, ["linux-2.4", "linux-o1", "cfs", "eevdf", "linux-2.4", "linux-o1", "cfs", "eevdf"]);
    assert_eq!(simulated[3]["paper"]["clock_s"], 12.61);
    assert!(simulated[1..4].iter().all(|row| row["times_as_long"]["mean"].is_f64()));
    let arms: Vec<&str> = table["rows"].as_array().unwrap().iter().map(|row| row["arm"].as_str().unwrap()).collect();
    assert_eq!(arms, ["threads", "workers", "threads", "workers"]);
    for file in ["compute-bound-linux-2.4.toml", "io-bound-eevdf.toml"] {
        assert!(folder.path().join("out").join(file).exists(), "{file}");
    }
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, why) in [
        (&["barrier/fig4", "--size", "1MiB"][..], "--size is for fg/... papers"),
        (&["fg/table3", "--scenario"], "written into the folder"),
        (&["fg/table3", "--append"], "--out"),
        (&["fg/table3", "--size", "99"], "at least one record"),
        (&["fg/table3", "--rate", "fast"], "--rate"),
        (&["fg/table3", "--tmp", "nowhere"], "use --tmp for another one"),
    ] {
        let output = testing::run(&mut command(folder.path(), arguments)).expect_exit(2);
        let said = &output.stderr;
        assert!(said.contains(why), "{arguments:?}: {said}");
    }
}

#[test]
fn a_folder_that_cannot_be_removed_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let tmp = folder.path().join("tmp");
    let arguments = ["fg/table3", "--size", "200kB", "--memory", "16MiB", "--tmp", "tmp", "--repeat", "1"];
    loop {
        let child = Child::start(&mut command(folder.path(), &arguments));
        let place = loop {
            if let Some(entry) = fs::read_dir(&tmp).unwrap().next() {
                break entry.unwrap().path();
            }
            std::thread::yield_now();
        };
        // The command may be faster.
        if fs::write(place.join("thesis.txt"), "").is_ok() {
            let output = child.wait().expect_exit(1).expect_stdout("compute-bound");
            let place = Path::new("tmp").join(place.file_name().unwrap());
            output.expect_stderr(&format!("error: cannot remove {}, which may hold", place.display()));
            assert!(tmp.join(place.file_name().unwrap()).join("thesis.txt").exists());
            return;
        }
    }
}
