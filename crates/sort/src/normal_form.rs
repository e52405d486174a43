//! The normal form of keys: bytes that compare as the keys do.
//!
//! The normal form of a record is the concatenation of the normal forms of its keys. This preserves
//! the order only if no form of a key is a prefix of another form of the same key, so forms of
//! variable length have a terminator. The form of a descending key is inverted, including the
//! terminator.

use crate::decimal::Decimal;
use crate::key::{Key, KeyKind};
use crate::number::ordinal;

/// Writes a prefix of a normal form into memory of a fixed size.
pub(crate) struct PrefixWriter<'o> {
    out: &'o mut [u8],
    /// The number of bytes written.
    pub(crate) used: usize,
    /// Whether no bytes have been cut off.
    pub(crate) is_whole: bool,
}

impl<'o> PrefixWriter<'o> {
    #[inline]
    pub(crate) fn new(out: &'o mut [u8]) -> PrefixWriter<'o> {
        PrefixWriter { out, used: 0, is_whole: true }
    }

    /// Appends as many of the bytes as fit, each combined with `flip` by exclusive or.
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
}

/// The encoding of a key in its normal form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum KeyEncoding {
    /// The bytes themselves: all keys have the same length, or this is the last key and the shorter
    /// one comes first.
    Plain,
    /// Zeros up to a fixed length, then a byte with the actual length. It distinguishes keys that
    /// differ only in zeros at the end.
    Padded(u8),
    /// The bytes and a terminator 0. In the bytes, 1, 1 encodes 0 and 1, 2 encodes 1.
    Ended,
    /// An integer as computed by [`ordinal`].
    Number,
    /// The digits as written by [`Decimal::normalize`].
    Decimal,
}

/// The longest key of a line, in bytes, that is encoded with padding.
pub(crate) const PADDED: usize = 11;

impl KeyEncoding {
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
                    if !room.is_whole {
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
                Decimal::parse(bytes).normalize(room, flip);
            }
        }
    }
}
