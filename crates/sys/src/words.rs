//! Copies between words that other threads and processes may access at the same time and memory of
//! the caller's own.
//!
//! No word is torn, and nothing is said about their order: each word is accessed once, as by a
//! *relaxed* load or store. The compiler copies atomic words one by one. On x86-64 long copies use
//! vectors, which takes half as long.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// A word as bytes of its own, at any address.
pub type Bytes = [u8; 8];

/// Words that are copied at once, in four vectors.
const BLOCK: usize = 8;

/// Loads words. Copies as many as the shorter slice has.
#[inline]
pub fn load(from: &[AtomicU64], to: &mut [Bytes]) {
    let count = from.len().min(to.len());
    // SAFETY: both slices have so many words.
    let copied = unsafe { copy_blocks(from.as_ptr().cast(), to.as_mut_ptr(), count / BLOCK) };
    let rest = from[copied..].iter().zip(&mut to[copied..]);
    rest.for_each(|(from, to)| *to = from.load(Relaxed).to_ne_bytes());
}

/// Stores words. Copies as many as the shorter slice has.
#[inline]
pub fn store(to: &[AtomicU64], from: &[Bytes]) {
    let count = to.len().min(from.len());
    // SAFETY: both slices have so many words, and a reference suffices to change atomic ones.
    let copied = unsafe { copy_blocks(from.as_ptr(), to.as_ptr().cast_mut().cast(), count / BLOCK) };
    let rest = to[copied..].iter().zip(&from[copied..]);
    rest.for_each(|(to, &from)| to.store(u64::from_ne_bytes(from), Relaxed));
}

/// Copies blocks by vectors. Returns the number of words copied.
///
/// The instructions do what a relaxed access to each word would do: the processor accesses a vector
/// within a cache line at once, and divides one between two lines between its words, since they
/// are aligned.
///
/// # Safety
/// So many blocks can be read at `from` and written at `to`. If other threads access one side at
/// the same time, its words are atomic.
#[cfg(all(target_arch = "x86_64", not(any(miri, rowlock_tsan))))]
#[inline]
unsafe fn copy_blocks(from: *const Bytes, to: *mut Bytes, blocks: usize) -> usize {
    if blocks == 0 {
        return 0;
    }
    // SAFETY: the caller's promise. Nothing else changes but these registers.
    unsafe {
        std::arch::asm!(
            "2:",
            "movups {a}, [{from}]",
            "movups {b}, [{from} + 16]",
            "movups {c}, [{from} + 32]",
            "movups {d}, [{from} + 48]",
            "movups [{to}], {a}",
            "movups [{to} + 16], {b}",
            "movups [{to} + 32], {c}",
            "movups [{to} + 48], {d}",
            "add {from}, 64",
            "add {to}, 64",
            "sub {blocks}, 1",
            "jnz 2b",
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            blocks = inout(reg) blocks => _,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack),
        );
    }
    blocks * BLOCK
}

/// Without vectors.
///
/// # Safety
/// There are no conditions.
#[cfg(not(all(target_arch = "x86_64", not(any(miri, rowlock_tsan)))))]
#[inline]
unsafe fn copy_blocks(_: *const Bytes, _: *mut Bytes, _: usize) -> usize {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_words_are_copied_as_the_shorter_slice_has() {
        let source: Vec<Bytes> = (1..100_u64).map(u64::to_ne_bytes).collect();
        for (atomic, own) in [(0, 3), (7, 7), (8, 9), (9, 8), (40, 33), (64, 64), (99, 99)] {
            let words: Vec<AtomicU64> = (0..atomic).map(|_| AtomicU64::new(0)).collect();
            store(&words, &source[..own]);
            let mut loaded = vec![[0; 8]; own];
            load(&words, &mut loaded);
            let count = atomic.min(own);
            assert_eq!(loaded[..count], source[..count]);
            assert!(loaded[count..].iter().all(|&word| word == [0; 8]));
            assert!(words[count..].iter().all(|word| word.load(Relaxed) == 0));
        }
    }

    #[test]
    fn no_word_is_torn_wherever_a_vector_begins() {
        let words: Vec<AtomicU64> = (0..1_000).map(|_| AtomicU64::new(0)).collect();
        let has_ended = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let contents = [0_u8, 0xff].map(|byte| vec![[byte; 8]; words.len()]);
                for (round, content) in (0..).zip(contents.iter().cycle()) {
                    store(&words[round % 8..], content);
                    if has_ended.load(Relaxed) {
                        return;
                    }
                }
            });
            let mut loaded = vec![[0; 8]; words.len()];
            for round in 0..2_000 {
                load(&words[round % 7..], &mut loaded);
                assert!(loaded.iter().all(|&word| word == [0; 8] || word == [0xff; 8]));
            }
            has_ended.store(true, Relaxed);
        });
    }
}
