//! Keys of sorts, and the records that they order.

use std::cmp::Ordering;
use std::io::{self, Cursor, Write};
use std::sync::{Arc, Mutex, PoisonError};

use sort::chunk::{Chunk, text};
use sort::{Format, Input, Key, Order, Output, Sort, entries};

use crate::texts::refused;

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

/// A whole sort with little memory, between streams in memory.
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
    let mut sort = Sort::new(order.clone());
    sort.memory = 1 << 20;
    let written = Written::default();
    let (input, output) = (Input::stream("input", Cursor::new(records)), Output::stream("output", written.clone()));
    match sort.run(input, output) {
        Ok(_) => assert_eq!(*written.0.lock().unwrap_or_else(PoisonError::into_inner), expected.concat()),
        Err(why) => refused(&why),
    }
}

/// What a sort has written.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
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
    let keys: Vec<Key> =
        words.map(|word| word.parse::<Key>().map_err(|why| refused(&why)).ok()).collect::<Option<_>>()?;
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
