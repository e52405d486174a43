//! Root writes into a folder that another user has prepared. Whatever that user has planted at the
//! paths that a command writes, no file elsewhere changes, and the command ends with a sentence.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};

use rustix::fs::{CWD, Mode, mkfifoat};
use testing::{Child, NOBODY};

use crate::commands::{COMMANDS, Place};

/// A file that another user can plant.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Planted {
    LinkToFile,
    LinkToFolder,
    LinkToNothing,
    HardLink,
    Pipe,
    Folder,
    File,
}

const ALL: [Planted; 7] = [
    Planted::LinkToFile,
    Planted::LinkToFolder,
    Planted::LinkToNothing,
    Planted::HardLink,
    Planted::Pipe,
    Planted::Folder,
    Planted::File,
];

/// The files that must not change, in the folder of the commands.
const VICTIMS: [&str; 3] = ["victim", "private/sorted", "private/reports"];

/// A place with a folder of the other user, and what must not change.
struct Shared(Place);

impl Shared {
    /// `None` if this process is not root.
    fn new() -> Option<Shared> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can own files as two users");
            return None;
        }
        let place = Place::new();
        fs::create_dir(place.path("private")).unwrap();
        for name in VICTIMS {
            fs::write(place.path(name), "untouched").unwrap();
            fs::set_permissions(place.path(name), Permissions::from_mode(0o600)).unwrap();
        }
        Some(Shared(place))
    }

    /// Makes the folder of the other user, with this object at a path in it.
    fn plant(&self, planted: Planted, path: &str, mode: u32) {
        let theirs = self.0.path("theirs");
        let _ = fs::remove_dir_all(&theirs);
        let at = theirs.join(path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        match planted {
            Planted::LinkToFile => symlink(self.0.path("victim"), &at).unwrap(),
            Planted::LinkToFolder => symlink(self.0.path("private"), &at).unwrap(),
            Planted::LinkToNothing => symlink(self.0.path("private/new"), &at).unwrap(),
            Planted::HardLink => fs::hard_link(self.0.path("victim"), &at).unwrap(),
            Planted::Pipe => mkfifoat(CWD, &at, Mode::RWXU).unwrap(),
            Planted::Folder => fs::create_dir(&at).unwrap(),
            Planted::File => fs::write(&at, "planted").unwrap(),
        }
        let mut inner = at.as_path();
        if planted == Planted::HardLink {
            inner = at.parent().unwrap();
        }
        while inner != self.0.folder() {
            lchown(inner, Some(NOBODY), Some(NOBODY)).unwrap();
            if inner != at {
                fs::set_permissions(inner, Permissions::from_mode(mode)).unwrap();
            }
            inner = inner.parent().unwrap();
        }
    }

    #[track_caller]
    fn assert_untouched(&self, which: &str) {
        for name in VICTIMS {
            let about = fs::metadata(self.0.path(name)).unwrap();
            assert_eq!(fs::read_to_string(self.0.path(name)).unwrap(), "untouched", "{name} {which}");
            assert_eq!((about.uid(), about.gid(), about.mode() & 0o7777), (0, 0, 0o600), "{name} {which}");
        }
        assert_eq!(fs::read_dir(self.0.path("private")).unwrap().count(), 2, "{which}");
    }
}

/// A command, with what it writes in the folder `theirs`.
struct Writer {
    line: String,
    /// A variable that names a path.
    variable: Option<(&'static str, &'static str)>,
    paths: Vec<&'static str>,
}

const RESULTS: [&str; 6] = [
    "results",
    "results/runs.jsonl",
    "results/runs.csv",
    "results/report.json",
    "results/report.html",
    "results/manifest.json",
];

impl Writer {
    fn new(line: &str, variable: Option<(&'static str, &'static str)>, paths: &[&'static str]) -> Writer {
        Writer { line: line.to_owned(), variable, paths: paths.to_vec() }
    }

    /// Each command of the table, with each of its outputs in the folder of the other user. Those
    /// that take long write the same results as the others, so few paths are enough.
    fn table() -> Vec<Writer> {
        let outputs =
            COMMANDS.iter().flat_map(|subject| subject.outputs().into_iter().map(move |name| (subject, name)));
        let writer = |(subject, name): (&crate::commands::Subject, &'static str)| {
            let words = subject.line.split(' ');
            let words = words.map(|word| if word == name { format!("theirs/{word}") } else { word.to_owned() });
            let paths = match name {
                "results" if subject.is_long => RESULTS[..2].to_vec(),
                "results" => RESULTS.to_vec(),
                _ => vec![name, "other"],
            };
            Writer { line: words.collect::<Vec<_>>().join(" "), variable: None, paths }
        };
        outputs.map(writer).collect()
    }
}

fn assert_harmless(shared: &Shared, writer: &Writer, planted: Planted, path: &str, mode: u32) {
    shared.plant(planted, path, mode);
    let mut command = shared.0.command(&writer.line);
    if let Some((name, value)) = writer.variable {
        if name == "HOME" {
            command.env_remove("XDG_CACHE_HOME");
        }
        command.env(name, shared.0.path(value));
    }
    let output = testing::run(&mut command);
    let which = format!("{planted:?} at {path}, {mode:o}: {output}");
    shared.assert_untouched(&which);
    match output.status.code() {
        Some(0) => {}
        Some(1 | 2) => assert!(output.stderr.contains("error: "), "{which}"),
        _ => panic!("{which}"),
    }
}

const MODES: [u32; 2] = [0o755, 0o1777];

/// All objects at all paths. A shift chooses the modes, of which each object sees both.
fn assert_all_harmless(shared: &Shared, writer: &Writer, shift: usize) {
    let objects = writer.paths.iter().flat_map(|path| ALL.map(|planted| (path, planted)));
    for (number, (path, planted)) in objects.enumerate() {
        assert_harmless(shared, writer, planted, path, MODES[(number + shift) % MODES.len()]);
    }
}

/// The ways in which commands write.
fn ways() -> [Writer; 9] {
    let with_variable = |line, name, value, paths| Writer::new(line, Some((name, value)), paths);
    let (sort, file): (_, &[&str]) = ("sort in sorted --record 20", &["file", "other"]);
    [
        Writer::new("run crew.toml --out theirs/results", None, &RESULTS),
        Writer::new("run crew.toml --out theirs/results --append", None, &RESULTS),
        Writer::new("sort in theirs/file --record 20", None, file),
        Writer::new("sort in sorted --record 20 --tmp theirs/file", None, file),
        Writer::new("export crew.toml --to ftrace --out theirs/file", None, file),
        Writer::new("pipeline verdict --device theirs -- ./program true", None, file),
        with_variable(sort, "ROWLOCK_PIPELINE_REPORT", "theirs/file", file),
        with_variable(sort, "ROWLOCK_PIPELINE_TRACE", "theirs/file", file),
        with_variable(
            "exec --report -- true",
            "XDG_CACHE_HOME",
            "theirs/cache",
            &["cache", "cache/rowlock", "cache/rowlock/preload"],
        ),
    ]
}

#[test]
fn nothing_that_another_user_plants_makes_root_change_a_file_elsewhere() {
    let Some(shared) = Shared::new() else { return };
    for writer in ways() {
        assert_all_harmless(&shared, &writer, 0);
    }
}

#[test]
#[ignore = "takes a while; ./check --full runs it"]
fn nothing_that_is_planted_with_the_other_modes_does_either() {
    let Some(shared) = Shared::new() else { return };
    for writer in ways() {
        assert_all_harmless(&shared, &writer, 1);
    }
}

#[test]
fn all_commands_write_in_these_ways() {
    let Some(shared) = Shared::new() else { return };
    let table = Writer::table();
    let paths = table.iter().flat_map(|writer| writer.paths.iter().map(move |path| (writer, path)));
    for (number, (writer, path)) in paths.enumerate() {
        assert_harmless(&shared, writer, ALL[number % ALL.len()], path, MODES[number / ALL.len() % MODES.len()]);
    }
}

#[test]
fn no_command_trusts_a_folder_for_temporary_files_of_another_user() {
    let Some(shared) = Shared::new() else { return };
    for (number, subject) in COMMANDS.iter().enumerate() {
        let writer = Writer::new(subject.line, Some(("TMPDIR", "theirs")), &[]);
        assert_harmless(&shared, &writer, Planted::LinkToFile, "file", MODES[number % MODES.len()]);
    }
}

#[test]
fn a_calibration_is_cached_in_no_folder_of_another_user() {
    let Some(shared) = Shared::new() else { return };
    let calibrate = Writer::new("calibrate --fresh", Some(("HOME", "theirs")), &[".cache", ".cache/rowlock"]);
    for path in &calibrate.paths {
        for planted in [Planted::LinkToFolder, Planted::Folder] {
            assert_harmless(&shared, &calibrate, planted, path, 0o755);
        }
    }
    assert_eq!(fs::read_dir(shared.0.path("theirs/.cache/rowlock")).unwrap().count(), 0);
}

#[test]
fn abandoned_folders_are_not_looked_for_through_links() {
    let Some(shared) = Shared::new() else { return };
    let line = "paper fg/table3 --repeat 1 --rate none --size 200kB --memory 16MiB --tmp theirs --out own";
    for planted in ALL {
        assert_harmless(&shared, &Writer::new(line, None, &[]), planted, "rowlock-paper-a", 0o755);
    }
}

#[test]
fn only_a_record_of_the_same_user_ends_what_it_marks() {
    let Some(shared) = Shared::new() else { return };
    let temporary = shared.0.temporary();
    fs::set_permissions(temporary, Permissions::from_mode(0o1777)).unwrap();
    let (mark, linked) = (".rowlock-record-marked", shared.0.path("linked"));
    let mut marked = Child::start(testing::command("sleep").arg("1000").env("ROWLOCK_MARK", mark));
    let record = temporary.join(".rowlock-record-planted");
    let link = temporary.join(".rowlock-record-link");
    fs::write(&record, mark).and_then(|()| fs::write(&linked, mark)).unwrap();
    symlink(&linked, &link).unwrap();
    for planted in [&record, &link] {
        lchown(planted, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let start_next = || testing::run(&mut shared.0.command("exec --report -- true")).expect_success();
    start_next();
    assert!(marked.process().try_wait().unwrap().is_none() && record.exists() && link.exists() && linked.exists());

    fs::remove_file(&link).and_then(|()| lchown(&record, Some(0), Some(0))).unwrap();
    start_next();
    marked.wait().expect_signal(9);
    assert!(!record.exists());
}
