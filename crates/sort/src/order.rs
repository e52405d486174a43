//! The order of records: their format and their sort keys.

use std::cmp::Ordering;

use crate::chunk::text;
use crate::decimal::{self, Decimal};
use crate::key::{Endian, Key, KeyKind};
use crate::normal_form::{KeyEncoding, PADDED, PrefixWriter};
use crate::number::{load, ordinal};

/// The format of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Each record has this many bytes, at least one.
    Fixed(usize),
    /// Each record ends with a line feed, which is not part of any key. If the last line has none,
    /// the sort adds it.
    Lines,
}

/// The number of low bits of a [`prefix`](Order::prefix) that are 0 and free for other uses.
pub const FREE_BITS: u32 = 32;

/// The number of bytes of the normal form in a prefix.
const PREFIX: usize = (u128::BITS - FREE_BITS) as usize / 8;

/// An order of records.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Order {
    format: Format,
    /// The most significant one first. There is at least one. In records of fixed size, each key
    /// has a length.
    keys: Vec<Key>,
    /// The encoding of each key in the normal form.
    encodings: Vec<KeyEncoding>,
    prefix_source: PrefixSource,
    is_decided_by_prefix: bool,
}

/// The source of a prefix: contiguous bytes of the record, or its normal form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum PrefixSource {
    /// The bits in `keep` of the bytes at `offset`, combined with `flip` by exclusive or.
    Bytes {
        offset: usize,
        keep: u128,
        flip: u128,
    },
    NormalForm,
}

/// The reason why keys do not define an order of records.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OrderError(String);

impl Order {
    /// Creates an order from these keys, the most significant one first. Without keys, records
    /// compare as bytes.
    ///
    /// # Errors
    /// Returns an error if records of this format cannot have such a key: it is not within a record
    /// of fixed size, it has no bytes, it is a number of an unsupported length, or it is a binary
    /// number in a line. A key beyond the end of a line is not an error.
    pub fn new(format: Format, keys: Vec<Key>) -> Result<Order, OrderError> {
        if format == Format::Fixed(0) {
            let why = "records of 0 bytes cannot be distinguished; each must have at least one";
            return Err(OrderError(why.to_owned()));
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

    /// The format of the records.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The beginning of the normal form of a record, as a number whose last [`FREE_BITS`] bits are
    /// 0. If two prefixes differ, the record with the smaller one comes first.
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

    /// Whether records with equal prefixes always have equal keys.
    #[inline]
    pub fn is_decided_by_prefix(&self) -> bool {
        self.is_decided_by_prefix
    }

    /// Whether all records with this prefix have equal keys. This may hold for a prefix even if
    /// [`Order::is_decided_by_prefix`] does not hold.
    #[inline]
    pub(crate) fn is_decided(&self, prefix: u128) -> bool {
        // No digit pair of a decimal number is encoded as 0, so a byte 0 is its terminator.
        let has_end = self.encodings == [KeyEncoding::Decimal] && (prefix >> FREE_BITS) as u8 == 0;
        self.is_decided_by_prefix || has_end
    }

    /// The only key, if there is exactly one and it consists of bytes.
    pub(crate) fn only_bytes(&self) -> Option<&Key> {
        match &*self.keys {
            [key] if key.kind == KeyKind::Bytes => Some(key),
            _ => None,
        }
    }

    /// Compares two records by their keys. The records must not include their line feeds.
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

    /// Whether two records, which may include their line feeds, have equal keys. Each has its
    /// prefix, whose free bits are ignored.
    #[inline]
    pub(crate) fn are_equal(&self, (prefix, left): (u128, &[u8]), (other, right): (u128, &[u8])) -> bool {
        prefix >> FREE_BITS == other >> FREE_BITS
            && (self.is_decided_by_prefix || self.compare(text(left, self.format), text(right, self.format)).is_eq())
    }

    /// Appends at most `most` bytes of the normal form of a record without its line feed. Normal
    /// forms compare as bytes in the same order as records by [`Order::compare`]; truncated ones
    /// may be equal although the records differ. Returns whether the form is complete. If two
    /// complete forms are equal, so are the records.
    ///
    /// A normal form has at most twice the length of the record, and some bytes for each key.
    pub fn append_normal_form(&self, record: &[u8], most: usize, out: &mut Vec<u8>) -> bool {
        let longest: usize = self.keys.iter().map(|key| 2 * key.of(record).len() + 16).sum();
        let start = out.len();
        out.resize(start + longest.min(most), 0);
        let mut writer = PrefixWriter::new(&mut out[start..]);
        self.write_normal_form(record, &mut writer);
        let PrefixWriter { used, is_whole, .. } = writer;
        out.truncate(start + used);
        is_whole
    }

    fn write_normal_form(&self, record: &[u8], out: &mut PrefixWriter<'_>) {
        for (key, encoding) in self.keys.iter().zip(&self.encodings) {
            encoding.write(key, key.of(record), out);
            if !out.is_whole {
                break;
            }
        }
    }
}

/// Validates a key and sets its length if all records have the same size.
fn checked(format: Format, mut key: Key) -> Result<Key, OrderError> {
    let refused = |why: String| Err(OrderError(format!("the key {key} {why}")));
    if key.length == Some(0) {
        return refused("has no bytes to compare; its length must be at least 1, or be left out".to_owned());
    }
    let Format::Fixed(size) = format else {
        return match key.kind {
            KeyKind::Bytes | KeyKind::Decimal => Ok(key),
            kind => refused(format!(
                "cannot be used with lines: any byte of a {kind} number may be a line feed, which ends a line; use decimal, or records of one size"
            )),
        };
    };
    let rest = size.checked_sub(key.offset).filter(|&rest| rest > 0 && key.length.is_none_or(|length| length <= rest));
    let Some(rest) = rest else {
        return refused(format!("is not within the records, which have {size} bytes, counted from 0"));
    };
    let length = key.length.unwrap_or(rest);
    let (is_possible, valid) = match key.kind {
        KeyKind::Bytes | KeyKind::Decimal => (true, ""),
        KeyKind::Unsigned(_) | KeyKind::Signed(_) => (length <= 16, "1 to 16"),
        KeyKind::Float(_) => (matches!(length, 4 | 8), "4 or 8"),
    };
    if !is_possible {
        return refused(format!("has {length} bytes, but {} numbers have {valid}", key.kind));
    }
    key.length = Some(length);
    Ok(key)
}

/// Chooses the encoding of a key in the normal form.
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

/// The number of bytes of the normal form that are guaranteed to decide a key; `None` if unbounded.
fn width(format: Format, key: &Key, encoding: KeyEncoding, is_last: bool) -> Option<usize> {
    let length = key.length?;
    match encoding {
        // A prefix cannot distinguish the end of a line from a byte 0.
        KeyEncoding::Plain if format == Format::Lines => None,
        KeyEncoding::Plain | KeyEncoding::Number => Some(length),
        KeyEncoding::Padded(width) => Some(usize::from(width) + 1),
        KeyEncoding::Ended => None,
        KeyEncoding::Decimal => Some(decimal::normal_width(length) + usize::from(!is_last)),
    }
}

/// Chooses the source of prefixes: the record itself if it contains the bytes of the normal form in
/// order.
fn prefix_source(format: Format, keys: &[Key], encodings: &[KeyEncoding]) -> PrefixSource {
    let offset = keys[0].offset;
    let (mut length, mut flip) = (0, 0);
    for (at, (key, encoding)) in keys.iter().zip(encodings).enumerate() {
        let is_there = match (encoding, key.kind) {
            (KeyEncoding::Plain, _)
            | (KeyEncoding::Number, KeyKind::Unsigned(Endian::Big) | KeyKind::Signed(Endian::Big)) => true,
            // Without the terminator, which matters only for a key that follows.
            (KeyEncoding::Ended, _) => at + 1 == keys.len(),
            _ => false,
        };
        if !is_there || key.offset != offset.saturating_add(length) {
            return PrefixSource::NormalForm;
        }
        if matches!(key.kind, KeyKind::Signed(_)) {
            flip ^= bits(length * 8, 1);
        }
        // Only the last key of a line has no length.
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

/// A number with `count` bits set, starting `from` bits below the top.
fn bits(from: usize, count: usize) -> u128 {
    let below = |bit: usize| u128::MAX.checked_shr(bit as u32).unwrap_or(0);
    below(from) & !below(from.saturating_add(count))
}

/// Loads 16 bytes from this offset on, as [`load`] does.
#[inline]
fn bytes_at(record: &[u8], offset: usize) -> u128 {
    let rest = record.get(offset..).unwrap_or_default();
    match (rest.first_chunk(), record.last_chunk()) {
        (Some(&bytes), _) => u128::from_be_bytes(bytes),
        // Near the end, two loads and a shift are faster than a copy.
        (None, Some(&last)) => u128::from_be_bytes(last).checked_shl(8 * (16 - rest.len()) as u32).unwrap_or(0),
        (None, None) => load(rest),
    }
}

#[cfg(test)]
pub(crate) mod tests;
