//! Random numbers for rules that need them: stateless, and good enough to choose how long to wait.

use policy::{Instant, ThreadId};

/// A pseudorandom number that depends on the time and the thread: SplitMix64 (Steele, Lea and
/// Flood, 2014, figure 17) at a point chosen by both.
pub(crate) fn draw(now: Instant, thread: ThreadId) -> u32 {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let seed = now.as_nanos() ^ u64::from(thread.0).wrapping_mul(GOLDEN).rotate_left(32);
    let mut mixed = seed.wrapping_add(GOLDEN);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ mixed >> 31) >> 32) as u32
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn draws_of_neighbouring_moments_and_threads_are_spread_evenly() {
        let mut cells = [0_u32; 16];
        for moment in 0..4_000 {
            for thread in 0..4 {
                cells[(draw(Instant::from_nanos(moment), ThreadId(thread)) >> 28) as usize] += 1;
            }
        }
        // The mean is 1000 and the standard deviation 31.
        assert!(cells.iter().all(|&count| count.abs_diff(1_000) < 160), "{cells:?}");
    }
}
