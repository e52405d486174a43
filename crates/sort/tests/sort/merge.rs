//! Merge sorts with so little memory that every code path runs.

use std::io::Cursor;
use std::process::Command;

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rowlock_sort::budget::LEAST;
use rowlock_sort::{Algorithm, Format, Input, Key, KeyKind, Order, Outcome, Output, Sort, SortError, Variant};

/// Little memory, so that there are several runs.
const MEMORY: u64 = 256 << 10;

/// Sorts these bytes with little memory and these options.
fn sorted(order: Order, bytes: Vec<u8>, how: impl FnOnce(Sort) -> Sort) -> Result<(Vec<u8>, Outcome), SortError> {
    // In memory if possible, since removing files from a disk takes longer than the rest.
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let target = folder.path().join("sorted");
    let sort = how(Sort { memory: MEMORY, temporary: folder.path().to_owned(), ..Sort::new(order) });
    let outcome = sort.run(Input::stream("a test", Cursor::new(bytes)), Output::create(&target)?)?;
    let sorted = std::fs::read(&target).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "temporary files remain");
    Ok((sorted, outcome))
}

fn verified(sort: Sort) -> Sort {
    Sort { verifies: true, ..sort }
}

/// Records of twelve bytes: a key of four bytes with few values, and eight bytes that identify the
/// record.
fn records(count: u32, seed: u64) -> Vec<u8> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    (0..count)
        .flat_map(|index| [(random.next_u32() % 1000).to_be_bytes(), index.to_be_bytes(), [0, 0, 1, 2]].concat())
        .collect()
}

fn by_the_first_four() -> Order {
    Order::new(Format::Fixed(12), vec![Key { offset: 0, length: Some(4), kind: KeyKind::Bytes, descending: false }])
        .unwrap()
}

#[test]
fn many_runs_are_merged_at_once_and_equal_records_stay_in_order() {
    let bytes = records(60_000, 1);
    let mut expected: Vec<[u8; 12]> = bytes.as_chunks().0.to_vec();
    expected.sort_by_key(|record| record[..4].to_vec());
    let (sorted, outcome) = sorted(by_the_first_four(), bytes, verified).unwrap();
    assert!(sorted == expected.concat(), "{outcome:?}");
    assert_eq!((outcome.records, outcome.written, outcome.passes), (60_000, 60_000, 1));
    assert!(outcome.runs > 5, "{}", outcome.runs);
}

#[test]
fn too_many_runs_are_merged_in_several_passes() {
    let bytes = records(400_000, 2);
    let mut expected: Vec<[u8; 12]> = bytes.as_chunks().0.to_vec();
    expected.sort_by_key(|record| record[..4].to_vec());
    let (sorted, outcome) = sorted(by_the_first_four(), bytes, verified).unwrap();
    assert!(sorted == expected.concat());
    assert!(outcome.passes > 1, "{outcome:?}");
}

#[test]
fn of_equal_records_the_first_is_kept() {
    let bytes = records(50_000, 3);
    let mut expected: Vec<[u8; 12]> = bytes.as_chunks().0.to_vec();
    expected.sort_by_key(|record| record[..4].to_vec());
    expected.dedup_by_key(|record| record[..4].to_vec());
    let (sorted, outcome) =
        sorted(by_the_first_four(), bytes, |sort| Sort { is_unique: true, ..verified(sort) }).unwrap();
    assert!(sorted == expected.concat());
    assert_eq!(outcome.written, 1000);
}

#[test]
fn lines_with_a_long_common_prefix_are_sorted_despite_a_wrong_forecast() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(4);
    let prefix = "x".repeat(300);
    let mut lines: Vec<String> = (0..3000).map(|_| format!("{prefix}{}\n", random.next_u32() % 500)).collect();
    let order = Order::new(Format::Lines, Vec::new()).unwrap();
    let (sorted, outcome) = sorted(order, lines.concat().into_bytes(), verified).unwrap();
    lines.sort_by(|left, right| left.trim_end().cmp(right.trim_end()));
    assert!(sorted == lines.concat().into_bytes());
    assert!(outcome.runs > 5, "{}", outcome.runs);
}

#[test]
#[ignore = "sorts 80 MB; ./check --full runs it"]
fn blocks_that_were_read_directly_may_be_freed_before_their_turn() {
    // Temporary files are freed in segments of 64 MiB.
    let mut random = Xoshiro256PlusPlus::seed_from_u64(8);
    let prefix = "x".repeat(300);
    let mut lines: Vec<String> = (0..260_000).map(|_| format!("{prefix}{:08x}\n", random.next_u32())).collect();
    let order = Order::new(Format::Lines, Vec::new()).unwrap();
    let (sorted, outcome) =
        sorted(order, lines.concat().into_bytes(), |sort| Sort { memory: 16 << 20, ..sort }).unwrap();
    lines.sort_unstable();
    assert!(sorted == lines.concat().into_bytes());
    assert_eq!(outcome.passes, 1);
}

#[test]
fn lines_of_any_length_are_sorted_and_too_long_ones_are_refused() {
    let order = || Order::new(Format::Lines, Vec::new()).unwrap();
    let long = |length: usize, with: &str| format!("{}\n", with.repeat(length));
    let mut lines = vec!["b\n".to_owned(), long(14_000, "c"), "\n".to_owned(), long(12_000, "a"), "\0\n".to_owned()];
    lines.extend((0..20_000).map(|number| format!("{number}\n")));
    let (bytes, outcome) = sorted(order(), lines.concat().into_bytes(), verified).unwrap();
    lines.sort_by(|left, right| left.trim_end_matches('\n').cmp(right.trim_end_matches('\n')));
    assert!(bytes == lines.concat().into_bytes() && outcome.runs > 1);

    lines.push(long(200_000, "d"));
    let error = sorted(order(), lines.concat().into_bytes(), |sort| sort).unwrap_err();
    assert!(matches!(error, SortError::TooLong { .. }), "{error}");
}

#[test]
fn short_lines_after_a_very_long_one_form_few_runs() {
    let order = || Order::new(Format::Lines, Vec::new()).unwrap();
    let short: Vec<String> = (0..30_000).map(|number| format!("{number}\n")).collect();
    let runs = |first: &str| {
        let bytes = [first.to_owned(), short.concat()].concat().into_bytes();
        sorted(order(), bytes, verified).unwrap().1.runs
    };
    let (plain, behind) = (runs(""), runs(&format!("{}\n", "x".repeat(12_000))));
    assert!(behind <= plain + 4, "{behind} runs, and {plain} without it");
}

#[test]
fn a_long_line_among_empty_ones_may_have_the_maximum_length() {
    let empty = "\n".repeat(8_000);
    let long = format!("{}\n", "x".repeat(15_000));
    let order = Order::new(Format::Lines, Vec::new()).unwrap();
    let lines = [&*empty, &long, &empty, &long, &long].concat();
    let (bytes, outcome) = sorted(order, lines.into_bytes(), verified).unwrap();
    assert!(bytes == [&*empty, &empty, &long, &long, &long].concat().into_bytes());
    assert!(outcome.runs > 3, "{}", outcome.runs);
}

#[test]
fn a_truncated_last_record_is_an_error() {
    let mut bytes = records(50_000, 5);
    bytes.pop();
    let error = sorted(by_the_first_four(), bytes, |sort| sort).unwrap_err();
    assert!(matches!(error, SortError::Truncated { left: 11, size: 12, .. }), "{error}");
}

#[test]
fn empty_input_and_a_single_record_are_sorted() {
    for bytes in [Vec::new(), records(1, 6)] {
        let (sorted, outcome) = sorted(by_the_first_four(), bytes.clone(), verified).unwrap();
        assert_eq!((sorted.len(), outcome.records), (bytes.len(), bytes.len() as u64 / 12));
    }
    let order = Order::new(Format::Lines, Vec::new()).unwrap();
    assert_eq!(sorted(order, b"no line feed".to_vec(), verified).unwrap().0, b"no line feed\n");
}

#[test]
fn memory_that_cannot_be_allocated_is_an_error() {
    let order = Order::new(Format::Lines, Vec::new()).unwrap();
    let error = sorted(order, b"b\na\n".to_vec(), |sort| Sort { memory: u64::MAX, ..sort }).unwrap_err();
    assert!(matches!(error, SortError::Allocation(_)) && error.to_string().contains("give less"), "{error}");
}

#[test]
fn the_least_memory_suffices_and_less_is_refused() {
    let lines: Vec<String> =
        (0..10_000_u32).map(|number| format!("{}\n", number.wrapping_mul(2_654_435_761))).collect();
    let bytes = || lines.concat().into_bytes();
    let order = || Order::new(Format::Lines, Vec::new()).unwrap();
    let with = |memory| move |sort| Sort { memory, verifies: true, ..sort };
    let (sorted_lines, outcome) = sorted(order(), bytes(), with(LEAST)).unwrap();
    let mut expected = lines.clone();
    expected.sort_unstable();
    assert!(sorted_lines == expected.concat().into_bytes() && outcome.runs > 9, "{}", outcome.runs);
    let (sorted_records, _) = sorted(by_the_first_four(), records(3_000, 9), with(LEAST)).unwrap();
    assert_eq!(sorted_records.len(), 36_000);
    let error = sorted(order(), bytes(), with(LEAST - 1)).unwrap_err();
    assert!(matches!(error, SortError::Memory { needed: LEAST, .. }), "{error}");
}

#[test]
fn a_small_file_needs_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("records");
    std::fs::write(&from, records(1_000, 7)).unwrap();
    let output = Output::create(&folder.path().join("sorted")).unwrap();
    let outcome = Sort::new(by_the_first_four()).run(Input::open(&from).unwrap(), output).unwrap();
    assert!(outcome.memory < 200_000 && outcome.passes == 0, "{}", outcome.memory);
}

#[test]
fn buffers_of_another_size_are_rejected() {
    let start = |mut command: Command| testing::expect_pass(command.env("ROWLOCK_PIPELINE", "block=1000"));
    testing::isolated_by(start, || {
        let folder = tempfile::tempdir().unwrap();
        let from = folder.path().join("records");
        std::fs::write(&from, records(10_000, 7)).unwrap();
        for algorithm in [Algorithm::Merge, Algorithm::Columnsort(Variant::IoBound)] {
            let inputs = [Input::open(&from).unwrap(), Input::stream("a test", Cursor::new(records(10_000, 7)))];
            for input in inputs {
                let (order, temporary) = (by_the_first_four(), folder.path().to_owned());
                let sort = Sort { memory: 1 << 20, temporary, algorithm, ..Sort::new(order) };
                let error = sort.run(input, Output::stream("nowhere", std::io::sink())).unwrap_err();
                assert!(matches!(error, SortError::Unsupported(_)), "{error}");
            }
        }
    });
}
