use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::process::{Pid, Signal, kill_process_group};

use super::*;

const NAME: &str = "folder";

fn enter(place: &tempfile::TempDir) -> SharedFolder {
    SharedFolder::enter(place.path(), NAME).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn the_last_user_that_leaves_removes_the_folder_with_all_files() {
    let place = tempfile::tempdir().unwrap();
    let (first, second) = (enter(&place), enter(&place));
    assert_eq!(first.path(), place.path().join(NAME));
    assert_eq!(fs::metadata(first.path()).unwrap().permissions().mode() & 0o7777, 0o700);
    for number in 0..500 {
        first.create_file(&number.to_string(), b"content").unwrap();
    }
    drop(first);
    assert_eq!(second.read("7", 7).unwrap(), b"content");
    drop(second);
    assert!(names(place.path()).is_empty());
}

#[test]
fn a_folder_that_does_not_exist_is_not_found_and_not_created() {
    let place = tempfile::tempdir().unwrap();
    assert!(SharedFolder::find(place.path(), NAME).unwrap().is_none());
    assert!(SharedFolder::find(&place.path().join("absent"), NAME).unwrap().is_none());
    let user = enter(&place);
    user.create_file("file", b"content").unwrap();
    let found = SharedFolder::find(place.path(), NAME).unwrap().unwrap();
    drop(user);
    assert_eq!(found.read("file", 7).unwrap(), b"content");
    drop(found);
    assert!(names(place.path()).is_empty());
}

#[test]
fn a_look_into_the_folder_reads_and_does_not_keep_it() {
    let place = tempfile::tempdir().unwrap();
    let look = || SharedFolder::look(place.path(), NAME).unwrap();
    assert!(look().is_none());
    let user = enter(&place);
    user.create_file("file", b"content").unwrap();
    let seen = look().unwrap();
    let length = NonZeroUsize::new(8).unwrap();
    assert_eq!((seen.read("file", 7).unwrap(), seen.path()), (b"content".to_vec(), user.path()));
    assert_eq!(seen.map("absent", length).unwrap_err().kind(), io::ErrorKind::NotFound);
    user.map("words", length).unwrap();
    seen.map("words", length).unwrap();
    drop(user);
    assert!(names(place.path()).is_empty());
    assert_eq!(seen.read("file", 7).unwrap_err().kind(), io::ErrorKind::NotFound);
    drop(seen);
    fs::create_dir(place.path().join(NAME)).unwrap();
    fs::set_permissions(place.path().join(NAME), Permissions::from_mode(0o755)).unwrap();
    let refused = SharedFolder::look(place.path(), NAME).unwrap_err();
    assert!(refused.to_string().contains("does not belong to this user alone"), "{refused}");
}

#[test]
fn the_first_user_finds_nothing_of_killed_ones() {
    let place = tempfile::tempdir().unwrap();
    for is_found in [false, true] {
        fs::create_dir(place.path().join(NAME)).unwrap();
        fs::set_permissions(place.path().join(NAME), Permissions::from_mode(0o700)).unwrap();
        fs::write(place.path().join(NAME).join("users"), "").unwrap();
        fs::write(place.path().join(NAME).join("table"), "").unwrap();
        let user = if is_found { SharedFolder::find(place.path(), NAME).unwrap().unwrap() } else { enter(&place) };
        assert_eq!(names(user.path()), ["users"]);
        user.create_file("table", b"").unwrap();
        assert_eq!(names(enter(&place).path()), ["table", "users"]);
        drop(user);
        assert!(names(place.path()).is_empty());
    }
}

#[test]
fn nothing_stays_when_all_users_are_killed_with_their_process_group() {
    testing::isolated_by(
        |mut this| {
            let place = tempfile::tempdir().unwrap();
            this.env("PLACE", place.path()).process_group(0);
            let mut users = [testing::Child::start_piped(&mut this), testing::Child::start_piped(&mut this)];
            for user in &mut users {
                while !user.read_line().contains("begun") {}
            }
            assert_eq!(names(&place.path().join(NAME)).len(), 3);
            for user in users {
                let group = Pid::from_raw(user.id().cast_signed()).unwrap();
                kill_process_group(group, Signal::KILL).unwrap();
                user.wait().expect_signal(libc::SIGKILL);
            }
            while !names(place.path()).is_empty() {
                std::thread::yield_now();
            }
        },
        || {
            let place = std::env::var_os("PLACE").unwrap();
            let user = SharedFolder::enter(Path::new(&place), NAME).unwrap();
            user.create_file(&std::process::id().to_string(), b"").unwrap();
            println!("begun");
            std::thread::park();
        },
    );
}

#[test]
fn a_folder_in_use_is_not_removed_and_another_users_never() {
    let place = tempfile::tempdir().unwrap();
    let opened = File::open(place.path()).unwrap();
    let user = enter(&place);
    assert!(!remove_unused(opened.as_fd(), c"folder"));
    assert_eq!(names(user.path()), ["users"]);
    drop(user);
    fs::create_dir(place.path().join(NAME)).unwrap();
    fs::write(place.path().join(NAME).join("file"), "").unwrap();
    fs::write(place.path().join(NAME).join("users"), "").unwrap();
    let refused = || {
        let why = SharedFolder::enter(place.path(), NAME).unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::PermissionDenied);
        let path = place.path().join(NAME);
        assert_eq!(why.to_string(), format!("{}: it does not belong to this user alone", path.display()));
        SharedFolder::find(place.path(), NAME).unwrap_err();
        assert!(remove_unused(opened.as_fd(), c"folder"));
        assert_eq!(names(&path), ["file", "users"]);
    };
    for mode in [0o710, 0o701, 0o777, 0o1777] {
        fs::set_permissions(place.path().join(NAME), Permissions::from_mode(mode)).unwrap();
        refused();
    }
    if !geteuid().is_root() {
        return eprintln!("skipped: only root can own files as two users");
    }
    fs::set_permissions(place.path().join(NAME), Permissions::from_mode(0o700)).unwrap();
    chown(place.path().join(NAME), Some(testing::NOBODY), None).unwrap();
    refused();
}

#[test]
fn nothing_else_in_place_of_the_folder_or_its_file_is_used() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let refused = |name: &str, why: &str| {
        let error = SharedFolder::enter(place.path(), name).unwrap_err().to_string();
        assert_eq!(error, format!("{}: {why}", at(name).display()));
    };
    fs::create_dir(at("target")).unwrap();
    fs::set_permissions(at("target"), Permissions::from_mode(0o700)).unwrap();
    symlink("target", at("link")).unwrap();
    fs::write(at("file"), "").unwrap();
    refused("link", "it is not a folder");
    refused("file", "it is not a folder");
    assert_eq!(fs::read_dir(at("target")).unwrap().count(), 0);
    fs::create_dir(at("target/users")).unwrap();
    refused("target", "Is a directory (os error 21)");
    fs::remove_dir(at("target/users")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, at("target/users"), Mode::RWXU).unwrap();
    refused("target", "`users` in it is not a regular file");
    refused("missing/folder", "No such file or directory (os error 2)");
}

#[test]
fn a_process_that_keeps_the_lock_does_not_block_others_forever() {
    let place = tempfile::tempdir().unwrap();
    let user = enter(&place);
    let locked = File::open(user.path().join("users")).unwrap();
    flock(&user.entry.as_ref().unwrap().users, FlockOperation::Unlock).unwrap();
    flock(&locked, FlockOperation::NonBlockingLockExclusive).unwrap();
    let try_to_enter = || SharedFolder::try_to_enter(place.path(), NAME, true, Duration::from_millis(20));
    let why = try_to_enter().unwrap_err();
    assert_eq!(why.kind(), io::ErrorKind::TimedOut);
    assert_eq!(why.to_string(), format!("{}: another process keeps it locked", user.path().display()));
    assert!(user.path().exists());
    drop(locked);
    try_to_enter().unwrap();
}

#[test]
fn a_folder_that_was_removed_before_its_file_is_locked_is_not_entered() {
    let place = tempfile::tempdir().unwrap();
    let within = Folder::open(place.path()).unwrap();
    let removal = Removal { within: within.clone(), name: CString::new(NAME).unwrap(), successor: None };
    let open = || {
        let folder = open_own(within.as_fd(), &removal.name).unwrap();
        let users = openat(&folder, USERS, OFlags::RDWR, Mode::empty()).unwrap();
        (folder, users)
    };
    drop(removal.enter(true).unwrap().unwrap());
    let (folder, users) = open();
    assert!(removal.lock(&folder, &users).unwrap());
    flock(&users, FlockOperation::Unlock).unwrap();
    assert!(remove_unused(within.as_fd(), &removal.name));
    assert!(!removal.lock(&folder, &users).unwrap());
    // The next user has created another one.
    drop(removal.enter(true).unwrap().unwrap());
    assert!(!removal.lock(&folder, &users).unwrap());
    let (folder, users) = open();
    fs::remove_file(place.path().join(NAME).join("users")).unwrap();
    assert!(!removal.lock(&folder, &users).unwrap());
    drop(removal.enter(true).unwrap().unwrap());
    let (folder, users) = open();
    fs::rename(place.path().join(NAME), place.path().join("other")).unwrap();
    assert!(!removal.lock(&folder, &users).unwrap());
}

#[test]
fn users_that_enter_and_leave_at_once_always_have_a_folder_and_leave_none() {
    let place = tempfile::tempdir().unwrap();
    let is_over = AtomicBool::new(false);
    // Without a process for each, which would make races rare.
    let enter = || {
        let within = Folder::open(place.path()).unwrap();
        let removal = Removal { within, name: CString::new(NAME).unwrap(), successor: None };
        loop {
            if let Some((folder, users)) = removal.enter(true).unwrap() {
                let opened = Folder::from_opened(folder, place.path().join(NAME));
                return SharedFolder { opened, entry: Some(Entry { users, _removal: removal }) };
            }
        }
    };
    std::thread::scope(|scope| {
        // Successors of killed processes.
        scope.spawn(|| {
            let within = File::open(place.path()).unwrap();
            while !is_over.load(Ordering::Relaxed) {
                remove_unused(within.as_fd(), c"folder");
            }
        });
        let visit = |number: i32| {
            for round in 0..250 {
                let (user, file) = (enter(), format!("{number}-{round}"));
                user.create_file(&file, b"content").unwrap();
                std::thread::yield_now();
                assert_eq!(fs::read(user.path().join(&file)).unwrap(), b"content");
            }
        };
        let users: Vec<_> = (0..4).map(|number| scope.spawn(move || visit(number))).collect();
        let ended: Vec<_> = users.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(ended.iter().all(Result::is_ok));
    });
    assert!(names(place.path()).is_empty());
}

#[test]
fn a_file_is_created_once_and_read_up_to_a_limit() {
    let place = tempfile::tempdir().unwrap();
    let user = enter(&place);
    user.create_file("file", b"first").unwrap();
    let why = user.create_file("file", b"second").unwrap_err();
    assert_eq!(why.kind(), io::ErrorKind::AlreadyExists);
    assert!(why.to_string().starts_with(user.path().join("file: ").to_str().unwrap()), "{why}");
    assert_eq!(names(user.path()), ["file", "users"]);
    assert_eq!(user.read("file", 5).unwrap(), b"first");
    assert!(user.read("file", 4).unwrap_err().to_string().ends_with("/folder/file: it is longer than 4 bytes"));
    symlink("file", user.path().join("link")).unwrap();
    user.read("link", 5).unwrap_err();
    user.remove("file").unwrap();
    assert_eq!(user.read("file", 5).unwrap_err().kind(), io::ErrorKind::NotFound);
    user.remove("file").unwrap();
    assert_eq!(user.as_folder().path(), user.path());
}

#[test]
fn all_users_map_the_same_memory_of_the_same_length() {
    let place = tempfile::tempdir().unwrap();
    let length = NonZeroUsize::new(8192).unwrap();
    let users = [enter(&place), enter(&place), enter(&place)];
    for round in 0..20 {
        let all_begin = Barrier::new(users.len());
        let count = |user: &SharedFolder| {
            all_begin.wait();
            let memory = user.map(&format!("table-{round}"), length).unwrap();
            memory.get::<AtomicU64>(8184).unwrap().fetch_add(1, Ordering::Relaxed);
            memory
        };
        std::thread::scope(|scope| {
            let threads = users.each_ref().map(|user| scope.spawn(|| count(user)));
            threads.into_iter().for_each(|thread| drop(thread.join().unwrap()));
        });
        let memory = users[0].map(&format!("table-{round}"), length).unwrap();
        assert_eq!(memory.get::<AtomicU64>(8184).unwrap().load(Ordering::Relaxed), 3);
    }
    let why = users[0].map("table-0", NonZeroUsize::MIN).unwrap_err();
    assert_eq!(why.kind(), io::ErrorKind::InvalidData);
    assert!(why.to_string().ends_with("/table-0: it has 8192 bytes instead of 1"), "{why}");
    let memory = users[0].map("table-0", length).unwrap();
    drop(users);
    assert_eq!(memory.get::<AtomicU64>(8184).unwrap().load(Ordering::Relaxed), 3);
}
