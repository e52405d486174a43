//! Memory that is not that of a job, and memory that others write to.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use libtest_mimic::Trial;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rowlock_message::{Error, JoinError, Source, Tag, environment, join, join_named, memory};
use wait::Waiting;

use crate::named::object_path;
use crate::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("a_file_that_is_no_memory_of_a_job_is_an_error", foreign),
        trial("an_environment_without_a_job_is_an_error", environments),
        trial("a_record_of_nonsense_is_an_error_that_names_the_rank", nonsense),
        trial("a_rank_that_announces_memory_that_it_does_not_have_is_named", announced),
        trial("arbitrary_words_in_rings_neither_end_nor_hang_a_rank", arbitrary),
        trial("a_full_file_system_is_an_error", full),
    ]
}

fn write(file: &File, word: u64, value: u64) {
    file.write_all_at(&value.to_ne_bytes(), word * 8).unwrap();
}

/// The error of joining this file.
fn refusal(path: &Path) -> JoinError {
    join_named(path, 0, 2, Waiting::default()).unwrap_err()
}

fn foreign() {
    let (folder, path) = object_path();
    std::fs::write(&path, b"short").unwrap();
    assert!(matches!(refusal(&path), JoinError::Foreign { .. }));
    std::fs::write(&path, vec![7; 1 << 20]).unwrap();
    assert!(matches!(refusal(&path), JoinError::Foreign { .. }));
    assert!(matches!(refusal(folder.path()), JoinError::System { .. }));
    std::fs::remove_file(&path).unwrap();

    let _rank = join_named(&path, 1, 2, Waiting::default()).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(length + 4096).unwrap();
    assert!(
        matches!(refusal(&path), JoinError::Length { found, expected } if (found, expected) == (length + 4096, length))
    );
    file.set_len(length).unwrap();
    write(&file, 1, 99);
    assert!(matches!(refusal(&path), JoinError::Version { found: 99, known: 1 }));
    write(&file, 1, 1);
    for (word, value) in [(2, 0), (2, 257), (2, u64::MAX), (3, 0), (3, 3), (3, 1 << 40), (3, u64::MAX)] {
        let mut before = [0; 8];
        file.read_exact_at(&mut before, word * 8).unwrap();
        write(&file, word, value);
        assert!(matches!(refusal(&path), JoinError::Foreign { .. }), "{word} {value}");
        file.write_all_at(&before, word * 8).unwrap();
    }
    join_named(&path, 0, 2, Waiting::default()).unwrap();
}

fn environments() {
    // No test of this program has these variables.
    assert!(matches!(join(Waiting::default()), Err(JoinError::Environment { variable: environment::RANK, .. })));
    for ranks in [0, 257] {
        let why = memory::create(ranks).unwrap_err().to_string();
        assert_eq!(why, format!("only jobs of 1 to 256 ranks can exchange messages: this one has {ranks}"));
    }
}

/// The first word of the first line of the ring from rank 0 to rank 1 of two, as a place in words.
fn first_line() -> u64 {
    let slots = 4096 / 8;
    let ring = (32 + 1024 * 8_u64).next_multiple_of(512);
    slots + 2 * ring + 32
}

/// Ranks 0 and 1 of two in this process, and their file.
fn pair() -> (File, [rowlock_message::Communicator; 2]) {
    let (_folder, path) = object_path();
    let first = join_named(&path, 0, 2, Waiting::default()).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    (file, [first, join_named(&path, 1, 2, Waiting::default()).unwrap()])
}

fn nonsense() {
    let (file, [zero, one]) = pair();
    zero.send(1, 3, &[7_u8]).unwrap();
    let mut before = [0; 8];
    file.read_exact_at(&mut before, first_line() * 8).unwrap();
    write(&file, first_line(), 0xff);
    let damaged = Error::Damaged { rank: 0, what: "it has written no record" };
    assert_eq!(one.receive(0, 3, &mut [0_u8]), Err(damaged));
    file.write_all_at(&before, first_line() * 8).unwrap();
    one.receive(0, 3, &mut [0_u8]).unwrap();
    // The reader has freed more than was written.
    write(&file, first_line() - 32, u64::MAX / 2);
    let why = loop {
        if let Err(why) = zero.send(1, 3, &[0_u64; 1_000]) {
            break why;
        }
    };
    assert_eq!(why, Error::Damaged { rank: 1, what: "it has freed more of the ring than was used" });
}

fn announced() {
    let (file, [zero, one]) = pair();
    zero.send(1, 3, &[0_u64; 3]).unwrap();
    // An announced message of 24 bytes of payload: number, length, address.
    write(&file, first_line(), 2 | 24 << 8);
    for (word, value) in [(2, 1), (3, 1 << 45), (4, 8)] {
        write(&file, first_line() + word, value);
    }
    let status = one.probe::<u8>(0, 3).unwrap();
    assert_eq!(status.count, 1 << 45);
    let why = one.receive(0, 3, &mut [0_u8]).unwrap_err();
    assert!(matches!(why, Error::TooShort { rank: 0, length: 0x2000_0000_0000, .. }), "{why}");
    // A call that waits fetches it, and finds nothing there.
    let why = one.receive(0, 4, &mut [0_u8]).unwrap_err();
    assert_eq!(why, Error::Damaged { rank: 0, what: "it has announced memory that it does not have" });
}

fn arbitrary() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    for _ in 0..40 {
        let (file, [zero, one]) = pair();
        // Both rings are in use.
        zero.send(1, 0, &[0_u8]).unwrap();
        one.send(0, 0, &[0_u8]).unwrap();
        let (begin, length) = (first_line() - 32, 32 + 1024 * 8);
        for _ in 0..200 {
            let word = random.next_u64() % length;
            // Records of all kinds, and any words.
            let value = match random.next_u64() % 3 {
                0 => random.next_u64(),
                1 => (random.next_u64() % 6) | ((random.next_u64() % 40) << 8),
                _ => random.next_u64() % 8,
            };
            write(&file, begin + word / 8 * 8, value);
            write(&file, begin + word, value);
            let _ = zero.isend(1, 1, vec![7_u8; 100]);
            let _ = zero.iprobe::<u8>(Source::Any, Tag::Any);
            let _ = one
                .iprobe::<u8>(Source::Any, Tag::Any)
                .map(|status| status.map(|status| one.receive(status.source, status.tag, &mut [0_u8; 64])));
        }
        // Leaving waits for room, as long as the other rank is there.
        std::thread::scope(|scope| {
            scope.spawn(move || drop(zero));
            scope.spawn(move || drop(one));
        });
    }
}

fn full() {
    let folder = tempfile::tempdir().unwrap();
    // Room for the slots, and for no ring.
    let script = "mount -t tmpfs -o size=40k none $1 && exec $0";
    let mut command = testing::command("unshare");
    command.args(["--mount", "sh", "-c", script]).arg(std::env::current_exe().unwrap()).arg(folder.path());
    let place = folder.path().join("job");
    command.env(crate::rank::PART, format!("named {} 0 2 overfill", place.display()));
    let output = testing::run(&mut command);
    if output.stderr.contains("ermitted") || output.stderr.contains("denied") {
        return testing::skip_part("ROWLOCK_REQUIRE_ENVIRONMENTS", "a small file system", "mounting it needs rights");
    }
    let why = "cannot exchange messages with rank 1: No space left on device (os error 28)\n";
    output.expect_success().expect_stdout(why);
}
