//! What records are sorted by: parts of them, each read in its own way.

mod text;

pub use text::KeyError;

/// A part of a record, how it is read, and in which direction it sorts.
///
/// It is written `OFFSET[:LENGTH][:KIND][:descending]`, all but the offset being optional: `12` is everything from the byte 12 on, `0:10` the first ten bytes,
/// `4:8:unsigned-le:descending` a number of eight bytes. The kinds are `bytes`, `unsigned-le`, `unsigned-be`, `signed-le`, `signed-be`, `float-le`, `float-be` and
/// `decimal`; which byte of a number comes first has to be said, since neither is what everybody would expect.
///
/// ```
/// use rowlock_sort::{Endian, Key, KeyKind};
///
/// let key: Key = "4:8:unsigned-le:descending".parse()?;
/// assert_eq!(key, Key { offset: 4, length: Some(8), kind: KeyKind::Unsigned(Endian::Little), descending: true });
/// assert_eq!(key.to_string(), "4:8:unsigned-le:descending");
/// # Ok::<(), rowlock_sort::KeyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Where it begins, in bytes from the record's beginning.
    pub offset: usize,
    /// How many bytes it has; to the end of the record where nothing is said. A line that ends before has the bytes that it has, maybe none.
    pub length: Option<usize>,
    /// How its bytes are read.
    pub kind: KeyKind,
    /// Whether the greatest comes first. Equal ones stay in the order of the input all the same.
    pub descending: bool,
}

/// How the bytes of a key are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyKind {
    /// As bytes without a sign, the first counting most; a shorter one before a longer one that begins with it.
    Bytes,
    /// As a whole number of 1 to 16 bytes without a sign.
    Unsigned(Endian),
    /// As a whole number of 1 to 16 bytes in two's complement.
    Signed(Endian),
    /// As a floating-point number of 4 or 8 bytes, in the total order of IEEE 754: -NaN, -infinity, .., -0, 0, .., infinity, NaN.
    Float(Endian),
    /// As a decimal number in text, of any length: blanks, an optional sign, digits and an optional fraction behind a point; what comes after does not count, and what
    /// is no number is 0.
    Decimal,
}

/// Which byte of a number comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endian {
    /// The one that counts least.
    Little,
    /// The one that counts most.
    Big,
}

impl Key {
    /// The whole record, as bytes.
    pub const WHOLE: Key = Key { offset: 0, length: None, kind: KeyKind::Bytes, descending: false };

    /// The bytes of a record that the key is made of.
    #[inline]
    pub fn of<'r>(&self, record: &'r [u8]) -> &'r [u8] {
        let rest = record.get(self.offset..).unwrap_or_default();
        match self.length {
            Some(length) => &rest[..length.min(rest.len())],
            None => rest,
        }
    }
}
