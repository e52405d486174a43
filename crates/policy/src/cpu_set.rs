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
    #[inline]
    pub fn insert(&mut self, cpu: CpuId) {
        let word = cpu.index() / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (cpu.index() % 64);
    }

    /// Removes a CPU.
    #[inline]
    pub fn remove(&mut self, cpu: CpuId) {
        if let Some(word) = self.words.get_mut(cpu.index() / 64) {
            *word &= !(1 << (cpu.index() % 64));
        }
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
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
        let bits = |word: u64| std::iter::successors(Some(word), |left| Some(left & left.wrapping_sub(1)));
        let cpus = move |(index, &word): (usize, &u64)| {
            bits(word).take_while(|&left| left != 0).map(move |left| lowest(index, left))
        };
        self.words.iter().enumerate().flat_map(cpus)
    }

    /// The lowest CPU that is also in `allowed`; `None` allows all CPUs.
    #[inline]
    pub fn first_among(&self, allowed: Option<&CpuSet>) -> Option<CpuId> {
        self.first_at_or_after(CpuId(0), allowed)
    }

    /// The same from `from` on, cyclically.
    #[inline]
    pub fn first_from(&self, from: CpuId, allowed: Option<&CpuSet>) -> Option<CpuId> {
        self.first_at_or_after(from, allowed).or_else(|| self.first_among(allowed))
    }

    /// The same from `least` on, and none below it.
    #[inline]
    pub fn first_at_or_after(&self, least: CpuId, allowed: Option<&CpuSet>) -> Option<CpuId> {
        let word_of = |set: &CpuSet, index: usize| set.words.get(index).copied().unwrap_or(0);
        let mut part = u64::MAX << (least.index() % 64);
        (least.index() / 64..self.words.len()).find_map(|index| {
            let part = std::mem::replace(&mut part, u64::MAX);
            let word = self.words[index] & part & allowed.map_or(u64::MAX, |set| word_of(set, index));
            (word != 0).then(|| lowest(index, word))
        })
    }
}

/// The lowest CPU of a word that is not zero.
#[inline]
fn lowest(index: usize, word: u64) -> CpuId {
    CpuId(index as u32 * 64 + word.trailing_zeros())
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

        #[test]
        fn cpus_are_removed_and_found_in_order_and_cyclically(
            cpus in prop::collection::btree_set(0_u32..200, 1..20),
            gone in prop::collection::vec(0_u32..200, 0..99),
            allowed in prop::option::of(prop::collection::vec(0_u32..200, 0..99)),
            from in 0_u32..200,
        ) {
            let mut set: CpuSet = cpus.iter().chain(&gone).map(|&cpu| CpuId(cpu)).collect();
            gone.iter().for_each(|&cpu| set.remove(CpuId(cpu)));
            let left = || cpus.iter().copied().filter(|cpu| !gone.contains(cpu));
            prop_assert_eq!(&set, &left().map(CpuId).collect());
            let found = || left().filter(|cpu| allowed.as_ref().is_none_or(|allowed| allowed.contains(cpu))).map(CpuId);
            let allowed: Option<CpuSet> = allowed.as_ref().map(|cpus| cpus.iter().map(|&cpu| CpuId(cpu)).collect());
            prop_assert_eq!(set.first_among(allowed.as_ref()), found().next());
            let next = found().find(|cpu| cpu.0 >= from).or_else(|| found().next());
            prop_assert_eq!(set.first_from(CpuId(from), allowed.as_ref()), next);
        }
    }
}
