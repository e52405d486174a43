//! A random case: records and sort keys.

use std::fmt;

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rowlock_sort::{Endian, Format, Key, KeyKind};

use super::expected::sort;

/// Longer records need more than the least memory.
const LONGEST_RECORD: u64 = 15_000;

/// The records to sort, and the options.
pub(crate) struct Case {
    pub(crate) number: u64,
    pub(crate) format: Format,
    pub(crate) keys: Vec<Key>,
    pub(crate) is_unique: bool,
    /// Lines include their line feeds; the last one may lack it.
    pub(crate) records: Vec<Vec<u8>>,
}

/// A random number generator.
pub(crate) struct Draw(Xoshiro256PlusPlus);

impl Draw {
    pub(crate) fn new(seed: u64) -> Draw {
        Draw(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// A number from 0 to `end` - 1.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.next_u64() % end
    }

    /// A number of any magnitude up to `most`, often a small one.
    fn magnitude(&mut self, most: u64) -> u64 {
        let bits = self.below(u64::from(64 - most.leading_zeros()) + 1);
        (self.0.next_u64() & ((1 << bits) - 1)).min(most)
    }

    pub(crate) fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

impl Case {
    /// Creates the case with this number, optionally with records of fixed size only.
    pub(crate) fn new(number: u64, is_fixed: bool) -> Case {
        let mut draw = Draw::new(number);
        // One in twelve does not fit into memory.
        let is_large = draw.one_in(12);
        let is_long = draw.one_in(if is_large { 2 } else { 10 });
        let most = if is_long { LONGEST_RECORD - 1 } else { 63 };
        let format = match is_fixed || draw.one_in(2) {
            true => Format::Fixed(1 + draw.magnitude(most) as usize),
            false => Format::Lines,
        };
        let keys: Vec<Key> = (0..draw.below(4)).map(|_| key(&mut draw, format)).collect();
        let least = if is_large { 100_000 + draw.below(500_000) } else { 0 };
        let mut left = draw.below(60);
        let (mut bytes, mut records) = (0, Vec::new());
        let style = Style::new(&mut draw, if is_long { LONGEST_RECORD - 1 } else { 40 });
        while left > 0 || (bytes < least && records.len() < 8_000) {
            let record = style.record(&mut draw, format, &keys);
            bytes += record.len() as u64;
            left = left.saturating_sub(1);
            records.push(record);
        }
        match draw.below(6) {
            0 => sort(format, &keys, &mut records),
            1 => {
                sort(format, &keys, &mut records);
                records.reverse();
            }
            _ => {}
        }
        if let (Format::Lines, true, Some(last)) = (format, draw.one_in(3), records.last_mut())
            && last.len() > 1
        {
            last.pop();
        }
        Case { number, format, keys, is_unique: draw.one_in(4), records }
    }

    /// The length of the longest record.
    pub(crate) fn longest(&self) -> usize {
        self.records.iter().map(Vec::len).max().unwrap_or(0)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "case {}: {} records, {:?}", self.number, self.records.len(), self.format)?;
        self.keys.iter().try_for_each(|key| write!(f, " --key {key}"))
    }
}

/// A valid key for records of this format.
fn key(draw: &mut Draw, format: Format) -> Key {
    let end = |draw: &mut Draw| if draw.one_in(2) { Endian::Little } else { Endian::Big };
    let descending = draw.one_in(3);
    let size = match format {
        Format::Lines => {
            let kind = if draw.one_in(2) { KeyKind::Decimal } else { KeyKind::Bytes };
            let length = draw.one_in(2).then(|| 1 + draw.magnitude(40) as usize);
            return Key { offset: draw.magnitude(20) as usize, length, kind, descending };
        }
        Format::Fixed(size) => size,
    };
    let (kind, most) = match draw.below(5) {
        0 => (KeyKind::Unsigned(end(draw)), 16),
        1 => (KeyKind::Signed(end(draw)), 16),
        2 if size >= 4 => (KeyKind::Float(end(draw)), 8),
        3 => (KeyKind::Decimal, size),
        _ => (KeyKind::Bytes, size),
    };
    let length = match kind {
        KeyKind::Float(_) if size >= 8 && draw.one_in(2) => 8,
        KeyKind::Float(_) => 4,
        _ => 1 + draw.below(most.min(size) as u64) as usize,
    };
    let last = size - length;
    let offset = if draw.one_in(3) { last } else { draw.below(last as u64 + 1) as usize };
    // A key that ends with the record may omit its length.
    let is_said = offset < last || draw.one_in(2);
    Key { offset, length: is_said.then_some(length), kind, descending }
}

/// The style of a case's records.
struct Style {
    /// The number of different bytes: a small alphabet makes many equal keys.
    alphabet: u64,
    /// The maximum length of a line.
    longest_line: u64,
}

impl Style {
    fn new(draw: &mut Draw, longest_line: u64) -> Style {
        Style { alphabet: [1, 2, 3, 10, 256][draw.below(5) as usize], longest_line }
    }

    fn record(&self, draw: &mut Draw, format: Format, keys: &[Key]) -> Vec<u8> {
        let length = match format {
            Format::Fixed(size) => size,
            Format::Lines => draw.magnitude(self.longest_line) as usize,
        };
        let mut record: Vec<u8> = (0..length).map(|_| self.byte(draw)).collect();
        for key in keys.iter().filter(|key| key.offset < length) {
            let end = key.length.map_or(length, |length| length + key.offset).min(length);
            self.fill(draw, key.kind, &mut record[key.offset..end]);
        }
        if format == Format::Lines {
            record.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b'\0');
            record.push(b'\n');
        }
        record
    }

    fn byte(&self, draw: &mut Draw) -> u8 {
        let drawn = draw.below(self.alphabet) as u8;
        match self.alphabet {
            256 => drawn,
            _ => [b'a', 0, 255, b' ', b'b', b'0', 127, 128, b'\r', 1][usize::from(drawn)],
        }
    }

    /// Fills some keys with numbers that random bytes would hardly contain.
    fn fill(&self, draw: &mut Draw, kind: KeyKind, bytes: &mut [u8]) {
        match kind {
            KeyKind::Decimal => {
                let text = decimal(draw);
                bytes.iter_mut().zip(text).for_each(|(byte, letter)| *byte = letter);
            }
            KeyKind::Float(_) if draw.one_in(3) => {
                let special = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN, 1.5, -1.5];
                let special = special[draw.below(special.len() as u64) as usize];
                match (bytes.len(), kind) {
                    (8, KeyKind::Float(Endian::Little)) => bytes.copy_from_slice(&special.to_le_bytes()),
                    (8, _) => bytes.copy_from_slice(&special.to_be_bytes()),
                    (4, KeyKind::Float(Endian::Little)) => bytes.copy_from_slice(&(special as f32).to_le_bytes()),
                    (4, _) => bytes.copy_from_slice(&(special as f32).to_be_bytes()),
                    _ => {}
                }
            }
            _ => {}
        }
    }
}

/// Text that may be a number.
fn decimal(draw: &mut Draw) -> Vec<u8> {
    let mut text = Vec::new();
    let mut some = |draw: &mut Draw, most: u64, letters: &[u8]| {
        let count = draw.magnitude(most);
        text.extend((0..count).map(|_| letters[draw.below(letters.len() as u64) as usize]));
    };
    some(draw, 2, b" \t");
    some(draw, 1, b"-+");
    some(draw, 3, b"0");
    let digits = if draw.one_in(3) { 30 } else { 3 };
    some(draw, digits, b"0123456789");
    some(draw, 1, b".");
    some(draw, digits / 2, b"01259");
    some(draw, 3, b" x-.\0e");
    text
}
