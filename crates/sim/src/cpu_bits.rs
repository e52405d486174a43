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
        self.first_not_below(CpuId(0), allowed)
    }

    /// The same from `from` on, cyclically.
    pub(crate) fn first_from(&self, from: CpuId, allowed: Option<&CpuSet>) -> Option<CpuId> {
        self.first_not_below(from, allowed).or_else(|| self.first_among(allowed))
    }

    #[inline]
    fn first_not_below(&self, least: CpuId, allowed: Option<&CpuSet>) -> Option<CpuId> {
        let mut part = u64::MAX << (least.index() % 64);
        (least.index() / 64..self.words.len()).find_map(|index| {
            let word = self.words[index] & word_of(allowed, index) & std::mem::replace(&mut part, u64::MAX);
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
