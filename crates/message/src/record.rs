//! Records: what a ring carries.
//!
//! The first word has the kind in its lowest 8 bits, the length of the payload in bytes in the next
//! 24, and the context of the communicator in the rest. It is never zero. The second word depends
//! on the kind.

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A message. The word is its tag, and the payload its content.
    Whole = 1,
    /// A message whose content comes otherwise. The word is its tag, and the payload an
    /// [`Announcement`].
    Announced = 2,
    /// The next part of the content of an announced message, whose number is the word.
    Part = 3,
    /// The receiver has read the content of the message whose number is the word.
    Done = 4,
    /// The receiver cannot read the memory of the sender, and asks for parts of this message.
    Refused = 5,
}

/// The first two words of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    /// The context of the communicator. Zero if the kind needs none.
    pub(crate) context: u32,
    pub(crate) word: u64,
    /// The length of the payload in bytes.
    pub(crate) length: usize,
}

const LENGTH_BITS: u32 = 24;
/// No payload is longer.
pub(crate) const LONGEST: usize = (1 << LENGTH_BITS) - 1;

impl Header {
    pub(crate) fn first(&self) -> u64 {
        self.kind as u64 | (self.length as u64 & LONGEST as u64) << 8 | u64::from(self.context) << 32
    }

    /// `None` if the kind is unknown.
    pub(crate) fn decode(first: u64, word: u64) -> Option<Header> {
        let kinds = [Kind::Whole, Kind::Announced, Kind::Part, Kind::Done, Kind::Refused];
        let kind = *kinds.get((first as u8).checked_sub(1)? as usize)?;
        Some(Header { kind, context: (first >> 32) as u32, word, length: (first >> 8) as usize & LONGEST })
    }
}

/// Where the content of an announced message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Announcement {
    /// The number of the message, among the announced ones from this rank to the other.
    pub(crate) number: u64,
    pub(crate) length: u64,
    /// The address in the memory of the sender. Zero if it sends parts.
    pub(crate) address: u64,
}

impl Announcement {
    pub(crate) const BYTES: usize = 24;

    pub(crate) fn encode(&self) -> [u8; Announcement::BYTES] {
        let mut bytes = [0; Announcement::BYTES];
        let words = [self.number, self.length, self.address];
        bytes.chunks_exact_mut(8).zip(words).for_each(|(to, word)| to.copy_from_slice(&word.to_ne_bytes()));
        bytes
    }

    pub(crate) fn decode(bytes: [u8; Announcement::BYTES]) -> Announcement {
        let mut words = [0; 3];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        let [number, length, address] = words;
        Announcement { number, length, address }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_decoded_as_it_was_encoded() {
        for kind in [Kind::Whole, Kind::Announced, Kind::Part, Kind::Done, Kind::Refused] {
            for (context, length) in [(0, 0), (u32::MAX, LONGEST), (7, 10)] {
                let header = Header { kind, context, word: 9, length };
                assert_ne!(header.first(), 0);
                assert_eq!(Header::decode(header.first(), 9), Some(header));
            }
        }
    }

    #[test]
    fn an_unknown_kind_is_no_header() {
        assert_eq!([0, 6, 255, 256, u64::MAX].map(|first| Header::decode(first, 0)), [None; 5]);
    }

    #[test]
    fn an_announcement_is_decoded_as_it_was_encoded() {
        let announcement = Announcement { number: 1, length: u64::MAX, address: 1 << 40 };
        assert_eq!(Announcement::decode(announcement.encode()), announcement);
    }
}
