//! Files that are no shared objects, and shared objects with anything in them.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use libtest_mimic::Trial;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rowlock_wait::shared::{Barrier, Event, MOST_MEMBERS, MemoryError, Mutex, Semaphore, unlink};
use rowlock_wait::{Reset, Waiting};

use crate::{place, trial};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("what_is_no_shared_object_is_not_opened", what_is_none_is_not_opened),
        trial("each_field_of_the_header_is_checked", each_field_is_checked),
        trial("a_file_that_has_been_cut_off_or_grown_is_not_opened", wrong_length),
        trial("nothing_is_created_where_something_is", created_once),
        trial("the_number_of_members_has_bounds", bounds),
        trial("only_shared_objects_are_unlinked", only_ours_are_unlinked),
        trial("any_header_is_opened_or_refused", any_header),
        trial("any_content_can_be_waited_at", any_content),
        trial("any_content_of_other_objects_can_be_waited_at", any_other_content),
        trial("a_new_object_has_all_the_memory_that_it_needs", allocated),
    ]
}

fn open(path: &Path) -> Result<Barrier, MemoryError> {
    Barrier::open(path, Waiting::by("always-block".parse().unwrap()))
}

fn create(path: &Path, parties: u32) -> Result<Barrier, MemoryError> {
    Barrier::create(path, parties, Waiting::by("always-block".parse().unwrap()))
}

/// Overwrites what is in a file at some place.
fn write(path: &Path, at: u64, bytes: &[u8]) {
    std::fs::File::options().write(true).open(path).unwrap().write_all_at(bytes, at).unwrap();
}

fn what_is_none_is_not_opened() {
    let (folder, path) = place();
    assert!(matches!(open(&path), Err(MemoryError::System { .. })), "there is none");
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

fn each_field_is_checked() {
    let (_folder, path) = place();
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
    let (_folder, path) = place();
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
    let (_folder, path) = place();
    let _first = create(&path, 3).unwrap();
    let error = create(&path, 2).unwrap_err();
    assert!(matches!(&error, MemoryError::System { why, .. } if why.kind() == std::io::ErrorKind::AlreadyExists));
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    assert_eq!(open(&path).unwrap().parties(), 3);
}

fn bounds() {
    let (_folder, path) = place();
    for parties in [0, MOST_MEMBERS + 1] {
        assert!(matches!(create(&path, parties), Err(MemoryError::Members(found)) if found == parties));
        assert!(!path.exists());
    }
    assert_eq!(create(&path, MOST_MEMBERS).unwrap().parties(), MOST_MEMBERS);
}

fn only_ours_are_unlinked() {
    let (_folder, path) = place();
    std::fs::write(&path, [7; 4096]).unwrap();
    assert!(matches!(unlink(&path), Err(MemoryError::Foreign(_))));
    assert!(path.exists());
    std::fs::remove_file(&path).unwrap();
    let barrier = create(&path, 1).unwrap();
    unlink(&path).unwrap();
    assert!(!path.exists());
    assert!(barrier.join().unwrap().wait().unwrap().is_leader(), "who has it open goes on with it");
}

fn runner() -> TestRunner {
    TestRunner::new(Config { failure_persistence: None, cases: 64, ..Config::default() })
}

fn any_header() {
    let (_folder, path) = place();
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
    let (_folder, path) = place();
    let named = create(&path, MOST_MEMBERS).unwrap();
    let nameless = Barrier::nameless(MOST_MEMBERS, Waiting::default()).unwrap();
    for barrier in [named, nameless] {
        let stat = rustix::fs::fstat(barrier.as_fd()).unwrap();
        // Blocks are of 512 bytes, whatever the file system.
        assert!(stat.st_blocks * 512 >= stat.st_size, "{} blocks for {} bytes", stat.st_blocks, stat.st_size);
    }
}

fn any_other_content() {
    let (_folder, path) = place();
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
    let (_folder, path) = place();
    create(&path, 3).unwrap();
    let whole = std::fs::read(&path).unwrap();
    // Whole words, some of them with what means something.
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
