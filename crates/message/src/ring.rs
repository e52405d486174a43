//! A ring of words that one rank writes and another one reads.
//!
//! # The protocol
//!
//! The ring consists of lines of the cache. Positions are counts of lines since the beginning, so
//! they never wrap around. The first word of a line has a *lap* in its high half: how often the
//! position has passed the end of the ring, plus one. A record begins with a line, whose other
//! words are the header and the first bytes. Further lines have further bytes.
//!
//! 1. The sender writes all lines of a record, and the first word of the first line last, by which
//!    it *publishes* the record.
//! 2. The receiver looks at the first word of the next line. If that has the lap that belongs to
//!    the position, the record is complete: the receiver copies it, and releases its lines by a new
//!    *head*.
//! 3. The sender writes only lines that the receiver has released. It reads the head only if those
//!    that it knows of do not suffice.
//!
//! So a short message moves one line between caches. The receiver need not read a position of the
//! sender, and the sender mostly reads none of the receiver.
//!
//! # Why no record is torn, lost or read twice
//!
//! * The receiver reads a word of a record after it has acquired the first word, which was released
//!   after that word was written.
//! * The first word of a line is never a part of bytes. So at a position, it has an earlier lap, or
//!   is zero, until the record that begins there is published.
//! * The sender overwrites a line only after it has acquired a head beyond it, which was released
//!   after the line was read.
//!
//! The lap has 32 bits. When it starts again, the lines of that lap have long been overwritten.
//!
//! # Room
//!
//! A sender that lacks room sleeps on its [bell](crate::bell). The receiver rings it when the head
//! passes a quarter of the ring. That suffices because no record needs more than a quarter: if
//! there is less room than that, more than three quarters are in use, so the head will pass the
//! first boundary that is a quarter or more ahead, and then there is room for the record.
//!
//! # Other processes
//!
//! The memory may contain anything. Lengths and positions are checked before they are used, and a
//! record that cannot be is an error.

use crate::word::Word;

/// The words of a line.
pub(crate) const LINE: usize = 8;
/// The words at the beginning of a record, and of another line.
const PREFIX: usize = 2;
const MARK: usize = 1;
/// The bytes in the first line of a record, and in another one.
const IN_FIRST: usize = (LINE - PREFIX) * size_of::<u64>();
const IN_OTHER: usize = (LINE - MARK) * size_of::<u64>();

/// The place of the lap in the first word of a line. The number of bytes in the record is below.
const LAP: u32 = 32;
/// The places of kind and context in a header. The tag is below.
const KIND: u32 = 60;
const CONTEXT: u32 = 32;
/// Contexts are smaller than this.
pub(crate) const CONTEXTS: u32 = 1 << (KIND - CONTEXT);

/// What a record contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A message.
    Whole,
    /// The length of a message that is longer than a record can be.
    First,
    /// Some of its bytes.
    Next,
}

/// A record, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) kind: Kind,
    pub(crate) context: u32,
    pub(crate) tag: u32,
    /// The number of its bytes.
    pub(crate) length: usize,
}

impl Record {
    fn header(self) -> u64 {
        (self.kind as u64) << KIND | u64::from(self.context) << CONTEXT | u64::from(self.tag)
    }

    fn read(header: u64, length: usize) -> Option<Record> {
        let kind = match header >> KIND {
            0 => Kind::Whole,
            1 => Kind::First,
            2 => Kind::Next,
            _ => return None,
        };
        let context = (header >> CONTEXT) as u32 & (CONTEXTS - 1);
        Some(Record { kind, context, tag: header as u32, length })
    }
}

/// The content of a ring makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nonsense;

/// The lines of a ring.
#[derive(Debug)]
pub(crate) struct Ring<'a, W> {
    /// The number of lines that the receiver has released.
    pub(crate) head: &'a W,
    /// As many as a power of two, at least 8.
    pub(crate) lines: &'a [[W; LINE]],
}

/// The position of the sender.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tail {
    tail: u64,
    /// The head as far as it is known.
    head: u64,
}

impl Tail {
    /// Behind so many lines that were written and released.
    #[cfg(all(test, loom))]
    pub(crate) fn at(position: u64) -> Tail {
        Tail { tail: position, head: position }
    }
}

impl<W: Word> Ring<'_, W> {
    /// The most bytes in a record, which take a quarter of the ring.
    pub(crate) fn longest(&self) -> usize {
        IN_FIRST + (self.lines.len() / 4 - 1) * IN_OTHER
    }

    /// Writes a record with these bytes, at most [`Ring::longest`]. Returns false if there is no
    /// room yet.
    ///
    /// # Errors
    /// If the receiver has released lines that were never written.
    #[inline]
    pub(crate) fn send(&self, at: &mut Tail, record: Record, bytes: &[u8]) -> Result<bool, Nonsense> {
        debug_assert!(bytes.len() <= self.longest() && bytes.len() == record.length);
        let (lines, size) = (lines_of(bytes.len()), self.lines.len() as u64);
        if lines > size - (at.tail - at.head) {
            at.head = self.head.observe();
            let used = at.tail.checked_sub(at.head).filter(|&used| used <= size).ok_or(Nonsense)?;
            if lines > size - used {
                return Ok(false);
            }
        }
        let (in_first, rest) = bytes.split_at(bytes.len().min(IN_FIRST));
        let (pieces, end) = rest.as_chunks::<IN_OTHER>();
        for (place, piece) in (at.tail + 1..).zip(pieces) {
            let ([first, words @ ..], lap) = self.line(place);
            first.set(lap);
            let (chunks, _) = piece.as_chunks();
            words.iter().zip(chunks).for_each(|(word, chunk)| word.set(u64::from_ne_bytes(*chunk)));
        }
        if !end.is_empty() {
            let (line, lap) = self.line(at.tail + lines - 1);
            line[0].set(lap);
            write(&line[MARK..], end);
        }
        let (line, lap) = self.line(at.tail);
        line[1].set(record.header());
        write(&line[PREFIX..], in_first);
        line[0].publish(lap | bytes.len() as u64);
        at.tail += lines;
        Ok(true)
    }

    /// Whether there is a record at this head.
    #[inline]
    pub(crate) fn has_record(&self, head: u64) -> bool {
        let (line, lap) = self.line(head);
        line[0].observe() >> LAP == lap >> LAP
    }

    /// The record at this head. `None` if there is none yet.
    ///
    /// # Errors
    /// If there is something else.
    #[inline]
    pub(crate) fn peek(&self, head: u64) -> Result<Option<Record>, Nonsense> {
        let (line, lap) = self.line(head);
        let first = line[0].observe();
        if first >> LAP != lap >> LAP {
            return Ok(None);
        }
        let record = Record::read(line[1].get(), first as u32 as usize).ok_or(Nonsense)?;
        let is_sensible = match record.kind {
            Kind::First => record.length == size_of::<u64>(),
            Kind::Whole | Kind::Next => record.length <= self.longest(),
        };
        is_sensible.then_some(Some(record)).ok_or(Nonsense)
    }

    /// The length of the message that begins with this record at this head.
    ///
    /// # Errors
    /// If no message begins with it.
    #[inline]
    pub(crate) fn length(&self, head: u64, record: Record) -> Result<u64, Nonsense> {
        match record.kind {
            Kind::Whole => Ok(record.length as u64),
            Kind::First => {
                let length = self.line(head).0[PREFIX].get();
                (length > self.longest() as u64).then_some(length).ok_or(Nonsense)
            }
            Kind::Next => Err(Nonsense),
        }
    }

    /// Copies the bytes of the record at this head, which are as many.
    #[inline]
    pub(crate) fn read(&self, head: u64, into: &mut [u8]) {
        let (in_first, rest) = into.split_at_mut(into.len().min(IN_FIRST));
        read(&self.line(head).0[PREFIX..], in_first);
        let lines = lines_of(IN_FIRST + rest.len());
        let (pieces, end) = rest.as_chunks_mut::<IN_OTHER>();
        for (place, piece) in (head + 1..).zip(pieces) {
            let ([_, words @ ..], _) = self.line(place);
            let (chunks, _) = piece.as_chunks_mut();
            chunks.iter_mut().zip(words).for_each(|(chunk, word)| *chunk = word.get().to_ne_bytes());
        }
        if !end.is_empty() {
            read(&self.line(head + lines - 1).0[MARK..], end);
        }
    }

    /// Releases the lines of the record at this head, and moves it. Returns whether the sender may
    /// have to be woken.
    #[inline]
    pub(crate) fn release(&self, head: &mut u64, record: Record) -> bool {
        let before = *head;
        *head += lines_of(record.length);
        let quarter = self.lines.len() as u64 / 4;
        let passes = before / quarter != *head / quarter;
        if passes {
            self.head.publish(*head);
        } else {
            self.head.release(*head);
        }
        passes
    }

    /// The line at a position, and the lap that belongs to it.
    #[inline]
    fn line(&self, position: u64) -> (&[W; LINE], u64) {
        let laps =
            if cfg!(rowlock_canary = "a-ring-forgets-its-laps") { 0 } else { position / self.lines.len() as u64 };
        let lap = laps + 1;
        (&self.lines[position as usize & (self.lines.len() - 1)], lap << LAP)
    }
}

/// How many lines a record with so many bytes takes.
#[inline]
const fn lines_of(bytes: usize) -> u64 {
    1 + bytes.saturating_sub(IN_FIRST).div_ceil(IN_OTHER) as u64
}

#[inline]
fn write<W: Word>(words: &[W], bytes: &[u8]) {
    let (chunks, end) = bytes.as_chunks();
    words.iter().zip(chunks).for_each(|(word, chunk)| word.set(u64::from_ne_bytes(*chunk)));
    if let Some(word) = words.get(chunks.len()).filter(|_| !end.is_empty()) {
        let mut last = [0; 8];
        last[..end.len()].copy_from_slice(end);
        word.set(u64::from_ne_bytes(last));
    }
}

#[inline]
fn read<W: Word>(words: &[W], bytes: &mut [u8]) {
    let (chunks, end) = bytes.as_chunks_mut();
    let count = chunks.len();
    chunks.iter_mut().zip(words).for_each(|(chunk, word)| *chunk = word.get().to_ne_bytes());
    if let Some(word) = words.get(count) {
        let length = end.len();
        end.copy_from_slice(&word.get().to_ne_bytes()[..length]);
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]
mod tests {
    use std::sync::atomic::AtomicU64;

    use proptest::prelude::*;

    use super::*;

    struct Memory {
        head: AtomicU64,
        lines: Vec<[AtomicU64; LINE]>,
    }

    impl Memory {
        fn new(lines: usize) -> Memory {
            Memory { head: AtomicU64::new(0), lines: (0..lines).map(|_| Default::default()).collect() }
        }

        fn ring(&self) -> Ring<'_, AtomicU64> {
            Ring { head: &self.head, lines: &self.lines }
        }
    }

    fn whole(tag: u32, bytes: &[u8]) -> Record {
        Record { kind: Kind::Whole, context: 5, tag, length: bytes.len() }
    }

    fn receive(ring: &Ring<'_, AtomicU64>, head: &mut u64) -> Option<(Record, Vec<u8>)> {
        let record = ring.peek(*head).unwrap()?;
        let mut bytes = vec![0; record.length];
        ring.read(*head, &mut bytes);
        ring.release(head, record);
        Some((record, bytes))
    }

    proptest! {
        #[test]
        fn records_arrive_whole_and_in_their_order(steps in prop::collection::vec((0_usize..=216, any::<bool>()), 1..400)) {
            let memory = Memory::new(16);
            let (ring, mut tail, mut head) = (memory.ring(), Tail::default(), 0);
            let mut sent = std::collections::VecDeque::new();
            for (number, (length, receives)) in (0_u32..).zip(steps) {
                let bytes: Vec<u8> = (0..length).map(|byte| (byte as u32 * 7 + number) as u8).collect();
                let record = whole(number, &bytes);
                if ring.send(&mut tail, record, &bytes).unwrap() {
                    sent.push_back((record, bytes));
                } else {
                    // Without three quarters in use, there is room for any record.
                    prop_assert!(tail.tail - head > 12);
                }
                if receives {
                    prop_assert_eq!(receive(&ring, &mut head), sent.pop_front());
                }
            }
            while let Some(expected) = sent.pop_front() {
                prop_assert_eq!(receive(&ring, &mut head), Some(expected));
            }
            prop_assert_eq!(receive(&ring, &mut head), None);
        }

        #[test]
        fn no_content_of_the_memory_makes_an_access_beyond_it(
            words in prop::collection::vec(any::<u64>(), 16 * LINE),
            head in any::<u64>(),
            has_lap in any::<bool>(),
        ) {
            let memory = Memory::new(16);
            memory.lines.iter().flatten().zip(&words).for_each(|(word, value)| word.set(*value));
            memory.head.set(head);
            let (ring, mut at) = (memory.ring(), head >> 2);
            if has_lap {
                let (line, lap) = ring.line(at);
                line[0].set(lap | line[0].get() & 511);
                line[1].set(line[1].get() >> 2);
            }
            if let Ok(Some(record)) = ring.peek(at) {
                prop_assert!(record.length <= ring.longest());
                ring.read(at, &mut vec![0; record.length]);
                ring.release(&mut at, record);
            }
            let mut tail = Tail { tail: 15, head: 0 };
            let sent = ring.send(&mut tail, whole(1, &[1; 50]), &[1; 50]);
            prop_assert_eq!(sent, if head <= 15 { Ok(head >= 1) } else { Err(Nonsense) });
        }
    }

    #[test]
    fn a_header_keeps_all_that_it_contains() {
        for kind in [Kind::Whole, Kind::First, Kind::Next] {
            for (context, tag) in [(0, 0), (CONTEXTS - 1, u32::MAX), (77, 1 << 31)] {
                let record = Record { kind, context, tag, length: 7 };
                assert_eq!(Record::read(record.header(), 7), Some(record));
            }
        }
        assert_eq!(Record::read(3 << KIND, 0), None);
    }

    #[test]
    fn a_sender_that_waits_for_room_is_woken_before_the_ring_is_empty() {
        let memory = Memory::new(16);
        let (ring, mut tail, mut head) = (memory.ring(), Tail::default(), 0);
        let bytes = [7; 216];
        while ring.send(&mut tail, whole(1, &bytes), &bytes).unwrap() {}
        let mut wakes = 0;
        while let Some(record) = ring.peek(head).unwrap() {
            wakes += u32::from(ring.release(&mut head, record));
            if wakes == 2 {
                assert!(ring.send(&mut tail, whole(1, &bytes), &bytes).unwrap());
                return;
            }
        }
        panic!("the sender was woken {wakes} times");
    }
}
