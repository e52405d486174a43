//! Sets of the machine's CPUs, as bits.

use policy::{CpuId, CpuSet};

/// A set of CPUs. Unlike a [`CpuSet`] it has a fixed size, and loses CPUs.
#[derive(Clone, Debug)]
pub(crate) struct CpuBits {
    words: Vec<u64>,
}

impl CpuBits {
    /// All of `cpus` CPUs.
    pub(crate) fn all(cpus: usize) -> CpuBits {
        let mut bits = CpuBits { words: vec![0; cpus.div_ceil(64)] };
        crate::cpu_ids(cpus).for_each(|cpu| bits.insert(cpu));
        bits
    }

    pub(crate) fn insert(&mut self, cpu: CpuId) {
        self.words[cpu.index() / 64] |= 1 << (cpu.index() % 64);
    }

    pub(crate) fn remove(&mut self, cpu: CpuId) {
        self.words[cpu.index() / 64] &= !(1 << (cpu.index() % 64));
    }

    pub(crate) fn contains(&self, cpu: CpuId) -> bool {
        self.words[cpu.index() / 64] >> (cpu.index() % 64) & 1 == 1
    }

    /// The CPUs, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = CpuId> {
        let bits = |word: u64| std::iter::successors(Some(word), |left| Some(left & left.wrapping_sub(1)));
        let cpus = move |(index, word): (usize, u64)| {
            bits(word).take_while(|&left| left != 0).map(move |left| first_in(index, left))
        };
        self.words.iter().copied().enumerate().flat_map(cpus)
    }

    /// The lowest CPU that is also in `allowed`; `None` allows all CPUs.
    #[inline]
    pub(crate) fn first_among(&self, allowed: Option<&CpuSet>) -> Option<CpuId> {
        let mut words = self.words.iter().enumerate().map(|(index, word)| (index, word & word_of(allowed, index)));
        words.find(|(_, word)| *word != 0).map(|(index, word)| first_in(index, word))
    }

    /// The same from `from` on, cyclically.
    pub(crate) fn first_from(&self, from: CpuId, allowed: Option<&CpuSet>) -> Option<CpuId> {
        let (words, first) = (self.words.len(), from.index() / 64);
        let from_here = u64::MAX << (from.index() % 64);
        // The first word comes again at the end, with the bits below `from`.
        (0..=words).find_map(|offset| {
            let index = (first + offset) % words;
            let part = match offset {
                0 => from_here,
                _ if offset == words => !from_here,
                _ => u64::MAX,
            };
            let word = self.words[index] & word_of(allowed, index) & part;
            (word != 0).then(|| first_in(index, word))
        })
    }
}

fn word_of(set: Option<&CpuSet>, index: usize) -> u64 {
    set.map_or(u64::MAX, |set| set.words().get(index).copied().unwrap_or(0))
}

fn first_in(index: usize, word: u64) -> CpuId {
    CpuId(index as u32 * 64 + word.trailing_zeros())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_found_in_order_and_cyclically() {
        let mut bits = CpuBits::all(130);
        (0..130).filter(|cpu| ![3, 64, 129].contains(cpu)).for_each(|cpu| bits.remove(CpuId(cpu)));
        assert_eq!(bits.iter().map(|cpu| cpu.0).collect::<Vec<_>>(), [3, 64, 129]);
        let next = |cpu: u32| bits.first_from(CpuId((cpu + 1) % 130), None).map(|cpu| cpu.0);
        assert_eq!([0, 3, 63, 64, 127, 129].map(next), [3, 64, 64, 129, 129, 3].map(Some));
        assert_eq!(bits.first_among(None), Some(CpuId(3)));
        let among = |cpus: &[u32]| bits.first_among(Some(&cpus.iter().map(|cpu| CpuId(*cpu)).collect()));
        assert_eq!((among(&[4, 64]), among(&[4])), (Some(CpuId(64)), None));
    }
}
