//! The randomized rule: spin for a random time up to CS, then block.
//!
//! Source: Karlin, Manasse, McGeoch and Owicki, "Competitive Randomized Algorithms for Non-Uniform
//! Problems" (1990), as cited by Tsafrir and Feitelson, section 1. A thread that spins for s before
//! it blocks, with s drawn from the density e^(s/CS) / (CS (e - 1)) on 0 to CS, has an expected
//! cost of at most e/(e - 1), or 1.58, times the cost with knowledge of the length of the wait. A
//! fixed bound cannot do better than 2.
//!
//! Deviation: the inverse of the distribution function, CS ln(1 + u (e - 1)), is interpolated in a
//! small table, because policies are exact and have no logarithm. The error is less than CS / 2000.

use crate::units::Span;

/// ln(1 + u (e - 1)) in millionths, at u = 0, 1/32, ..., 1.
const QUANTILES: [u64; 33] = [
    0, 52_304, 102_008, 149_358, 194_567, 237_821, 279_280, 319_089, 357_374, 394_247, 429_808, 464_149, 497_349,
    529_482, 560_614, 590_807, 620_115, 648_588, 676_272, 703_211, 729_443, 755_005, 779_930, 804_248, 827_989,
    851_179, 873_844, 896_007, 917_688, 938_910, 959_691, 980_049, 1_000_000,
];

/// The bound of the next wait, from a uniform draw.
pub(super) fn bound(cs: Span, draw: u32) -> Span {
    let cell = (draw >> 27) as usize;
    let [low, high] = [QUANTILES[cell], QUANTILES[cell + 1]].map(u128::from);
    let within = u128::from(draw & ((1 << 27) - 1));
    // In millionths, with 27 fractional bits.
    let quantile = (low << 27) + (high - low) * within;
    let nanos = u128::from(cs.as_nanos()) * quantile / (1_000_000 << 27);
    // At most CS, since the quantile is at most one.
    Span::from_nanos(nanos as u64)
}

#[cfg(test)]
mod tests {
    use std::f64::consts::E;

    use proptest::prelude::*;

    use super::*;

    const CS: u64 = 1_000_000_000;

    proptest! {
        #[test]
        fn a_draw_becomes_the_quantile_of_the_distribution(draw: u32) {
            let u = f64::from(draw) / (1_u64 << 32) as f64;
            let spun = bound(Span::from_nanos(CS), draw).as_nanos() as f64 / CS as f64;
            prop_assert!((spun - (1.0 + u * (E - 1.0)).ln()).abs() < 1.0 / 2_000.0, "{spun} for {u}");
        }

        #[test]
        fn bounds_lie_between_zero_and_cs_and_grow_with_the_draw(cs: u64, draw: u32, more: u32) {
            let cs = Span::from_nanos(cs);
            prop_assert!(bound(cs, draw) <= cs);
            prop_assert!(bound(cs, draw) <= bound(cs, draw.saturating_add(more)));
        }

        #[test]
        fn for_any_wait_the_expected_cost_is_within_e_over_e_minus_1(wait in 1..4 * CS) {
            let draws = 10_000_u32;
            let cost: f64 = (0..draws)
                .map(|number| {
                    let bound = bound(Span::from_nanos(CS), (u32::MAX / draws) * number).as_nanos();
                    if wait <= bound { wait } else { bound + CS }
                })
                .map(|cost| cost as f64 / f64::from(draws))
                .sum();
            prop_assert!(cost <= (E / (E - 1.0) + 0.002) * wait.min(CS) as f64 + 0.001 * CS as f64, "{cost} for {wait}");
        }
    }
}
