//! Files that are not shared objects, and shared objects with arbitrary content.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use libtest_mimic::Trial;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rowlock_wait::shared::{Barrier, Event, MOST_MEMBERS, MemoryError, Mutex, Semaphore, unlink};
use rowlock_wait::{Reset, Waiting};

use crate::{object_path, trial};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("a_file_that_is_not_a_shared_object_is_not_opened", foreign_files),
        trial("each_field_of_the_header_is_checked", header_fields),
        trial("a_file_of_the_wrong_length_is_not_opened", wrong_length),
        trial("an_existing_file_is_not_overwritten", created_once),
        trial("the_number_of_parties_is_limited", bounds),
        trial("only_shared_objects_are_unlinked", unlink_checks),
        trial("any_header_is_opened_or_rejected", any_header),
        trial("a_barrier_with_any_content_can_be_used", any_content),
        trial("other_objects_with_any_content_can_be_used", any_other_content),
        trial("a_new_object_has_all_its_memory_allocated", allocated),
    ]
}

fn open(path: &Path) -> Result<Barrier, MemoryError> {
    Barrier::open(path, Waiting::by("always-block".parse().unwrap()))
}

fn create(path: &Path, parties: u32) -> Result<Barrier, MemoryError> {
    Barrier::create(path, parties, Waiting::by("always-block".parse().unwrap()))
}

/// Overwrites part of a file.
fn write(path: &Path, at: u64, bytes: &[u8]) {
    std::fs::File::options().write(true).open(path).unwrap().write_all_at(bytes, at).unwrap();
}

fn foreign_files() {
    let (folder, path) = object_path();
    assert!(matches!(open(&path), Err(MemoryError::System { .. })), "a missing file");
    assert!(matches!(open(folder.path()), Err(MemoryError::System { .. })), "a folder");
    for content in [&b""[..], b"rowlock\x81", &[0; 4096], &[b'x'; 4096]] {
        std::fs::write(&path, content).unwrap();
        assert!(matches!(open(&path), Err(MemoryError::Foreign(_))), "{content:?}");
    }
    for special in ["/dev/null", "/dev/zero", "/dev/tty"] {
        assert!(open(Path::new(special)).is_err(), "{special}");
    }
    let (reader, _writer) = std::io::pipe().unwrap();
    assert!(matches!(Barrier::from_fd(reader.into(), Waiting::default()), Err(MemoryError::Foreign(_))));
}

fn header_fields() {
    let (_folder, path) = object_path();
    create(&path, 3).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let with = |at: u64, bytes: &[u8]| {
        std::fs::write(&path, &whole).unwrap();
        write(&path, at, bytes);
        open(&path)
    };
    assert!(with(0, b"").is_ok());
    assert!(matches!(with(0, b"R"), Err(MemoryError::Foreign(_))));
    assert!(matches!(with(8, &7_u32.to_ne_bytes()), Err(MemoryError::Version { found: 7 })));
    assert!(matches!(with(12, &99_u32.to_ne_bytes()), Err(MemoryError::Kind { found: 99, .. })));
    for members in [0, MOST_MEMBERS + 1, u32::MAX] {
        let error = with(16, &members.to_ne_bytes()).unwrap_err();
        assert!(matches!(error, MemoryError::Members(found) if found == members), "{error}");
    }
    for members in [2_u32, 4, MOST_MEMBERS] {
        assert!(matches!(with(16, &members.to_ne_bytes()), Err(MemoryError::Length { .. })), "{members}");
    }
    assert!(matches!(with(24, &1_u64.to_ne_bytes()), Err(MemoryError::Length { .. })));
}

fn wrong_length() {
    let (_folder, path) = object_path();
    create(&path, 3).unwrap();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    let whole = file.metadata().unwrap().len();
    for length in [whole - 1, whole / 2, whole + 1, whole * 2] {
        file.set_len(length).unwrap();
        let error = open(&path).unwrap_err();
        assert!(matches!(error, MemoryError::Length { expected, found } if expected == whole && found == length));
    }
}

fn created_once() {
    let (_folder, path) = object_path();
    let _first = create(&path, 3).unwrap();
    let error = create(&path, 2).unwrap_err();
    assert!(matches!(&error, MemoryError::System { why, .. } if why.kind() == std::io::ErrorKind::AlreadyExists));
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    assert_eq!(open(&path).unwrap().parties(), 3);
}

fn bounds() {
    let (_folder, path) = object_path();
    for parties in [0, MOST_MEMBERS + 1] {
        assert!(matches!(create(&path, parties), Err(MemoryError::Members(found)) if found == parties));
        assert!(!path.exists());
    }
    assert_eq!(create(&path, MOST_MEMBERS).unwrap().parties(), MOST_MEMBERS);
}

fn unlink_checks() {
    let (_folder, path) = object_path();
    std::fs::write(&path, [7; 4096]).unwrap();
    assert!(matches!(unlink(&path), Err(MemoryError::Foreign(_))));
    assert!(path.exists());
    std::fs::remove_file(&path).unwrap();
    let barrier = create(&path, 1).unwrap();
    unlink(&path).unwrap();
    assert!(!path.exists());
    assert!(barrier.join().unwrap().wait().unwrap().is_leader(), "an open barrier remains usable");
}

fn runner() -> TestRunner {
    TestRunner::new(Config { failure_persistence: None, cases: 64, ..Config::default() })
}

fn any_header() {
    let (_folder, path) = object_path();
    create(&path, 3).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let bytes = proptest::collection::vec((0..128_usize, any::<u8>()), 0..4);
    let length = prop_oneof![Just(whole.len()), 0..2 * whole.len()];
    runner()
        .run(&(bytes, length), |(bytes, length)| {
            let mut content = whole.clone();
            bytes.iter().for_each(|&(at, byte)| content[at] = byte);
            content.resize(length, 0);
            std::fs::write(&path, &content).unwrap();
            if let Ok(barrier) = open(&path) {
                prop_assert_eq!(barrier.parties(), 3);
            }
            Ok(())
        })
        .unwrap();
}

fn allocated() {
    use std::os::fd::AsFd;
    let (_folder, path) = object_path();
    let named = create(&path, MOST_MEMBERS).unwrap();
    let nameless = Barrier::nameless(MOST_MEMBERS, Waiting::default()).unwrap();
    for barrier in [named, nameless] {
        let stat = rustix::fs::fstat(barrier.as_fd()).unwrap();
        // Blocks have 512 bytes, whatever the file system.
        assert!(stat.st_blocks * 512 >= stat.st_size, "{} blocks for {} bytes", stat.st_blocks, stat.st_size);
    }
}

fn any_other_content() {
    let (_folder, path) = object_path();
    let waiting = || Waiting::by("always-block".parse().unwrap());
    let short = Duration::from_micros(100);
    let word = prop_oneof![Just(0), Just(u64::MAX), Just(u64::from(u32::MAX) << 32), 0..9_u64, any::<u64>()];
    runner()
        .run(&(0..3, proptest::collection::vec(word, 64)), |(kind, body)| {
            match kind {
                0 => drop(Mutex::create(&path, 2, waiting()).unwrap()),
                1 => drop(Semaphore::create(&path, 2, 0, waiting()).unwrap()),
                _ => drop(Event::create(&path, 2, Reset::Auto, waiting()).unwrap()),
            }
            let mut content = std::fs::read(&path).unwrap();
            let words = content[128..].chunks_exact_mut(8);
            words.zip(&body).for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_ne_bytes()));
            std::fs::write(&path, &content).unwrap();
            if let Ok(mutex) = Mutex::open(&path, waiting()) {
                let _ = mutex.lock_timeout(short);
                let _ = mutex.statistics().plus(mutex.statistics());
            }
            if let Ok(semaphore) = Semaphore::open(&path, waiting()) {
                let _ = (semaphore.down_timeout(short), semaphore.up(), semaphore.forget_dead_processes());
                let _ = semaphore.statistics().plus(semaphore.statistics());
            }
            if let Ok(event) = Event::open(&path, waiting()) {
                let _ = event.wait_timeout(short);
                event.set();
                let _ = (event.wait_timeout(short), event.forget_dead_processes());
            }
            std::fs::remove_file(&path).unwrap();
            Ok(())
        })
        .unwrap();
}

fn any_content() {
    let (_folder, path) = object_path();
    create(&path, 3).unwrap();
    let whole = std::fs::read(&path).unwrap();
    // Whole words, some of them with meaningful values.
    let word = prop_oneof![Just(0), Just(u64::MAX), 0..9_u64, any::<u64>()];
    let body = proptest::collection::vec(word, (whole.len() - 128) / 8);
    let rule = (0..policy::table::WAITING.len()).prop_map(|at| policy::table::WAITING[at].example);
    runner()
        .run(&(body, rule), |(body, rule)| {
            let mut content = whole[..128].to_vec();
            body.iter().for_each(|word| content.extend(word.to_ne_bytes()));
            std::fs::write(&path, &content).unwrap();
            let barrier = Barrier::open(&path, Waiting::by(rule).with_costs(Default::default())).unwrap();
            let _ = barrier.statistics();
            if let Ok(mut party) = barrier.join() {
                for _ in 0..3 {
                    let _ = party.wait_timeout(Duration::from_micros(100));
                }
                let _ = party.arrive_and_leave();
            }
            Ok(())
        })
        .unwrap();
}
