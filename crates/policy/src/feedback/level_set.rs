//! A set of levels whose smallest member is found in two steps.

use super::FeedbackRules;

const WORDS: usize = FeedbackRules::MOST_LEVELS as usize / 64;

/// A set of numbers below [`FeedbackRules::MOST_LEVELS`].
#[derive(Clone, Debug, Default)]
pub(super) struct LevelSet {
    /// A bit for each word that is not zero.
    nonzero: u64,
    words: [u64; WORDS],
}

impl LevelSet {
    #[inline]
    pub(super) fn insert(&mut self, level: usize) {
        let word = level / 64 % WORDS;
        self.words[word] |= 1 << (level % 64);
        self.nonzero |= 1 << word;
    }

    #[inline]
    pub(super) fn remove(&mut self, level: usize) {
        let word = level / 64 % WORDS;
        self.words[word] &= !(1 << (level % 64));
        if self.words[word] == 0 {
            self.nonzero &= !(1 << word);
        }
    }

    #[inline]
    pub(super) fn least(&self) -> Option<usize> {
        let word = self.nonzero.trailing_zeros() as usize;
        (self.nonzero != 0).then(|| word * 64 + self.words[word % WORDS].trailing_zeros() as usize)
    }

    /// All members, in ascending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        let mut left = self.clone();
        std::iter::from_fn(move || left.least().inspect(|&level| left.remove(level)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_level_comes_first() {
        let mut set = LevelSet::default();
        assert_eq!(set.least(), None);
        let some = [0, 1, 63, 64, 100, 500, 1023];
        some.iter().rev().for_each(|&level| {
            set.insert(level);
            assert_eq!(set.least(), Some(level));
        });
        assert_eq!(set.iter().collect::<Vec<_>>(), some);
        some.iter().for_each(|&level| set.remove(level));
        assert_eq!((set.least(), set.nonzero), (None, 0));
    }
}
