//! Sort keys: parts of records and their interpretation.

mod text;

pub use text::KeyError;

/// A part of a record, its interpretation and its direction.
///
/// The syntax is `OFFSET[:LENGTH][:KIND][:descending]`. Only the offset is required: `12` is
/// everything from byte 12 on, `0:10` the first ten bytes, `4:8:unsigned-le:descending` a number of
/// eight bytes. The kinds are `bytes`, `unsigned-le`, `unsigned-be`, `signed-le`, `signed-be`,
/// `float-le`, `float-be` and `decimal`. There is no default byte order, since neither order would
/// suit everyone.
///
/// ```
/// use rowlock_sort::{Endian, Key, KeyKind};
///
/// let key: Key = "4:8:unsigned-le:descending".parse()?;
/// let kind = KeyKind::Unsigned(Endian::Little);
/// assert_eq!(key, Key { offset: 4, length: Some(8), kind, descending: true });
/// assert_eq!(key.to_string(), "4:8:unsigned-le:descending");
/// # Ok::<(), rowlock_sort::KeyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The distance of the key from the beginning of the record, in bytes.
    pub offset: usize,
    /// The length in bytes; `None` extends the key to the end of the record. In a line that is too
    /// short, the key has fewer bytes or none.
    pub length: Option<usize>,
    /// The interpretation of the bytes.
    pub kind: KeyKind,
    /// Whether the greatest key comes first. Records with equal keys keep the order of the input in
    /// either case.
    pub descending: bool,
}

/// An interpretation of the bytes of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyKind {
    /// Unsigned bytes in lexicographic order; a prefix comes before a longer key.
    Bytes,
    /// An unsigned integer of 1 to 16 bytes.
    Unsigned(Endian),
    /// A two's complement integer of 1 to 16 bytes.
    Signed(Endian),
    /// A floating-point number of 4 or 8 bytes, in the total order of IEEE 754: -NaN, -infinity,
    /// .., -0, 0, .., infinity, NaN.
    Float(Endian),
    /// A decimal number in text, of any length: blanks, an optional sign, digits, and optionally a
    /// decimal point with more digits. The rest of the key is ignored. Text that is not a number is
    /// 0.
    Decimal,
}

/// The names of all kinds.
pub(crate) const KINDS: [(&str, KeyKind); 8] = [
    ("bytes", KeyKind::Bytes),
    ("unsigned-le", KeyKind::Unsigned(Endian::Little)),
    ("unsigned-be", KeyKind::Unsigned(Endian::Big)),
    ("signed-le", KeyKind::Signed(Endian::Little)),
    ("signed-be", KeyKind::Signed(Endian::Big)),
    ("float-le", KeyKind::Float(Endian::Little)),
    ("float-be", KeyKind::Float(Endian::Big)),
    ("decimal", KeyKind::Decimal),
];

/// The byte order of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endian {
    /// The least significant byte first.
    Little,
    /// The most significant byte first.
    Big,
}

impl Key {
    /// The whole record, as bytes.
    pub const WHOLE: Key = Key { offset: 0, length: None, kind: KeyKind::Bytes, descending: false };

    /// Returns the bytes of a record that belong to the key.
    #[inline]
    pub fn of<'r>(&self, record: &'r [u8]) -> &'r [u8] {
        let rest = record.get(self.offset..).unwrap_or_default();
        match self.length {
            Some(length) => &rest[..length.min(rest.len())],
            None => rest,
        }
    }
}
