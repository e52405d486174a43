//! Keys of sorts, and the records that they order.

use std::cmp::Ordering;
use std::io::Cursor;

use sort::chunk::{Chunk, text};
use sort::{Format, Input, Key, Order, Output, Sort, entries};

use crate::files::temporary_folder;

/// Keys on the first line, and lines to sort after it. The order must agree with a stable sort by
/// comparison, and prefixes with the order.
pub(crate) fn sort_keys(bytes: &[u8]) {
    let Some((order, records)) = order_and_records(bytes) else { return };
    let format = order.format();
    let mut chunk = Chunk::default();
    chunk.find(&records, format);
    let record = |index: u32| text(chunk.record(&records, format, index), format);
    let mut expected: Vec<u32> = (0..chunk.len() as u32).collect();
    expected.sort_by(|&left, &right| order.compare(record(left), record(right)));
    for pair in expected.windows(2) {
        let (left, right) = (order.prefix(record(pair[0])), order.prefix(record(pair[1])));
        assert!(left <= right, "prefixes contradict the order");
        assert!(
            left < right
                || !order.is_decided_by_prefix()
                || order.compare(record(pair[0]), record(pair[1])) == Ordering::Equal,
            "equal prefixes do not decide"
        );
    }
    entries::sort(&order, &records, &mut chunk);
    let found: Vec<u32> = chunk.entries.iter().map(|&entry| entry as u32).collect();
    assert_eq!(found, expected);
}

/// A whole sort with little memory, from a stream to a file.
pub(crate) fn sorted_file(bytes: &[u8]) {
    let Some((order, records)) = order_and_records(bytes) else { return };
    let format = order.format();
    let mut completed = records.clone();
    if format == Format::Lines && !records.is_empty() && !records.ends_with(b"\n") {
        completed.push(b'\n');
    }
    let mut expected: Vec<&[u8]> = match format {
        Format::Lines => completed.split_inclusive(|&byte| byte == b'\n').collect(),
        Format::Fixed(size) => completed.chunks(size).collect(),
    };
    expected.sort_by(|left, right| order.compare(text(left, format), text(right, format)));
    let folder = temporary_folder();
    let path = folder.path().join("out");
    let mut sort = Sort::new(order.clone());
    sort.temporary = folder.path().to_owned();
    sort.memory = 1 << 20;
    let input = Input::stream("input", Cursor::new(records.clone()));
    let output = Output::create(&path).expect("there is room in memory");
    match sort.run(input, output) {
        Ok(_) => assert_eq!(std::fs::read(&path).ok(), Some(expected.concat())),
        Err(why) => {
            assert!(!why.to_string().is_empty());
            assert!(!path.exists(), "a failed sort left its output");
        }
    }
}

/// The first line has the length of a record, or nothing for lines, and then the keys, separated by
/// spaces. The rest are the records.
fn order_and_records(bytes: &[u8]) -> Option<(Order, Vec<u8>)> {
    let end = bytes.iter().position(|&byte| byte == b'\n')?;
    let mut words = str::from_utf8(&bytes[..end]).ok()?.split(' ');
    let format = match words.next()? {
        "" => Format::Lines,
        length => Format::Fixed(length.parse().ok().filter(|&length| length <= 4096)?),
    };
    let keys: Vec<Key> = words
        .map(|word| word.parse::<Key>().map_err(|why| assert!(!why.to_string().is_empty())).ok())
        .collect::<Option<_>>()?;
    for key in &keys {
        let written = key.to_string();
        assert_eq!(written.parse::<Key>().ok().as_ref(), Some(key), "{written:?}");
    }
    let order = Order::new(format, keys).ok()?;
    let mut records = bytes[end + 1..].to_vec();
    if let Format::Fixed(size) = format {
        records.truncate(records.len() / size * size);
    }
    Some((order, records))
}
