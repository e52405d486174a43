//! Keys in normal form: bytes that compare as the keys do.
//!
//! The normal form of a record is that of its keys, one after the other. That keeps the order only where no key's form begins with that of another key in its place:
//! so forms of different length have an end that is seen. A key that sorts descending has its form inverted, end included.

use crate::decimal::Decimal;
use crate::key::{Key, KeyKind};
use crate::number::ordinal;

/// Memory for the beginning of something whose rest is cut off.
pub(crate) struct PrefixWriter<'o> {
    out: &'o mut [u8],
    used: usize,
    is_whole: bool,
}

impl<'o> PrefixWriter<'o> {
    /// As much as has room here.
    #[inline]
    pub(crate) fn new(out: &'o mut [u8]) -> PrefixWriter<'o> {
        PrefixWriter { out, used: 0, is_whole: true }
    }

    /// Appends the bytes, with the bits of `flip` inverted in each, or as many of them as there is room for.
    #[inline]
    pub(crate) fn put(&mut self, bytes: &[u8], flip: u8) {
        let room = &mut self.out[self.used..];
        let taken = bytes.len().min(room.len());
        room[..taken].copy_from_slice(&bytes[..taken]);
        if flip != 0 {
            room[..taken].iter_mut().for_each(|byte| *byte ^= flip);
        }
        self.used += taken;
        self.is_whole &= taken == bytes.len();
    }

    /// Whether something has been cut off.
    #[inline]
    pub(crate) fn is_truncated(&self) -> bool {
        !self.is_whole
    }

    /// How many bytes there are, and whether they are all.
    #[inline]
    pub(crate) fn finish(self) -> (usize, bool) {
        (self.used, self.is_whole)
    }
}

/// How the normal form of a key is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum KeyEncoding {
    /// The bytes as they are: all have the same length, or nothing follows and the shorter one comes first.
    Plain,
    /// Zeroes up to a length, and the true length in a last byte: two that are equal before it differ by zeroes at the end.
    Padded(u8),
    /// A byte 0 at the end; 1, 1 stands for 0 and 1, 2 for 1.
    Ended,
    /// As [`ordinal`] does.
    Number,
    /// As [`Decimal::normalise`] does.
    Decimal,
}

/// A key of a line may have so many bytes if its form is to be padded.
pub(crate) const PADDED: usize = 11;

impl KeyEncoding {
    /// Writes the normal form of a key's bytes.
    #[inline]
    pub(crate) fn write(self, key: &Key, bytes: &[u8], room: &mut PrefixWriter<'_>) {
        let flip = if key.descending { 0xFF } else { 0 };
        match self {
            KeyEncoding::Plain => room.put(bytes, flip),
            KeyEncoding::Padded(width) => {
                let mut padded = [0; PADDED + 1];
                padded[..bytes.len()].copy_from_slice(bytes);
                let width = usize::from(width);
                padded[width] = bytes.len() as u8;
                room.put(&padded[..=width], flip);
            }
            KeyEncoding::Ended => {
                let mut rest = bytes;
                while let Some(at) = rest.iter().position(|&byte| byte <= 1) {
                    if room.is_truncated() {
                        return;
                    }
                    room.put(&rest[..at], flip);
                    room.put(&[1, rest[at] + 1], flip);
                    rest = &rest[at + 1..];
                }
                room.put(rest, flip);
                room.put(&[0], flip);
            }
            KeyEncoding::Number => {
                let ordinal = ordinal(bytes, key.kind).to_be_bytes();
                room.put(&ordinal[..bytes.len().min(ordinal.len())], flip);
            }
            KeyEncoding::Decimal => {
                debug_assert_eq!(key.kind, KeyKind::Decimal);
                Decimal::parse(bytes).normalise(room, flip);
            }
        }
    }
}
