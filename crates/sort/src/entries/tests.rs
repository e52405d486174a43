use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::order::Format;
use crate::order::tests::order_and_records;

/// Sorts a chunk of these records with `sort`. Returns the records and their entries.
fn sorted(order: &Order, records: &[Vec<u8>]) -> (Vec<Vec<u8>>, Vec<u128>) {
    let format = order.format();
    let mut bytes = Vec::new();
    for record in records {
        bytes.extend_from_slice(record);
        if format == Format::Lines {
            bytes.push(b'\n');
        }
    }
    let mut chunk = Chunk::default();
    chunk.find(&bytes, format);
    assert_eq!(chunk.len(), records.len());
    sort(order, &bytes, &mut chunk);
    let found = chunk.entries.iter().map(|&entry| text(chunk.record(&bytes, format, entry as u32), format).to_vec());
    (found.collect(), chunk.entries)
}

fn assert_sorted(order: &Order, records: &[Vec<u8>]) {
    let mut expected: Vec<u32> = (0..records.len() as u32).collect();
    expected.sort_by(|&left, &right| order.compare(&records[left as usize], &records[right as usize]));
    let (found, entries) = sorted(order, records);
    let indices: Vec<_> = entries.iter().map(|&entry| entry as u32).collect();
    assert_eq!(indices, expected, "{order:?} {records:?}");
    for (record, entry) in found.iter().zip(&entries) {
        assert_eq!(order.prefix(record), entry & PREFIX, "the prefix is restored");
    }
}

fn lines(key: &str) -> Order {
    Order::new(Format::Lines, vec![key.parse().unwrap()]).unwrap()
}

/// Lines that share much: concatenations of a few words.
fn words() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let word = prop::sample::select(vec![
        "a",
        "a long word that is there",
        "\0",
        "\0\0\0\0\0\0\0\0\0\0\0\0\0",
        "b",
        "",
        "\u{ff}",
    ]);
    vec(vec(word, 0..5), 0..120).prop_map(|lines| lines.into_iter().map(|words| words.concat().into_bytes()).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn records_are_sorted_stably((order, records) in order_and_records(60)) {
        assert_sorted(&order, &records);
    }

    #[test]
    fn lines_with_long_common_prefixes_are_sorted_stably(
        lines in words(), beginning in "[xy]{0,30}", offset in 0..20usize, length in 12..60usize, is_bounded: bool, descending: bool,
    ) {
        let key = Key { offset, length: is_bounded.then_some(length), descending, ..Key::WHOLE };
        let order = Order::new(Format::Lines, vec![key]).unwrap();
        let lines: Vec<_> = lines.into_iter().map(|line| [beginning.as_bytes(), &line].concat()).collect();
        assert_sorted(&order, &lines);
    }

    #[test]
    fn the_common_prefix_is_measured(left in "[ab]{0,20}", right in "[ab]{0,20}", both in "[ab]{0,100}") {
        let [left, right] = [format!("{both}{left}"), format!("{both}{right}")];
        let expected = left.bytes().zip(right.bytes()).take_while(|(left, right)| left == right).count();
        prop_assert_eq!(common_prefix(left.as_bytes(), right.as_bytes()), expected);
    }
}

#[test]
fn zero_records_and_one_are_sorted() {
    assert_sorted(&lines("0"), &[]);
    assert_sorted(&lines("0"), &[Vec::new()]);
}

#[test]
fn lines_that_are_prefixes_of_each_other_use_bounded_stack_and_time() {
    // Each new prefix leaves all but twelve of them equal.
    let records: Vec<_> = (0..1000).rev().map(|length| vec![b'a'; length]).collect();
    for key in ["0", "0:descending"] {
        assert_sorted(&lines(key), &records);
    }
}

#[test]
fn equal_records_and_records_that_differ_in_trailing_zeros_are_sorted() {
    let records: Vec<_> =
        (0..200).map(|number| [b"something shared".to_vec(), vec![0; number % 40 / 2]].concat()).collect();
    for key in ["0", "0:descending", "0:20", "4:30:descending"] {
        assert_sorted(&lines(key), &records);
    }
}
