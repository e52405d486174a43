//! The ring from one rank to another: one thread at a time writes records, and one reads them.
//!
//! # Layout
//!
//! A ring is an array of 64-bit words: first the *freed* word of the reader, the *withdrawn* word
//! of the writer, each in cache lines of its own, and then the *lines* of 64 bytes, a power of two.
//! A record (`record.rs`) takes whole lines: two words of header, and the payload. It may continue
//! at the first line behind the last one.
//!
//! # Protocol
//!
//! The first word of a record is zero until the record is complete. So the reader polls the line
//! that it will need next, and a short message moves one cache line between two CPUs. There is no
//! shared index of the writer.
//!
//! 1. The writer knows how many lines it has written, and how many the reader had freed when it
//!    last looked. If it lacks lines, it looks again, with *acquire* order.
//! 2. It writes payload and second word, *relaxed*, and then the first word with *release* order.
//! 3. The reader reads the first word with *acquire* order. If it is zero, there is no record yet.
//!    Otherwise it sees all that the writer has written before. It copies the record out.
//! 4. It stores zero in the first word of *each* line of the record, and then frees the lines: it
//!    stores their number so far in the freed word, with *release* order.
//!
//! *Torn reads.* All words are atomic, so no word is torn. The reader reads payload only after its
//! first word (3), and the writer overwrites it only after the reader has freed it (4 releases, 1
//! acquires), so no record is torn.
//!
//! *Wrap.* In the next round, a record begins at another line than before, where the last round may
//! have left payload. Step 4 has replaced it by zero, and the writer's later stores come after that
//! zero, since it acquires the freed word. So the first word of the line that the reader polls is
//! zero or the beginning of a record, never an old word. It suffices to clear one word a line, as
//! records begin at lines. Numbers of lines have 64 bits and never wrap.
//!
//! *Freeing late.* The reader frees lines when an eighth of the ring has collected, which spares
//! the writer's cache line and one look at its bell a record. A writer needs at most a quarter of
//! the ring at once. So if the reader has read all, the writer has room: less than an eighth is not
//! freed.
//!
//! *The end.* A rank that leaves does so after its last record, with release order in its slot. A
//! reader that finds the writer gone looks at the ring once more, after acquiring that: then it has
//! seen the last record. If a writer is killed, its record is complete, or its first word is zero.
//!
//! # Nonsense
//!
//! Any process that has mapped the memory can write anything to it. Each side keeps its own
//! position in its own memory. The reader uses one copy of the first word, and checks it against
//! the size of the ring; the writer checks the freed word. Content may be wrong, but no access
//! leaves the ring.
//!
//! `ring/model.rs` checks wrap, sleep and end with loom.

use std::ops::Deref;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::record::{Header, LONGEST};
use crate::sync::AtomicU64;

/// Words of a line.
const LINE: usize = 8;
/// Words of a header.
const HEADER: usize = 2;
/// The place of the freed word.
const FREED: usize = 0;
/// The place of the withdrawn word: announced messages up to this number must not be read.
const WITHDRAWN: usize = 16;
/// The place of the first line.
const LINES: usize = 32;

/// The words of a ring of so many lines.
pub(crate) const fn words(lines: usize) -> usize {
    LINES + lines * LINE
}

/// The longest payload in a ring of so many lines: with its header, a quarter of them.
pub(crate) const fn longest_payload(lines: usize) -> usize {
    let most = (lines / 4 * LINE - HEADER) * size_of::<u64>();
    if most < LONGEST { most } else { LONGEST }
}

#[inline]
fn lines_of(payload: usize) -> usize {
    (HEADER + payload.div_ceil(size_of::<u64>())).div_ceil(LINE)
}

/// The ring contains what its protocol excludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nonsense;

/// The array, as the writer and the reader see it.
#[derive(Debug)]
struct Lines<M> {
    words: M,
    count: u64,
}

impl<M: Deref<Target = [AtomicU64]>> Lines<M> {
    /// # Panics
    /// If the array has another length, or the number is not a power of two from 4 on.
    fn new(array: M, count: usize) -> Lines<M> {
        assert!(count.is_power_of_two() && count >= 4 && array.len() == words(count), "a ring of {count} lines");
        Lines { words: array, count: count as u64 }
    }

    /// The word at this distance from the beginning of a line.
    #[inline]
    fn word(&self, line: u64, distance: usize) -> &AtomicU64 {
        &self.words[LINES + self.place(line) + distance]
    }

    /// The place of a line among the words of all lines, whose number is a power of two.
    #[inline]
    fn place(&self, line: u64) -> usize {
        (line & (self.count - 1)) as usize * LINE
    }

    /// The words of a payload: those up to the end of the array, and those from its beginning.
    #[inline]
    fn payload(&self, line: u64, words: usize) -> (&[AtomicU64], &[AtomicU64]) {
        let all = &self.words[LINES..];
        let start = self.place(line) + HEADER;
        let first = words.min(all.len() - start);
        (&all[start..start + first], &all[..words - first])
    }
}

/// The writer's end.
#[derive(Debug)]
pub(crate) struct Writer<M> {
    lines: Lines<M>,
    written: u64,
    freed: u64,
}

impl<M: Deref<Target = [AtomicU64]>> Writer<M> {
    /// The writer of an unused ring. There must be no other.
    pub(crate) fn new(array: M, lines: usize) -> Writer<M> {
        Writer { lines: Lines::new(array, lines), written: 0, freed: 0 }
    }

    /// Writes a record, unless the ring is too full. Returns whether it did.
    ///
    /// # Panics
    /// If the payload is longer than [`longest_payload`].
    #[inline]
    pub(crate) fn write(&mut self, header: Header, payload: &[u8]) -> Result<bool, Nonsense> {
        assert!(payload.len() <= longest_payload(self.lines.count as usize), "a payload that fits");
        let lines = lines_of(payload.len()) as u64;
        if self.free() < lines {
            let freed = self.lines.words[FREED].load(Acquire);
            if self.written.wrapping_sub(freed) > self.lines.count {
                return Err(Nonsense);
            }
            self.freed = freed;
            if self.free() < lines {
                return Ok(false);
            }
        }
        self.lines.word(self.written, 1).store(header.word, Relaxed);
        let (chunks, rest) = payload.as_chunks();
        let (first, second) = self.lines.payload(self.written, payload.len().div_ceil(size_of::<u64>()));
        let (before, after) = chunks.split_at(first.len().min(chunks.len()));
        store_words(first, before);
        store_words(second, after);
        if !rest.is_empty() {
            let mut last = [0; size_of::<u64>()];
            last[..rest.len()].copy_from_slice(rest);
            let word = second.last().or(first.last());
            word.into_iter().for_each(|word| word.store(u64::from_ne_bytes(last), Relaxed));
        }
        // A canary orders nothing.
        let order = if cfg!(rowlock_canary = "a-record-is-written-relaxed") { Relaxed } else { Release };
        self.lines.word(self.written, 0).store(header.first(), order);
        self.written += lines;
        Ok(true)
    }

    #[inline]
    fn free(&self) -> u64 {
        self.lines.count - (self.written - self.freed)
    }

    /// Withdraws announced messages up to this number. Later changes of the caller to their memory
    /// is seen by no reader that does not see this. A reader that sees this sees all records so
    /// far.
    pub(crate) fn withdraw(&self, number: u64) {
        self.lines.words[WITHDRAWN].store(number, Release);
        crate::sync::fence(Release);
    }
}

#[inline]
fn store_words(words: &[AtomicU64], bytes: &[[u8; 8]]) {
    words.iter().zip(bytes).for_each(|(word, &bytes)| word.store(u64::from_ne_bytes(bytes), Relaxed));
}

/// The reader's end.
#[derive(Debug)]
pub(crate) struct Reader<M> {
    lines: Lines<M>,
    read: u64,
    freed: u64,
}

impl<M: Deref<Target = [AtomicU64]>> Reader<M> {
    /// The reader of a ring of which nothing has been read. There must be no other.
    pub(crate) fn new(array: M, lines: usize) -> Reader<M> {
        Reader { lines: Lines::new(array, lines), read: 0, freed: 0 }
    }

    /// The header of the next record, if it is there.
    #[inline]
    pub(crate) fn next(&self) -> Result<Option<Header>, Nonsense> {
        let first = self.lines.word(self.read, 0).load(Acquire);
        if first == 0 {
            return Ok(None);
        }
        let word = self.lines.word(self.read, 1).load(Relaxed);
        let header = Header::decode(first, word).ok_or(Nonsense)?;
        let fits = header.length <= longest_payload(self.lines.count as usize);
        if fits { Ok(Some(header)) } else { Err(Nonsense) }
    }

    /// Copies the beginning of the payload of the next record, which has this header.
    #[inline]
    pub(crate) fn copy(&self, header: &Header, to: &mut [u8]) {
        let length = to.len().min(header.length);
        let (chunks, rest) = to[..length].as_chunks_mut();
        let (first, second) = self.lines.payload(self.read, length.div_ceil(size_of::<u64>()));
        let (before, after) = chunks.split_at_mut(first.len().min(chunks.len()));
        load_words(first, before);
        load_words(second, after);
        if let (false, Some(word)) = (rest.is_empty(), second.last().or(first.last())) {
            rest.copy_from_slice(&word.load(Relaxed).to_ne_bytes()[..rest.len()]);
        }
    }

    /// Removes the next record, which has this header. Returns whether lines have been freed, so
    /// that the writer's bell must be rung.
    #[inline]
    pub(crate) fn remove(&mut self, header: &Header) -> bool {
        let lines = lines_of(header.length) as u64;
        // A canary clears only the first one.
        let cleared = if cfg!(rowlock_canary = "a-ring-keeps-old-words") { 1 } else { lines };
        (self.read..self.read + cleared).for_each(|line| self.lines.word(line, 0).store(0, Relaxed));
        self.read += lines;
        let is_due = (self.read - self.freed) * 8 >= self.lines.count;
        if is_due {
            self.lines.words[FREED].store(self.read, Release);
            self.freed = self.read;
        }
        is_due
    }

    /// Whether the writer has withdrawn this announced message. The caller has read its content.
    pub(crate) fn is_withdrawn(&self, number: u64) -> bool {
        crate::sync::fence(Acquire);
        number <= self.lines.words[WITHDRAWN].load(Acquire)
    }
}

#[inline]
fn load_words(words: &[AtomicU64], bytes: &mut [[u8; 8]]) {
    words.iter().zip(bytes).for_each(|(word, bytes)| *bytes = word.load(Relaxed).to_ne_bytes());
}

#[cfg(all(test, loom))]
#[allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
mod model;
#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
mod tests;
