//! Records determined by a seed, and a check of sorted ones.

use std::fmt;
use std::io::{self, BufRead, Write};
use std::str::FromStr;

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The size of a record of fixed size.
pub(crate) const SIZE: usize = 100;

/// The size of its key, which comes first.
pub(crate) const KEY: usize = 10;

/// The number of digits of its number, which follows the key.
const DIGITS: usize = 12;

/// A kind of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// 100 printable bytes: a key of 10, a blank, the record's number in 12 digits, filler, and a
    /// line feed. Keys are uniform: each byte is one of 64, from `0` to `o`.
    Fixed,
    /// A line: with equal probability, a decimal number below 1,000,000,000 or a made-up word of 3
    /// to 10 letters.
    Lines,
}

/// The kinds and their names.
const NAMED: [(&str, Kind); 2] = [("records", Kind::Fixed), ("lines", Kind::Lines)];

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(NAMED.iter().find(|(_, kind)| kind == self).map_or("", |(name, _)| name))
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Kind, String> {
        let named = NAMED.iter().find(|(name, _)| *name == text).map(|&(_, kind)| kind);
        named.ok_or_else(|| format!("there is no such kind; there are {}", NAMED.map(|(name, _)| name).join(" and ")))
    }
}

impl Kind {
    /// Writes this many records.
    pub(crate) fn generate(self, count: u64, seed: u64, into: &mut impl Write) -> io::Result<()> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        match self {
            Kind::Fixed => {
                let mut record = [b' '; SIZE];
                record[SIZE - 1] = b'\n';
                for number in 0..count {
                    record[..KEY].copy_from_slice(&letters(random.next_u64()));
                    let mut rest = number;
                    for digit in record[KEY + 1..][..DIGITS].iter_mut().rev() {
                        *digit = b'0' + (rest % 10) as u8;
                        rest /= 10;
                    }
                    for part in record[KEY + DIGITS + 2..SIZE - 1].chunks_mut(KEY) {
                        part.copy_from_slice(&letters(random.next_u64())[..part.len()]);
                    }
                    into.write_all(&record)?;
                }
            }
            Kind::Lines => {
                for _ in 0..count {
                    let drawn = random.next_u64();
                    let (kind, drawn) = (drawn & 1, drawn >> 1);
                    if kind == 0 {
                        writeln!(into, "{}", drawn % 1_000_000_000)?;
                    } else {
                        let mut word = letters(drawn >> 3).map(|letter| b'a' + letter % 26);
                        let length = 3 + (drawn & 7) as usize;
                        if let Some(end) = word.get_mut(length) {
                            *end = b'\n';
                            into.write_all(&word[..=length])?;
                        } else {
                            into.write_all(&word)?;
                            into.write_all(b"\n")?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads the next record with its line feed; an empty one at the end.
    fn read(self, from: &mut impl BufRead, record: &mut Vec<u8>) -> io::Result<()> {
        record.clear();
        match self {
            Kind::Fixed if from.fill_buf()?.is_empty() => Ok(()),
            Kind::Fixed => {
                record.resize(SIZE, 0);
                from.read_exact(record)
            }
            Kind::Lines => from.read_until(b'\n', record).map(drop),
        }
    }

    /// The sort key of a record.
    fn key(self, record: &[u8]) -> &[u8] {
        match self {
            Kind::Fixed => &record[..KEY],
            Kind::Lines => record.strip_suffix(b"\n").unwrap_or(record),
        }
    }
}

/// Ten printable bytes out of 64, in the order of the bits.
fn letters(bits: u64) -> [u8; KEY] {
    std::array::from_fn(|place| b'0' + (bits >> (54 - 6 * place) & 63) as u8)
}

/// The result of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Check {
    /// The number of records.
    pub(crate) count: u64,
    /// The sum of their checksums, which does not depend on their order.
    pub(crate) sum: u64,
    /// The number of records after one with a greater key.
    pub(crate) disordered: u64,
    /// The number of records after one with the same key and a greater number.
    pub(crate) unstable: u64,
}

impl Check {
    /// Reads all records.
    pub(crate) fn read(kind: Kind, mut from: impl BufRead) -> io::Result<Check> {
        let mut check = Check::default();
        let (mut last, mut record) = (Vec::new(), Vec::new());
        loop {
            kind.read(&mut from, &mut record)?;
            if record.is_empty() {
                return Ok(check);
            }
            if check.count > 0 {
                match kind.key(&record).cmp(kind.key(&last)) {
                    std::cmp::Ordering::Less => check.disordered += 1,
                    std::cmp::Ordering::Equal if record < last => check.unstable += 1,
                    _ => {}
                }
            }
            check.count += 1;
            check.sum = check.sum.wrapping_add(u64::from(crc32fast::hash(&record)));
            std::mem::swap(&mut last, &mut record);
        }
    }
}
