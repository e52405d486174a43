//! Columnsort has the same output as the standard library's stable sort, for any records and with
//! little memory.

use std::fs;
use std::io::{Cursor, Read};
use std::os::unix::fs::FileExt;
use std::process::Command;

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rowlock_sort::columnsort::shape::Shape;
use rowlock_sort::{Algorithm, Format, Input, Key, KeyKind, Order, Outcome, Output, Sort, SortError, Variant};

pub(crate) const VARIANTS: [Variant; 2] = [Variant::IoBound, Variant::ComputeBound];

/// The records to sort, and the options.
pub(crate) struct Case {
    pub(crate) what: String,
    pub(crate) size: usize,
    pub(crate) keys: Vec<Key>,
    pub(crate) records: Vec<u8>,
    /// The memory in percent of the minimum.
    pub(crate) memory: u64,
    pub(crate) is_unique: bool,
}

impl Case {
    pub(crate) fn order(&self) -> Order {
        Order::new(Format::Fixed(self.size), self.keys.clone()).unwrap()
    }

    fn sort(&self, variant: Variant) -> Sort {
        self.sort_by(variant, 1)
    }

    /// With so many ranks.
    pub(crate) fn sort_by(&self, variant: Variant, ranks: u64) -> Sort {
        let least = ranks * least_memory((self.records.len() / self.size) as u64, self.size, variant, ranks);
        let (memory, algorithm) = (least * self.memory / 100, Algorithm::Columnsort(variant));
        Sort { memory, algorithm, is_unique: self.is_unique, ..Sort::new(self.order()) }
    }

    /// The expected output.
    pub(crate) fn expected(&self) -> Vec<u8> {
        let order = self.order();
        let mut records: Vec<&[u8]> = self.records.chunks_exact(self.size).collect();
        records.sort_by(|left, right| order.compare(left, right));
        if self.is_unique {
            records.dedup_by(|later, first| order.compare(first, later).is_eq());
        }
        records.concat()
    }

    fn check(&self) {
        let expected = self.expected();
        for variant in VARIANTS {
            let (outcome, sorted) = through_files(&self.sort(variant), &self.records);
            assert_eq!(outcome.records, (self.records.len() / self.size) as u64, "{}", self.what);
            assert_eq!(outcome.written, (expected.len() / self.size) as u64, "{}", self.what);
            assert!(sorted == expected, "{}: {variant:?}, {} columns", self.what, outcome.runs);
        }
    }
}

/// The minimum for each of so many ranks.
fn least_memory(count: u64, size: usize, variant: Variant, ranks: u64) -> u64 {
    match Shape::choose(count, size, 0, variant, ranks) {
        Err(SortError::Memory { needed, .. }) => needed,
        other => panic!("{other:?}"),
    }
}

fn through_files(sort: &Sort, records: &[u8]) -> (Outcome, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("records"), folder.path().join("sorted"));
    fs::write(&from, records).unwrap();
    let sort = Sort { temporary: folder.path().to_owned(), ..sort.clone() };
    let outcome = sort.run(Input::open(&from).unwrap(), Output::create(&to).unwrap()).unwrap();
    let sorted = fs::read(&to).unwrap();
    let left = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 2, "temporary files remain");
    (outcome, sorted)
}

pub(crate) fn bytes_at(offset: usize, length: usize) -> Key {
    Key { offset, length: Some(length), ..Key::WHOLE }
}

/// Creates `count` records of `size` bytes. The first `key` bytes are at most `most`; the rest is
/// random.
pub(crate) fn random(random: &mut Xoshiro256PlusPlus, count: usize, size: usize, key: usize, most: u8) -> Vec<u8> {
    let mut records = vec![0; count * size];
    random.fill_bytes(&mut records);
    for record in records.chunks_exact_mut(size) {
        record[..key].iter_mut().for_each(|byte| *byte = (u16::from(*byte) % (u16::from(most) + 1)) as u8);
    }
    records
}

#[test]
fn any_records_are_sorted_as_by_the_standard_library() {
    testing::for_each_seed(1, |seed| {
        let mut source = Xoshiro256PlusPlus::seed_from_u64(seed);
        for number in 0..40 {
            let size = 2 + (source.next_u32() % 40) as usize;
            let count = match number % 6 {
                0 => source.next_u32() % 4,
                1 => source.next_u32() % 100,
                _ => source.next_u32() % 3000,
            } as usize;
            let key = 1 + source.next_u32() as usize % (size - 1).min(16);
            let most = [0, 1, 20, u8::MAX][source.next_u32() as usize % 4];
            let mut records = random(&mut source, count, size, key, most);
            let order = Order::new(Format::Fixed(size), vec![bytes_at(0, key)]).unwrap();
            let mut rows: Vec<&[u8]> = records.chunks_exact(size).collect();
            match source.next_u32() % 4 {
                0 => rows.sort_by(|left, right| order.compare(left, right)),
                1 => rows.sort_by(|left, right| order.compare(right, left)),
                _ => {}
            }
            records = rows.concat();
            // From many columns to one.
            let memory = 100 << (source.next_u32() % 4);
            let is_unique = source.next_u32().is_multiple_of(4);
            let what =
                format!("case {number}: {count} records of {size}, keys of {key} up to {most}, {memory} % of memory");
            Case { what, size, keys: vec![bytes_at(0, key)], records, memory, is_unique }.check();
        }
    });
}

#[test]
fn many_columns_are_sorted_with_little_memory() {
    let mut source = Xoshiro256PlusPlus::seed_from_u64(2);
    let records = random(&mut source, 30_000, 20, 3, 30);
    let keys = vec![bytes_at(0, 3)];
    let case = Case { what: "many".to_owned(), size: 20, keys, records, memory: 100, is_unique: false };
    for variant in VARIANTS {
        let (outcome, sorted) = through_files(&case.sort(variant), &case.records);
        assert!(outcome.runs >= 10, "{} columns", outcome.runs);
        assert_eq!(outcome.passes, 3);
        assert!(sorted == case.expected(), "{variant:?}");
        for report in &outcome.reports {
            let names: Vec<&str> = report.stages.iter().map(|stage| stage.name.as_str()).collect();
            assert_eq!(names, ["read", "sort", "communicate", "permute", "write"]);
        }
    }
}

#[test]
fn padding_is_not_mistaken_for_the_greatest_records() {
    // These keys are as great as any key of padding; the bytes after the key distinguish the
    // records.
    for count in [257, 1000, 1023, 5003] {
        let records: Vec<u8> =
            (0..count as u32).flat_map(|number| [[u8::MAX; 12].as_slice(), &number.to_be_bytes()].concat()).collect();
        for key in [2, 12, 16] {
            let keys = vec![bytes_at(0, key)];
            let records = records.clone();
            Case { what: format!("{count}, {key}"), size: 16, keys, records, memory: 100, is_unique: false }.check();
        }
    }
}

#[test]
fn several_keys_and_descending_keys_are_supported() {
    let mut source = Xoshiro256PlusPlus::seed_from_u64(3);
    let records = random(&mut source, 4000, 24, 24, 3);
    let keys = vec![Key { descending: true, ..bytes_at(20, 2) }, Key { kind: KeyKind::Bytes, ..bytes_at(1, 3) }];
    Case { what: "keys".to_owned(), size: 24, keys, records, memory: 100, is_unique: false }.check();
}

#[test]
fn records_larger_than_a_page_are_sorted() {
    let mut source = Xoshiro256PlusPlus::seed_from_u64(4);
    let records = random(&mut source, 60, 9001, 1, 9);
    let keys = vec![bytes_at(0, 1)];
    Case { what: "large".to_owned(), size: 9001, keys, records, memory: 110, is_unique: false }.check();
}

#[test]
fn pipes_can_be_input_and_output() {
    let mut source = Xoshiro256PlusPlus::seed_from_u64(5);
    let records = random(&mut source, 5000, 11, 2, 50);
    let keys = vec![bytes_at(0, 2)];
    let case = Case { what: "pipe".to_owned(), size: 11, keys, records, memory: 120, is_unique: false };
    for variant in VARIANTS {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let sorted = std::thread::spawn(move || {
            let mut sorted = Vec::new();
            reader.read_to_end(&mut sorted).map(|_| sorted)
        });
        let input = Input::stream("records", Cursor::new(case.records.clone()));
        let outcome = case.sort(variant).run(input, Output::stream("sorted", writer)).unwrap();
        assert!(sorted.join().unwrap().unwrap() == case.expected(), "{variant:?}");
        assert_eq!((outcome.records, outcome.bytes), (5000, 55000));
    }
}

#[test]
fn doubled_input_and_output_change_nothing() {
    let structure = "double=io fork=read*2 fork=write*2";
    let start = |mut command: Command| testing::expect_pass(command.env("ROWLOCK_PIPELINE", structure));
    testing::isolated_by(start, || {
        let mut source = Xoshiro256PlusPlus::seed_from_u64(6);
        let records = random(&mut source, 9000, 13, 2, 50);
        let keys = vec![bytes_at(0, 2)];
        let case = Case { what: "doubled".to_owned(), size: 13, keys, records, memory: 120, is_unique: false };
        let (outcome, sorted) = through_files(&case.sort(Variant::IoBound), &case.records);
        assert!(sorted == case.expected());
        for report in &outcome.reports {
            for name in ["read", "write"] {
                let stage = report.stage(name).unwrap();
                assert!(stage.repeated > 0 && stage.repeated == stage.calls, "{name}: {stage:?}");
            }
        }
    });
}

#[test]
fn impossible_sorts_are_rejected_before_reading() {
    let keys = vec![bytes_at(0, 2)];
    let case = Case { what: String::new(), size: 10, keys, records: vec![7; 100_003], memory: 99, is_unique: false };
    for variant in VARIANTS {
        let folder = tempfile::tempdir().unwrap();
        let from = folder.path().join("records");
        let run = |records: &[u8], sort: Sort| {
            fs::write(&from, records).unwrap();
            let output = Output::stream("nowhere", std::io::sink());
            sort.run(Input::open(&from).unwrap(), output).unwrap_err()
        };
        let truncated = run(&case.records, case.sort(variant));
        assert!(matches!(truncated, SortError::Truncated { left: 3, size: 10, .. }), "{truncated}");
        let little = run(&case.records[..100_000], case.sort(variant));
        let SortError::Memory { needed, .. } = little else { panic!("{little}") };
        let (outcome, _) = through_files(&Sort { memory: needed, ..case.sort(variant) }, &case.records[..100_000]);
        assert_eq!(outcome.records, 10_000);
        let lines = Sort::new(Order::new(Format::Lines, Vec::new()).unwrap());
        let lines = run(b"b\na\n", Sort { algorithm: Algorithm::Columnsort(variant), ..lines });
        assert!(matches!(lines, SortError::Unsupported(_)), "{lines}");
    }
}

#[test]
#[ignore = "takes half a minute in a debug build"]
fn a_file_of_64_mib_is_sorted_with_little_memory() {
    const SIZE: usize = 100;
    let mut source = Xoshiro256PlusPlus::seed_from_u64(7);
    let records = random(&mut source, (64 << 20) / SIZE, SIZE, 10, u8::MAX);
    let keys = vec![bytes_at(0, 10)];
    let case = Case { what: "64 MiB".to_owned(), size: SIZE, keys, records, memory: 200, is_unique: false };
    case.check();
    let case = Case { keys: vec![bytes_at(0, 1)], is_unique: true, ..case };
    case.check();
}

#[test]
fn an_input_that_shrinks_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("records");
    fs::write(&from, vec![1; 500_000]).unwrap();
    let input = Input::open(&from).unwrap();
    fs::File::options().write(true).open(&from).unwrap().set_len(100_000).unwrap();
    let order = Order::new(Format::Fixed(10), vec![bytes_at(0, 2)]).unwrap();
    let (algorithm, temporary) = (Algorithm::Columnsort(Variant::IoBound), folder.path().to_owned());
    let sort = Sort { memory: 2 << 20, temporary, algorithm, ..Sort::new(order) };
    let why = sort.run(input, Output::stream("nowhere", std::io::sink())).unwrap_err();
    assert!(matches!(why, SortError::Read { .. }), "{why}");
    assert!(why.to_string().contains("records"), "{why}");
    let check = fs::File::open(&from).unwrap();
    check.read_exact_at(&mut [0; 10], 99_990).unwrap();
}
