//! Root writes into a folder that another user has prepared. Whatever that user has planted at the
//! paths that a command writes, no file elsewhere changes, and the command ends with a sentence.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, mkfifoat};
use testing::{NOBODY, Output};

const SCENARIO: &str = r#"
machine.cpus = 2
job = [{ name = "solo", kind = "cpu", work = "1 ms" }]
experiment.repeat = 1
"#;

/// What another user can plant.
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

/// A folder of the other user, and what must not change. Commands run in the folder around them.
struct Place(tempfile::TempDir);

impl Place {
    /// `None` if this process is not root.
    fn new() -> Option<Place> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can own files as two users");
            return None;
        }
        let place = Place(tempfile::tempdir().unwrap());
        let write = |name: &str, text: &str| fs::write(place.at(name), text).unwrap();
        fs::create_dir(place.at("private")).unwrap();
        write("scenario.toml", SCENARIO);
        write("lines", "b\nc\na\n");
        for name in ["victim", "private/sorted", "private/reports"] {
            write(name, "untouched");
            fs::set_permissions(place.at(name), Permissions::from_mode(0o600)).unwrap();
        }
        Some(place)
    }

    fn at(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(name)
    }

    /// Makes the folder of the other user, with this object at a path in it.
    fn plant(&self, planted: Planted, path: &str, mode: u32) {
        let theirs = self.at("theirs");
        let _ = fs::remove_dir_all(&theirs);
        let at = theirs.join(path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        match planted {
            Planted::LinkToFile => symlink(self.at("victim"), &at).unwrap(),
            Planted::LinkToFolder => symlink(self.at("private"), &at).unwrap(),
            Planted::LinkToNothing => symlink(self.at("private/new"), &at).unwrap(),
            Planted::HardLink => fs::hard_link(self.at("victim"), &at).unwrap(),
            Planted::Pipe => mkfifoat(CWD, &at, Mode::RWXU).unwrap(),
            Planted::Folder => fs::create_dir(&at).unwrap(),
            Planted::File => fs::write(&at, "planted").unwrap(),
        }
        let mut inner = at.as_path();
        if planted == Planted::HardLink {
            inner = at.parent().unwrap();
        }
        while inner != self.0.path() {
            lchown(inner, Some(NOBODY), Some(NOBODY)).unwrap();
            if inner != at {
                fs::set_permissions(inner, Permissions::from_mode(mode)).unwrap();
            }
            inner = inner.parent().unwrap();
        }
    }

    fn run(&self, command: &Command) -> Output {
        let mut rowlock = crate::rowlock(command.arguments);
        rowlock.current_dir(self.0.path());
        if let Some((name, value)) = command.variable {
            rowlock.env_remove("XDG_CACHE_HOME").env(name, self.at(value));
        }
        testing::run(&mut rowlock)
    }

    #[track_caller]
    fn assert_untouched(&self, which: &str) {
        for name in ["victim", "private/sorted", "private/reports"] {
            let about = fs::metadata(self.at(name)).unwrap();
            assert_eq!(fs::read_to_string(self.at(name)).unwrap(), "untouched", "{name} {which}");
            assert_eq!((about.uid(), about.gid(), about.mode() & 0o7777), (0, 0, 0o600), "{name} {which}");
        }
        assert_eq!(fs::read_dir(self.at("private")).unwrap().count(), 2, "{which}");
    }
}

/// A command, with what it writes in the folder `theirs`.
struct Command {
    arguments: &'static [&'static str],
    /// A variable that names a path.
    variable: Option<(&'static str, &'static str)>,
    paths: &'static [&'static str],
}

const fn command(arguments: &'static [&'static str], paths: &'static [&'static str]) -> Command {
    Command { arguments, variable: None, paths }
}

const RESULTS: &[&str] =
    &["out", "out/runs.jsonl", "out/runs.csv", "out/report.json", "out/report.html", "out/manifest.json"];
const FILE: &[&str] = &["file", "a/file"];
const SORT: &[&str] = &["sort", "lines", "sorted"];

/// The commands that write to paths in their arguments or variables.
const COMMANDS: &[Command] = &[
    command(&["run", "scenario.toml", "--out", "theirs/out"], RESULTS),
    command(&["run", "scenario.toml", "--out", "theirs/out", "--append"], RESULTS),
    command(&["run", "scenario.toml", "--out", "own", "--trace", "theirs/file"], FILE),
    command(&["export", "scenario.toml", "--to", "ftrace", "--out", "theirs/file"], FILE),
    command(&["import", "lines", "--from", "rt-app", "--out", "theirs/file"], FILE),
    command(&["sort", "lines", "theirs/file"], FILE),
    command(&["sort", "lines", "sorted", "--tmp", "theirs/file"], FILE),
    command(&["exec", "--json", "theirs/file", "--", "true"], FILE),
    Command { arguments: SORT, variable: Some(("ROWLOCK_PIPELINE_REPORT", "theirs/file")), paths: FILE },
    Command { arguments: SORT, variable: Some(("ROWLOCK_PIPELINE_TRACE", "theirs/file")), paths: FILE },
    Command {
        arguments: &["exec", "--report", "--", "true"],
        variable: Some(("XDG_CACHE_HOME", "theirs/cache")),
        paths: &["cache", "cache/rowlock", "cache/rowlock/preload"],
    },
    Command { arguments: SORT, variable: Some(("TMPDIR", "theirs")), paths: &["file"] },
    Command {
        arguments: &["pipeline", "verdict", "--", env!("CARGO_BIN_EXE_rowlock"), "sort", "lines", "sorted"],
        variable: Some(("TMPDIR", "theirs")),
        paths: &["file"],
    },
];

fn assert_harmless(place: &Place, command: &Command, planted: Planted, path: &str, mode: u32) {
    place.plant(planted, path, mode);
    let output = place.run(command);
    let which = format!("{planted:?} at {path}, {mode:o}: {output}");
    place.assert_untouched(&which);
    match output.status.code() {
        Some(0) => {}
        Some(1 | 2) => assert!(output.stderr.contains("error: "), "{which}"),
        _ => panic!("{which}"),
    }
}

#[test]
fn nothing_that_another_user_plants_makes_root_change_a_file_elsewhere() {
    let Some(place) = Place::new() else { return };
    for command in COMMANDS {
        for (path, planted) in command.paths.iter().flat_map(|path| ALL.map(|planted| (path, planted))) {
            for mode in [0o755, 0o1777] {
                assert_harmless(&place, command, planted, path, mode);
            }
        }
    }
}

#[test]
fn a_calibration_is_cached_in_no_folder_of_another_user() {
    let Some(place) = Place::new() else { return };
    let calibrate = Command {
        arguments: &["calibrate", "--fresh"],
        variable: Some(("HOME", "theirs")),
        paths: &[".cache", ".cache/rowlock"],
    };
    for path in calibrate.paths {
        for planted in [Planted::LinkToFolder, Planted::Folder] {
            assert_harmless(&place, &calibrate, planted, path, 0o755);
        }
    }
    assert_eq!(fs::read_dir(place.at("theirs/.cache/rowlock")).unwrap().count(), 0);
}

#[test]
fn abandoned_folders_are_not_looked_for_through_links() {
    let Some(place) = Place::new() else { return };
    let paper = Command {
        arguments: &[
            "paper",
            "fg/table3",
            "--repeat",
            "1",
            "--rate",
            "none",
            "--size",
            "200kB",
            "--memory",
            "16MiB",
            "--tmp",
            "theirs",
            "--out",
            "own",
        ],
        variable: None,
        paths: &["rowlock-paper-a"],
    };
    for planted in ALL {
        assert_harmless(&place, &paper, planted, paper.paths[0], 0o755);
    }
}
