//! Files that another user may have planted: links, pipes, folders and hard links, where root
//! writes.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::geteuid;
use testing::NOBODY;

use super::*;

/// A folder of the other user beside a file and a folder of root, as tests use them.
struct Planted {
    top: tempfile::TempDir,
}

impl Planted {
    /// The folder of the other user has this mode. `None` if this process is not root.
    fn new(mode: u32) -> Option<Planted> {
        if !geteuid().is_root() {
            eprintln!("skipped: only root can own files as two users");
            return None;
        }
        let planted = Planted { top: tempfile::tempdir().unwrap() };
        fs::write(planted.victim(), "untouched").unwrap();
        fs::set_permissions(planted.victim(), Permissions::from_mode(0o640)).unwrap();
        fs::create_dir(planted.at("private")).unwrap();
        fs::create_dir(planted.at("theirs")).unwrap();
        fs::set_permissions(planted.at("theirs"), Permissions::from_mode(mode)).unwrap();
        planted.give("theirs");
        Some(planted)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.top.path().join(name)
    }

    fn victim(&self) -> PathBuf {
        self.at("victim")
    }

    fn give(&self, name: &str) {
        lchown(self.at(name), Some(NOBODY), Some(NOBODY)).unwrap();
    }

    fn link(&self, to: impl AsRef<Path>, name: &str) -> PathBuf {
        symlink(to, self.at(name)).unwrap();
        self.give(name);
        self.at(name)
    }

    fn assert_untouched(&self) {
        let about = fs::metadata(self.victim()).unwrap();
        assert_eq!(fs::read_to_string(self.victim()).unwrap(), "untouched");
        assert_eq!((about.uid(), about.mode() & 0o7777), (0, 0o640));
        assert_eq!(fs::read_dir(self.at("private")).unwrap().count(), 0);
    }
}

/// Calls each function that writes to a path that the user has named.
fn write_all_ways(path: &Path) -> Vec<io::Result<()>> {
    vec![
        write(path, b"written"),
        append(path).and_then(|mut file| file.write_all(b"written")),
        Folder::create(path).and_then(|folder| folder.replace("new", b"written", None)),
        Folder::open(path).and_then(|folder| folder.append("new")?.write_all(b"written")),
        Folder::create_private(path, 0o700).and_then(|folder| folder.replace("new", b"written", None)),
    ]
}

#[test]
fn links_of_another_user_never_lead_to_what_is_not_of_that_user() {
    for mode in [0o755, 0o777, 0o1777] {
        let Some(planted) = Planted::new(mode) else { return };
        let links = [
            planted.link("../victim", "theirs/file"),
            planted.link("../private", "theirs/folder"),
            planted.link("../private/missing", "theirs/dangling"),
            planted.link("folder", "theirs/chain"),
            planted.link("/dev/null", "theirs/device"),
        ];
        for path in links.iter().flat_map(|link| [link.clone(), link.join("new"), link.join("new/new")]) {
            for written in write_all_ways(&path) {
                assert!(written.is_err(), "{} {mode:o}", path.display());
            }
            planted.assert_untouched();
        }
    }
}

#[test]
fn links_of_another_user_lead_to_what_belongs_to_that_user_but_not_in_a_common_folder() {
    let Some(planted) = Planted::new(0o755) else { return };
    let link = planted.link("theirs/file", "link");
    write(&link, b"first").unwrap();
    append(&link).unwrap().write_all(b" second").unwrap();
    assert_eq!(fs::read(planted.at("theirs/file")).unwrap(), b"first second");
    fs::set_permissions(planted.top.path(), Permissions::from_mode(0o1777)).unwrap();
    let why = write(&link, b"third").unwrap_err().to_string();
    assert!(why.contains("it belongs to user 65534, in a folder that other users can write to"), "{why}");
}

#[test]
fn links_of_this_user_and_of_root_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("folder")).unwrap();
    fs::set_permissions(at("folder"), Permissions::from_mode(0o1777)).unwrap();
    symlink(at("folder"), at("absolute")).unwrap();
    symlink("../absolute/./../folder/file", at("folder/link")).unwrap();
    for text in ["first", "second"] {
        write(&at("absolute/link"), text.as_bytes()).unwrap();
        assert_eq!(fs::read_to_string(at("folder/file")).unwrap(), text);
    }
    symlink("loop", at("loop")).unwrap();
    assert!(write(&at("loop"), b"").unwrap_err().to_string().contains("too many levels"));
    assert_eq!(fs::read_dir(at("folder")).unwrap().count(), 2);
}

#[test]
fn what_another_user_has_in_a_common_folder_is_not_used() {
    let Some(planted) = Planted::new(0o755) else { return };
    let path = planted.at("common/file");
    fs::create_dir(planted.at("common")).unwrap();
    fs::set_permissions(planted.at("common"), Permissions::from_mode(0o1777)).unwrap();
    fs::write(&path, "theirs").unwrap();
    planted.give("common/file");
    let in_folder = |folder: Folder| folder.append("file").map(drop);
    for written in
        [write(&path, b"ours"), append(&path).map(drop), Folder::open(&planted.at("common")).and_then(in_folder)]
    {
        let why = written.unwrap_err().to_string();
        assert_eq!(why, "it belongs to user 65534, in a folder that other users can write to");
    }
    assert_eq!(fs::read(&path).unwrap(), b"theirs");
}

#[test]
fn pipes_of_another_user_are_refused_without_waiting_for_a_reader() {
    let Some(planted) = Planted::new(0o755) else { return };
    mkfifoat(CWD, planted.at("theirs/file"), Mode::RWXU).unwrap();
    planted.give("theirs/file");
    assert_eq!(write_all_ways(&planted.at("theirs/file")).iter().filter(|written| written.is_err()).count(), 5);
    let folder = Folder::open(&planted.at("theirs")).unwrap();
    folder.read("file").unwrap_err();
    folder.append("file").unwrap_err();
}

#[test]
fn a_file_that_another_user_has_linked_is_replaced_but_not_written_to() {
    let Some(planted) = Planted::new(0o755) else { return };
    let path = planted.at("theirs/file");
    fs::hard_link(planted.victim(), &path).unwrap();
    append(&path).unwrap_err();
    let folder = Folder::open(&planted.at("theirs")).unwrap();
    folder.append("file").unwrap_err();
    write(&path, b"ours").unwrap();
    planted.assert_untouched();
    fs::remove_file(&path).unwrap();
    fs::hard_link(planted.victim(), &path).unwrap();
    folder.replace("file", b"ours", None).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"ours");
    planted.assert_untouched();
}

#[test]
fn a_cache_is_only_in_a_folder_of_this_user_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/cache");
    let cache = Folder::create_private(&path, 0o700).unwrap();
    cache.replace("file", b"content", None).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
    assert_eq!(Folder::open_private(&path).unwrap().read_private("file").unwrap(), b"content");
    fs::set_permissions(path.join("file"), Permissions::from_mode(0o666)).unwrap();
    cache.read_private("file").unwrap_err();
    fs::set_permissions(&path, Permissions::from_mode(0o770)).unwrap();
    let why = Folder::open_private(&path).unwrap_err().to_string();
    assert_eq!(why, "other users can write to it; `chmod go-w` prevents that");
    Folder::create_private(&path, 0o700).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o750);
    for shared in [0o777, 0o1770] {
        fs::set_permissions(&path, Permissions::from_mode(shared)).unwrap();
        Folder::create_private(&path, 0o700).unwrap_err();
    }
    let Some(planted) = Planted::new(0o755) else { return };
    let why = Folder::create_private(&planted.at("theirs"), 0o700).unwrap_err().to_string();
    assert_eq!(why, "it belongs to user 65534");
    Folder::create_private(&planted.at("theirs/cache"), 0o700).unwrap_err();
    assert!(!planted.at("theirs/cache").exists());
}

#[test]
fn an_open_file_of_this_process_can_be_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let file = fs::File::options().create(true).truncate(true).read(true).write(true).open(&path).unwrap();
    let named = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    write(Path::new(&named), b"written").unwrap();
    write(Path::new("/dev/null"), b"gone").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"written");
    assert!(matches!(Target::create(Path::new("/dev/stdout")), Ok(Target::Stream(_))));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn only_regular_files_are_opened() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("file"), "content").unwrap();
    symlink(at("file"), at("link")).unwrap();
    symlink(at("missing"), at("dangling")).unwrap();
    rustix::fs::mkfifoat(CWD, at("pipe"), PRIVATE).unwrap();
    for name in ["link", "dangling", "pipe", "."] {
        assert!(name == "link" || open_existing(&at(name)).is_err());
        open_shared(&at(name)).unwrap_err();
        create_new(&at(name)).unwrap_err();
    }
    assert!(!at("missing").exists());
    open_existing(&at("missing")).unwrap_err();
    create_new(&at("file")).unwrap_err();
    open_shared(&at("file")).and_then(|_| open_existing(&at("file"))).unwrap();
    assert_eq!(fs::read(at("file")).unwrap(), b"content");
    create_new(&at("new")).and_then(|_| open_shared(&at("new"))).unwrap();
}

#[test]
fn a_control_file_is_neither_created_nor_truncated() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    write_control(&file, "1").unwrap_err();
    assert!(!file.exists());
    fs::write(&file, "old").unwrap();
    write_control(&file, "1").unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"1ld");
}
