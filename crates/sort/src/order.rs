//! The order of records: their format, and the keys that they are compared by, the first counting most.

use std::cmp::Ordering;

use crate::decimal::{self, Decimal};
use crate::key::{Endian, Key, KeyKind};
use crate::normal_form::{KeyEncoding, PADDED, PrefixWriter};
use crate::number::{load, ordinal};

/// What separates records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Each has so many bytes, at least one.
    Fixed(usize),
    /// Each ends with a line feed, which is not part of any key. The last one gets one if it has none.
    Lines,
}

/// Bits of a [`prefix`](Order::prefix) that say nothing of the record, and are 0.
pub const FREE_BITS: u32 = 32;

/// How many bytes of the normal form a prefix has.
const PREFIX: usize = (u128::BITS - FREE_BITS) as usize / 8;

/// An order of records.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Order {
    format: Format,
    keys: Vec<Key>,
    /// How the normal form of each key is made.
    encodings: Vec<KeyEncoding>,
    prefix_source: PrefixSource,
    is_decided_by_prefix: bool,
}

/// How a prefix is taken: from a place in the record, where its bytes are there in their order, or from the normal form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum PrefixSource {
    /// These bits of what is there, and some of them inverted.
    Bytes {
        offset: usize,
        keep: u128,
        flip: u128,
    },
    NormalForm,
}

/// Why keys make no order of records.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// Records of no bytes.
    #[error("records of 0 bytes cannot be told from each other; each has at least one")]
    NoBytes,
    /// A key that no record has.
    #[error("the key {key} is not within the records, which have {size} bytes, the first of them byte 0")]
    Beyond {
        /// Which.
        key: Key,
        /// How many bytes a record has.
        size: usize,
    },
    /// A key of no bytes.
    #[error("the key {key} has no bytes to compare; its length is at least 1, or left out")]
    NoLength {
        /// Which.
        key: Key,
    },
    /// A number of a length that there is not.
    #[error("the key {key} has {length} bytes, but {} numbers have {}", key.kind, valid_lengths(key.kind))]
    Width {
        /// Which.
        key: Key,
        /// How many bytes it has.
        length: usize,
    },
    /// A number in a line that is no text.
    #[error(
        "the key {key} cannot be one of lines: any byte of a {} number may be a line feed, which ends a line; take decimal, or records of one size",
        key.kind
    )]
    NoText {
        /// Which.
        key: Key,
    },
}

/// How many bytes numbers have.
fn valid_lengths(kind: KeyKind) -> &'static str {
    match kind {
        KeyKind::Float(_) => "4 or 8",
        _ => "1 to 16",
    }
}

impl Order {
    /// The order by these keys; by the whole record as bytes where there are none.
    ///
    /// # Errors
    /// Where records of that format have no such key: one that is not within a record of fixed size (lines may well end before a key), one of no bytes, a number of a length that
    /// there is not, a binary number in a line.
    pub fn new(format: Format, keys: Vec<Key>) -> Result<Order, OrderError> {
        if format == Format::Fixed(0) {
            return Err(OrderError::NoBytes);
        }
        let keys = if keys.is_empty() { vec![Key::WHOLE] } else { keys };
        let keys = keys.into_iter().map(|key| checked(format, key)).collect::<Result<Vec<_>, _>>()?;
        let is_last = |at| at + 1 == keys.len();
        let encodings: Vec<_> = keys.iter().enumerate().map(|(at, key)| encoding(format, key, is_last(at))).collect();
        let widths = keys
            .iter()
            .zip(&encodings)
            .enumerate()
            .map(|(at, (key, encoding))| width(format, key, *encoding, is_last(at)));
        let width = widths.reduce(|all, width| Some(all?.saturating_add(width?))).flatten();
        let is_decided_by_prefix = width.is_some_and(|width| width <= PREFIX);
        let prefix_source = prefix_source(format, &keys, &encodings);
        Ok(Order { format, keys, encodings, prefix_source, is_decided_by_prefix })
    }

    /// What separates the records.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The keys, the first counting most. There is at least one, and in records of fixed size each has its length.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// The beginning of what a record is compared by, as a number whose last [`FREE_BITS`] bits are 0: of two records whose prefixes differ, that with the lesser
    /// one comes first.
    #[inline]
    pub fn prefix(&self, record: &[u8]) -> u128 {
        match self.prefix_source {
            PrefixSource::Bytes { offset, keep, flip } => (bytes_at(record, offset) & keep) ^ flip,
            PrefixSource::NormalForm => {
                let mut prefix = [0; 16];
                self.write_normal_form(record, &mut PrefixWriter::new(&mut prefix[..PREFIX]));
                u128::from_be_bytes(prefix)
            }
        }
    }

    /// Whether records with equal prefixes are equal.
    #[inline]
    pub fn is_decided_by_prefix(&self) -> bool {
        self.is_decided_by_prefix
    }

    /// Whether all records with this prefix are equal. It may be so where [`Order::is_decided_by_prefix`] does not say it of all prefixes.
    #[inline]
    pub(crate) fn is_decided(&self, prefix: u128) -> bool {
        // No digits of a decimal number stand for 0, so that its end is within the prefix.
        let has_end = self.encodings == [KeyEncoding::Decimal] && (prefix >> FREE_BITS) as u8 == 0;
        self.is_decided_by_prefix || has_end
    }

    /// The key, if there is only one and it is of bytes.
    pub(crate) fn only_bytes(&self) -> Option<&Key> {
        match &*self.keys {
            [key] if key.kind == KeyKind::Bytes => Some(key),
            _ => None,
        }
    }

    /// Which of two records comes first by their keys, without their line feeds.
    pub fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        for key in &self.keys {
            let (left, right) = (key.of(left), key.of(right));
            let ordering = match key.kind {
                KeyKind::Bytes => left.cmp(right),
                KeyKind::Decimal => Decimal::parse(left).compare(&Decimal::parse(right)),
                kind => ordinal(left, kind).cmp(&ordinal(right, kind)),
            };
            if ordering != Ordering::Equal {
                return if key.descending { ordering.reverse() } else { ordering };
            }
        }
        Ordering::Equal
    }

    /// Appends the beginning of a record's normal form, without its line feed: at most so many bytes, which compare as bytes as the records do by
    /// [`Order::compare`], and are equal where that is not decided yet. Returns whether that is all of it; of two records that both are whole, equal bytes mean
    /// equal records.
    ///
    /// A normal form can be longer than the record: up to twice, and some bytes for each key.
    pub fn append_normal_form(&self, record: &[u8], most: usize, out: &mut Vec<u8>) -> bool {
        let longest: usize = self.keys.iter().map(|key| 2 * key.of(record).len() + 16).sum();
        let start = out.len();
        out.resize(start + longest.min(most), 0);
        let mut writer = PrefixWriter::new(&mut out[start..]);
        self.write_normal_form(record, &mut writer);
        let (used, is_whole) = writer.finish();
        out.truncate(start + used);
        is_whole
    }

    fn write_normal_form(&self, record: &[u8], out: &mut PrefixWriter<'_>) {
        for (key, encoding) in self.keys.iter().zip(&self.encodings) {
            encoding.write(key, key.of(record), out);
            if out.is_truncated() {
                break;
            }
        }
    }
}

/// The key with its length filled in, if all records have the same.
fn checked(format: Format, mut key: Key) -> Result<Key, OrderError> {
    if key.length == Some(0) {
        return Err(OrderError::NoLength { key });
    }
    let is_number = matches!(key.kind, KeyKind::Unsigned(_) | KeyKind::Signed(_) | KeyKind::Float(_));
    let Format::Fixed(size) = format else {
        return if is_number { Err(OrderError::NoText { key }) } else { Ok(key) };
    };
    let rest = size.checked_sub(key.offset).filter(|&rest| rest > 0 && key.length.is_none_or(|length| length <= rest));
    let Some(rest) = rest else {
        return Err(OrderError::Beyond { key, size });
    };
    let length = key.length.unwrap_or(rest);
    let is_possible = match key.kind {
        KeyKind::Bytes | KeyKind::Decimal => true,
        KeyKind::Unsigned(_) | KeyKind::Signed(_) => length <= 16,
        KeyKind::Float(_) => matches!(length, 4 | 8),
    };
    if !is_possible {
        return Err(OrderError::Width { key, length });
    }
    key.length = Some(length);
    Ok(key)
}

/// How the normal form of a key is made.
fn encoding(format: Format, key: &Key, is_last: bool) -> KeyEncoding {
    match key.kind {
        KeyKind::Decimal => KeyEncoding::Decimal,
        KeyKind::Unsigned(_) | KeyKind::Signed(_) | KeyKind::Float(_) => KeyEncoding::Number,
        KeyKind::Bytes => match (format, key.length) {
            (Format::Fixed(_), _) => KeyEncoding::Plain,
            (Format::Lines, Some(length)) if length <= PADDED => KeyEncoding::Padded(length as u8),
            (Format::Lines, _) if is_last && !key.descending => KeyEncoding::Plain,
            (Format::Lines, _) => KeyEncoding::Ended,
        },
    }
}

/// After how many bytes of its normal form a key is decided for certain; what follows it comes after so many at the latest.
fn width(format: Format, key: &Key, encoding: KeyEncoding, is_last: bool) -> Option<usize> {
    let length = key.length?;
    match encoding {
        // The prefix does not tell the end of a line from a byte 0.
        KeyEncoding::Plain if format == Format::Lines => None,
        KeyEncoding::Plain | KeyEncoding::Number => Some(length),
        KeyEncoding::Padded(width) => Some(usize::from(width) + 1),
        KeyEncoding::Ended => None,
        KeyEncoding::Decimal => Some(decimal::normal_width(length) + usize::from(!is_last)),
    }
}

/// Where the prefix is, if the record has its bytes in their order.
fn prefix_source(format: Format, keys: &[Key], encodings: &[KeyEncoding]) -> PrefixSource {
    let offset = keys[0].offset;
    let (mut length, mut flip) = (0, 0);
    for (at, (key, encoding)) in keys.iter().zip(encodings).enumerate() {
        let is_there = match (encoding, key.kind) {
            (KeyEncoding::Plain, _)
            | (KeyEncoding::Number, KeyKind::Unsigned(Endian::Big) | KeyKind::Signed(Endian::Big)) => true,
            // Without its end, which makes a difference only to what follows.
            (KeyEncoding::Ended, _) => at + 1 == keys.len(),
            _ => false,
        };
        if !is_there || key.offset != offset.saturating_add(length) {
            return PrefixSource::NormalForm;
        }
        if matches!(key.kind, KeyKind::Signed(_)) {
            flip ^= bits(length * 8, 1);
        }
        // Only a line's last key has no length of its own.
        let width = key.length.unwrap_or(PREFIX).min(PREFIX);
        if key.descending {
            flip ^= bits(length * 8, width * 8);
        }
        length += width;
        if length >= PREFIX {
            break;
        }
    }
    debug_assert!(format != Format::Lines || length >= PREFIX);
    let keep = bits(0, length.min(PREFIX) * 8);
    PrefixSource::Bytes { offset, keep, flip: flip & keep }
}

/// A number with so many bits set, from this one on, counted from the top.
fn bits(from: usize, count: usize) -> u128 {
    let below = |bit: usize| u128::MAX.checked_shr(bit as u32).unwrap_or(0);
    below(from) & !below(from.saturating_add(count))
}

/// What is there from this place on, as [`load`] has it.
#[inline]
fn bytes_at(record: &[u8], offset: usize) -> u128 {
    let rest = record.get(offset..).unwrap_or_default();
    match (rest.first_chunk(), record.last_chunk()) {
        (Some(&bytes), _) => u128::from_be_bytes(bytes),
        // Near the end, two loads and a shift are faster than copying.
        (None, Some(&last)) => u128::from_be_bytes(last).checked_shl(8 * (16 - rest.len()) as u32).unwrap_or(0),
        (None, None) => load(rest),
    }
}

#[cfg(test)]
pub(crate) mod tests;
