//! The expected output: parses keys into values and sorts by these with the standard library.

use std::cmp::Ordering;

use rowlock_sort::{Endian, Format, Key, KeyKind};

use super::case::Case;

/// A parsed key.
enum Value {
    Bytes(Vec<u8>),
    Unsigned(u128),
    Signed(i128),
    Single(f32),
    Double(f64),
    /// Whether the number is negative, its digits before the decimal point without leading zeros,
    /// and its digits after the point without trailing zeros.
    Decimal(bool, Vec<u8>, Vec<u8>),
}

/// The expected output of a case.
pub(crate) fn expected(case: &Case) -> Vec<u8> {
    let mut records = case.records.clone();
    if let (Format::Lines, Some(last)) = (case.format, records.last_mut())
        && last.last() != Some(&b'\n')
    {
        last.push(b'\n');
    }
    sort(case.format, &case.keys, &mut records);
    if case.is_unique {
        let values = |record: &[u8]| values(case.format, &case.keys, record);
        records.dedup_by(|next, kept| compare(&case.keys, &values(next), &values(kept)).is_eq());
    }
    records.concat()
}

/// Sorts the records by the keys.
pub(crate) fn sort(format: Format, keys: &[Key], records: &mut [Vec<u8>]) {
    records.sort_by_cached_key(|record| ByValue { keys, values: values(format, keys, record) });
}

struct ByValue<'k> {
    keys: &'k [Key],
    values: Vec<Value>,
}

impl Ord for ByValue<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self.keys, &self.values, &other.values)
    }
}

impl PartialOrd for ByValue<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ByValue<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ByValue<'_> {}

fn values(format: Format, keys: &[Key], record: &[u8]) -> Vec<Value> {
    let text = match format {
        Format::Lines => record.strip_suffix(b"\n").unwrap_or(record),
        Format::Fixed(_) => record,
    };
    if keys.is_empty() {
        return vec![Value::Bytes(text.to_vec())];
    }
    let part = |key: &Key| {
        let begin = key.offset.min(text.len());
        let end = key.length.map_or(text.len(), |length| (begin + length).min(text.len()));
        value(key.kind, &text[begin..end])
    };
    keys.iter().map(part).collect()
}

fn value(kind: KeyKind, bytes: &[u8]) -> Value {
    let is_little = matches!(
        kind,
        KeyKind::Unsigned(Endian::Little) | KeyKind::Signed(Endian::Little) | KeyKind::Float(Endian::Little)
    );
    // The most significant byte first.
    let mut number = bytes.to_vec();
    if is_little {
        number.reverse();
    }
    let unsigned = || number.iter().fold(0, |so_far, &byte| so_far << 8 | u128::from(byte));
    match kind {
        KeyKind::Bytes => Value::Bytes(number),
        KeyKind::Unsigned(_) => Value::Unsigned(unsigned()),
        KeyKind::Signed(_) => {
            let unused = 128 - 8 * number.len() as u32;
            Value::Signed((unsigned() << unused).cast_signed() >> unused)
        }
        KeyKind::Float(_) if number.len() == 4 => Value::Single(f32::from_bits(unsigned() as u32)),
        KeyKind::Float(_) => Value::Double(f64::from_bits(unsigned() as u64)),
        KeyKind::Decimal => decimal(bytes),
    }
}

fn decimal(text: &[u8]) -> Value {
    let is_blank = |byte: &&u8| matches!(byte, b' ' | b'\t');
    let mut letters = text.iter().skip_while(is_blank).copied().peekable();
    let sign = letters.next_if(|letter| matches!(letter, b'-' | b'+'));
    let mut whole = Vec::new();
    while let Some(digit) = letters.next_if(u8::is_ascii_digit) {
        whole.push(digit);
    }
    let mut fraction = Vec::new();
    if letters.next() == Some(b'.') {
        while let Some(digit) = letters.next_if(u8::is_ascii_digit) {
            fraction.push(digit);
        }
    }
    while whole.first() == Some(&b'0') {
        whole.remove(0);
    }
    while fraction.last() == Some(&b'0') {
        fraction.pop();
    }
    let is_zero = whole.is_empty() && fraction.is_empty();
    Value::Decimal(sign == Some(b'-') && !is_zero, whole, fraction)
}

fn compare(keys: &[Key], left: &[Value], right: &[Value]) -> Ordering {
    let orders = left.iter().zip(right).enumerate().map(|(at, pair)| {
        let order = match pair {
            (Value::Bytes(left), Value::Bytes(right)) => left.cmp(right),
            (Value::Unsigned(left), Value::Unsigned(right)) => left.cmp(right),
            (Value::Signed(left), Value::Signed(right)) => left.cmp(right),
            (Value::Single(left), Value::Single(right)) => left.total_cmp(right),
            (Value::Double(left), Value::Double(right)) => left.total_cmp(right),
            (Value::Decimal(false, ..), Value::Decimal(true, ..)) => Ordering::Greater,
            (Value::Decimal(true, ..), Value::Decimal(false, ..)) => Ordering::Less,
            (Value::Decimal(is_negative, whole, fraction), Value::Decimal(_, other_whole, other_fraction)) => {
                let size = whole.len().cmp(&other_whole.len());
                let order = size.then_with(|| whole.cmp(other_whole)).then_with(|| fraction.cmp(other_fraction));
                if *is_negative { order.reverse() } else { order }
            }
            _ => panic!("values of two kinds"),
        };
        if keys.get(at).is_some_and(|key| key.descending) { order.reverse() } else { order }
    });
    orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}
