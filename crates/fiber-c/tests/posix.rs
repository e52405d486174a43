//! The cases of the Open POSIX Test Suite for functions that this library has pass when they are
//! compiled with `my_pthread_port.h`.
//!
//! `.ci/setup-posix` downloads the suite on Debian, and `./check --full` runs it. Some cases depend
//! on timing or are wrong, and fail now and then with the C library too. So those that fail are run
//! again, alone: to pass once, or to end as with the C library, is enough.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

#[path = "common/library.rs"]
mod library;

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use library::LIBRARY;
use testing::posix::{build, cases, name, outcome};

/// Cases that fail, and why that is documented behaviour.
const DIFFERENT: [(&str, &str); 11] = [
    ("nanosleep-1-3", "signals do not interrupt waits"),
    ("nanosleep-5-2", "signals do not interrupt waits"),
    ("nanosleep-7-1", "signals do not interrupt waits"),
    ("nanosleep-7-2", "signals do not interrupt waits"),
    ("sem_timedwait-9-1", "signals do not interrupt waits"),
    ("sem_wait-13-1", "signals do not interrupt waits"),
    ("pthread_cond_timedwait-2-3", "it unlocks a mutex that another thread holds"),
    ("pthread_mutexattr_settype-2-1", "it locks a normal mutex twice, to wait forever"),
    ("pthread_rwlock_unlock-4-1", "unlocking what is not locked is EPERM, not EINVAL"),
    ("sem_init-3-2", "semaphores are not shared between processes"),
    ("sem_init-3-3", "semaphores are not shared between processes"),
];

/// Most cases sleep most of the time.
const WORKERS: usize = 16;

const PASSED: &str = "exit status: 0";

#[test]
#[ignore = "needs the suite; `./check --full` runs it"]
fn the_open_posix_test_suite_passes_with_user_level_threads() {
    let header = std::fs::read_to_string(LIBRARY.include().join("my_pthread_port.h")).unwrap();
    let is_ported = |function: &str| header.contains(&format!("#define {function} my_"));
    let poisoned = header.lines().filter_map(|line| line.strip_prefix("#pragma GCC poison "));
    let poisoned: Vec<&str> = poisoned.flat_map(str::split_whitespace).collect();

    let mut cases = cases(is_ported);
    cases.retain(|case| {
        let source = source(case);
        let is_different = DIFFERENT.iter().any(|(different, _)| *different == name(case));
        !is_different && source.contains("main") && !poisoned.iter().any(|function| source.contains(function))
    });
    assert!(cases.len() > 150, "the suite is incomplete: {} cases", cases.len());
    let folder = tempfile::tempdir().unwrap();
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Relaxed)) {
                    if ported(case, folder.path()) != PASSED {
                        failed.lock().unwrap().push(case);
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner().unwrap();
    let is_right = |end: String, case| end == PASSED || end == native(case, folder.path());
    failed.retain(|case| !(0..5).any(|_| is_right(ported(case, folder.path()), case)));
    assert!(failed.is_empty(), "{failed:#?}");
}

/// The text of a case, with the files of the suite that it includes.
fn source(case: &Path) -> String {
    let text =
        |file: &Path| std::fs::read(file).map_or(String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned());
    let own = text(case);
    let names = own.lines().filter_map(|line| line.trim().strip_prefix("#include \"")?.split('"').next());
    let included: String = names.map(|name| text(&case.with_file_name(name))).collect();
    own + &included
}

/// How a case ends with this library.
fn ported(case: &Path, folder: &Path) -> String {
    let (include, libraries) = (LIBRARY.include(), LIBRARY.folder());
    let header = ["-include".as_ref(), "my_pthread_port.h".as_ref(), "-I".as_ref(), include.as_os_str()];
    let linked: [&OsStr; 3] = ["-L".as_ref(), libraries.as_os_str(), "-lmy_pthread".as_ref()];
    let program = build(case, &folder.join("ported"), &[&header[..], &linked].concat());
    program.map_or("not built".to_owned(), |program| {
        outcome(&program, |command| _ = command.env("LD_LIBRARY_PATH", libraries))
    })
}

/// How it ends with the C library.
fn native(case: &Path, folder: &Path) -> String {
    build(case, &folder.join("native"), &[]).map_or("not built".to_owned(), |program| outcome(&program, |_| ()))
}
