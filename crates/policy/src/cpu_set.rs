//! Sets of CPUs to which threads are bound.

use std::fmt;
use std::str::FromStr;

use crate::{CpuId, ParseError};

/// A set of CPUs. Written as `"0-3,8"`, as Linux and `taskset` do; the printed form parses back to
/// the same set. A parsed set contains at least one CPU.
///
/// ```
/// use rowlock_policy::{CpuId, CpuSet};
///
/// let some: CpuSet = "0-2,8".parse()?;
/// assert!(some.contains(CpuId(8)) && !some.contains(CpuId(3)));
/// assert_eq!(some.to_string(), "0-2,8");
/// # Ok::<(), rowlock_policy::ParseError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CpuSet {
    /// A bit for each CPU; the last word is not zero.
    words: Vec<u64>,
}

impl CpuSet {
    /// The largest CPU number that can be parsed.
    pub const LARGEST: u32 = (1 << 20) - 1;

    /// Adds a CPU.
    pub fn insert(&mut self, cpu: CpuId) {
        let word = cpu.index() / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (cpu.index() % 64);
    }

    /// Whether the set contains a CPU.
    #[inline]
    pub fn contains(&self, cpu: CpuId) -> bool {
        self.words.get(cpu.index() / 64).is_some_and(|word| word >> (cpu.index() % 64) & 1 == 1)
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// All CPUs, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> {
        let bits = |word: u64| (0..64).filter(move |bit| word >> bit & 1 == 1);
        (0_u32..).zip(&self.words).flat_map(move |(index, &word)| bits(word).map(move |bit| CpuId(64 * index + bit)))
    }

    /// The set as a bit mask, the lowest CPUs first.
    pub fn words(&self) -> &[u64] {
        &self.words
    }
}

impl FromIterator<CpuId> for CpuSet {
    fn from_iter<I: IntoIterator<Item = CpuId>>(cpus: I) -> CpuSet {
        let mut set = CpuSet::default();
        cpus.into_iter().for_each(|cpu| set.insert(cpu));
        set
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().map(|cpu| cpu.0).peekable();
        let mut comma = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if_eq(&(last + 1)) {
                last = next;
            }
            write!(f, "{comma}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            comma = ",";
        }
        Ok(())
    }
}

impl FromStr for CpuSet {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<CpuSet, ParseError> {
        let mut set = CpuSet::default();
        if text.trim().is_empty() {
            return Err(ParseError("it contains no CPU".to_owned()));
        }
        for part in text.split(',').map(str::trim) {
            let number = |digits: &str| {
                let plain = digits.trim().bytes().all(|byte| byte.is_ascii_digit());
                let number = digits.trim().parse().ok().filter(|&number| plain && number <= CpuSet::LARGEST);
                number.ok_or_else(|| ParseError(format!("`{part}` is neither a CPU number nor a range of CPUs")))
            };
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if last < first {
                return Err(ParseError(format!("the range `{part}` ends before it begins")));
            }
            (first..=last).for_each(|cpu| set.insert(CpuId(cpu)));
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_invalid_set_is_rejected_with_the_part_that_is_wrong() {
        let why = |text: &str| text.parse::<CpuSet>().unwrap_err().to_string();
        assert_eq!(why(" "), "it contains no CPU");
        for (text, part) in [("0,x", "x"), ("1-", "1-"), ("+1", "+1"), ("1048576", "1048576"), ("0,,1", "")] {
            assert_eq!(why(text), format!("`{part}` is neither a CPU number nor a range of CPUs"), "{text}");
        }
        assert_eq!(why("3-1"), "the range `3-1` ends before it begins");
    }

    proptest! {
        #[test]
        fn a_set_contains_what_was_inserted_and_parses_back(cpus in prop::collection::btree_set(0_u32..200, 1..20)) {
            let set: CpuSet = cpus.iter().map(|&cpu| CpuId(cpu)).collect();
            prop_assert_eq!(set.iter().map(|cpu| cpu.0).collect::<Vec<_>>(), cpus.iter().copied().collect::<Vec<_>>());
            prop_assert!((0..200).all(|cpu| set.contains(CpuId(cpu)) == cpus.contains(&cpu)));
            prop_assert_eq!(set.to_string().parse::<CpuSet>(), Ok(set));
        }
    }
}
