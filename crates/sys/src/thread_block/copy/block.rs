//! The words of blocks, and their sources.

use std::ops::Range;
use std::ptr::{with_exposed_provenance, with_exposed_provenance_mut};

/// The size of a word, in bytes.
pub(super) const WORD: usize = size_of::<usize>();

/// The offset from the thread pointer of the address of the table of thread-local variables.
pub(super) const TABLE: usize = if cfg!(target_arch = "x86_64") { WORD } else { 0 };

/// A block and its memory. An offset is one from the thread pointer, wrapping around.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) thread_pointer: usize,
    pub(super) memory: Range<usize>,
}

/// Why a word of a block has its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// All blocks have this value.
    Common(usize),
    /// It is the address at this offset.
    Own(usize),
    /// It is the start of the memory.
    Start,
    /// It is the length of the memory.
    Length,
}

impl Block {
    pub(super) fn word(&self, offset: usize) -> *mut usize {
        with_exposed_provenance_mut(self.thread_pointer.wrapping_add(offset))
    }

    /// The words at these offsets.
    ///
    /// # Safety
    /// They lie in the block, which is not in use.
    pub(super) unsafe fn words(&self, offsets: Range<usize>) -> Vec<usize> {
        let many = offsets.end.wrapping_sub(offsets.start) / WORD;
        // SAFETY: by the promise of the caller.
        let read = |index: usize| unsafe { self.word(offsets.start.wrapping_add(index * WORD)).read_volatile() };
        (0..many).map(read).collect()
    }

    /// The words of the table. Each entry has two: the first one's are the number of further
    /// entries minus one, and an unused word; the second one's a generation, and an unused word;
    /// the others' the address of a library's variables, and memory to free. Empty if the number is
    /// not sensible.
    ///
    /// # Safety
    /// As above, and the block has a table.
    pub(super) unsafe fn table(&self) -> Vec<usize> {
        // SAFETY: the address of the second entry is in the block.
        unsafe {
            let second = self.word(TABLE).read_volatile();
            let first = with_exposed_provenance::<usize>(second.wrapping_sub(2 * WORD));
            let many = Some(first.read_volatile()).filter(|&many| many < 1 << 16).map_or(0, |many| many + 2);
            (0..2 * many).map(|index| first.add(index).read_volatile()).collect()
        }
    }

    fn contains(&self, value: usize) -> bool {
        (self.memory.start..=self.memory.end).contains(&value)
    }
}

impl Source {
    /// The source of a word with these values in two blocks. `None` if it is unknown.
    fn of(values: [usize; 2], blocks: [&Block; 2]) -> Option<Source> {
        let offsets = [0, 1].map(|index: usize| values[index].wrapping_sub(blocks[index].thread_pointer));
        if values[0] == values[1] {
            blocks.iter().all(|block| !block.contains(values[0])).then_some(Source::Common(values[0]))
        } else if offsets[0] == offsets[1] {
            blocks[0].contains(values[0]).then_some(Source::Own(offsets[0]))
        } else if values == blocks.map(|block| block.memory.start) {
            Some(Source::Start)
        } else {
            (values == blocks.map(|block| block.memory.len())).then_some(Source::Length)
        }
    }

    /// The sources of many words. `None` if one is unknown.
    pub(super) fn of_all(values: [Vec<usize>; 2], blocks: [&Block; 2]) -> Option<Vec<Source>> {
        let [one, other] = values;
        let pairs = std::iter::zip(&one, &other).map(|(&one, &other)| Source::of([one, other], blocks));
        if one.len() == other.len() { pairs.collect() } else { None }
    }

    /// The value in this block.
    pub(super) fn value(self, block: &Block) -> usize {
        match self {
            Source::Common(value) => value,
            Source::Own(offset) => block.thread_pointer.wrapping_add(offset),
            Source::Start => block.memory.start,
            Source::Length => block.memory.len(),
        }
    }
}

/// Whether the words have these sources.
pub(super) fn are_explained(words: &[usize], sources: &[Source], block: &Block) -> bool {
    words.len() == sources.len() && std::iter::zip(words, sources).all(|(&word, source)| word == source.value(block))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_sources_only_if_they_hold_for_every_block() {
        let one = Block { thread_pointer: 0x2f00, memory: 0x1000..0x3000 };
        let other = Block { thread_pointer: 0x6f00, memory: 0x4000..0x7000 };
        let source = |values| Source::of(values, [&one, &other]);
        assert_eq!(source([7, 7]), Some(Source::Common(7)));
        assert_eq!(source([0x2f10, 0x6f10]), Some(Source::Own(0x10)));
        assert_eq!(source([0x2ef8, 0x6ef8]), Some(Source::Own(8_usize.wrapping_neg())));
        assert_eq!(source([0x1000, 0x4000]), Some(Source::Start));
        assert_eq!(source([0x2000, 0x3000]), Some(Source::Length));
        assert_eq!(source([7, 8]), None, "each has its own value");
        assert_eq!(source([0x2f10, 0x6f18]), None);
        assert_eq!(source([0x2f10, 0x2f10]), None, "one refers to the other");
        assert_eq!(source([0x8f00, 0xcf00]), None, "not in their memory");
        assert_eq!(Source::of_all([vec![7], vec![7, 7]], [&one, &other]), None);
    }
}
